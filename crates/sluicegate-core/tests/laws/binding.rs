//! Of several asks the one that binds: the denying ask with the longest retry, else the one with the least share of
//! its capacity left; of equals the first.

use std::{cmp::Ordering, time::Duration};

use proptest::prelude::*;
use sluicegate_core::{AskDecision, Decision, Retry};

fn answers() -> impl Strategy<Value = AskDecision> {
    let wait = prop_oneof![0..5u64, any::<u64>()].prop_map(Duration::from_micros);
    let retry = prop_oneof![
        3 => Just(None),
        3 => wait.clone().prop_map(|wait| Some(Retry::After(wait))),
        1 => Just(Some(Retry::Never)),
    ];
    let whole = prop_oneof![0..6u64, 0..=1u64 << 51];
    (retry, whole, 0..=1_000u64, any::<bool>(), wait).prop_map(
        |(retry, whole, permille, unlimited, delay)| {
            if unlimited {
                return AskDecision::UNLIMITED;
            }
            let left = u64::try_from(u128::from(whole) * u128::from(permille) / 1_000).unwrap();
            AskDecision {
                allowed: retry.is_none(),
                limit: Some(whole / 2),
                capacity: Some(whole),
                remaining: Some(left),
                reset_after: delay,
                retry,
                delay,
                ..AskDecision::UNLIMITED
            }
        },
    )
}

/// `Greater` if `a` binds more than `b`, by the text.
fn more_binding(a: &AskDecision, b: &AskDecision) -> Ordering {
    let wait = |answer: &AskDecision| match answer.retry {
        None => None,
        Some(Retry::After(wait)) => Some((0, wait)),
        Some(Retry::Never) => Some((1, Duration::ZERO)),
    };
    let share = |answer: &AskDecision| {
        (u128::from(answer.remaining.unwrap()), u128::from(answer.capacity.unwrap().max(1)))
    };
    let ((left_a, of_a), (left_b, of_b)) = (share(a), share(b));
    wait(a).cmp(&wait(b)).then((left_b * of_a).cmp(&(left_a * of_b)))
}

proptest! {
    #[test]
    fn the_binding_ask_is_the_longest_denial_else_the_scarcest(
        asks in prop::collection::vec(answers(), 0..6)
    ) {
        let decision = Decision::of(asks.clone());
        let bounded: Vec<usize> = (0..asks.len()).filter(|index| asks[*index].limit.is_some()).collect();
        let expected = bounded.iter().copied().find(|index| {
            bounded.iter().all(|other| more_binding(&asks[*index], &asks[*other]) != Ordering::Less)
        });
        prop_assert_eq!(decision.binding(), expected);
        prop_assert_eq!(decision.allowed, asks.iter().all(|ask| ask.allowed));
        prop_assert_eq!(decision.retry(), expected.and_then(|index| asks[index].retry));
        prop_assert_eq!(decision.delay(), asks.iter().map(|ask| ask.delay).max().unwrap_or_default());
    }
}

fn left(remaining: u64, capacity: u64, limit: u64) -> AskDecision {
    AskDecision {
        limit: Some(limit),
        capacity: Some(capacity),
        remaining: Some(remaining),
        ..AskDecision::UNLIMITED
    }
}

/// A full bucket with a burst below its amount is not scarce, and one that is half empty is.
#[test]
fn the_share_of_a_bucket_is_measured_against_its_burst() {
    assert_eq!(Decision::of(vec![left(5, 5, 100), left(50, 100, 100)]).binding(), Some(1));
    assert_eq!(Decision::of(vec![left(1, 1, 1), left(3, 4, 4)]).binding(), Some(1));
    assert_eq!(Decision::of(vec![left(60, 100, 100), left(25, 50, 10)]).binding(), Some(1));
}

#[test]
fn the_first_of_equals_binds_and_unlimited_never() {
    assert_eq!(Decision::of(vec![AskDecision::UNLIMITED, left(1, 2, 2), left(2, 4, 4)]).binding(), Some(1));
    assert_eq!(Decision::of(vec![AskDecision::UNLIMITED]).binding(), None);
    assert_eq!(Decision::of(Vec::new()).binding(), None);
    assert!(Decision::of(Vec::new()).allowed);
}
