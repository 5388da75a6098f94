//! What one address, and one network, can do to many accounts.

use std::collections::HashMap;

use sluicegate_core::login::{Address, AddressRules, HeldName, Network, Origin, Weight};

use crate::world::{HOUR, MINUTE, START};

/// One address with its network.
#[derive(Default)]
struct Place {
    address: Address,
    network: Network,
}

impl Place {
    fn hold(&mut self, now: u64, name: u32) -> Origin {
        AddressRules::strong().hold(&mut self.address, &mut self.network, now, name)
    }

    fn settle(&mut self, now: u64, charged_at: u64, name: u32, weight: Weight) {
        let held = HeldName { charged_at, name };
        AddressRules::strong().settle(&mut self.address, &mut self.network, now, held, weight);
    }
}

#[test]
fn one_address_sprays_at_most_forty_guesses_an_hour() {
    // As many names as there are guesses, few names often, and one name.
    for names in [u32::MAX, 20, 5, 1] {
        let (mut place, mut guesses) = (Place::default(), Vec::new());
        for step in 0..24 * 3_600 {
            let now = START + step * 1_000;
            while let Origin::Held { .. } = place.hold(now, u32::try_from(guesses.len()).unwrap() % names) {
                guesses.push(now);
            }
        }
        let most =
            (0..guesses.len()).map(|from| guesses[from..].partition_point(|at| *at < guesses[from] + HOUR));
        let most = most.max().unwrap();
        assert!(most <= 40, "{most} guesses in an hour at {names} names");
        assert!(names > 20 || most >= 39, "{most}");
    }
}

#[test]
fn a_network_of_addresses_has_a_hundred_guesses_and_a_hundred_an_hour() {
    let (mut network, mut addresses, mut guesses) = (Network::default(), HashMap::new(), 0);
    for step in 0..3_600 {
        let now = START + step * 1_000;
        for number in 0..256 {
            let address: &mut Address = addresses.entry(number).or_default();
            let held = AddressRules::strong().hold(address, &mut network, now, number);
            guesses += u32::from(matches!(held, Origin::Held { .. }));
        }
    }
    assert!((190..=200).contains(&guesses), "{guesses}");
}

/// The oldest trick: one's own account, between guesses at others, to be taken for honest.
#[test]
fn an_attackers_own_successes_never_enlarge_his_budget() {
    let (mut plain, mut cunning) = (0, 0);
    for own_successes in [false, true] {
        let mut place = Place::default();
        for step in 0..6 * 3_600 {
            let now = START + step * 1_000;
            if own_successes && let Origin::Held { at, .. } = place.hold(now, 999) {
                place.settle(now + 1, at, 999, Weight::Nothing);
            }
            while let Origin::Held { .. } = place.hold(now + 1, 1) {
                if own_successes { cunning += 1 } else { plain += 1 }
            }
        }
    }
    assert!(plain > 100 && cunning <= plain, "{cunning} with own successes, {plain} without");
}

#[test]
fn names_that_nobody_has_cost_twice() {
    let mut place = Place::default();
    let mut guesses = 0;
    while let Origin::Held { at, .. } = place.hold(START, guesses) {
        place.settle(START, at, guesses, Weight::More(1));
        guesses += 1;
    }
    assert_eq!(guesses, 10);
}

#[test]
fn five_names_challenge_every_guess_and_twenty_refuse_new_names() {
    let mut place = Place::default();
    let mut challenged = Vec::new();
    for name in 0..20 {
        // Slowly enough that the address has room.
        match place.hold(START + u64::from(name) * 2 * MINUTE, name) {
            Origin::Held { challenged: true, .. } => challenged.push(name),
            Origin::Held { .. } => {}
            Origin::Refused { .. } => panic!("name {name} was refused"),
        }
    }
    assert_eq!(challenged, (5..20).collect::<Vec<_>>());
    let now = START + 45 * MINUTE;
    assert_eq!(place.hold(now, 21), Origin::Refused { retry_at: START + HOUR });
    assert!(matches!(place.hold(now, 3), Origin::Held { .. }), "a name that is known goes on");
    assert!(matches!(place.hold(START + HOUR, 21), Origin::Held { challenged: false, .. }));
}

#[test]
fn successes_behind_one_address_cost_nothing_however_many_they_are() {
    let mut place = Place::default();
    for name in 0..10_000 {
        let now = START + u64::from(name) * 100;
        let Origin::Held { at, .. } = place.hold(now, name) else { panic!("login {name} was refused") };
        place.settle(now + 90, at, name, Weight::Nothing);
    }
}
