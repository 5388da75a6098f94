//! The keys that were denied most, in bounded memory.

use std::collections::HashMap;

use serde::Serialize;

/// Keys that are counted at once. The count of any key is then at most a thousandth of all denials too low.
const MAX_KEYS: usize = 1_000;
/// Keys that a report names.
const MAX_TOLD: usize = 5;

/// Counts keys by the rule of Misra and Gries ("Finding repeated elements", 1982): a key that finds no room takes one
/// from every other. Whatever is then left is at most too low by what was taken.
#[derive(Debug, Default)]
pub(super) struct Worst {
    counts: HashMap<String, u64>,
    taken: u64,
}

/// A key and how often it was denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorstKey {
    /// Its attributes, as `name=value`.
    pub key: String,
    /// Denials, at least.
    pub denied: u64,
    /// Denials that may have been missed; 0 if the count is exact.
    pub missed_at_most: u64,
}

impl Worst {
    pub(super) fn count(&mut self, key: &str) {
        if let Some(count) = self.counts.get_mut(key) {
            *count += 1;
        } else if self.counts.len() < MAX_KEYS {
            self.counts.insert(key.to_owned(), 1);
        } else {
            self.taken += 1;
            self.counts.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// The worst keys, the worst first; of equals the one that comes first in the alphabet.
    pub(super) fn finish(self) -> Vec<WorstKey> {
        let missed_at_most = self.taken;
        let told = |(key, denied)| WorstKey { key, denied, missed_at_most };
        let mut worst: Vec<_> = self.counts.into_iter().map(told).collect();
        worst.sort_by(|one, two| two.denied.cmp(&one.denied).then_with(|| one.key.cmp(&two.key)));
        worst.truncate(MAX_TOLD);
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut worst = Worst::default();
        for number in 1..=20 {
            (0..number).for_each(|_| worst.count(&format!("key-{number:02}")));
        }
        let told = worst.finish();
        assert_eq!(told.len(), MAX_TOLD);
        assert_eq!(told[0], WorstKey { key: "key-20".to_owned(), denied: 20, missed_at_most: 0 });
    }

    /// Two heavy keys among a flood of a hundred thousand that come once each.
    #[test]
    fn heavy_keys_are_found_among_any_number_of_others() {
        let mut worst = Worst::default();
        for number in 0..100_000_u64 {
            worst.count(&format!("once-{number}"));
            if number.is_multiple_of(10) {
                worst.count("heavy");
            }
            if number.is_multiple_of(20) {
                worst.count("half");
            }
            assert!(worst.counts.len() <= MAX_KEYS);
        }
        let told = worst.finish();
        for (place, key, truth) in [(0, "heavy", 10_000), (1, "half", 5_000)] {
            assert_eq!(told[place].key, key);
            assert!(told[place].denied <= truth && truth <= told[place].denied + told[place].missed_at_most);
        }
        assert!(told[0].missed_at_most <= 115_000 / 1_000);
    }
}
