//! A limit that another one makes superfluous.

use super::{Found, Lint, counts_all_of};
use crate::{
    Algorithm, Align, Rule,
    policy::{Grant, Limit, Policy},
};

pub(super) const NEVER_BINDS: Lint = Lint {
    code: "never_binds",
    finds: "a limit that cannot deny, since another one that counts the same requests denies earlier.",
    why: "Somebody believes in the number that is written there, and it means nothing: `10,000 a day` beside `100 a day` \
          for the same users is 100.",
    fix: "Remove it, or raise the other.",
    example: "  - name: burst
    algorithm: token_bucket
    limit: 10
    per: 1s
    burst: 20
    key: [user]
  - name: per-minute
    algorithm: sliding_counter
    limit: 5000
    per: 1m
    key: [user]
",
    find: never_binds,
};

fn never_binds(policy: &Policy, limit: &Limit) -> Option<Found> {
    // One that is split may deny before the whole is used.
    let Grant::Bounded(rule) = &limit.grant else { return None };
    // Where tiers or overrides grant something else, what is said of the limits does not hold of every request.
    if policy.grants_vary(&limit.name) {
        return None;
    }
    let stricter = |other: &&Limit| {
        let Some(others) = other.grant.rule() else { return false };
        // What is looked up by name comes last: among thousands of limits hardly any pair gets there.
        other.name != limit.name
            && implies(others, rule)
            && counts_all_of(other, limit)
            && !policy.grants_vary(&other.name)
    };
    let other = policy.limits().iter().find(stricter)?;
    // Of two equal limits the first stays.
    let equal = other.grant.rule().is_some_and(|others| implies(rule, others)) && counts_all_of(limit, other);
    let earlier = policy.limits().iter().position(|one| one.name == limit.name)
        < policy.limits().iter().position(|one| one.name == other.name);
    (!(equal && earlier)).then(|| Found {
        field: "limit",
        what: format!(
            "the limit can never deny: `{}` counts the same requests and denies earlier",
            other.name
        ),
        hint: format!("remove it, or raise `{}`", other.name),
    })
}

/// The most that a rule admits within any interval of length d is at most `at_once + d·amount/window`.
#[derive(Clone, Copy)]
struct Envelope {
    at_once: u128,
    amount: u128,
    window_us: u128,
}

impl Envelope {
    /// The bounds of the laws; a queue admits what it releases later, and no interval bounds a quota, so they bound
    /// nothing here.
    fn of(rule: &Rule) -> Option<Self> {
        let amount = u128::from(rule.amount());
        let at_once = match rule.algorithm() {
            Algorithm::LeakyBucket | Algorithm::Quota => return None,
            Algorithm::FixedWindow => 2 * amount,
            Algorithm::SlidingLog | Algorithm::SlidingCounter => amount,
            Algorithm::TokenBucket | Algorithm::Gcra => u128::from(rule.max_cost()),
        };
        Some(Self { at_once, amount, window_us: rule.window().as_micros() })
    }

    /// The most within so many microseconds, rounded up.
    fn within_us(&self, length_us: u128) -> u128 {
        self.at_once + (self.amount * length_us).div_ceil(self.window_us.max(1))
    }

    /// Whether no interval can hold more than another envelope allows.
    fn is_below(&self, other: &Self) -> bool {
        self.at_once <= other.at_once && self.amount * other.window_us <= other.amount * self.window_us
    }
}

/// Whether whatever the stricter rule admits, the looser one does too; may miss some, and never claims wrongly.
fn implies(stricter: &Rule, looser: &Rule) -> bool {
    let same_period = stricter.window() == looser.window() && stricter.period() == looser.period();
    let same = stricter.algorithm() == looser.algorithm() && same_period;
    // Windows that are shifted per key, or begin with a request, differ where the keys or matches do.
    let same_windows =
        stricter.align() == looser.align() && matches!(looser.align(), None | Some(Align::Epoch));
    if same && same_windows && looser.algorithm() != Algorithm::LeakyBucket {
        return stricter.amount() <= looser.amount() && stricter.max_cost() <= looser.max_cost();
    }
    let Some(envelope) = Envelope::of(stricter) else { return false };
    let (amount, window_us) = (u128::from(looser.amount()), looser.window().as_micros());
    match looser.algorithm() {
        Algorithm::LeakyBucket | Algorithm::Quota => false,
        Algorithm::FixedWindow | Algorithm::SlidingLog => most_within(stricter, &envelope, looser) <= amount,
        // It estimates at most what one window ended with and what the other has so far, each a burst and its inflow.
        Algorithm::SlidingCounter => envelope.at_once + envelope.within_us(window_us) <= amount,
        Algorithm::TokenBucket | Algorithm::Gcra => {
            let own = Envelope { at_once: u128::from(looser.max_cost()), amount, window_us };
            envelope.is_below(&own)
        }
    }
}

/// The most that the stricter rule admits within one window of the other.
fn most_within(stricter: &Rule, envelope: &Envelope, looser: &Rule) -> u128 {
    let (own_us, exact_us) = (stricter.window().as_micros(), looser.window().as_micros());
    // A window in coarser ticks may hold a tick more of real time.
    let finer = stricter.tick() != looser.tick();
    let length_us = exact_us + if finer { u128::from(looser.tick().as_micros()) } else { 0 };
    let aligned = stricter.align() == Some(Align::Epoch)
        && looser.align() == Some(Align::Epoch)
        && exact_us.is_multiple_of(own_us.max(1));
    if aligned {
        return envelope.amount * (exact_us / own_us.max(1));
    }
    if stricter.algorithm() == Algorithm::SlidingLog {
        return envelope.amount * length_us.div_ceil(own_us.max(1));
    }
    envelope.within_us(length_us)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::{Micros, Question, State};

    fn rule() -> impl Strategy<Value = Rule> {
        let window = prop_oneof![Just(1_u64), Just(2), Just(3), Just(6)].prop_map(Duration::from_secs);
        (0..4_u8, 1..12_u64, window, 1..12_u64).prop_map(|(kind, amount, window, burst)| {
            match kind {
                0 => Rule::fixed_window(amount, window, Align::Epoch),
                1 => Rule::sliding_log(amount, window),
                2 => Rule::sliding_counter(amount, window),
                _ => Rule::token_bucket(amount, window, burst),
            }
            .unwrap()
        })
    }

    fn rolled(rule: &Rule, state: Option<&State>, at_ms: u64, cost: u64) -> (bool, State) {
        let now = Micros::new((1_000_000 + at_ms) * 1_000);
        let question = Question { rule, key: b"", cost, now };
        let state = question.roll(state.cloned()).unwrap();
        (question.admits(&state), question.charge(state))
    }

    proptest! {
        // Of four pairs of rules three imply nothing.
        #![proptest_config(ProptestConfig { max_global_rejects: 1 << 16, ..ProptestConfig::default() })]

        /// Both count each request or none: wherever the stricter one admits, the looser one must too.
        #[test]
        fn what_is_said_never_to_bind_never_denies(
            stricter in rule(), looser in rule(),
            steps in proptest::collection::vec((0..700_u64, 1..4_u64), 1..120),
        ) {
            prop_assume!(implies(&stricter, &looser));
            let (mut one, mut two, mut at_ms) = (None, None, 0);
            for (gap_ms, cost) in steps {
                at_ms += gap_ms;
                let (admits, charged) = rolled(&stricter, one.as_ref(), at_ms, cost);
                let (also, charged_too) = rolled(&looser, two.as_ref(), at_ms, cost);
                prop_assert!(also || !admits, "{stricter:?} admits {cost} at {at_ms} ms, {looser:?} does not");
                if admits {
                    (one, two) = (Some(charged), Some(charged_too));
                }
            }
        }
    }
}
