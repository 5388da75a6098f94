//! `shards`: one counter for all, split over several keys.
//!
//! **Law.** The parts of all shards add up to exactly the whole, amount and burst. So whatever a shard admits under the
//! limit's law, all of them together admit no more than the law of the whole.

use std::num::NonZeroU32;

use super::{
    file::{Field, LimitFile, list},
    problem::Problem,
    resolve::whole,
    tree::Value,
};
use crate::{
    rule::{Algorithm, Rule},
    share::{Headroom, Share},
};

/// The fewest shards of a counter that is split.
pub const MIN_SHARDS: u32 = 2;
/// The most shards: a `forget` drops them all, and each needs a part of the amount.
pub const MAX_SHARDS: u32 = 64;

/// The algorithms whose law is a sum: their parts can count apart.
pub(super) const OWNERS: [Algorithm; 4] =
    [Algorithm::FixedWindow, Algorithm::SlidingCounter, Algorithm::TokenBucket, Algorithm::Gcra];

/// A rule that is split over counters, numbered from 0.
#[derive(Clone, Debug)]
pub struct Shards {
    whole: Rule,
    parts: Vec<Rule>,
}

impl Shards {
    /// The rule in that many parts; `None` if one of them would be nothing, or they would not add up.
    pub(super) fn split(whole: &Rule, count: NonZeroU32) -> Option<Self> {
        let part = |rank| whole.share(Headroom::ONE, Share::new(count, rank)?);
        let parts = (0..count.get()).map(part).collect::<Option<Vec<_>>>()?;
        // A burst that takes very long to refill is cut off in its part.
        let bursts: u64 = parts.iter().map(Rule::max_cost).sum();
        (bursts == whole.max_cost()).then(|| Self { whole: whole.clone(), parts })
    }

    /// What all shards grant together.
    pub fn whole(&self) -> &Rule {
        &self.whole
    }

    /// What each shard grants, in the order of their numbers: the first ones get what remains, one more each.
    pub fn parts(&self) -> &[Rule] {
        &self.parts
    }

    /// The largest cost that every shard can admit.
    pub fn max_cost(&self) -> u64 {
        self.last().max_cost()
    }

    /// The shard that a cost is asked of, and its part: the one of this number, counted round. A cost that not every
    /// shard could ever admit is asked of the last, whose part is the least, so that the answer is "never".
    pub(super) fn for_cost(&self, cost: u64, number: usize) -> (usize, &Rule) {
        let last = self.parts.len().saturating_sub(1);
        let number = if cost > self.max_cost() { last } else { number % self.parts.len().max(1) };
        (number, self.parts.get(number).unwrap_or(&self.whole))
    }

    fn last(&self) -> &Rule {
        self.parts.last().unwrap_or(&self.whole)
    }
}

/// How many keys the counter of a limit is split over; `None` if it is not.
pub(super) fn shards(file: &LimitFile, algorithm: Algorithm) -> Result<Option<NonZeroU32>, Problem> {
    let Some(field) = &file.shards else { return Ok(None) };
    if !OWNERS.contains(&algorithm) {
        let what = format!("`shards` cannot split the algorithm `{algorithm}`");
        let hint = format!("remove it, or take one of {}", list(&OWNERS.map(Algorithm::name)));
        return Err(Problem::new(field.name_place, what).hint(hint));
    }
    let expected = format!("a whole number from {MIN_SHARDS} to {MAX_SHARDS}");
    let count = u32::try_from(whole(field, &expected)?).ok();
    let count = count.filter(|count| (MIN_SHARDS..=MAX_SHARDS).contains(count)).and_then(NonZeroU32::new);
    count.map(Some).ok_or_else(|| field.must_be(&expected).maybe_hint(not_split(field)))
}

fn not_split(field: &Field) -> Option<String> {
    matches!(field.node.value, Value::Whole(1)).then(|| "remove it: one counter is not split".to_owned())
}

/// Only a counter for all is split: those of many keys are apart already.
pub(super) fn check_key(file: &LimitFile, key: &[String]) -> Result<(), Problem> {
    match (&file.shards, key.first()) {
        (Some(field), Some(first)) => {
            let what =
                format!("`shards` splits one counter for all, and this limit has one for each `{first}`");
            Err(Problem::new(field.name_place, what).hint("remove it, or write `key: []`"))
        }
        _ => Ok(()),
    }
}

/// The rule of a limit in its parts.
pub(super) fn split(file: &LimitFile, rule: &Rule, count: NonZeroU32) -> Result<Shards, Problem> {
    Shards::split(rule, count).ok_or_else(|| {
        let shards = u64::from(count.get());
        let (name, field, value) = match &file.burst {
            Some(burst) if rule.amount() >= shards => ("burst", Some(burst), rule.max_cost()),
            _ => ("limit", file.limit.as_ref(), rule.amount()),
        };
        let place = field.map_or(file.place, |field| field.node.place);
        if value >= shards {
            let what = format!("`{name}` is too large to be split exactly over {count} shards");
            return Problem::new(place, what).hint("take fewer `shards`, or a smaller `burst`");
        }
        let what = format!("`{name}` is too small for {count} shards: `{value}`, and each needs at least 1");
        Problem::new(place, what).hint("take fewer `shards`, or none")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::rule::Align;

    proptest! {
        #[test]
        fn the_parts_add_up_to_exactly_the_amount_and_the_burst(
            amount in 1..1u64 << 40, burst in 1..1u64 << 30, count in MIN_SHARDS..=MAX_SHARDS
        ) {
            let count = NonZeroU32::new(count).unwrap();
            let window = Duration::from_secs(1);
            let rules = [
                Rule::fixed_window(amount, window, Align::Epoch),
                Rule::sliding_counter(amount, window),
                Rule::token_bucket(amount, window, burst),
                Rule::gcra(amount, window, burst),
            ];
            for rule in rules.into_iter().filter_map(Result::ok) {
                let least = rule.amount().min(rule.max_cost());
                let Some(shards) = Shards::split(&rule, count) else {
                    prop_assert!(least < u64::from(count.get()), "{rule:?}");
                    continue;
                };
                prop_assert!(least >= u64::from(count.get()));
                prop_assert_eq!(shards.parts().iter().map(Rule::amount).sum::<u64>(), rule.amount());
                prop_assert_eq!(shards.parts().iter().map(Rule::max_cost).sum::<u64>(), rule.max_cost());
                prop_assert_eq!(shards.max_cost(), rule.max_cost() / u64::from(count.get()));
            }
        }
    }
}
