//! Who serves which slot, as a node of the cluster tells.

use std::{collections::BTreeMap, fmt, sync::Arc};

use redis::{ConnectionAddr, Value};

use crate::{server::Server, topology::Slot};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

impl Address {
    /// The address of a server that has one in a network.
    pub(crate) fn of(server: &Server) -> Option<Self> {
        match server.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Self { host: host.as_str().into(), port: *port })
            }
            _ => None,
        }
    }

    /// An address as a node tells it. A node that does not know its own name leaves it out: it is where it was asked.
    pub(crate) fn read(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Self::told(host, port.parse().ok()?, asked))
    }

    fn told(host: &str, port: u16, asked: &Self) -> Self {
        let unnamed = ["", "?"].contains(&host);
        Self { host: if unnamed { asked.host.clone() } else { host.into() }, port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The ranges of slots, each from its first slot to the master that serves it.
#[derive(Debug, Default)]
pub(crate) struct SlotMap {
    /// First slot to last slot and master.
    ranges: BTreeMap<u16, (u16, Address)>,
    /// What single nodes have said since.
    moved: BTreeMap<u16, Address>,
}

impl SlotMap {
    /// From the answer of CLUSTER SLOTS: first slot, last slot, master, replicas; a node is its host and its port first.
    /// `None` if there are no slots in it.
    pub(crate) fn read(told: &Value, asked: &Address) -> Option<Self> {
        let Value::Array(told) = told else { return None };
        let ranges: BTreeMap<_, _> = told.iter().filter_map(|range| read_range(range, asked)).collect();
        (!ranges.is_empty()).then(|| Self { ranges, moved: BTreeMap::new() })
    }

    pub(crate) fn owner(&self, slot: Slot) -> Option<&Address> {
        if let Some(owner) = self.moved.get(&slot.0) {
            return Some(owner);
        }
        let (_first, (last, owner)) = self.ranges.range(..=slot.0).next_back()?;
        (slot.0 <= *last).then_some(owner)
    }

    /// Notes what a node said of one slot.
    pub(crate) fn set(&mut self, slot: Slot, owner: Address) {
        self.moved.insert(slot.0, owner);
    }

    /// The masters, each once.
    pub(crate) fn nodes(&self) -> Vec<Address> {
        let mut nodes: Vec<Address> = self.ranges.values().map(|(_last, owner)| owner.clone()).collect();
        nodes.sort();
        nodes.dedup();
        nodes
    }
}

fn read_range(range: &Value, asked: &Address) -> Option<(u16, (u16, Address))> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = range.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => "",
    };
    let address = Address::told(host, u16::try_from(*port).ok()?, asked);
    Some((u16::try_from(*first).ok()?, (u16::try_from(*last).ok()?, address)))
}

/// The slot of a key: that of what stands between its first `{` and the next `}`, if there is anything.
pub(crate) fn slot_of(key: &str) -> Slot {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    Slot(crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS)
}

/// CRC-16 in its XMODEM variant: polynomial 0x1021, from 0, most significant bit first.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _bit| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: i64) -> Value {
        Value::Array(vec![Value::BulkString(b"10.0.0.1".to_vec()), Value::Int(port)])
    }

    #[test]
    fn keys_have_the_slots_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As CLUSTER KEYSLOT of a real server answers.
        for (key, slot) in [("foo", 12_182), ("somekey", 11_058), ("foo{hash_tag}", 2_515), ("{}x", 10_595)] {
            assert_eq!(slot_of(key), Slot(slot), "{key}");
        }
        assert_eq!(slot_of("sg1:{api:user=alice}:s"), slot_of("{api:user=alice}"));
    }

    #[test]
    fn a_slot_belongs_to_its_range_and_to_what_was_said_of_it_since() {
        let range =
            |first, last, port| Value::Array(vec![Value::Int(first), Value::Int(last), node(port), node(9)]);
        let unnamed = Value::Array(vec![Value::Nil, Value::Int(3)]);
        let last = Value::Array(vec![Value::Int(200), Value::Int(200), unnamed]);
        let told = Value::Array(vec![range(0, 99, 1), range(100, 150, 2), last]);
        let asked = Address { host: "seed".into(), port: 7 };
        let mut slots = SlotMap::read(&told, &asked).unwrap();
        let port = |slots: &SlotMap, slot| slots.owner(Slot(slot)).map(|owner| owner.port);
        let owners = [0, 99, 100, 150, 151, 200, 201].map(|slot| port(&slots, slot));
        assert_eq!(owners, [Some(1), Some(1), Some(2), Some(2), None, Some(3), None]);
        assert_eq!(slots.owner(Slot(200)).unwrap().to_string(), "seed:3");
        slots.set(Slot(99), Address::read("::1:8", &asked).unwrap());
        assert_eq!((port(&slots, 99), port(&slots, 98)), (Some(8), Some(1)));
        assert_eq!(Address::read(":8", &asked).unwrap().to_string(), "seed:8");
        for nothing in [Value::Nil, Value::Array(Vec::new()), Value::Array(vec![node(1)])] {
            assert!(SlotMap::read(&nothing, &asked).is_none(), "{nothing:?}");
        }
    }
}
