//! A store that fails: decisions all the same, and they say so.

use std::time::Duration;

use serde_json::json;
use sluicegate::{
    Counted, Store, StoreError,
    core::{Ask, Decision, LimitId, Micros, Subject},
};
use sluicegate_server::http::DoorConfig;

use crate::support::Server;

/// A store that is out of reach.
#[derive(Clone, Debug)]
struct Gone;

fn gone<T>() -> Result<T, StoreError> {
    Err(StoreError::new("the store is gone", Counted::Nothing))
}

impl Store for Gone {
    async fn take(&self, _asks: &[Ask<'_>], _now: Micros) -> Result<Decision, StoreError> {
        gone()
    }

    async fn peek(&self, _asks: &[Ask<'_>], _now: Micros) -> Result<Decision, StoreError> {
        gone()
    }

    async fn forget(&self, _id: LimitId, _subject: &Subject) -> Result<bool, StoreError> {
        gone()
    }
}

pub(crate) fn without_store() -> Server {
    let policy = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user] }
  - { name: free, algorithm: fixed_window, limit: unlimited, per: 1m, key: [user] }
";
    Server::start_over(Gone, &[policy], DoorConfig::default(), Duration::ZERO)
}

#[test]
fn what_could_pass_passes_and_claims_nothing_about_what_is_left() {
    let server = without_store();
    for path in ["/v1/take", "/v1/peek"] {
        let reply = server.post(path, r#"{"attributes": {"user": "alice"}}"#);
        assert_eq!(reply.status, 200);
        let expected = json!({
            "allowed": true, "binding": null, "retry_after_ms": null, "delay_ms": 0, "degraded": true,
            "decided_by": "fallback",
            "limits": [
                {"name": "per-user", "algorithm": "fixed_window", "unit": "requests", "cost": 1, "allowed": true,
                 "decided_by": "fallback", "limit": 3, "remaining": null, "window_ms": 60_000,
                 "reset_after_ms": null, "retry_after_ms": null},
                {"name": "free", "algorithm": "fixed_window", "unit": "requests", "cost": 1, "allowed": true,
                 "decided_by": "fallback", "limit": "unlimited", "remaining": null, "window_ms": 60_000,
                 "reset_after_ms": 0, "retry_after_ms": null}
            ]
        });
        assert_eq!(reply.json(), expected);
        // The real limit is known, what is left of it is not.
        assert_eq!(reply.header("ratelimit-policy"), Some(r#""per-user";q=3;w=60"#));
        for unknown in ["ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            assert_eq!(reply.header(unknown), None, "{unknown}");
        }
    }
}

#[test]
fn what_can_never_pass_is_refused_without_the_store() {
    let reply = without_store().post("/v1/take", r#"{"attributes": {"user": "alice"}, "cost": 4}"#);
    assert_eq!((reply.status, reply.header("retry-after")), (403, None));
    let body = reply.json();
    assert_eq!((&body["retry_after_ms"], &body["degraded"]), (&json!("never"), &json!(true)));
}

#[test]
fn mistakes_are_still_mistakes_and_the_door_stays_ready() {
    let server = without_store();
    assert_eq!(server.post("/v1/take", r#"{"attributes": {}, "cost": {"tokens": 1}}"#).status, 400);
    assert_eq!(server.connect().get("/readyz").status, 200);
}

#[test]
fn a_batch_without_a_store_passes_each_request() {
    let batch = r#"{"requests": [{"attributes": {}}, {"attributes": {}, "cost": 4}]}"#;
    let results = without_store().post("/v1/batch", batch).json()["results"].clone();
    assert_eq!((&results[0]["allowed"], &results[1]["status"]), (&json!(true), &json!(403)));
}
