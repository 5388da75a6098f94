//! Failures of other guards, each reported in public.

use std::time::Duration;

use sluicegate::login::{Begun, LoginRequest, Profile, Purpose, Refusal, Settlement, Who};

use crate::support::{BOB, Place, from, open, person, place, refused};

/// As django-axes' cache keys allow: dimensions were joined without names, and a user called `203.0.113.5` shared the key
/// of that address.
#[tokio::test]
async fn a_name_that_looks_like_an_address_shares_nothing_with_it() {
    let place = place(Profile::Strong);
    let address = "203.0.113.5".parse().unwrap();
    for number in 0..3 {
        drop(open(&place.guard, &from(number, Who::Presented("203.0.113.5"))).await);
    }
    let request = LoginRequest::new(Purpose::Login, BOB, Some(address));
    drop(open(&place.guard, &request).await);
}

#[tokio::test]
async fn a_presented_name_that_looks_like_an_id_shares_nothing_with_that_account() {
    let place = place(Profile::Strong);
    for number in 0..3 {
        drop(open(&place.guard, &from(number, Who::Presented("4711"))).await);
    }
    drop(open(&place.guard, &from(9, Who::Resolved("4711"))).await);
}

/// As Authelia's CVE-2025-24806 reports: a name and an e-mail address of one user were two counters.
#[tokio::test]
async fn all_names_of_one_account_share_its_budget() {
    let place = place(Profile::Strong);
    for number in 0..3 {
        drop(open(&place.guard, &from(number, Who::Resolved("user 17"))).await);
    }
    assert!(matches!(
        refused(&place.guard, &from(9, Who::Resolved("user 17"))).await,
        Refusal::Challenge { .. }
    ));
}

#[tokio::test]
async fn spellings_of_one_name_share_its_budget() {
    let place = place(Profile::Strong);
    for (number, name) in (0..).zip(["bob ", "BOB", "b ob"]) {
        drop(open(&place.guard, &from(number, Who::Presented(name))).await);
    }
    assert!(matches!(refused(&place.guard, &from(9, BOB)).await, Refusal::Challenge { .. }));
}

/// What a client sees of one name under attack; texts that differ each time are left out.
async fn seen(place: &Place, who: Who<'_>, addresses: u32) -> Vec<String> {
    let mut seen = Vec::new();
    for number in 0..60_u32 {
        let token = format!("person {number} {who:?}");
        let plain = from(number % addresses, who);
        for request in [plain, person(plain, &token)] {
            seen.push(match place.guard.begin(&request).await.unwrap() {
                Begun::Open(attempt) => {
                    attempt.report(Settlement::WRONG).await.unwrap();
                    "open".to_owned()
                }
                Begun::Refused(Refusal::Challenge { nonce, bits, captcha }) => {
                    format!("challenge {} {bits} {captcha}", nonce.len() > 60)
                }
                Begun::Refused(other) => format!("{other:?}"),
            });
        }
        place.clock.turn(Duration::from_secs(3));
    }
    seen
}

/// As `BridgeLink` #125, surveysolutions #3456 and others report: only names that existed were locked. Neither does the
/// account's answer tell, from many addresses, nor that of the one address that guessed.
#[tokio::test]
async fn a_name_that_exists_and_one_that_does_not_are_answered_alike() {
    let cases = [
        (Profile::Strong, 60, "Account"),
        (Profile::Strong, 1, "Address"),
        (Profile::Basic, 60, "Account"),
        (Profile::Basic, 1, "Address"),
    ];
    for (profile, addresses, full) in cases {
        let real = seen(&place(profile), Who::Resolved("user 17"), addresses).await;
        let fake = seen(&place(profile), Who::Presented("nobody"), addresses).await;
        assert_eq!(real, fake);
        let refusal = format!("Deny {{ scope: {full}");
        assert!(real.iter().any(|answer| answer.starts_with(&refusal)), "{real:?}");
    }
}

/// As Keycloak's CVE-2026-9798 reports: a grant that was given before the lock was redeemed in spite of it.
#[tokio::test]
async fn an_attempt_that_was_begun_before_a_lockout_is_settled_once_and_opens_no_second() {
    let place = place(Profile::Basic);
    let early = open(&place.guard, &from(1, BOB)).await.into_token();
    for number in 2..40 {
        let token = format!("person {number}");
        drop(place.guard.begin(&person(from(number, BOB), &token)).await.unwrap());
        place.clock.turn(Duration::from_secs(3));
    }
    assert!(matches!(
        refused(&place.guard, &from(99, BOB)).await,
        Refusal::Deny { .. } | Refusal::Busy { .. }
    ));
    place.clock.turn(Duration::from_secs(60));
    let settled = place.guard.resume(&early).unwrap().report(Settlement::Right).await.unwrap();
    assert_eq!(settled, sluicegate::login::Settled::Expired);
}

/// As Strapi's pull request 24818 reports: the limiter's key came from a field that the route did not need.
#[tokio::test]
async fn a_request_to_send_is_limited_by_its_account_whatever_else_it_says() {
    let place = place(Profile::Strong);
    let request = LoginRequest { purpose: Purpose::ResetRequest, ..from(1, BOB) };
    open(&place.guard, &request).await.report(Settlement::Right).await.unwrap();
    for number in 0..20 {
        let elsewhere = LoginRequest { purpose: Purpose::ResetRequest, ..from(100 + number, BOB) };
        assert!(matches!(
            refused(&place.guard, &elsewhere).await,
            Refusal::Deny { .. } | Refusal::Busy { .. }
        ));
    }
}
