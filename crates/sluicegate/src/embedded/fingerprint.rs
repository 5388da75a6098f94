//! What stands for a key in memory: 128 keyed bits.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use sluicegate_core::LimitId;

/// 128 bits over limit and key: two hashes under two random secrets of this process, of which nobody learns a bit.
///
/// `low` is kept in the slot; of `high`, one byte is kept as the slot's tag, and the rest chooses the buckets. A new key
/// is taken for another one in its two buckets with a probability below 2^-67.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Fingerprint {
    /// The one-byte tag that a bucket is searched by; never 0, which marks an empty slot.
    #[inline]
    pub(super) fn tag(self) -> u8 {
        let [byte, ..] = self.high.to_le_bytes();
        byte.max(1)
    }

    /// One of `n` places, by the top half of the high word.
    #[inline]
    pub(super) fn first_of(self, n: usize) -> usize {
        reduce(self.high >> 32, n)
    }

    /// One of `n` places, independent of [`Fingerprint::first_of`]; the tag's byte hardly matters to it.
    #[inline]
    pub(super) fn second_of(self, n: usize) -> usize {
        reduce(self.high & 0xffff_ffff, n)
    }
}

/// Maps 32 even bits onto `0..n` by multiplication, which is cheaper than a remainder.
fn reduce(bits: u64, n: usize) -> usize {
    let n = u64::try_from(n).unwrap_or(u64::MAX);
    usize::try_from((bits * n) >> 32).unwrap_or(0)
}

/// The secret of one store.
#[derive(Clone, Debug, Default)]
pub(super) struct Secret {
    low: RandomState,
    high: RandomState,
}

impl Secret {
    #[inline]
    pub(super) fn fingerprint(&self, id: LimitId, key: &[u8]) -> Fingerprint {
        Fingerprint { low: hash(&self.low, id, key), high: hash(&self.high, id, key) }
    }
}

#[inline]
fn hash(secret: &RandomState, id: LimitId, key: &[u8]) -> u64 {
    let mut hasher = secret.build_hasher();
    hasher.write(key);
    // The key comes first and the id has a fixed length, so that no other pair makes the same bytes.
    hasher.write_u32(id.as_u32());
    hasher.finish()
}
