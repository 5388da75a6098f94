//! The keys that are refused most, in a memory that strangers cannot grow.
//!
//! It is the Space-Saving algorithm (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements
//! in data streams", 2005): a key that finds no place takes that of the least counted one, and its count. So a key that is
//! refused more than `refusals / KEPT` times is always among the kept ones, and no count is too low.

use std::{collections::HashMap, sync::Mutex};

/// The keys that are counted. So many more than are told that the told ones are hardly ever strangers' noise.
const KEPT: usize = 256;
/// The longest text of a key that is kept, in characters; the rest is cut.
const MAX_KEY_CHARS: usize = 80;

/// A limit's key: its domain, its name, and what it counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Subject {
    pub(super) domain: String,
    pub(super) limit: String,
    pub(super) key: String,
}

/// Counts refusals by key.
#[derive(Debug, Default)]
pub(super) struct TopKeys(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    kept: HashMap<Subject, u64>,
    refusals: u64,
}

impl TopKeys {
    /// Counts a refusal.
    pub(super) fn count(&self, mut subject: Subject) {
        if let Some((end, _)) = subject.key.char_indices().nth(MAX_KEY_CHARS) {
            subject.key.truncate(end);
            subject.key.push('…');
        }
        let mut counts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        counts.refusals += 1;
        if let Some(count) = counts.kept.get_mut(&subject) {
            *count += 1;
            return;
        }
        let inherited = if counts.kept.len() < KEPT { 0 } else { counts.give_up_the_least() };
        counts.kept.insert(subject, inherited + 1);
    }

    /// The keys with the most refusals, the most first, and the refusals of all others.
    pub(super) fn most(&self, n: usize) -> (Vec<(Subject, u64)>, u64) {
        let counts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut all: Vec<(Subject, u64)> =
            counts.kept.iter().map(|(key, count)| (key.clone(), *count)).collect();
        let refusals = counts.refusals;
        drop(counts);
        all.sort_by(|(one, count), (other, others)| others.cmp(count).then_with(|| one.cmp(other)));
        all.truncate(n);
        let told: u64 = all.iter().map(|(_, count)| count).sum();
        (all, refusals.saturating_sub(told))
    }
}

impl Counts {
    fn give_up_the_least(&mut self) -> u64 {
        let least = self.kept.iter().min_by_key(|(_, count)| **count).map(|(key, _)| key.clone());
        least.and_then(|key| self.kept.remove(&key)).unwrap_or(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn key(user: &str) -> Subject {
        Subject { domain: "api".to_owned(), limit: "per-user".to_owned(), key: format!("user={user}") }
    }

    #[test]
    fn who_is_refused_often_is_found_among_any_number_of_strangers() {
        let top = TopKeys::default();
        for stranger in 0..100_000_u32 {
            top.count(key(&stranger.to_string()));
            if stranger % 100 == 0 {
                top.count(key("mallory"));
            }
        }
        let (most, others) = top.most(1);
        let (first, count) = most.first().unwrap();
        assert_eq!(*first, key("mallory"));
        // Never too low, and too high by at most one part in `KEPT` of all.
        assert!((1_000..=1_000 + 101_000 / 256).contains(count), "{count}");
        assert_eq!(count + others, 101_000);
        assert_eq!(top.0.lock().unwrap().kept.len(), KEPT);
    }

    #[test]
    fn a_key_of_any_length_is_kept_short() {
        let top = TopKeys::default();
        top.count(key(&"é".repeat(10_000)));
        let (most, _) = top.most(1);
        assert_eq!(most.first().unwrap().0.key.chars().count(), MAX_KEY_CHARS + 1);
    }
}
