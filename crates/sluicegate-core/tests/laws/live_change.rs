//! A new amount under a key that is in use: what was used stays used, nobody waits longer than the new numbers
//! explain, and nothing becomes negative.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_core::{Retry, Rule};

use crate::{
    history::{Watch, cost, epochs, steps},
    key::{Key, check_answer},
    spec::{HOUR, Kind, MINUTE, SECOND, Spec, any_spec, one_of_each_kind},
};

/// The longest wait, from the text: W, 2W for a counter, B·W/L (and the delay of a queue) for a bucket.
fn longest_wait(spec: &Spec) -> Duration {
    let (amount, window) = (spec.amount.max(1), spec.window_us / spec.tick_us());
    let ticks = match spec.kind {
        Kind::Fixed(_) | Kind::Log => window,
        Kind::Counter => 2 * window,
        Kind::Bucket { burst } => (burst * window).div_ceil(amount),
        Kind::Queue { max_delay_us } => max_delay_us / spec.tick_us() + window,
    };
    Duration::from_micros(ticks * spec.tick_us())
}

/// The same limit with other numbers.
fn changed(spec: &Spec, permille: u64) -> Spec {
    let scaled = |number: u64| u64::try_from(u128::from(number) * u128::from(permille) / 1_000).unwrap();
    let kind = match spec.kind {
        Kind::Bucket { burst } => Kind::Bucket { burst: scaled(burst).max(1) },
        kind => kind,
    };
    Spec { kind, amount: scaled(spec.amount), ..*spec }
}

proptest! {
    #[test]
    fn every_answer_keeps_its_promises_after_the_amount_was_changed(
        (spec, start, steps) in any_spec().prop_flat_map(|spec| (Just(spec), epochs(spec.window_us), steps())),
        changes in prop::collection::vec(0..=3_000u64, 40),
    ) {
        let mut watch = Watch::new(start);
        let mut stored = None;
        for ((by, pay), permille) in steps.into_iter().zip(changes) {
            let spec = changed(&spec, permille);
            let Ok(rule) = spec.try_rule() else { continue };
            let mut key = Key { rule: &rule, stored, rebases: 0 };
            watch.turn(&spec, by);
            let now_us = watch.now_us;
            let cost = cost(&spec, &key, now_us, pay);
            let before = key.clone();
            let answer = key.take(now_us, cost);
            check_answer(&spec, &before, &key, now_us, cost, &answer);
            let longest = longest_wait(&spec);
            prop_assert!(answer.reset_after <= longest, "{:?} of {longest:?}", answer.reset_after);
            if let Some(Retry::After(wait)) = answer.retry {
                prop_assert!(wait <= longest, "{wait:?} of {longest:?}");
            }
            watch.saw(answer);
            stored = key.stored;
        }
    }
}

fn remaining(rule: &Rule, stored: &Key<'_>, now_us: u64) -> Option<u64> {
    Key { rule, stored: stored.stored.clone(), rebases: 0 }.peek(now_us, 0).remaining
}

#[test]
fn what_was_used_stays_used_when_the_amount_changes() {
    for kind in one_of_each_kind() {
        if matches!(kind, Kind::Queue { .. }) {
            continue;
        }
        let burst = |burst| if let Kind::Bucket { .. } = kind { Kind::Bucket { burst } } else { kind };
        let limit = |amount| Spec { kind: burst(amount), amount, window_us: MINUTE }.rule();
        let ten = limit(10);
        let mut key = Key::new(&ten);
        assert!(key.take(HOUR, 8).allowed);
        for (amount, left) in [(10, 2), (20, 12), (9, 1), (8, 0), (5, 0), (0, 0), (1_000, 992)] {
            assert_eq!(remaining(&limit(amount), &key, HOUR), Some(left), "{kind:?} {amount}");
        }
    }
}

/// A window forgets nothing when it is lowered and raised again; it has no need to, since it ends by itself.
#[test]
fn lowering_and_raising_a_windowed_limit_forgets_nothing() {
    for kind in [Kind::Fixed(sluicegate_core::Align::Epoch), Kind::Log, Kind::Counter] {
        let limit = |amount| Spec { kind, amount, window_us: MINUTE }.rule();
        let (ten, five) = (limit(10), limit(5));
        let mut key = Key::new(&ten);
        assert!(key.take(HOUR, 10).allowed);
        let mut lowered = Key { rule: &five, stored: key.stored.clone(), rebases: 0 };
        assert!(!lowered.take(HOUR + SECOND, 1).allowed);
        assert_eq!(remaining(&ten, &lowered, HOUR + SECOND), Some(0), "{kind:?}");
    }
    // Lowered over the edge: the formula with what was really used, 10·30 + (0 + c)·60 ≤ 5·60.
    let limit = |amount| Spec { kind: Kind::Counter, amount, window_us: MINUTE }.rule();
    let (ten, five) = (limit(10), limit(5));
    let mut key = Key::new(&ten);
    assert!(key.take(HOUR, 10).allowed);
    assert_eq!(remaining(&five, &key, HOUR + 90 * SECOND), Some(0));
    assert_eq!(remaining(&five, &key, HOUR + 96 * SECOND), Some(1));
}

/// Lowered from 100/s with a burst of 100 to 1/s with 5: unclamped, the key would be locked for 95 s.
#[test]
fn a_lowered_bucket_is_free_again_after_its_own_burst() {
    let limit = |amount, burst| Spec { kind: Kind::Bucket { burst }, amount, window_us: SECOND }.rule();
    let (fast, slow) = (limit(100, 100), limit(1, 5));
    let mut key = Key::new(&fast);
    assert!(key.take(HOUR, 100).allowed);
    let lowered = Key { rule: &slow, stored: key.stored.clone(), rebases: 0 };
    let answer = lowered.peek(HOUR, 1);
    assert_eq!(answer.retry, Some(Retry::After(Duration::from_secs(1))));
    assert_eq!(answer.reset_after, Duration::from_secs(5));
}
