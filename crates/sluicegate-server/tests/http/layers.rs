//! Several layers on one request, over HTTP and both stores.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use sluicegate::{
    SureStore,
    embedded::EmbeddedStore,
    guard::{GuardConfig, Guarded},
};
use sluicegate_server::http::DoorConfig;
use sluicegate_tests::RedisServer;

use crate::support::Server;

/// What the requests that one layer denies cost the others is the classic question.
const LAYERS: &str = "
version: 1
limits:
  - { name: edge, algorithm: fixed_window, limit: 10000, per: 1m, key: [] }
  - { name: application, algorithm: sliding_counter, limit: 100, per: 1m, key: [user] }
  - { name: billing, algorithm: quota, limit: 10000, period: { every: month }, key: [user] }
";

fn one_user_sends_150_in_a_minute(store: impl SureStore + Clone + 'static) {
    let server = Server::start_over(store, &[LAYERS], DoorConfig::default(), Duration::ZERO);
    let mut client = server.connect();
    let body = r#"{"attributes": {"user": "alice"}}"#;
    for request in 1..=150 {
        let reply = client.post("/v1/take", body);
        assert_eq!(reply.status, if request <= 100 { 200 } else { 429 }, "request {request}");
        let answer = reply.json();
        assert_eq!((&answer["binding"], &answer["decided_by"]), (&json!("application"), &json!("store")));
        assert_eq!(reply.header("x-ratelimit-limit"), Some("100"), "request {request}");
    }
    let rest = |user: &str| {
        let body = json!({"attributes": {"user": user}}).to_string();
        let limits = server.post("/v1/peek", body).json()["limits"].clone();
        [0, 1, 2].map(|at| limits[at]["remaining"].clone())
    };
    assert_eq!(rest("alice"), [9_900, 0, 9_900], "the denied 50 cost the edge and the bill nothing");
    assert_eq!(rest("bob"), [9_900, 100, 10_000]);
}

#[test]
fn the_layer_that_denies_costs_the_others_nothing_on_the_embedded_store() {
    one_user_sends_150_in_a_minute(Arc::new(EmbeddedStore::default()));
}

#[test]
fn the_layer_that_denies_costs_the_others_nothing_on_redis() {
    let redis = RedisServer::start();
    // Tests share their machine, and a decision without the store is not what is counted.
    let config = GuardConfig { deadline: Duration::from_secs(10), ..GuardConfig::default() };
    one_user_sends_150_in_a_minute(Guarded::new(redis.store(), Arc::default(), config));
}
