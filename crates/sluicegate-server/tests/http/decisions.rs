//! Bodies and statuses of decisions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{NOW_S, Server};

const PER_USER: &str = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user] }
";

fn limit(changes: Value) -> Value {
    let mut limit = json!({
        "name": "per-user", "algorithm": "fixed_window", "unit": "requests", "cost": 1, "allowed": true,
        "decided_by": "store", "limit": 3, "remaining": 2, "window_ms": 60_000, "reset_after_ms": 10_000,
        "retry_after_ms": null
    });
    merge(&mut limit, changes);
    limit
}

fn decision(changes: Value) -> Value {
    let mut decision = json!({
        "allowed": true, "binding": "per-user", "retry_after_ms": null, "delay_ms": 0, "degraded": false,
        "decided_by": "store", "limits": [limit(json!({}))]
    });
    merge(&mut decision, changes);
    decision
}

fn merge(into: &mut Value, changes: Value) {
    for (name, value) in changes.as_object().unwrap() {
        into[name] = value.clone();
    }
}

/// `NOW_S` is 50 s into a window of a minute.
const UNTIL_RESET: Duration = Duration::from_secs(10);

#[test]
fn an_allowed_take_answers_200_and_the_numbers_of_every_limit() {
    assert_eq!(60 - NOW_S % 60, UNTIL_RESET.as_secs());
    let reply = Server::start(&[PER_USER]).post("/v1/take", r#"{"attributes": {"user": "alice"}}"#);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json(), decision(json!({})));
}

#[test]
fn a_denied_take_answers_429_with_a_body_that_is_also_a_problem() {
    let server = Server::start(&[PER_USER]);
    server.post("/v1/take", r#"{"attributes": {"user": "alice"}, "cost": 3}"#);
    let reply = server.post("/v1/take", r#"{"attributes": {"user": "alice"}}"#);
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    let expected = decision(json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "limit reached",
        "status": 429, "detail": "limit `per-user` has no room for 1 requests; retry in 10000 ms",
        "violated-policies": ["per-user"], "allowed": false, "retry_after_ms": 10_000,
        "limits": [limit(json!({"allowed": false, "remaining": 0, "retry_after_ms": 10_000}))]
    }));
    assert_eq!(reply.json(), expected);
}

#[test]
fn a_take_that_can_never_pass_answers_403_and_never() {
    let reply =
        Server::start(&[PER_USER]).post("/v1/take", r#"{"attributes": {"user": "alice"}, "cost": 4}"#);
    assert_eq!(reply.status, 403);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.header("retry-after"), None);
    let expected = decision(json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "request can never pass", "status": 403,
        "detail": "limit `per-user` can never admit 4 requests at once",
        "violated-policies": ["per-user"], "allowed": false, "retry_after_ms": "never",
        "limits": [limit(json!({"cost": 4, "allowed": false, "remaining": 3, "reset_after_ms": 0,
                                "retry_after_ms": "never"}))]
    }));
    assert_eq!(reply.json(), expected);
}

#[test]
fn an_amount_of_zero_answers_403() {
    let policy = "
version: 1
limits:
  - { name: closed, algorithm: fixed_window, limit: 0, per: 1m, key: [] }
";
    let reply = Server::start(&[policy]).post("/v1/take", r#"{"attributes": {}}"#);
    assert_eq!((reply.status, &reply.json()["retry_after_ms"]), (403, &json!("never")));
}

#[test]
fn a_cost_of_zero_passes_even_where_nothing_is_left() {
    let server = Server::start(&[PER_USER]);
    server.post("/v1/take", r#"{"attributes": {"user": "alice"}, "cost": 3}"#);
    let reply = server.post("/v1/take", r#"{"attributes": {"user": "alice"}, "cost": 0}"#);
    assert_eq!((reply.status, &reply.json()["limits"][0]["remaining"]), (200, &json!(0)));
}

#[test]
fn an_unlimited_limit_is_reported_in_words_and_binds_nothing() {
    let policy = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: unlimited, per: 1m, key: [user] }
";
    let reply = Server::start(&[policy]).post("/v1/take", r#"{"attributes": {"user": "alice"}}"#);
    let unlimited = limit(json!({"limit": "unlimited", "remaining": null, "reset_after_ms": 0}));
    assert_eq!(reply.json(), decision(json!({"binding": null, "limits": [unlimited]})));
    assert!(reply.headers.iter().all(|(name, _)| !name.contains("ratelimit")), "{reply:?}");
}

#[test]
fn a_request_that_no_limit_matches_passes_with_an_empty_list() {
    let policy = "
version: 1
limits:
  - { name: chat, algorithm: fixed_window, limit: 1, per: 1m, key: [], match: { endpoint: /v1/chat } }
";
    let reply = Server::start(&[policy]).post("/v1/take", r#"{"attributes": {"endpoint": "/v1/else"}}"#);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json(), decision(json!({"binding": null, "limits": []})));
    assert!(reply.headers.iter().all(|(name, _)| !name.contains("ratelimit")), "{reply:?}");
}

#[test]
fn a_leaky_bucket_answers_a_delay_and_then_denies() {
    let policy = "
version: 1
limits:
  - { name: printer, algorithm: leaky_bucket, limit: 1, per: 1s, key: [], max_delay: 2s }
";
    let server = Server::start(&[policy]);
    let replies: Vec<_> = (0..4).map(|_| server.post("/v1/take", r#"{"attributes": {}}"#)).collect();
    let told: Vec<_> = replies.iter().map(|reply| (reply.status, reply.json()["delay_ms"].clone())).collect();
    assert_eq!(told, [(200, json!(0)), (200, json!(1_000)), (200, json!(2_000)), (429, json!(0))]);
}

#[test]
fn durations_are_whole_milliseconds_rounded_up() {
    let policy = "
version: 1
limits:
  - { name: thirds, algorithm: token_bucket, limit: 3, per: 1s, burst: 1, key: [] }
";
    let server = Server::start(&[policy]);
    server.post("/v1/take", r#"{"attributes": {}}"#);
    let body = server.post("/v1/take", r#"{"attributes": {}}"#).json();
    assert_eq!(body["retry_after_ms"], json!(334));
    server.clock.turn(Duration::from_millis(333));
    assert_eq!(server.post("/v1/take", r#"{"attributes": {}}"#).json()["retry_after_ms"], json!(1));
    server.clock.turn(Duration::from_millis(1));
    assert_eq!(server.post("/v1/take", r#"{"attributes": {}}"#).status, 200);
}

#[test]
fn a_denial_of_one_limit_charges_no_other() {
    let policy = "
version: 1
limits:
  - { name: wide, algorithm: fixed_window, limit: 10, per: 1m, key: [user] }
  - { name: narrow, algorithm: fixed_window, limit: 1, per: 1m, key: [user, endpoint] }
";
    let server = Server::start(&[policy]);
    let ask = r#"{"attributes": {"user": "alice", "endpoint": "/v1/chat"}}"#;
    assert_eq!(server.post("/v1/take", ask).status, 200);
    let denied = server.post("/v1/take", ask).json();
    assert_eq!(denied["binding"], json!("narrow"));
    assert_eq!(denied["violated-policies"], json!(["narrow"]));
    assert_eq!(denied["limits"][0]["remaining"], json!(9));
}

#[test]
fn a_peek_answers_200_whatever_it_finds_and_counts_nothing() {
    let server = Server::start(&[PER_USER]);
    for _ in 0..5 {
        let reply = server.post("/v1/peek", r#"{"attributes": {"user": "alice"}}"#);
        assert_eq!((reply.status, &reply.json()["limits"][0]["remaining"]), (200, &json!(3)));
    }
    server.post("/v1/take", r#"{"attributes": {"user": "alice"}, "cost": 3}"#);
    let reply = server.post("/v1/peek", r#"{"attributes": {"user": "alice"}}"#);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert_eq!(reply.header("retry-after"), None);
    let denied = limit(json!({"allowed": false, "remaining": 0, "retry_after_ms": 10_000}));
    assert_eq!(
        reply.json(),
        decision(json!({"allowed": false, "retry_after_ms": 10_000, "limits": [denied]}))
    );
}

#[test]
fn a_dry_run_answers_as_a_take_and_counts_nothing() {
    let server = Server::start(&[PER_USER]);
    let dry = r#"{"attributes": {"user": "alice"}, "cost": 3, "dry_run": true}"#;
    let wet = r#"{"attributes": {"user": "alice"}, "cost": 3, "dry_run": false}"#;
    let statuses = [dry, dry, wet, dry, wet].map(|ask| server.post("/v1/take", ask).status);
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
}

#[test]
fn costs_by_unit_go_to_the_limits_of_that_unit() {
    let policy = "
version: 1
limits:
  - { name: calls, algorithm: fixed_window, limit: 10, per: 1m, key: [user] }
  - { name: tokens, algorithm: fixed_window, limit: 1000, per: 1m, key: [user], unit: tokens }
";
    let server = Server::start(&[policy]);
    let body = server.post("/v1/take", r#"{"attributes": {"user": "a"}, "cost": {"tokens": 400}}"#).json();
    let of = |body: &Value, index: usize| {
        (body["limits"][index]["cost"].clone(), body["limits"][index]["remaining"].clone())
    };
    assert_eq!((of(&body, 0), of(&body, 1)), ((json!(1), json!(9)), (json!(400), json!(600))));
    let body = server.post("/v1/take", r#"{"attributes": {"user": "a"}, "cost": 5}"#).json();
    assert_eq!((of(&body, 0), of(&body, 1)), ((json!(5), json!(4)), (json!(0), json!(600))));
}

#[test]
fn each_domain_has_its_own_policy_and_its_own_counts() {
    let other = "
version: 1
domain: other
limits:
  - { name: per-user, algorithm: fixed_window, limit: 1, per: 1m, key: [user] }
";
    let server = Server::start(&[PER_USER, other]);
    let to = |domain: &str| {
        server.post("/v1/take", format!(r#"{{"domain": "{domain}", "attributes": {{"user": "a"}}}}"#))
    };
    assert_eq!(["other", "other", "default"].map(|domain| to(domain).status), [200, 429, 200]);
    let unknown = to("nowhere");
    assert_eq!((unknown.status, unknown.pointer().as_deref()), (400, Some("/domain")));
}

#[test]
fn a_batch_answers_each_request_as_a_take_would() {
    let server = Server::start(&[PER_USER]);
    let reply = server.post(
        "/v1/batch",
        r#"{"requests": [
            {"attributes": {"user": "alice"}, "cost": 3},
            {"attributes": {"user": "alice"}},
            {"attributes": {"user": "bob"}, "cost": 4},
            {"attributes": {"user": "bob"}, "cost": -1},
            {"attributes": {"user": "bob"}, "cost": 2, "dry_run": true},
            {"attributes": {"user": "bob"}}
        ]}"#,
    );
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let results = reply.json()["results"].as_array().unwrap().clone();
    let told: Vec<_> = results.iter().map(|result| (&result["allowed"], &result["status"])).collect();
    let (yes, no, none) = (json!(true), json!(false), Value::Null);
    assert_eq!(
        told,
        [
            (&yes, &none),
            (&no, &json!(429)),
            (&no, &json!(403)),
            (&none, &json!(400)),
            (&yes, &none),
            (&yes, &none)
        ]
    );
    assert_eq!(results[3]["pointer"], json!("/cost"));
    let alone = server.post("/v1/take", r#"{"attributes": {"user": "carol"}}"#).json();
    let batched = server.post("/v1/batch", r#"{"requests": [{"attributes": {"user": "dave"}}]}"#).json();
    assert_eq!(batched["results"][0], alone);
}

#[test]
fn a_batch_takes_a_thousand_requests_and_no_more() {
    let server = Server::start(&["
version: 1
limits:
  - { name: all, algorithm: fixed_window, limit: 990, per: 1m, key: [] }
"]);
    let batch = |count: usize| {
        let attributes =
            r#"{"attributes": {"user": "someone with a name of fair length", "endpoint": "/v1/chat"}}"#;
        format!(r#"{{"requests": [{}]}}"#, vec![attributes; count].join(","))
    };
    let results = server.post("/v1/batch", batch(1_000)).json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 1_000);
    assert_eq!(results.iter().filter(|result| result["allowed"] == json!(true)).count(), 990);
    let refused = server.post("/v1/batch", batch(1_001));
    assert_eq!((refused.status, refused.pointer().as_deref()), (400, Some("/requests")));
    assert_eq!(server.post("/v1/batch", r#"{"requests": []}"#).json(), json!({"results": []}));
}

/// A client that times out and tries again pays twice, unless it says that it is the same request.
#[test]
fn a_request_with_an_id_is_counted_once_and_another_under_it_is_409() {
    let server = Server::start(&[POLICY_OF_IDS]);
    let take = r#"{"attributes": {"user": "a"}, "cost": 3, "id": "order-17"}"#;
    let first = server.post("/v1/take", take);
    assert_eq!((first.status, &first.json()["limits"][0]["remaining"]), (200, &json!(7)));
    for _try in 0..3 {
        let again = server.post("/v1/take", take);
        assert_eq!((again.status, again.json()), (200, first.json()));
        let of_batch = server.post("/v1/batch", format!(r#"{{"requests": [{take}]}}"#));
        assert_eq!(of_batch.json()["results"][0], first.json());
    }
    let other = server.post("/v1/take", r#"{"attributes": {"user": "a"}, "cost": 4, "id": "order-17"}"#);
    assert_eq!((other.status, other.pointer().as_deref()), (409, Some("/id")));
    // Another user's `order-17` is another request, and what counts nothing needs no id.
    let users = server.post("/v1/take", r#"{"attributes": {"user": "b"}, "cost": 4, "id": "order-17"}"#);
    assert_eq!((users.status, &users.json()["limits"][0]["remaining"]), (200, &json!(6)));
    let dry = r#"{"attributes": {"user": "a"}, "cost": 4, "id": "order-17", "dry_run": true}"#;
    assert_eq!(server.post("/v1/take", dry).json()["limits"][0]["remaining"], json!(7));
}

const POLICY_OF_IDS: &str = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 10, per: 1d, align: first_request, key: [user] }
";
