//! Who decided, what was answered twice, and clocks that disagree.

use std::time::Duration;

use sluicegate::{
    core::{Align, Headroom, Micros, Policy, Rule},
    testing::history::{History, Limits, Outcome, Path, Record, RecordError, Scope, Settings, Verdict},
};

use crate::support::{Call, LIMIT, check, check_records, store_row};

fn five_a_minute() -> Rule {
    Rule::fixed_window(5, Duration::from_secs(60), Align::Epoch).unwrap()
}

fn allowed(at_us: u64) -> Record {
    Call::at(at_us, 1, Outcome::Allowed).record()
}

fn by_fallback(instance: &str, count: u64) -> impl Iterator<Item = Record> {
    let instance = instance.to_owned();
    (0..count).map(move |at| Record { path: Path::Fallback, instance: instance.clone(), ..allowed(at) })
}

#[test]
fn what_the_fallback_admits_is_held_against_the_law_for_the_fleet_and_each_share() {
    let settings = Settings { instances: Some(3), ..Settings::default() };
    let verdict = |shares: [u64; 3], scope: Scope| {
        let names = ["a", "b", "c"];
        let records = names.iter().zip(shares).flat_map(|(name, count)| by_fallback(name, count));
        let mut records: Vec<Record> = records.collect();
        // The store counts for itself, and an instance may deny with its share used up.
        records.extend((0..5).map(allowed));
        records.extend(by_fallback("a", 1).map(|record| Record { outcome: Outcome::Denied, ..record }));
        let report = check_records(&five_a_minute(), &records, &settings);
        assert_eq!(report.false_denials(), 0, "{report}");
        report.rows[&(LIMIT.to_owned(), scope)].verdict()
    };
    assert_eq!(verdict([2, 2, 1], Scope::Fallback), Verdict::Proven);
    assert_eq!(verdict([2, 2, 2], Scope::Fallback), Verdict::Refuted);
    assert_eq!(verdict([3, 1, 1], Scope::Fallback), Verdict::Proven);
    assert_eq!(verdict([3, 1, 1], Scope::Instance("a".into())), Verdict::Refuted);
    assert_eq!(verdict([3, 1, 1], Scope::Instance("b".into())), Verdict::Proven);
    assert_eq!(verdict([3, 3, 3], Scope::Store), Verdict::Proven);
}

/// A fleet that may grant twice the limit without its store is wrong from the eleventh of five on; one that may grant half
/// of it from the third.
#[test]
fn what_the_fallback_may_grant_is_the_headroom_of_the_limit() {
    let verdicts = |permille, shares: [u64; 2]| {
        let headroom = Headroom::from_permille(permille).unwrap();
        let limits = Limits::of([(LIMIT, five_a_minute())]).with_headroom(headroom);
        let mut history = History::new(&limits);
        for record in ["a", "b"].iter().zip(shares).flat_map(|(name, count)| by_fallback(name, count)) {
            history.add(&record).unwrap();
        }
        let report = history.check(&Settings { instances: Some(2), ..Settings::default() });
        let of = |scope| report.rows[&(LIMIT.to_owned(), scope)].verdict();
        (of(Scope::Fallback), of(Scope::Instance("a".into())))
    };
    assert_eq!(verdicts(2_000, [5, 5]), (Verdict::Proven, Verdict::Proven));
    assert_eq!(verdicts(2_000, [5, 6]), (Verdict::Refuted, Verdict::Proven));
    assert_eq!(verdicts(2_000, [6, 4]), (Verdict::Proven, Verdict::Refuted));
    assert_eq!(verdicts(500, [1, 1]), (Verdict::Proven, Verdict::Proven));
    assert_eq!(verdicts(500, [1, 2]), (Verdict::Refuted, Verdict::Proven));
    assert_eq!(verdicts(500, [2, 0]), (Verdict::Proven, Verdict::Refuted));
}

/// What a policy lets pass without its store has no bound; what it decides itself has its own headroom.
#[test]
fn a_policy_says_what_may_be_granted_in_fallback() {
    let verdict = |field: &str, count| {
        let text = format!(
            "{{version: 1, limits: [{{name: {LIMIT}, algorithm: fixed_window, limit: 5, per: 1m, key: [user], {field}}}]}}"
        );
        let limits = Limits::from(&Policy::parse(&text).unwrap());
        let mut history = History::new(&limits);
        by_fallback("a", count).for_each(|record| history.add(&record).unwrap());
        history.check(&Settings::default()).verdict()
    };
    assert_eq!(verdict("headroom: 2", 10), Verdict::Proven);
    assert_eq!(verdict("headroom: 2", 11), Verdict::Refuted);
    assert_eq!(verdict("on_store_failure: deny", 6), Verdict::Refuted);
    assert_ne!(verdict("on_store_failure: allow", 1_000), Verdict::Refuted);
}

#[test]
fn an_id_that_is_charged_twice_is_refuted_and_one_that_is_answered_twice_is_not() {
    let with_id = |replayed| Record { id: "order-7".into(), replayed, ..allowed(0) };
    let charged = check_records(&five_a_minute(), &[with_id(false), with_id(false)], &Settings::default());
    assert_eq!((charged.verdict(), store_row(&charged).charged_twice), (Verdict::Refuted, 1));
    assert!(charged.to_string().contains("charged twice: 1, such as id `order-7`"), "{charged}");

    let mut answered = vec![with_id(false)];
    answered.extend((0..10).map(|_| with_id(true)));
    let answered = check_records(&five_a_minute(), &answered, &Settings::default());
    assert_eq!((answered.verdict(), store_row(&answered).charged_twice), (Verdict::Proven, 0), "{answered}");
}

#[test]
fn a_call_without_an_answer_refutes_nothing_and_spoils_a_proof() {
    let mut calls: Vec<Call> = (0..5).map(|at| Call::at(at, 1, Outcome::Allowed)).collect();
    assert_eq!(check(&five_a_minute(), &calls).verdict(), Verdict::Proven);
    calls.push(Call::at(0, 1, Outcome::Unknown));
    let report = check(&five_a_minute(), &calls);
    assert_eq!(report.verdict(), Verdict::NotRefuted, "{report}");
    assert!(report.to_string().contains("possible: 6 of 5 in"), "{report}");
    // It may have taken the place of one that was denied.
    calls[4] = Call::at(4, 1, Outcome::Denied);
    assert_eq!(check(&five_a_minute(), &calls).false_denials(), 0);
    calls.pop();
    assert_eq!(check(&five_a_minute(), &calls).false_denials(), 1);
}

#[test]
fn what_clocks_that_disagree_could_explain_is_not_refuted() {
    let rule = Rule::sliding_log(1, Duration::from_secs(1)).unwrap();
    let apart = |us| [allowed(0), allowed(us)];
    let verdict = |us, error_us| {
        let settings = Settings { clock_error: Duration::from_micros(error_us), ..Settings::default() };
        check_records(&rule, &apart(us), &settings).verdict()
    };
    assert_eq!(verdict(999_900, 0), Verdict::Refuted);
    assert_eq!(verdict(999_900, 49), Verdict::Refuted);
    assert_eq!(verdict(999_900, 50), Verdict::NotRefuted);
    assert_eq!(verdict(1_000_000, 0), Verdict::Proven);
    assert_eq!(verdict(1_000_098, 49), Verdict::Proven);
}

#[test]
fn a_denial_of_nothing_is_false() {
    let report = check(&five_a_minute(), &[Call::at(0, 0, Outcome::Denied)]);
    assert_eq!(report.false_denials(), 1);
}

#[test]
fn a_cost_above_the_largest_refutes_however_long_its_call_took() {
    let rule = Rule::token_bucket(1, Duration::from_millis(1), 5).unwrap();
    let call = |cost| Call { start_us: 0, end_us: 60_000_000, cost, outcome: Outcome::Allowed };
    assert_eq!(check(&rule, &[call(6)]).verdict(), Verdict::Refuted);
    assert_eq!(check(&rule, &[call(1 << 53)]).verdict(), Verdict::Refuted);
    assert_eq!(check(&rule, &[call(5)]).verdict(), Verdict::Proven);
}

#[test]
fn records_that_cannot_be_judged_are_refused() {
    let limits = Limits::of([(LIMIT, five_a_minute())]);
    let mut history = History::new(&limits);
    let other = Record { limit: "other".into(), ..allowed(0) };
    assert_eq!(history.add(&other), Err(RecordError::UnknownLimit("other".into())));
    let backwards = Record { end: Micros::new(0), ..allowed(1) };
    assert_eq!(history.add(&backwards), Err(RecordError::Backwards));
    assert_eq!(history.add(&Record { cost: (1 << 53) + 1, ..allowed(0) }), Err(RecordError::Cost));
    assert!(history.check(&Settings::default()).rows.is_empty());
}
