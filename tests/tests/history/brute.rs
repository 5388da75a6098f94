//! The checker against all choices of instants, tried one by one.

use proptest::prelude::*;
use sluicegate::{
    core::{Algorithm, Align, Rule},
    testing::history::{Outcome, Verdict},
};

use crate::support::{BEGIN, Call, check, rules, store_row};

/// Calls begin, count and end at multiples of this, in microseconds.
const GRID: u64 = 500;

/// Whether costs that counted at these instants obey the law, from its text.
fn obeys(rule: &Rule, counted: &[(u64, u64)]) -> bool {
    let mut counted = counted.to_vec();
    counted.sort_unstable();
    let (amount, window) = (rule.amount(), u64::try_from(rule.window().as_micros()).unwrap());
    let between = |from: u64, to: u64| -> u64 {
        counted.iter().filter(|(at, _)| (from..=to).contains(at)).map(|(_, cost)| cost).sum()
    };
    let mut pairs = counted.iter().flat_map(|(from, _)| {
        counted.iter().filter(move |(to, _)| to >= from).map(move |(to, _)| (*from, *to))
    });
    match (rule.algorithm(), rule.align()) {
        (Algorithm::FixedWindow, Some(Align::FirstRequest)) => {
            let mut opened = None;
            let mut used = 0;
            counted.iter().all(|(at, cost)| {
                if opened.is_none_or(|opened| *at >= opened + window) {
                    (opened, used) = (Some(*at), 0);
                }
                used += cost;
                used <= amount
            })
        }
        (Algorithm::FixedWindow, _) => counted.iter().all(|(at, _)| {
            let phase = rule.at(sluicegate::core::Micros::new(0), crate::support::KEY.as_bytes()).phase;
            let begin = at - (at - phase) % window;
            between(begin, begin + window - 1) <= amount
        }),
        (Algorithm::SlidingLog, _) => counted.iter().all(|(at, _)| between(*at, at + window - 1) <= amount),
        (Algorithm::SlidingCounter, _) => counted.iter().all(|(at, _)| {
            let begin = at - at % window;
            let left = window - (at - begin);
            between(begin - window, begin - 1) * left + between(begin, *at) * window <= amount * window
        }),
        (Algorithm::LeakyBucket, _) => {
            let most = rule.horizon().saturating_sub(rule.window()).as_micros();
            let capacity = (u64::try_from(most).unwrap() + window) * amount;
            counted.iter().all(|(_, cost)| *cost <= amount)
                && pairs.all(|(from, to)| between(from, to) * window <= capacity + (to - from) * amount)
        }
        _ => pairs
            .all(|(from, to)| between(from, to) * window <= rule.max_cost() * window + (to - from) * amount),
    }
}

/// Every choice of instants on the grid, as its costs that counted. Unknown calls counted or did not, up to a few
/// windows later.
fn choices(calls: &[Call]) -> Vec<Vec<(u64, u64)>> {
    let mut all = vec![Vec::new()];
    for call in calls {
        let end = if call.outcome == Outcome::Unknown { call.end_us + 5_000 } else { call.end_us };
        let instants: Vec<u64> = (call.start_us..=end).step_by(500).collect();
        let mut longer = Vec::new();
        for choice in &all {
            if call.outcome == Outcome::Unknown {
                longer.push(choice.clone());
            }
            for at in &instants {
                let mut choice = choice.clone();
                choice.push((BEGIN + at, call.cost));
                longer.push(choice);
            }
        }
        all = longer;
    }
    all
}

fn calls(costs: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Vec<Call>> {
    let outcome = prop_oneof![9 => Just(Outcome::Allowed), 1 => Just(Outcome::Unknown)];
    let call = (0..14u64, 0..6u64, costs, outcome).prop_map(|(start, takes, cost, outcome)| Call {
        start_us: start * GRID,
        end_us: (start + takes) * GRID,
        cost,
        outcome,
    });
    prop::collection::vec(call, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn what_is_refuted_has_no_choice_that_obeys_and_what_is_proven_none_that_does_not(
        rule in rules(), calls in calls(1..=3)
    ) {
        let report = check(&rule, &calls);
        let (mut some, mut all) = (false, true);
        for choice in choices(&calls) {
            let obeys = obeys(&rule, &choice);
            some |= obeys;
            all &= obeys;
        }
        let verdict = store_row(&report).verdict();
        prop_assert!(verdict != Verdict::Refuted || !some, "refuted, but some choice obeys\n{report}");
        prop_assert!(verdict != Verdict::Proven || all, "proven, but some choice does not obey\n{report}");
        // The intervals of a counter and of windows that begin with a count are not told apart to the last.
        let exact = rule.align() != Some(Align::FirstRequest) && rule.algorithm() != Algorithm::SlidingCounter;
        // The grid does not hold every begin of a shifted window, and no instant after the last one tried.
        let exact = exact && rule.align() != Some(Align::Hashed);
        let answered = calls.iter().all(|call| call.outcome == Outcome::Allowed);
        prop_assert!(!exact || !answered || !all || verdict == Verdict::Proven, "every choice obeys\n{report}");
    }

    /// Costs of 1 in aligned windows are told apart to the last.
    #[test]
    fn a_fixed_window_without_a_choice_that_obeys_is_refuted(
        amount in 1..=3u64, window_ms in 1..=4u64, calls in calls(1..=1)
    ) {
        let rule = Rule::fixed_window(amount, std::time::Duration::from_millis(window_ms), Align::Epoch).unwrap();
        let some = choices(&calls).iter().any(|choice| obeys(&rule, choice));
        let report = check(&rule, &calls);
        prop_assert_eq!(store_row(&report).verdict() == Verdict::Refuted, !some, "\n{}", report);
    }
}
