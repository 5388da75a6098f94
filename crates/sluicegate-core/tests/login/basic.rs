//! The literal profile.

use sluicegate_core::login::{AccountRules, Outcome, Scope, Verdict};

use crate::{
    attackers::Army,
    world::{DAY, MINUTE, SECOND, START, WRONG, World, stranger},
};

const ARMY: Army = Army { addresses: 100_000, parallel: 1, reports: true };

fn locked() -> World {
    let mut world = World::new(AccountRules::basic());
    while world.evaluated.len() < 10 {
        let (_, next) = ARMY.volley(&mut world, 1);
        world.now = next;
    }
    world
}

#[test]
fn failures_bring_a_challenge_then_a_delay_then_a_lockout() {
    let mut world = World::new(AccountRules::basic());
    let mut answers = Vec::new();
    for number in 0..10 {
        let mut attempt = stranger(256 * number, 0);
        attempt.proof = None;
        let plain = world.begin(attempt).1;
        answers.push(plain);
        if let Verdict::Delay { not_before } = plain {
            world.now = not_before;
        }
        if let Verdict::Allow { .. } = plain {
            continue;
        }
        let (id, verdict) = world.begin(stranger(256 * number, 1_000 + number));
        assert!(matches!(verdict, Verdict::Allow { .. }), "{verdict:?}");
        world.report(id, WRONG);
    }
    let kinds: String = answers
        .iter()
        .map(|answer| match answer {
            Verdict::Allow { .. } => 'a',
            Verdict::Challenge(_) => 'c',
            Verdict::Delay { .. } => 'd',
            _ => '?',
        })
        .collect();
    assert_eq!(kinds, "aaaccccddd");
}

#[test]
fn the_tenth_failure_locks_for_thirty_minutes_and_attempts_do_not_extend_it() {
    let mut world = locked();
    let until = world.now + 30 * MINUTE;
    for number in 0..100 {
        let refused = world.begin(stranger(256 * number, 1 << 60)).1;
        assert_eq!(refused, Verdict::Deny { scope: Scope::Account, retry_at: until });
        world.now += 17 * SECOND;
    }
    world.now = until - 1;
    assert!(matches!(world.begin(stranger(1, 1 << 60)).1, Verdict::Deny { .. }));
    world.now = until;
    assert!(matches!(world.begin(stranger(1, 1 << 60)).1, Verdict::Allow { .. }), "nothing is permanent");
}

#[test]
fn a_success_resets_the_failures() {
    let mut world = World::new(AccountRules::basic());
    for number in 0..6 {
        let (id, _) = world.begin(stranger(256 * number, 1_000 + number));
        world.report(id, WRONG);
    }
    let (id, _) = world.begin(stranger(9, 9_000));
    world.report(id, Outcome::Success);
    assert_eq!(world.rules.unknown.used(&world.account.unknown, world.now), 0);
}

/// The hole that the strong profile closes: said in numbers, so that nobody takes one for the other.
#[test]
fn one_short_of_the_lockout_leaves_some_860_guesses_a_day_to_an_attacker() {
    let mut world = World::new(AccountRules::basic());
    ARMY.paced(&mut world, 9, 15 * MINUTE, START + DAY);
    let guesses = world.evaluated_in(0, DAY);
    assert!((840..=870).contains(&guesses), "{guesses}");
}

/// As better-auth's review of pull request 10247 found: a lock written after a concurrent success re-locked a user.
#[test]
fn a_last_failure_beside_a_success_does_not_lock() {
    let mut world = World::new(AccountRules::basic());
    while world.evaluated.len() < 8 {
        let (_, next) = ARMY.volley(&mut world, 1);
        world.now = next;
    }
    world.now += 20 * SECOND;
    let (right, verdict) = world.begin(stranger(1, 1 << 60));
    assert!(matches!(verdict, Verdict::Allow { .. }));
    world.now += 20 * SECOND;
    let (wrong, verdict) = world.begin(stranger(2, 2 << 60));
    assert!(matches!(verdict, Verdict::Allow { .. }));
    assert!(matches!(world.begin(stranger(3, 3 << 60)).1, Verdict::Busy { .. }));
    world.report(right, Outcome::Success);
    world.report(wrong, WRONG);
    world.now += 20 * SECOND;
    assert!(matches!(world.begin(stranger(3, 4 << 60)).1, Verdict::Allow { .. }));
}
