//! Challenges.

use std::time::Duration;

use sluicegate::login::{LoginRequest, Profile, Proof, Refusal, Settlement, Who, has_zeros, solve};

use crate::support::{BOB, from, open, person, place, refused, use_up_free_guesses};

fn work(refusal: Refusal) -> (String, u8) {
    match refusal {
        Refusal::Challenge { nonce, bits, .. } => (nonce, bits),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn work_opens_one_attempt_of_the_account_and_address_that_it_was_done_for() {
    let place = place(Profile::Strong);
    use_up_free_guesses(&place.guard, BOB).await;
    use_up_free_guesses(&place.guard, Who::Presented("eve")).await;
    let (nonce, bits) = work(refused(&place.guard, &from(1, BOB)).await);
    assert_eq!(bits, 16);
    let proof = solve(&nonce, bits);
    assert!(has_zeros(&proof, bits));
    let shown = |request| LoginRequest { proof: Some(Proof::Work(&proof)), ..request };
    for other in [from(2, BOB), from(1, Who::Presented("eve"))] {
        assert!(matches!(refused(&place.guard, &shown(other)).await, Refusal::Challenge { .. }));
    }
    let attempt = open(&place.guard, &shown(from(1, BOB))).await;
    attempt.report(Settlement::WRONG).await.unwrap();
    let (_, harder) = work(refused(&place.guard, &shown(from(1, BOB))).await);
    assert_eq!(harder, 17, "a proof serves once, and the next is dearer");
}

#[tokio::test]
async fn work_that_is_late_undone_or_made_up_opens_nothing() {
    let place = place(Profile::Strong);
    use_up_free_guesses(&place.guard, BOB).await;
    let (nonce, bits) = work(refused(&place.guard, &from(1, BOB)).await);
    let proof = solve(&nonce, bits);
    let easier = proof.replacen(".10.", ".1.", 1);
    let undone = format!("{nonce}:zzz");
    for wrong in [easier.as_str(), &undone, &nonce, "", ":", "w1.1.1.1.00:1", &"w".repeat(1_000)] {
        let request = LoginRequest { proof: Some(Proof::Work(wrong)), ..from(1, BOB) };
        assert!(matches!(refused(&place.guard, &request).await, Refusal::Challenge { .. }), "{wrong}");
    }
    place.clock.turn(Duration::from_secs(300));
    let request = LoginRequest { proof: Some(Proof::Work(&proof)), ..from(1, BOB) };
    assert!(matches!(refused(&place.guard, &request).await, Refusal::Challenge { .. }));
}

#[tokio::test]
async fn a_captcha_serves_once_and_only_if_its_provider_says_so() {
    let place = place(Profile::Strong);
    use_up_free_guesses(&place.guard, BOB).await;
    let robot = person(from(1, BOB), "robot");
    assert!(matches!(refused(&place.guard, &robot).await, Refusal::Challenge { captcha: true, .. }));
    let request = person(from(1, BOB), "person 1");
    open(&place.guard, &request).await.report(Settlement::WRONG).await.unwrap();
    assert!(matches!(refused(&place.guard, &request).await, Refusal::Challenge { .. }));
}

/// Challenges gate the budget and never enlarge it.
#[tokio::test]
async fn no_number_of_proofs_opens_more_than_the_budget() {
    let place = place(Profile::Strong);
    let mut verified = 0;
    for number in 0..500 {
        let token = format!("person {number}");
        let begun = place.guard.begin(&person(from(number, BOB), &token)).await.unwrap();
        if let sluicegate::login::Begun::Open(attempt) = begun {
            attempt.report(Settlement::WRONG).await.unwrap();
            verified += 1;
        }
        place.clock.turn(Duration::from_secs(1));
    }
    assert_eq!(verified, 10);
}

#[tokio::test]
async fn who_comes_from_nowhere_is_challenged_at_once() {
    let place = place(Profile::Strong);
    let request = LoginRequest { address: None, ..from(1, BOB) };
    assert!(matches!(refused(&place.guard, &request).await, Refusal::Challenge { .. }));
}
