//! A store that fails: decisions all the same, and they say so.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use sluicegate::{
    guard::{GuardConfig, Guarded},
    testing::Ill,
};
use sluicegate_server::http::DoorConfig;

use crate::support::Server;

/// What is decided without the store, by an instance that is alone.
pub(crate) fn without_store() -> Server {
    let policy = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user] }
  - { name: free, algorithm: fixed_window, limit: unlimited, per: 1m, key: [user] }
";
    let lax = "
version: 1
domain: lax
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user], on_store_failure: allow }
";
    let strict = "
version: 1
domain: strict
limits:
  - { name: local, algorithm: fixed_window, limit: 3, per: 1m, key: [user] }
  - { name: strict, algorithm: fixed_window, limit: 3, per: 1m, key: [user], match: { way: in }, on_store_failure: deny }
";
    let store = Guarded::new(Ill::Gone, Arc::default(), GuardConfig::default());
    Server::start_over(store, &[policy, lax, strict], DoorConfig::default(), Duration::ZERO)
}

#[test]
fn a_limit_goes_on_counting_in_this_process_and_the_answer_says_so() {
    let server = without_store();
    for path in ["/v1/take", "/v1/peek"] {
        let reply = server.post(path, r#"{"attributes": {"user": "alice"}}"#);
        assert_eq!(reply.status, 200);
        let expected = json!({
            "allowed": true, "binding": "per-user", "retry_after_ms": null, "delay_ms": 0, "degraded": true,
            "decided_by": "fallback",
            "limits": [
                {"name": "per-user", "algorithm": "fixed_window", "unit": "requests", "cost": 1, "allowed": true,
                 "decided_by": "fallback", "limit": 3, "remaining": 2, "window_ms": 60_000,
                 "reset_after_ms": 10_000, "retry_after_ms": null},
                {"name": "free", "algorithm": "fixed_window", "unit": "requests", "cost": 1, "allowed": true,
                 "decided_by": "store", "limit": "unlimited", "remaining": null, "window_ms": 60_000,
                 "reset_after_ms": 0, "retry_after_ms": null}
            ]
        });
        assert_eq!(reply.json(), expected);
        assert_eq!(reply.header("ratelimit-policy"), Some(r#""per-user";q=3;w=60"#));
        assert_eq!(reply.header("ratelimit"), Some(r#""per-user";r=2;t=10"#));
        assert_eq!(reply.header("x-ratelimit-limit"), Some("3"));
    }
    let statuses = [(); 3].map(|()| server.post("/v1/take", r#"{"attributes": {"user": "alice"}}"#).status);
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn what_is_allowed_without_being_counted_claims_nothing_about_what_is_left() {
    let server = without_store();
    for _ in 0..5 {
        let reply = server.post("/v1/take", r#"{"domain": "lax", "attributes": {"user": "alice"}}"#);
        assert_eq!(reply.status, 200);
        let limit = reply.json()["limits"][0].clone();
        let told = [&limit["decided_by"], &limit["limit"], &limit["remaining"], &limit["reset_after_ms"]];
        assert_eq!(told, [&json!("fallback"), &json!(3), &json!(null), &json!(null)]);
        // The real limit is known, what is left of it is not.
        assert_eq!(reply.header("ratelimit-policy"), Some(r#""per-user";q=3;w=60"#));
        for unknown in ["ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            assert_eq!(reply.header(unknown), None, "{unknown}");
        }
    }
}

#[test]
fn what_is_denied_without_the_store_counts_nothing_elsewhere() {
    let server = without_store();
    for _ in 0..5 {
        let reply =
            server.post("/v1/take", r#"{"domain": "strict", "attributes": {"user": "a", "way": "in"}}"#);
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
        assert_eq!(reply.json()["binding"], "strict");
    }
    let reply = server.post("/v1/peek", r#"{"domain": "strict", "attributes": {"user": "a"}}"#);
    assert_eq!(reply.json()["limits"][0]["remaining"], 3);
}

#[test]
fn what_can_never_pass_is_refused_without_the_store() {
    for domain in ["default", "lax", "strict"] {
        let body = json!({"domain": domain, "attributes": {"user": "alice", "way": "in"}, "cost": 4});
        let reply = without_store().post("/v1/take", body.to_string());
        assert_eq!((reply.status, reply.header("retry-after")), (403, None));
        let body = reply.json();
        assert_eq!((&body["retry_after_ms"], &body["degraded"]), (&json!("never"), &json!(true)));
    }
}

#[test]
fn mistakes_are_still_mistakes_and_the_door_stays_ready() {
    let server = without_store();
    assert_eq!(server.post("/v1/take", r#"{"attributes": {}, "cost": {"tokens": 1}}"#).status, 400);
    assert_eq!(server.connect().get("/readyz").status, 200);
}

#[test]
fn a_batch_without_a_store_decides_each_request() {
    let batch = r#"{"requests": [{"attributes": {}}, {"attributes": {}, "cost": 4}]}"#;
    let results = without_store().post("/v1/batch", batch).json()["results"].clone();
    assert_eq!((&results[0]["allowed"], &results[1]["status"]), (&json!(true), &json!(403)));
}
