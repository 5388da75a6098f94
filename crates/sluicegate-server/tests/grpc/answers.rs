//! What an answer says beside its statuses: headers, a body, metadata.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use sluicegate::{
    guard::{GuardConfig, Guarded},
    testing::Ill,
};
use sluicegate_server::grpc::proto::envoy::service::ratelimit::v3::RateLimitResponse;

use crate::support::{Server, passed};

const TWO: &str = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 1, per: 1m, key: [user] }
  - { name: per-path, algorithm: token_bucket, limit: 10, per: 1s, burst: 50, key: [path] }
";

fn header<'r>(response: &'r RateLimitResponse, name: &str) -> Option<&'r str> {
    let header = response.response_headers_to_add.iter().find(|header| header.key == name);
    header.map(|header| header.value.as_str())
}

fn told(response: &RateLimitResponse, name: &str) -> String {
    let metadata = response.dynamic_metadata.as_ref().unwrap();
    metadata.fields.get(name).map_or_else(String::new, |value| format!("{value:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_those_of_the_http_door_and_a_refusal_has_its_body() {
    let server = Server::start(&[TWO]);
    let mut client = server.connect().await;
    let both: &[&[(&str, &str)]] = &[&[("user", "alice"), ("path", "/a")]];
    let response = client.hit(both).await;
    assert_eq!(header(&response, "ratelimit-policy"), Some(r#""per-user";q=1;w=60, "per-path";q=10;w=1"#));
    assert_eq!(header(&response, "ratelimit"), Some(r#""per-user";r=0;t=20, "per-path";r=49;t=1"#));
    assert_eq!((header(&response, "retry-after"), response.raw_body.len()), (None, 0));

    let response = client.hit(both).await;
    assert_eq!(header(&response, "retry-after"), Some("20"));
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    let body: Value = serde_json::from_slice(&response.raw_body).unwrap();
    assert_eq!((&body["status"], &body["allowed"]), (&429.into(), &false.into()));
    assert_eq!((&body["binding"], &body["retry_after_ms"]), (&"per-user".into(), &20_000.into()));
    assert!(!response.response_headers_to_add.iter().any(|header| header.key.starts_with("x-")));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_names_who_decided_and_the_limits_that_applied() {
    let server = Server::start(&[TWO]);
    let response = server.connect().await.hit(&[&[("user", "alice")], &[("user", "bob")]]).await;
    assert!(told(&response, "decided_by").contains("\"store\""));
    assert!(told(&response, "binding").contains("\"per-user\""));
    assert_eq!(told(&response, "limits").matches("\"per-user\"").count(), 2);
    assert_eq!(told(&response, "delay_ms"), "");
}

/// A service that answers with an error makes the proxy choose; a decision is one even while the store is away.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_store_the_door_still_decides_and_says_who_did() {
    let server = Server::start_over(
        &Guarded::new(Ill::Gone, Arc::default(), GuardConfig::default()),
        &[TWO],
        Duration::ZERO,
    );
    let mut client = server.connect().await;
    for passes in [true, false, false] {
        let response = client.hit(&[&[("user", "alice"), ("path", "/a")]]).await;
        assert_eq!(passed(&response), [passes]);
        assert!(told(&response, "decided_by").contains("\"fallback\""));
    }
}

/// Envoy cannot make a request wait; whoever reads the metadata can.
#[tokio::test(flavor = "multi_thread")]
async fn the_delay_of_a_leaky_bucket_is_told_in_the_metadata() {
    let queue = "
version: 1
limits:
  - { name: even, algorithm: leaky_bucket, limit: 10, per: 1s, max_delay: 300ms, key: [] }
";
    let server = Server::start(&[queue]);
    let mut client = server.connect().await;
    for (passes, delay) in [(true, ""), (true, "100.0"), (true, "200.0"), (true, "300.0"), (false, "")] {
        let response = client.hit(&[&[("user", "alice")]]).await;
        assert_eq!(passed(&response), [passes]);
        assert!(told(&response, "delay_ms").contains(delay), "{response:?}");
    }
}
