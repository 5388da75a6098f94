//! What stands for a key in memory: 128 keyed bits.

use std::hash::{BuildHasher, RandomState};

use sluicegate_core::LimitId;

/// 128 bits over limit and key: two hashes under two random secrets of this store, of which nobody learns a bit.
///
/// `low` is kept in the slot; of `high`, one byte is kept as the slot's tag, and the rest chooses the buckets. A new key
/// is taken for another one in its two buckets with a probability below 2^-67.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// Never 0, which marks an empty slot.
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
#[inline]
fn reduce(bits: u64, n: usize) -> usize {
    let n = u64::try_from(n).unwrap_or(u64::MAX);
    usize::try_from((bits * n) >> 32).unwrap_or(0)
}

/// The secrets of one store: those of two hashes that share no word.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    low: Words,
    high: Words,
}

/// The secret of one hash.
#[derive(Clone, Debug)]
struct Words {
    begin: u64,
    each: u64,
    end: u64,
}

impl Default for Secret {
    fn default() -> Self {
        // The standard library's state is seeded by the operating system, and its SipHash makes of that as many words as
        // one likes.
        let random = RandomState::new();
        let word = |number: u64| random.hash_one(number);
        Self {
            low: Words { begin: word(0), each: word(1), end: word(2) },
            high: Words { begin: word(3), each: word(4), end: word(5) },
        }
    }
}

/// Bytes of a key that are hashed in one step.
const CHUNK: usize = 16;

impl Secret {
    /// Both hashes in one pass over the key: a folded multiplication for each 16 bytes, and a last one with the limit and
    /// the length, so that no two pairs are read as the same words.
    #[expect(clippy::inline_always, reason = "a check goes on with what needs no word of the hash")]
    #[inline(always)]
    pub(super) fn fingerprint(&self, id: LimitId, key: &[u8]) -> Fingerprint {
        let (mut low, mut high) = (self.low.begin, self.high.begin);
        let mut rest = key;
        while rest.len() > CHUNK {
            let (chunk, after) = rest.split_at(CHUNK);
            let [x, y] = ends(chunk);
            low = folded(low ^ x, self.low.each ^ y);
            high = folded(high ^ x, self.high.each ^ y);
            rest = after;
        }
        let [x, y] = ends(rest);
        low = folded(low ^ x, self.low.each ^ y);
        high = folded(high ^ x, self.high.each ^ y);
        let tail = u64::try_from(key.len()).unwrap_or(u64::MAX) << 32 | u64::from(id.as_u32());
        let (low, high) = (folded(low ^ tail, self.low.end), folded(high ^ tail, self.high.end));
        Fingerprint { low: low.max(1), high }
    }
}

/// Up to 16 bytes as two words, which overlap if there are fewer.
#[inline]
fn ends(bytes: &[u8]) -> [u64; 2] {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return [u64::from_le_bytes(*first), u64::from_le_bytes(*last)];
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return [u32::from_le_bytes(*first), u32::from_le_bytes(*last)].map(u64::from);
    }
    match bytes {
        [] => [0, 0],
        [a] => [u64::from(*a), 0],
        [a, b] => [u64::from(*a), u64::from(*b)],
        [a, b, c, ..] => [u64::from(*a) << 8 | u64::from(*b), u64::from(*c)],
    }
}

/// The halves of the product, one over the other: every bit of either factor reaches every bit of the result.
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0);
    half(product) ^ half(product >> 64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use sluicegate_core::{Align, Rule};

    use super::*;

    fn id(name: &str) -> LimitId {
        LimitId::of(name, &Rule::fixed_window(1, Duration::from_secs(1), Align::Epoch).unwrap())
    }

    /// All bytes count, and how many there are, in both words.
    #[test]
    fn keys_that_differ_anywhere_have_other_words() {
        let secret = Secret::default();
        let (mut lows, mut highs, mut keys) = (HashSet::new(), HashSet::new(), 0);
        for len in 0..80 {
            for at in 0..=len {
                let mut key = vec![0; len];
                if let Some(byte) = key.get_mut(at) {
                    *byte = 1;
                }
                let Fingerprint { low, high } = secret.fingerprint(id("a"), &key);
                lows.insert(low);
                highs.insert(high);
                keys += 1;
            }
        }
        assert_eq!((lows.len(), highs.len()), (keys, keys));
        assert_ne!(secret.fingerprint(id("a"), b"key"), secret.fingerprint(id("b"), b"key"));
        assert_ne!(secret.fingerprint(id("a"), b"key"), Secret::default().fingerprint(id("a"), b"key"));
    }

    /// Keys that people use, such as numbers, fall evenly into buckets by each of the two choices and by tag.
    #[test]
    fn numbered_keys_spread_evenly() {
        const PLACES: usize = 64;
        let secret = Secret::default();
        let mut counts = [[0_u32; PLACES]; 3];
        for number in 0..64_000 {
            let fingerprint = secret.fingerprint(id("a"), format!("user-{number:08}").as_bytes());
            let tag = usize::from(fingerprint.tag()) % PLACES;
            let places = [fingerprint.first_of(PLACES), fingerprint.second_of(PLACES), tag];
            for (counts, place) in counts.iter_mut().zip(places) {
                counts[place] += 1;
            }
        }
        // A count's deviation is about 32; nine of them are never seen.
        assert!(counts.as_flattened().iter().all(|count| (700..1_300).contains(count)), "{counts:?}");
    }
}
