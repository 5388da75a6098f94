//! What is decided, and what is counted.

use sluicegate_server::grpc::proto::envoy::{
    extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride,
    service::ratelimit::v3::rate_limit_response::rate_limit::Unit, r#type::v3::RateLimitUnit,
};
use std::time::Duration;

use crate::support::{Server, descriptor, passed, remaining, request};

const USERS_AND_PATHS: &str = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user] }
  - { name: per-path, algorithm: sliding_counter, limit: 100, per: 1h, key: [path], match: { path: \"*\" }, if_missing: skip }
";

/// A policy whose limits apply only to requests that have the attribute.
fn users_and_paths() -> Server {
    Server::start(&[&USERS_AND_PATHS.replace("key: [user] }", "key: [user], if_missing: skip }")])
}

#[tokio::test(flavor = "multi_thread")]
async fn each_descriptor_has_a_status_of_its_own_in_their_order() {
    let server = users_and_paths();
    let mut client = server.connect().await;
    let response = client
        .hit(&[&[("path", "/a")], &[("user", "alice")], &[("planet", "mars")], &[("user", "bob")]])
        .await;
    assert_eq!(passed(&response), [true; 4]);
    assert_eq!(remaining(&response), [99, 2, 0, 2]);
    let limits = response.statuses.iter().map(|status| status.current_limit.as_ref());
    let limits: Vec<_> = limits
        .map(|limit| limit.map(|limit| (&*limit.name, limit.requests_per_unit, limit.unit())))
        .collect();
    let (per_user, per_path) = (("per-user", 3, Unit::Minute), ("per-path", 100, Unit::Hour));
    assert_eq!(limits, [Some(per_path), Some(per_user), None, Some(per_user)]);
    let resets: Vec<_> = response
        .statuses
        .iter()
        .map(|status| status.duration_until_reset.map(|reset| reset.seconds))
        .collect();
    // A sliding hour still counts what was used in this hour until the end of the next one.
    assert_eq!(resets, [Some(2 * 3_600 - 820), Some(20), None, Some(20)]);
}

/// The complaint of years against Envoy's own service: a request that one descriptor refuses has taken from all others.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_takes_nothing_from_its_other_descriptors() {
    let server = users_and_paths();
    let mut client = server.connect().await;
    for expected in [true, true, true, false, false, false] {
        let response = client.hit(&[&[("user", "alice")], &[("path", "/a")]]).await;
        assert_eq!(passed(&response), [expected, true]);
    }
    assert_eq!(remaining(&client.hit(&[&[("path", "/a")]]).await), [96]);
    // The same the other way round, where the one that refuses comes last.
    let response = client.hit(&[&[("user", "bob")], &[("user", "alice")]]).await;
    assert_eq!((passed(&response), remaining(&response)), (vec![true, false], vec![3, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_descriptors_of_one_key_need_room_for_both() {
    let server = users_and_paths();
    let mut client = server.connect().await;
    let twice: &[&[(&str, &str)]] = &[&[("user", "alice")], &[("user", "alice")]];
    assert_eq!(remaining(&client.hit(twice).await), [1, 1]);
    assert_eq!(passed(&client.hit(twice).await), [false, false]);
    assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_limits_that_match_a_descriptor_apply_and_the_one_that_binds_is_told() {
    let server = users_and_paths();
    let mut client = server.connect().await;
    let both: &[&[(&str, &str)]] = &[&[("user", "alice"), ("path", "/a")]];
    for left in [2, 1, 0] {
        assert_eq!(remaining(&client.hit(both).await), [left]);
    }
    let response = client.hit(both).await;
    assert_eq!(passed(&response), [false]);
    assert_eq!(response.statuses[0].current_limit.as_ref().unwrap().name, "per-user");
    // Refused as a whole: the other limit of the same descriptor was not charged either.
    assert_eq!(remaining(&client.hit(&[&[("path", "/a")]]).await), [96]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_begins_anew_when_its_reset_has_passed() {
    let server = users_and_paths();
    let mut client = server.connect().await;
    for expected in [true, true, true, false] {
        assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [expected]);
    }
    server.clock.turn(Duration::from_millis(19_500));
    let response = client.hit(&[&[("user", "alice")]]).await;
    assert_eq!(passed(&response), [false]);
    // Envoy tells whole seconds and drops the rest: 0.5 s must not become 0.
    assert_eq!(response.statuses[0].duration_until_reset.unwrap().seconds, 1);
    server.clock.turn(Duration::from_millis(500));
    assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_comes_with_its_descriptor_takes_the_place_of_the_policys() {
    let server = users_and_paths();
    let mut client = server.connect().await;
    let own = |user: &str, requests_per_unit, unit: RateLimitUnit| {
        let limit = RateLimitOverride { requests_per_unit, unit: unit.into() };
        let mut descriptor = descriptor(&[("user", user)]);
        descriptor.limit = Some(limit);
        request(vec![descriptor])
    };
    for left in (0..5).rev() {
        let response = client.ask(own("alice", 5, RateLimitUnit::Hour)).await.unwrap();
        assert_eq!((passed(&response), remaining(&response)), (vec![true], vec![left]));
        let limit = response.statuses[0].current_limit.clone().unwrap();
        assert_eq!((&*limit.name, limit.requests_per_unit, limit.unit()), ("override", 5, Unit::Hour));
    }
    assert_eq!(passed(&client.ask(own("alice", 5, RateLimitUnit::Hour)).await.unwrap()), [false]);
    // Another amount of the same window goes on counting; another user and the policy's own limit are apart.
    assert_eq!(remaining(&client.ask(own("alice", 7, RateLimitUnit::Hour)).await.unwrap()), [1]);
    assert_eq!(remaining(&client.ask(own("bob", 5, RateLimitUnit::Hour)).await.unwrap()), [4]);
    assert_eq!(remaining(&client.hit(&[&[("user", "alice")]]).await), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlimited_limit_leaves_the_most_that_the_field_can_say() {
    let unlimited = "version: 1\nlimits:\n  - { name: free, algorithm: fixed_window, limit: unlimited, per: 1m, key: [] }\n";
    let server = Server::start(&[unlimited]);
    let response = server.connect().await.hit(&[&[("user", "alice")]]).await;
    assert_eq!((passed(&response), remaining(&response)), (vec![true], vec![u32::MAX]));
    assert_eq!(response.statuses[0].current_limit, None);
}
