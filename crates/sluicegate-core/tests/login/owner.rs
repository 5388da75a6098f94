//! What an owner meets while somebody attacks the account.

use sluicegate_core::login::{AccountRules, Lane, Outcome, Reported, Verdict};

use crate::{
    attackers::Army,
    world::{DAY, HOUR, MINUTE, START, WRONG, World, stranger, with_device},
};

const HOME: u64 = 11 * 256;
const LAPTOP: u64 = 42;

/// An attack of a week, with the owner logging in every few hours after two typos each.
#[test]
fn an_owner_with_a_recognised_device_is_never_refused_during_an_attack() {
    for parallel in [1, 1_000] {
        let army = Army { addresses: 100_000, parallel, reports: true };
        let mut world = World::new(AccountRules { step_up_after: None, ..AccountRules::strong() });
        for turn in 1..=56 {
            army.greedy(&mut world, START + turn * 3 * HOUR);
            for outcome in [WRONG, WRONG, Outcome::Success] {
                let (id, verdict) = world.begin(with_device(HOME, LAPTOP));
                assert_eq!(verdict, Verdict::Allow { lane: Lane::Device }, "turn {turn}");
                assert!(matches!(world.report(id, outcome), Reported::Done { .. }));
            }
        }
        assert!(world.evaluated.len() > 40, "an attack went on");
    }
}

#[test]
fn an_owner_whose_address_is_full_and_whose_network_attacks_still_gets_in() {
    let mut world = World::new(AccountRules::strong());
    let (id, _) = world.begin(stranger(HOME, 1));
    world.report(id, Outcome::Success);
    // A neighbour behind the same address uses up what the address has.
    let mut neighbour = 0;
    while !matches!(world.begin(stranger(HOME, 1_000 + neighbour)).1, Verdict::Deny { .. }) {
        neighbour += 1;
        world.now += 20_000;
        assert!(neighbour < 100);
    }
    assert_eq!(world.begin(with_device(HOME, LAPTOP)).1, Verdict::Allow { lane: Lane::Device });
}

#[test]
fn a_familiar_address_has_a_lane_of_its_own_for_thirty_days() {
    let army = Army { addresses: 100_000, parallel: 1, reports: true };
    let mut world = World::new(AccountRules::strong());
    let (id, _) = world.begin(stranger(HOME, 1));
    world.report(id, Outcome::Success);
    army.greedy(&mut world, START + 2 * HOUR);
    assert_eq!(world.begin(stranger(HOME, 1 << 50)).1, Verdict::Allow { lane: Lane::Familiar });
    world.now += 30 * DAY;
    assert_eq!(world.begin(stranger(HOME, 2 << 50)).1, Verdict::Allow { lane: Lane::Unknown });
}

/// What a stolen cookie is worth: its own lane, and after that no more than anyone has.
#[test]
fn a_stolen_cookie_adds_eight_guesses_and_one_each_quarter_of_an_hour() {
    let mut world = World::new(AccountRules { step_up_after: None, ..AccountRules::strong() });
    let mut in_lane = 0;
    while world.now < START + DAY {
        while let (id, Verdict::Allow { lane: Lane::Device }) = world.begin(with_device(HOME, LAPTOP)) {
            world.report(id, WRONG);
            in_lane += 1;
        }
        world.now += MINUTE;
    }
    assert!((100..=8 + 96).contains(&in_lane), "{in_lane}");
}

/// Two typos and then the right secret, from a new device: all of it is forgiven, so that a day of it never locks.
#[test]
fn an_honest_owner_without_a_device_is_forgiven_the_typos() {
    let mut world = World::new(AccountRules { familiar: None, ..AccountRules::strong() });
    for _ in 0..5 {
        for outcome in [WRONG, WRONG, Outcome::Success] {
            let (id, verdict) = world.begin(stranger(HOME, 0));
            assert_eq!(verdict, Verdict::Allow { lane: Lane::Unknown });
            world.report(id, outcome);
        }
        world.now += HOUR;
    }
    assert_eq!(world.rules.unknown.used(&world.account.unknown, world.now), 0);
}

/// Forgiving is bounded: behind the owner's address may stand an attacker.
#[test]
fn a_neighbour_of_the_owner_is_forgiven_at_most_ten_guesses_a_day_more() {
    let mut world =
        World::new(AccountRules { step_up_after: None, familiar: None, ..AccountRules::strong() });
    let (mut guessed, mut proof) = (0, 1 << 40);
    while world.now < START + DAY {
        proof += 1;
        if let (id, Verdict::Allow { .. }) = world.begin(stranger(HOME, proof)) {
            world.report(id, WRONG);
            guessed += 1;
        }
        let (id, _) = world.begin(with_device(HOME, LAPTOP));
        world.report(id, Outcome::Success);
        world.now += 17_000;
    }
    assert!(guessed <= 52 + 20, "{guessed}");
}
