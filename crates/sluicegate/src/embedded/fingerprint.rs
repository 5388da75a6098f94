//! What stands for a key in memory: 128 keyed bits.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip128::{Hasher128, SipHasher13};
use sluicegate_core::LimitId;

/// 128 bits of SipHash-1-3 over limit and key, under a random secret of this process. Nobody who does not know the
/// secret can search for two keys with one fingerprint, and by chance alone ten million keys hold a pair with a
/// probability of 2^-82.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Fingerprint {
    /// The one-byte tag that a bucket is searched by; never 0, which marks an empty slot.
    pub(super) fn tag(self) -> u8 {
        let [byte, ..] = self.low.to_le_bytes();
        byte.max(1)
    }

    /// One of `n` places, by the top half of the high word.
    pub(super) fn first_of(self, n: usize) -> usize {
        reduce(self.high >> 32, n)
    }

    /// One of `n` places, independent of [`Fingerprint::first_of`].
    pub(super) fn second_of(self, n: usize) -> usize {
        reduce(self.low >> 32, n)
    }
}

/// Maps 32 even bits onto `0..n` by multiplication, which is cheaper than a remainder.
fn reduce(bits: u64, n: usize) -> usize {
    let n = u64::try_from(n).unwrap_or(u64::MAX);
    usize::try_from((bits * n) >> 32).unwrap_or(0)
}

/// The secret of one store.
#[derive(Clone, Debug)]
pub(super) struct Secret(SipHasher13);

impl Secret {
    pub(super) fn random() -> Self {
        let random = RandomState::new();
        Self(SipHasher13::new_with_keys(random.hash_one(0_u8), random.hash_one(1_u8)))
    }

    pub(super) fn fingerprint(&self, id: LimitId, key: &[u8]) -> Fingerprint {
        let mut hasher = self.0;
        hasher.write_u32(id.as_u32());
        hasher.write(key);
        let hash = hasher.finish128();
        Fingerprint { low: hash.h1, high: hash.h2 }
    }
}
