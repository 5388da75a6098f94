//! The record of an account, as `login_head.lua` says it.

use sluicegate::core::login::{Account, Client, Code, Device, Familiar, Open};

use super::events::lane;
use crate::number::from_double;

const VERSION: u8 = 1;

/// What a record holds; `None` if no script of ours wrote it.
pub fn login_record(record: &[u8]) -> Option<Account> {
    let mut read = Reader(record);
    let [version] = read.bytes()?;
    if version != VERSION {
        return None;
    }
    let mut account = Account {
        time: read.number()?,
        unknown: [read.number()?, read.number()?, read.number()?],
        not_before: read.number()?,
        forgiven: read.number()?,
        aborted: read.number()?,
        consecutive: u32::from_le_bytes(read.bytes()?),
        ..Account::default()
    };
    let [marks] = read.bytes()?;
    let tags = [read.bytes()?, read.bytes()?, read.bytes()?].map(u16::from_le_bytes);
    account.tags = tags.get(..usize::from(marks))?.to_vec();
    let [devices, familiar, clients, codes, open] = read.bytes()?;
    for _ in 0..devices {
        account.devices.push(Device { key: read.key()?, drained_at: read.number()? });
    }
    for _ in 0..familiar {
        let (key, drained_at, until) = (read.key()?, read.number()?, read.number()?);
        account.familiar.push(Familiar { key, drained_at, until });
    }
    for _ in 0..clients {
        let (key, reading) = (read.key()?, [read.number()?, read.number()?, read.number()?]);
        account.clients.push(Client { key, reading });
    }
    for _ in 0..codes {
        let (key, tries, until) = (read.key()?, u32::from_le_bytes(read.bytes()?), read.number()?);
        account.codes.push(Code { key, tries, until });
    }
    for _ in 0..open {
        account.open.push(read.open()?);
    }
    read.0.is_empty().then_some(account)
}

struct Reader<'r>(&'r [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn key(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        from_double(f64::from_le_bytes(self.bytes()?))
    }

    fn open(&mut self) -> Option<Open> {
        let (id, at) = (self.key()?, self.number()?);
        let [number] = self.bytes()?;
        let (device, client, code, proof) = (self.key()?, self.key()?, self.key()?, self.key()?);
        let [done] = self.bytes()?;
        Some(Open { id, at, lane: lane(number)?, device, client, code, proof, done: done == 1 })
    }
}
