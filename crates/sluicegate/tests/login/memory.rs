//! Bounded memory.

use std::{sync::Arc, time::Duration};

use sluicegate::login::{Begun, EmbeddedLogin, LoginRequest, Profile, Refusal, Settlement, Who};

use crate::support::{BOB, Place, from, keys, open, person, place_with, refused, use_up_free_guesses};

async fn flood(place: &Place, names: u32) -> u32 {
    let mut verified = 0;
    for number in 0..names {
        let name = format!("nobody-{number}");
        let token = format!("person {number}");
        let request = person(from(number, Who::Presented(&name)), &token);
        if let Begun::Open(attempt) = place.guard.begin(&request).await.unwrap() {
            attempt.report(Settlement::WRONG).await.unwrap();
            verified += 1;
        }
    }
    verified
}

/// As Argo CD's CVE-2024-21662 reports: a flood of made-up names evicted the victim's counter.
#[tokio::test]
async fn a_flood_of_names_washes_no_failure_away() {
    let place = place_with(Profile::Strong, keys(), Arc::new(EmbeddedLogin::with_capacity(256)));
    use_up_free_guesses(&place.guard, BOB).await;
    let verified = flood(&place, 100_000).await;
    // Those without a place of their own share 4,096 records of seven guesses each at one instant.
    assert!(verified < 256 * 7 + 4_096 * 7 + 7, "{verified}");
    assert!(matches!(refused(&place.guard, &from(9, BOB)).await, Refusal::Challenge { .. }));
}

#[tokio::test]
async fn what_a_name_owed_without_a_place_of_its_own_it_owes_with_one() {
    let place = place_with(Profile::Strong, keys(), Arc::new(EmbeddedLogin::with_capacity(1)));
    flood(&place, 2_000).await;
    let late = Who::Presented("late");
    for number in 0..3 {
        let token = format!("person late {number}");
        if let Begun::Open(attempt) = place.guard.begin(&person(from(number, late), &token)).await.unwrap() {
            attempt.report(Settlement::WRONG).await.unwrap();
        }
    }
    let owed = place.guard.explain(&from(1, late)).await.unwrap();
    assert!(owed.is_none(), "it shares a record");
    // Those with a place of their own are forgotten, the shared record is not: its slow leak owes more.
    place.clock.turn(Duration::from_secs(20 * 60));
    let request = LoginRequest { proof: None, ..from(77, late) };
    assert!(matches!(
        refused(&place.guard, &request).await,
        Refusal::Challenge { .. } | Refusal::Deny { .. }
    ));
}

#[tokio::test]
async fn what_no_longer_counts_makes_room() {
    let place = place_with(Profile::Strong, keys(), Arc::new(EmbeddedLogin::with_capacity(64)));
    flood(&place, 5_000).await;
    place.clock.turn(Duration::from_secs(40 * 86_400));
    drop(open(&place.guard, &from(1, BOB)).await);
    assert!(place.guard.explain(&from(1, BOB)).await.unwrap().is_some(), "it has a place of its own");
}
