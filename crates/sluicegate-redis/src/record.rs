//! Records as the scripts write them: one entry after another, `take_head.lua` says the layout.

use sluicegate::core::{
    LimitId, Rule, State,
    algorithm::{bucket, fixed_window, quota, sliding_counter, sliding_log},
    rule::AnyMachine,
};

use crate::number::from_double;

const FIXED_WINDOW: u8 = 1;
const SLIDING_LOG: u8 = 2;
const SLIDING_COUNTER: u8 = 3;
const BUCKET: u8 = 4;
const QUOTA: u8 = 5;

/// Which state of a record: the limit's id, and the machine that its numbers are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    machine: u8,
    id: u32,
}

impl Tag {
    pub(crate) fn of(id: LimitId, rule: &Rule) -> Self {
        let machine = match rule.machine() {
            AnyMachine::FixedWindow(_) => FIXED_WINDOW,
            AnyMachine::SlidingLog(_) => SLIDING_LOG,
            AnyMachine::SlidingCounter(_) => SLIDING_COUNTER,
            AnyMachine::Bucket(_) => BUCKET,
            AnyMachine::Quota(_) => QUOTA,
        };
        Self { machine, id: id.as_u32() }
    }

    pub(crate) fn to_bytes(self) -> [u8; 5] {
        let [a, b, c, d] = self.id.to_le_bytes();
        [self.machine, a, b, c, d]
    }
}

/// A record that does not have the layout: something else wrote to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record is not one of this store")]
pub struct Malformed;

/// The states of one subject, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'b>(&'b [u8]);

/// One state of a record, not yet read in full.
#[derive(Clone, Copy, Debug)]
struct Entry<'b> {
    tag: Tag,
    resets_at: u64,
    first: u64,
    second: u64,
    more: &'b [u8],
}

impl<'b> Record<'b> {
    /// The record in these bytes; none at all is a record without states.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// The state of a limit; `None` if there is none of its id and machine.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no record.
    pub fn state(&self, id: LimitId, rule: &Rule) -> Result<Option<State>, Malformed> {
        let tag = Tag::of(id, rule);
        for entry in self.entries() {
            let entry = entry?;
            if entry.tag == tag {
                return entry.state().map(Some);
            }
        }
        Ok(None)
    }

    /// The second since the epoch by which every state has reset; `None` for a record without states.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no record.
    pub fn resets_at(&self) -> Result<Option<u64>, Malformed> {
        self.entries().try_fold(None, |last, entry| Ok(last.max(Some(entry?.resets_at))))
    }

    /// The ids of the limits that have a state here, in stored order.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no record.
    pub fn ids(&self) -> Result<Vec<u32>, Malformed> {
        self.entries().map(|entry| Ok(entry?.tag.id)).collect()
    }

    fn entries(&self) -> impl Iterator<Item = Result<Entry<'b>, Malformed>> {
        let mut left = Cursor(self.0);
        std::iter::from_fn(move || {
            if left.0.is_empty() {
                return None;
            }
            let entry = left.entry().ok_or(Malformed);
            if entry.is_err() {
                left = Cursor(&[]);
            }
            Some(entry)
        })
    }
}

impl Entry<'_> {
    fn state(&self) -> Result<State, Malformed> {
        let (first, second, mut more) = (self.first, self.second, Cursor(self.more));
        let state = match self.tag.machine {
            FIXED_WINDOW => fixed_window::State { start: first, used: second }.into(),
            SLIDING_LOG => {
                let entries = (0..second).map(|_| more.log_entry()).collect::<Option<Vec<_>>>();
                sliding_log::State { sum: first, entries: entries.ok_or(Malformed)? }.into()
            }
            SLIDING_COUNTER => {
                let previous = more.number().ok_or(Malformed)?;
                sliding_counter::State { start: first, previous, current: second }.into()
            }
            BUCKET => bucket::State { time: first, level: second }.into(),
            QUOTA => quota::State { start: first, used: second }.into(),
            _ => return Err(Malformed),
        };
        Ok(state)
    }
}

/// Bytes of a sliding log's entry: a time and a cost.
const LOG_ENTRY_LEN: usize = 10;

/// Takes fields off the front of bytes; `None` where they end too early.
struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn entry(&mut self) -> Option<Entry<'b>> {
        let [machine, id @ ..] = self.array::<5>()?;
        let resets_at = self.forty_bits()?;
        let (first, second) = (self.number()?, self.number()?);
        let more = match machine {
            FIXED_WINDOW | BUCKET | QUOTA => 0,
            SLIDING_LOG => usize::try_from(second).ok()?.checked_mul(LOG_ENTRY_LEN)?,
            SLIDING_COUNTER => 8,
            _ => return None,
        };
        let tag = Tag { machine, id: u32::from_le_bytes(id) };
        Some(Entry { tag, resets_at, first, second, more: self.bytes(more)? })
    }

    fn log_entry(&mut self) -> Option<sliding_log::Entry> {
        let time = self.number()?;
        Some(sliding_log::Entry { time, cost: u64::from(u16::from_le_bytes(self.array()?)) })
    }

    fn number(&mut self) -> Option<u64> {
        from_double(f64::from_le_bytes(self.array()?))
    }

    fn forty_bits(&mut self) -> Option<u64> {
        let (low, high): ([u8; 4], [u8; 1]) = (self.array()?, self.array()?);
        Some(u64::from(high[0]) << 32 | u64::from(u32::from_le_bytes(low)))
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, left) = self.0.split_first_chunk()?;
        self.0 = left;
        Some(*array)
    }

    fn bytes(&mut self, len: usize) -> Option<&'b [u8]> {
        let (bytes, left) = self.0.split_at_checked(len)?;
        self.0 = left;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate::core::Align;

    use super::*;

    #[test]
    fn bytes_that_are_no_record_are_refused() {
        let rule = Rule::fixed_window(1, Duration::from_secs(1), Align::Epoch).unwrap();
        let id = LimitId::of("a", &rule);
        for bytes in [&b"5"[..], &[9; 26], &[1; 25], &[1; 27], &[2; 26], &[3; 30], "🦀".as_bytes()] {
            assert_eq!(Record::new(bytes).state(id, &rule), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(Record::new(b"").state(id, &rule), Ok(None));
    }
}
