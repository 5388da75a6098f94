//! Devices that proved themselves.

use std::time::Duration;

use sluicegate::{
    core::login::Lane,
    login::{COOKIE_LIFETIME_S, Keyring, LoginRequest, Profile, Refusal, Settled, Settlement, Who},
};

use crate::support::{BOB, Place, from, log_in, open, place, place_with, refused, use_up_free_guesses};

async fn lane_of(place: &Place, request: &LoginRequest<'_>) -> Lane {
    match open(&place.guard, request).await.report(Settlement::WRONG).await.unwrap() {
        Settled::Done { lane, .. } => lane,
        other => panic!("{other:?}"),
    }
}

async fn with_cookie() -> (Place, String) {
    let place = place(Profile::Strong);
    let cookie = log_in(&place.guard, &from(1, BOB)).await.unwrap();
    (place, cookie)
}

#[tokio::test]
async fn a_cookie_has_a_lane_from_anywhere_and_is_not_given_out_again() {
    let (place, cookie) = with_cookie().await;
    use_up_free_guesses(&place.guard, BOB).await;
    let elsewhere = LoginRequest { cookie: Some(&cookie), ..from(77, BOB) };
    assert_eq!(lane_of(&place, &elsewhere).await, Lane::Device);
    assert_eq!(log_in(&place.guard, &elsewhere).await, None);
}

#[tokio::test]
async fn a_cookie_of_another_account_or_a_changed_one_is_worth_nothing() {
    let (place, cookie) = with_cookie().await;
    let eve = Who::Presented("eve");
    assert_eq!(
        lane_of(&place, &LoginRequest { cookie: Some(&cookie), ..from(77, eve) }).await,
        Lane::Unknown
    );
    let last = if cookie.ends_with('0') { '1' } else { '0' };
    let changed = format!("{}{last}", &cookie[..cookie.len() - 1]);
    let device = cookie.split('.').nth(1).unwrap();
    for forged in [changed.as_str(), "", "d1", "d1....", &cookie.replace(device, "1"), &format!("{cookie}.0")]
    {
        let request = LoginRequest { cookie: Some(forged), ..from(78, eve) };
        assert!(
            matches!(lane_of(&place, &LoginRequest { who: BOB, ..request }).await, Lane::Unknown),
            "{forged}"
        );
        place.guard.unlock(&request).await.unwrap();
        place.guard.unlock(&LoginRequest { who: BOB, ..request }).await.unwrap();
    }
}

#[tokio::test]
async fn a_raised_epoch_and_a_year_end_a_cookie() {
    let (place, cookie) = with_cookie().await;
    let request = LoginRequest { cookie: Some(&cookie), ..from(77, BOB) };
    assert_eq!(lane_of(&place, &LoginRequest { epoch: 1, ..request }).await, Lane::Unknown);
    assert_eq!(lane_of(&place, &request).await, Lane::Device);
    place.clock.turn(Duration::from_secs(COOKIE_LIFETIME_S));
    assert_eq!(lane_of(&place, &request).await, Lane::Unknown);
}

#[tokio::test]
async fn a_new_secret_in_front_keeps_old_cookies_and_one_taken_away_ends_them() {
    let (place, cookie) = with_cookie().await;
    let request = LoginRequest { cookie: Some(&cookie), ..from(77, BOB) };
    let both = Keyring::new(&[1; 32], &[&[3; 32], &[2; 32]]).unwrap();
    let rotated = place_with(Profile::Strong, both, place.store.clone());
    assert_eq!(lane_of(&rotated, &request).await, Lane::Device);
    let new = Keyring::new(&[1; 32], &[&[3; 32]]).unwrap();
    let rotated = place_with(Profile::Strong, new, place.store.clone());
    assert_eq!(lane_of(&rotated, &request).await, Lane::Unknown);
}

/// A link in a mail is how an owner with a new device gets in during an attack.
#[tokio::test]
async fn a_granted_cookie_gets_an_owner_in_where_strangers_are_challenged() {
    let place = place(Profile::Strong);
    use_up_free_guesses(&place.guard, BOB).await;
    assert!(matches!(refused(&place.guard, &from(5, BOB)).await, Refusal::Challenge { .. }));
    let cookie = place.guard.grant(BOB, 0).unwrap();
    log_in(&place.guard, &LoginRequest { cookie: Some(&cookie), ..from(5, BOB) }).await;
}

#[test]
fn secrets_that_can_be_guessed_are_refused() {
    assert!(Keyring::new(&[1; 31], &[&[2; 32]]).is_err());
    assert!(Keyring::new(&[1; 32], &[&[2; 31]]).is_err());
    assert!(Keyring::new(&[1; 32], &[]).is_err());
    assert!(Keyring::new(&[1; 32], &[&[2_u8; 32]; 5].map(<[u8; 32]>::as_slice)).is_err());
    let shown = format!("{:?}", crate::support::keys());
    assert!(!shown.contains("2, 2"), "{shown}");
}
