//! Histories of a limiter that is right, seen through intervals; and the same with one mistake.

use proptest::prelude::*;
use sluicegate::{
    core::{Algorithm, Align, Micros, Rule},
    testing::history::{Outcome, Report, Verdict},
};
use sluicegate_tests::{fixtures::Limit, model::Model};

use crate::support::{BEGIN, Call, check, rules, store_row};

/// An ask, and how its caller sees it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// After the ask before.
    after_us: u64,
    cost: u64,
    early_us: u64,
    late_us: u64,
    /// The caller gives up before the store counts.
    times_out: bool,
}

fn seen(apart: std::ops::Range<u64>, widest: u64) -> impl Strategy<Value = Vec<Seen>> {
    let ask = (apart, 1..=3u64, 0..=widest, 0..=widest, prop::bool::weighted(0.05));
    let ask = ask.prop_map(|(after_us, cost, early_us, late_us, times_out)| Seen {
        after_us,
        cost,
        early_us,
        late_us,
        times_out,
    });
    prop::collection::vec(ask, 1..80)
}

/// Callers that know at which instant the store counted.
fn known(apart: std::ops::Range<u64>) -> impl Strategy<Value = Vec<Seen>> {
    let answered = |asks: Vec<Seen>| asks.into_iter().map(|ask| Seen { times_out: false, ..ask }).collect();
    seen(apart, 0).prop_map(answered)
}

/// What callers see of a limiter that decides by the arithmetic, at an instant within each call.
fn history(rule: &Rule, asks: &[Seen]) -> Vec<Call> {
    let (limit, mut model) = (Limit::new("limit", rule.clone()), Model::default());
    let mut now_us = 20_000;
    let mut calls = Vec::new();
    for ask in asks {
        now_us += ask.after_us;
        let decision = model.take(&[limit.ask("alice", ask.cost)], Micros::new(BEGIN + now_us));
        let (start_us, mut end_us) = (now_us.saturating_sub(ask.early_us), now_us + ask.late_us);
        let mut outcome = if decision.allowed { Outcome::Allowed } else { Outcome::Denied };
        if ask.times_out {
            (outcome, end_us) = (Outcome::Unknown, start_us);
        }
        calls.push(Call { start_us, end_us, cost: ask.cost, outcome });
    }
    calls
}

fn none_is_refuted(report: &Report) -> Result<(), TestCaseError> {
    prop_assert!(report.verdict() != Verdict::Refuted, "\n{report}");
    prop_assert_eq!(report.false_denials(), 0, "\n{}", report);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_right_limiter_is_never_refuted(rule in rules(), asks in seen(0..700, 2_000)) {
        none_is_refuted(&check(&rule, &history(&rule, &asks)))?;
    }

    #[test]
    fn a_right_limiter_is_proven_where_instants_are_known(rule in rules(), asks in known(0..700)) {
        let report = check(&rule, &history(&rule, &asks));
        none_is_refuted(&report)?;
        prop_assert_eq!(report.verdict(), Verdict::Proven, "\n{}", report);
    }

    /// One admission more than the limiter made, at an instant at which it denied.
    #[test]
    fn one_admission_too_many_is_refuted(
        rule in rules(), asks in known(0..700), which in any::<prop::sample::Index>()
    ) {
        let mut calls = history(&rule, &asks);
        let denied: Vec<usize> = (0..calls.len()).filter(|at| calls[*at].outcome == Outcome::Denied).collect();
        prop_assume!(!denied.is_empty());
        // A queue's last cost may be any up to the amount; its denials are refuted by the queue, not by its bound.
        prop_assume!(rule.algorithm() != Algorithm::LeakyBucket);
        calls[denied[which.index(denied.len())]].outcome = Outcome::Allowed;
        let report = check(&rule, &calls);
        prop_assert_eq!(report.verdict(), Verdict::Refuted, "\n{}", report);
    }

    /// A denial where the limiter admitted.
    #[test]
    fn one_denial_too_many_is_false(
        rule in rules(), asks in known(1..700), which in any::<prop::sample::Index>()
    ) {
        let mut calls = history(&rule, &asks);
        let allowed: Vec<usize> = (0..calls.len()).filter(|at| calls[*at].outcome == Outcome::Allowed).collect();
        prop_assume!(!allowed.is_empty());
        // Nobody but the store knows when a window began that begins with its first count.
        prop_assume!(rule.align() != Some(Align::FirstRequest));
        calls[allowed[which.index(allowed.len())]].outcome = Outcome::Denied;
        let report = check(&rule, &calls);
        prop_assert!(store_row(&report).false_denials >= 1, "\n{report}");
        prop_assert!(report.verdict() != Verdict::Refuted, "\n{report}");
    }
}
