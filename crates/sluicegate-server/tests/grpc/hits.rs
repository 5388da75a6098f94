//! How many hits a request adds, and which of them count.

use sluicegate_server::grpc::proto::envoy::service::ratelimit::v3::RateLimitRequest;

use crate::support::{Server, descriptor, hits, passed, remaining, request};

const TEN: &str = "
version: 1
limits:
  - { name: ten, algorithm: fixed_window, limit: 10, per: 1h, key: [user] }
";

const ALICE: &[(&str, &str)] = &[("user", "alice")];
const BOB: &[(&str, &str)] = &[("user", "bob")];

#[tokio::test(flavor = "multi_thread")]
async fn a_request_adds_its_hits_to_each_descriptor_that_states_none_and_0_means_1() {
    let server = Server::start(&[TEN]);
    let mut client = server.connect().await;
    for (hits_addend, left) in [(0, [9, 7]), (1, [8, 4]), (4, [4, 1])] {
        let own = hits(BOB, 3);
        let request = RateLimitRequest { hits_addend, ..request(vec![descriptor(ALICE), own]) };
        assert_eq!(remaining(&client.ask(request).await.unwrap()), left, "{hits_addend}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_that_do_not_all_fit_are_refused_and_leave_the_rest_for_smaller_ones() {
    let server = Server::start(&[TEN]);
    let mut client = server.connect().await;
    for (cost, passes, left) in [(8, true, 2), (5, false, 2), (2, true, 0), (u64::from(u32::MAX), false, 0)] {
        let response = client.ask(request(vec![hits(ALICE, cost)])).await.unwrap();
        assert_eq!((passed(&response), remaining(&response)), (vec![passes], vec![left]), "{cost}");
    }
}

/// A gateway checks when a request comes and charges when its answer has gone: a check that always passes would let
/// everything through until the charge is refused.
#[tokio::test(flavor = "multi_thread")]
async fn no_hits_check_whether_one_more_would_pass_and_count_nothing() {
    let server = Server::start(&[TEN]);
    let mut client = server.connect().await;
    for (cost, passes, left) in [(0, true, 10), (0, true, 10), (9, true, 1), (0, true, 1), (1, true, 0)] {
        let response = client.ask(request(vec![hits(ALICE, cost)])).await.unwrap();
        assert_eq!((passed(&response), remaining(&response)), (vec![passes], vec![left]));
    }
    assert_eq!(passed(&client.ask(request(vec![hits(ALICE, 0)])).await.unwrap()), [false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_fails_keeps_the_other_descriptors_from_being_counted() {
    let server = Server::start(&[TEN]);
    let mut client = server.connect().await;
    let both = || request(vec![hits(BOB, 2), hits(ALICE, 0)]);
    let response = client.ask(both()).await.unwrap();
    assert_eq!((passed(&response), remaining(&response)), (vec![true, true], vec![8, 10]));
    client.ask(request(vec![hits(ALICE, 10)])).await.unwrap();
    let response = client.ask(both()).await.unwrap();
    assert_eq!((passed(&response), remaining(&response)), (vec![true, false], vec![8, 0]));
    // And one that is refused leaves the check as it was.
    let response = client.ask(request(vec![hits(BOB, 9), hits(&[("user", "carol")], 0)])).await.unwrap();
    assert_eq!((passed(&response), remaining(&response)), (vec![false, true], vec![8, 10]));
}
