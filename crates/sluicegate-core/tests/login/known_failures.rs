//! Failures of other guards, each reported in public.

use sluicegate_core::login::{AccountRules, Attempt, Counter, Gauge, Outcome, Reported, Scope, Verdict};

use crate::{
    attackers::Army,
    world::{DAY, HOUR, MINUTE, SECOND, START, WRONG, World, stranger},
};

fn try_code(code: u64, client: u64) -> Attempt {
    Attempt { code: Some(code), ..stranger(client * 256, 0) }
}

/// Keycloak CVE-2024-4629, Zitadel CVE-2023-47111, express-brute #46, Symfony pull request 65689: guesses made at once
/// all passed the check before the first was counted.
#[test]
fn parallel_guesses_are_counted_before_any_of_them_is_verified() {
    let mut world = World::new(AccountRules::strong());
    let verified = (0..200_u64)
        .filter(|number| {
            matches!(world.begin(stranger(256 * number, 1_000 + number)).1, Verdict::Allow { .. })
        })
        .count();
    assert_eq!(verified, 7);
}

/// Keycloak #30939: a wait of 21,900 days overflowed, and nothing was locked.
#[test]
fn the_longest_lockout_that_can_be_written_still_locks() {
    let forever = Counter { limit: 3, ttl_ms: u64::MAX, lockout_ms: u64::MAX };
    let mut world = World::new(AccountRules { unknown: Gauge::Counter(forever), ..AccountRules::basic() });
    for number in 0..3 {
        let (id, _) = world.begin(stranger(256 * number, 1_000 + number));
        world.report(id, WRONG);
    }
    assert!(matches!(world.begin(stranger(9, 9)).1, Verdict::Deny { .. }));
}

/// Keycloak #44474: a login that the application refused for another reason counted as a wrong password.
#[test]
fn a_login_that_is_refused_for_another_reason_costs_nothing() {
    let mut world = World::new(AccountRules { familiar: None, ..AccountRules::strong() });
    for number in 0..50 {
        let (id, verdict) = world.begin(stranger(256, number));
        assert!(matches!(verdict, Verdict::Allow { .. }), "{number}: {verdict:?}");
        world.report(id, Outcome::Success);
    }
}

/// Instagram's recovery code of 2019: a limit by address, and a race over thousands of addresses.
#[test]
fn one_code_is_tried_five_times_from_any_number_of_addresses_at_once() {
    let mut world = World::new(AccountRules::codes());
    let tried = (0..20_000)
        .filter(|client| matches!(world.begin(try_code(1, *client)).1, Verdict::Allow { .. }))
        .count();
    assert_eq!(tried, 5);
    assert!(matches!(world.begin(try_code(1, 1)).1, Verdict::Deny { scope: Scope::Code, .. }));
}

/// textbee #238, hcengineering #10875 and others: a new code brought new tries.
#[test]
fn a_new_code_brings_no_new_tries_for_the_account() {
    let (mut world, mut tried) = (World::new(AccountRules::codes()), 0);
    for code in 1..=100 {
        for client in 0..5 {
            tried += u32::from(matches!(world.begin(try_code(code, client)).1, Verdict::Allow { .. }));
        }
        world.now += MINUTE;
    }
    assert!((10..=10 + 4).contains(&tried), "{tried}");
}

#[test]
fn mails_are_sent_a_minute_apart_five_an_hour_and_ten_a_day_whether_they_succeed_or_not() {
    let (mut world, mut sent) = (World::new(AccountRules::issue()), Vec::new());
    while world.now < START + DAY {
        if let (id, Verdict::Allow { .. }) = world.begin(stranger(256, 0)) {
            world.report(id, Outcome::Success);
            sent.push(world.now);
        }
        world.now += 10 * SECOND;
    }
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= MINUTE));
    let within = |length: u64| sent.iter().filter(|at| **at < START + length).count();
    assert!(within(HOUR) <= 9 && within(DAY) <= 20, "{} and {}", within(HOUR), within(DAY));
    assert!(within(DAY) >= 19);
}

/// Home Assistant #15564 and others: a mail client with an old password locks its owner out.
#[test]
fn a_client_that_repeats_one_wrong_secret_is_counted_once() {
    let mut world = World::new(AccountRules::strong());
    for turn in 0..288 {
        let (id, verdict) = world.begin(stranger(256, turn + 1));
        assert!(matches!(verdict, Verdict::Allow { .. }), "turn {turn}: {verdict:?}");
        world.report(id, Outcome::Failure { tag: Some(4_711) });
        world.now += 5 * MINUTE;
    }
}

/// Grafana #7616 and many others: who knows a name locks its owner out. A new device waits for two hours at most.
#[test]
fn nobody_locks_a_new_device_out_for_longer_than_the_slow_leak() {
    let mut world = World::new(AccountRules { step_up_after: None, ..AccountRules::strong() });
    Army { addresses: 1_000, parallel: 1, reports: true }.greedy(&mut world, START + 10 * DAY - MINUTE);
    let Verdict::Deny { retry_at, .. } = world.begin(stranger(1, 1 << 60)).1 else { panic!("not attacked") };
    assert!(retry_at - world.now <= 2 * HOUR, "{}", retry_at - world.now);
}

#[test]
fn an_attempt_is_reported_once_and_in_time() {
    let mut world = World::new(AccountRules::strong());
    let (id, _) = world.begin(stranger(256, 0));
    assert!(matches!(world.report(id, WRONG), Reported::Done { returned: false, .. }));
    assert_eq!(world.report(id, Outcome::Success), Reported::Already);
    assert_eq!(world.report(12_345, Outcome::Success), Reported::Expired);
    let (late, _) = world.begin(stranger(256, 0));
    world.now += 120 * SECOND;
    assert_eq!(world.report(late, Outcome::Success), Reported::Expired);
    assert_eq!(world.rules.unknown.used(&world.account.unknown, world.now), 2);
}
