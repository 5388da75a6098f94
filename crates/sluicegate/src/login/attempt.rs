//! An attempt that was admitted: its token, and what becomes of it.
//!
//! ```text
//! token = "a1." 74 bytes "." signature        in lower-case hexadecimal
//! ```

use sluicegate_core::{Micros, login::HeldName};

use super::{
    keyring::Keyring,
    purpose::Class,
    store::{AccountKey, PlaceKey},
    text::{bytes_from_hex, hex, mark_from_hex},
};

const PREFIX: &str = "a1";
const LEN: usize = 8 + 16 + 16 + 16 + 8 + 4 + 4 + 1 + 1;

/// What must be known to settle an attempt, whoever does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) id: u64,
    pub(super) account: AccountKey,
    pub(super) place: PlaceKey,
    /// What its address holds; an address without room holds nothing.
    pub(super) held: Option<HeldName>,
    pub(super) epoch: u32,
    pub(super) class: Class,
    /// Whether it came with a genuine cookie.
    pub(super) with_device: bool,
}

impl Ticket {
    fn bytes(&self) -> [u8; LEN] {
        let held = self.held.unwrap_or(HeldName { charged_at: 0, name: 0 });
        let mut bytes = [0; LEN];
        let all = self
            .id
            .to_be_bytes()
            .into_iter()
            .chain(self.account.0)
            .chain(self.place.network)
            .chain(self.place.address)
            .chain(held.charged_at.to_be_bytes())
            .chain(held.name.to_be_bytes())
            .chain(self.epoch.to_be_bytes())
            .chain([self.class.number(), u8::from(self.with_device)]);
        for (place, byte) in bytes.iter_mut().zip(all) {
            *place = byte;
        }
        bytes
    }

    pub(super) fn to_token(self, keys: &Keyring) -> String {
        let bytes = self.bytes();
        format!("{PREFIX}.{}.{}", hex(&bytes), hex(&keys.sign(&[b"attempt", &bytes])))
    }

    /// The attempt of a genuine token.
    pub(super) fn from_token(token: &str, keys: &Keyring) -> Option<Self> {
        let mut parts = token.split('.');
        let (PREFIX, bytes) = (parts.next()?, bytes_from_hex::<LEN>(parts.next()?)?) else { return None };
        let signature = mark_from_hex(parts.next()?)?;
        if parts.next().is_some() || !keys.signed(&[b"attempt", &bytes], &signature) {
            return None;
        }
        let mut rest = bytes.as_slice();
        let id = u64::from_be_bytes(next(&mut rest)?);
        let account = AccountKey(next(&mut rest)?);
        let place = PlaceKey { network: next(&mut rest)?, address: next(&mut rest)? };
        let charged_at = u64::from_be_bytes(next(&mut rest)?);
        let name = u32::from_be_bytes(next(&mut rest)?);
        let epoch = u32::from_be_bytes(next(&mut rest)?);
        let [class, with_device] = next(&mut rest)?;
        let held = (charged_at > 0).then_some(HeldName { charged_at, name });
        let class = Class::of_number(class)?;
        Some(Self { id, account, place, held, epoch, class, with_device: with_device == 1 })
    }
}

fn next<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

/// How long until an instant in milliseconds.
pub(super) fn until(at_ms: u64, now: Micros) -> std::time::Duration {
    Micros::new(at_ms.saturating_mul(1_000)).since(now)
}
