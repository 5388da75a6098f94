//! The numbers of the strong profile, against the best attackers.

use sluicegate_core::login::{
    Account, AccountRules, Attempt, Gauge, Leak, Outcome, Reported, Scope, Verdict,
};

use crate::{
    attackers::Army,
    world::{DAY, HOUR, MINUTE, SECOND, START, WRONG, World, stranger},
};

/// Another factor stops an attacker after a hundred failures; without it the leaks alone must hold.
fn leaks_alone() -> AccountRules {
    AccountRules { step_up_after: None, ..AccountRules::strong() }
}

fn within_the_numbers(world: &World, army: Army) {
    assert!(world.evaluated_in(0, DAY) <= 52, "{army:?}: {} on the first day", world.evaluated_in(0, DAY));
    for day in 1..30 {
        let guesses = world.evaluated_in(day * DAY, DAY);
        assert!(guesses <= 13, "{army:?}: {guesses} on day {day}");
    }
    assert!(world.evaluated_in(0, 30 * DAY) <= 400, "{army:?}");
}

#[test]
fn a_greedy_attacker_has_52_guesses_on_the_first_day_13_on_later_ones_and_400_in_a_month() {
    for addresses in [1, 1_000, 100_000] {
        for parallel in [1, 1_000] {
            let army = Army { addresses, parallel, reports: true };
            let mut world = World::new(leaks_alone());
            army.greedy(&mut world, START + 30 * DAY);
            within_the_numbers(&world, army);
            // The budget is what it is said to be, not less: a test of zero guesses would prove nothing.
            assert!(world.evaluated_in(0, 30 * DAY) >= 390, "{army:?}: {}", world.evaluated.len());
            assert!(world.evaluated_in(0, DAY) >= 50, "{army:?}");
        }
    }
}

#[test]
fn guesses_that_nobody_reports_are_charged_like_failures() {
    for parallel in [1, 1_000] {
        let army = Army { addresses: 100_000, parallel, reports: false };
        let mut world = World::new(leaks_alone());
        army.greedy(&mut world, START + 30 * DAY);
        within_the_numbers(&world, army);
    }
}

/// Who waits for the unknown lane to drain has its burst again, and had nothing meanwhile.
#[test]
fn no_pacing_has_more_than_the_law_allows_in_any_interval() {
    let army = Army { addresses: 100_000, parallel: 50, reports: true };
    for k in [1, 3, 7, 10, 40] {
        for wait in [10 * SECOND, 15 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR, 2 * DAY, 4 * DAY] {
            let mut world = World::new(leaks_alone());
            army.paced(&mut world, k, wait, START + 30 * DAY);
            assert!(world.most_in_any(30 * DAY) <= 400, "{k} then {wait}");
            for hours in [1, 2, 5, 24, 48, 240] {
                let fast = 10 + 2 * hours;
                let slow = 40 + hours / 2;
                let most = usize::try_from(fast.min(slow)).unwrap();
                assert!(world.most_in_any(hours * HOUR) <= most, "{k} then {wait}: {hours} h");
            }
        }
    }
}

#[test]
fn a_thousand_guesses_at_one_instant_verify_seven_and_without_proofs_three() {
    let army = Army { addresses: 1_000, parallel: 1_000, reports: true };
    let mut world = World::new(AccountRules::strong());
    assert_eq!(army.volley(&mut world, u64::MAX).0, 7, "the delays begin with the seventh");
    let mut world = World::new(AccountRules::strong());
    let mut verified = 0;
    for number in 0..1_000 {
        let mut attempt = stranger(256 * number, 0);
        attempt.proof = None;
        verified += u32::from(matches!(world.begin(attempt).1, Verdict::Allow { .. }));
    }
    assert_eq!(verified, 3);
}

#[test]
fn a_hundred_failures_in_a_row_ask_for_another_factor_until_a_success() {
    let army = Army { addresses: 100_000, parallel: 1, reports: true };
    let mut world = World::new(leaks_alone());
    army.greedy(&mut world, START + 30 * DAY);
    world.rules = AccountRules::strong();
    world.now += DAY;
    let mut attempt = stranger(1, 1 << 60);
    assert_eq!(world.begin(attempt).1, Verdict::StepUp);
    attempt.stepped_up = true;
    let (id, verdict) = world.begin(attempt);
    assert!(matches!(verdict, Verdict::Allow { .. }), "{verdict:?}");
    world.report(id, Outcome::Success);
    assert!(matches!(world.begin(stranger(2, 2 << 60)).1, Verdict::Allow { .. }));
}

/// A verifier that answers nothing gives guesses back, but not for ever: an attacker may be what breaks it.
#[test]
fn of_aborted_attempts_ten_a_minute_come_back() {
    let mut world = World::new(AccountRules::strong());
    let mut returned = 0;
    for number in 0..17 {
        let (id, verdict) = world.begin(stranger(256 * number, 1_000 + number));
        if let Verdict::Allow { .. } = verdict {
            let reported = world.report(id, Outcome::Aborted);
            returned += u32::from(matches!(reported, Reported::Done { returned: true, .. }));
        }
    }
    assert_eq!(returned, 10);
    assert_eq!(world.rules.unknown.used(&world.account.unknown, world.now), 7);
}

#[test]
fn a_refusal_leaves_the_account_as_it_was() {
    let mut world = World::new(AccountRules::strong());
    Army { addresses: 1_000, parallel: 1, reports: true }.greedy(&mut world, START + MINUTE);
    let before = world.account.clone();
    let refused = world.begin(stranger(1, 1 << 60)).1;
    assert!(matches!(refused, Verdict::Deny { scope: Scope::Account, .. }), "{refused:?}");
    assert_eq!(world.account, before);
}

#[test]
fn a_retry_is_exact_to_the_millisecond() {
    let mut world = World::new(AccountRules::strong());
    Army { addresses: 1_000, parallel: 1, reports: true }.greedy(&mut world, START + 59 * MINUTE);
    let Verdict::Deny { retry_at, .. } = world.begin(stranger(1, 1 << 60)).1 else { panic!("not full") };
    world.now = retry_at - 1;
    assert!(matches!(world.begin(stranger(1, 2 << 60)).1, Verdict::Deny { .. }));
    world.now = retry_at;
    assert!(matches!(world.begin(stranger(1, 3 << 60)).1, Verdict::Allow { .. }));
}

#[test]
fn a_proof_serves_once() {
    let mut world = World::new(AccountRules::strong());
    for number in 0..3 {
        let (id, _) = world.begin(stranger(number, 0));
        world.report(id, WRONG);
    }
    assert!(matches!(world.begin(stranger(9, 77)).1, Verdict::Allow { .. }));
    assert!(matches!(world.begin(stranger(9, 77)).1, Verdict::Challenge(_)));
}

/// What has drained since was drained for others already: given back whole, five seconds would be worth ten guesses.
#[test]
fn a_charge_that_is_given_back_late_gives_back_only_what_has_not_drained() {
    let gauge = Gauge::leaks(&[Leak { burst: 10, every_ms: 1_000 }]);
    let full = (0..10).fold([0; 3], |reading, _| gauge.charge(reading, START));
    let later = START + 5 * SECOND;
    let settled = (0..10).fold(full, |reading, _| gauge.give_back(reading, later, START));
    assert_eq!(settled, full);
    let soon = gauge.give_back(full, START + SECOND / 2, START);
    assert_eq!(full[0] - soon[0], SECOND / 2);
}

#[test]
fn a_stranger_at_a_full_address_is_denied_and_costs_the_account_nothing() {
    let mut world = World::new(AccountRules::strong());
    let until = START + 5 * SECOND;
    let refused = world.begin(Attempt { address_full_until: Some(until), ..stranger(1, 1) }).1;
    assert_eq!(refused, Verdict::Deny { scope: Scope::Address, retry_at: until });
    assert_eq!(world.account, Account::default());
}
