//! What becomes of attempts.

use std::time::Duration;

use sluicegate::login::{
    Begun, Guarded, LoginRequest, Profile, Purpose, PurposeError, Refusal, Settled, Settlement, Verified, Who,
};

use crate::support::{
    BOB, Guard, from, log_in, open, person, place, place_with, refused, use_up_free_guesses,
};

#[tokio::test]
async fn an_attempt_that_is_dropped_counts_as_a_failure() {
    let place = place(Profile::Strong);
    for number in 0..3 {
        drop(open(&place.guard, &from(number, BOB)).await);
    }
    assert!(matches!(refused(&place.guard, &from(9, BOB)).await, Refusal::Challenge { .. }));
    assert_eq!(place.guard.unreported(), 3);
}

#[tokio::test]
async fn a_token_is_reported_once_by_any_instance_with_the_same_keys() {
    let place = place(Profile::Strong);
    let token = open(&place.guard, &from(1, BOB)).await.into_token();
    let other = place_with(Profile::Strong, crate::support::keys(), place.store.clone());
    let settled = other.guard.resume(&token).unwrap().report(Settlement::Right).await.unwrap();
    assert!(matches!(settled, Settled::Done { cookie: Some(_), .. }), "{settled:?}");
    let again = place.guard.resume(&token).unwrap().report(Settlement::Right).await.unwrap();
    assert_eq!(again, Settled::Already);
    assert_eq!(place.guard.unreported(), 0);
    let forged = token.replacen(".00", ".01", 1);
    for wrong in [forged.as_str(), "", "a1..", &token[1..], &format!("{token}.")] {
        assert!(wrong == token || place.guard.resume(wrong).is_none(), "{wrong}");
    }
}

#[tokio::test]
async fn a_success_that_comes_too_late_lets_nobody_in() {
    let place = place(Profile::Strong);
    let attempt = open(&place.guard, &from(1, BOB)).await;
    place.clock.turn(Duration::from_secs(120));
    assert_eq!(attempt.report(Settlement::Right).await.unwrap(), Settled::Expired);
}

#[tokio::test]
async fn the_guard_verifies_only_what_it_has_counted() {
    let place = place(Profile::Strong);
    let mut verified = 0;
    for number in 0..10 {
        let request = from(number, BOB);
        let answer = place.guard.guard(&request, async || {
            verified += 1;
            Verified::<()>::Not(Settlement::WRONG)
        });
        let refused = matches!(answer.await.unwrap(), Guarded::Refused(_));
        assert_eq!(refused, number >= 3, "{number}");
    }
    assert_eq!(verified, 3);
    let request = person(from(99, BOB), "person 1");
    let answer = place.guard.guard(&request, async || Verified::Right("session")).await.unwrap();
    assert!(matches!(answer, Guarded::In { value: "session", cookie: Some(_) }), "{answer:?}");
}

#[tokio::test]
async fn a_verifier_that_panics_has_used_its_guess_up() {
    let place = place(Profile::Strong);
    for number in 0..3 {
        let guard = place.guard.clone();
        let task = tokio::spawn(async move {
            let verify = async || -> Verified<'static, ()> { panic!("the database is gone") };
            guard.guard(&from(number, BOB), verify).await.map(|_| ())
        });
        assert!(task.await.is_err());
    }
    assert!(matches!(refused(&place.guard, &from(9, BOB)).await, Refusal::Challenge { .. }));
}

#[tokio::test]
async fn a_secret_that_is_repeated_is_counted_once_and_another_is_counted() {
    let place = place(Profile::Strong);
    let wrong = |secret: &'static str| Settlement::Wrong { secret: Some(secret.as_bytes()), popular: false };
    for _ in 0..30 {
        open(&place.guard, &from(1, BOB)).await.report(wrong("summer")).await.unwrap();
    }
    for secret in ["winter", "autumn"] {
        open(&place.guard, &from(1, BOB)).await.report(wrong(secret)).await.unwrap();
    }
    assert!(matches!(refused(&place.guard, &from(1, BOB)).await, Refusal::Challenge { .. }));
}

/// As for-keycloak/email-otp #85 and p2-inc #211 report: failures of a category that nobody listed were dropped.
#[test]
fn an_unknown_purpose_is_an_error_and_never_an_attempt_that_nobody_counts() {
    for name in Purpose::NAMES {
        assert!(Purpose::named(name, Some("code 1")).is_ok(), "{name}");
    }
    assert_eq!(Purpose::named("otp", None), Err(PurposeError::NeedsCode("otp")));
    let error = Purpose::named("sso", None).unwrap_err();
    assert!(
        error.to_string().starts_with("there is no purpose `sso`; the purposes are `login`, "),
        "{error}"
    );
}

#[tokio::test]
async fn purposes_have_budgets_of_their_own_and_a_password_has_one_for_both_its_uses() {
    let place = place(Profile::Strong);
    for number in 0..3 {
        let request = LoginRequest { purpose: Purpose::Reauth, ..from(number, BOB) };
        drop(open(&place.guard, &request).await);
    }
    assert!(matches!(refused(&place.guard, &from(9, BOB)).await, Refusal::Challenge { .. }));
    for purpose in [Purpose::ApiKey, Purpose::Otp { code: "1" }, Purpose::ResetRequest, Purpose::Register] {
        drop(open(&place.guard, &LoginRequest { purpose, ..from(9, BOB) }).await);
    }
}

#[tokio::test]
async fn asking_without_a_guess_raises_no_alarm() {
    let place = place(Profile::Strong);
    use_up_free_guesses(&place.guard, Who::Presented("eve")).await;
    let request = from(1, Who::Presented("eve"));
    for _ in 0..200 {
        assert!(matches!(refused(&place.guard, &request).await, Refusal::Challenge { .. }));
    }
    drop(open(&place.guard, &from(99, BOB)).await);
}

/// An alarm that counted the challenges it brings would last for ever.
#[tokio::test]
async fn an_alarm_ends_ten_minutes_after_the_last_failure_however_many_owners_log_in() {
    let place = place(Profile::Strong);
    raise_the_alarm(&place.guard).await;
    for number in 0..599 {
        let name = format!("owner-{number}");
        let request = from(1_000 + number, Who::Presented(&name));
        assert!(matches!(refused(&place.guard, &request).await, Refusal::Challenge { .. }), "{number}");
        let token = format!("person {number}");
        log_in(&place.guard, &person(request, &token)).await;
        place.clock.turn(Duration::from_secs(1));
    }
    place.clock.turn(Duration::from_secs(1));
    drop(open(&place.guard, &from(99, BOB)).await);
}

/// A flood over all accounts: strangers are challenged from their first guess until it is over.
#[tokio::test]
async fn an_attack_on_many_accounts_challenges_strangers_everywhere() {
    let place = place(Profile::Strong);
    raise_the_alarm(&place.guard).await;
    assert!(matches!(refused(&place.guard, &from(99, BOB)).await, Refusal::Challenge { .. }));
    place.clock.turn(Duration::from_secs(700));
    assert!(matches!(place.guard.begin(&from(99, BOB)).await.unwrap(), Begun::Open(_)));
}

/// One failure more in a minute than is never alarming.
async fn raise_the_alarm(guard: &Guard) {
    for number in 0..31 {
        let name = format!("victim-{number}");
        open(guard, &from(number, Who::Presented(&name))).await.report(Settlement::WRONG).await.unwrap();
    }
}
