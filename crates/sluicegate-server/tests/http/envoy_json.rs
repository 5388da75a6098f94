//! `/json`: Envoy's rate limit service for those who do not speak gRPC.

use serde_json::{Value, json};

use crate::support::{Reply, Server};

const POLICY: &str = "
version: 1
domain: edge
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user], match: { user: \"*\" } }
  - { name: per-path, algorithm: fixed_window, limit: 10, per: 1h, key: [path], match: { path: \"*\" } }
";

fn ask(server: &Server, body: &Value) -> Reply {
    server.post("/json", body.to_string())
}

fn entries(pairs: &[(&str, &str)]) -> Value {
    let entry = |(key, value): &(&str, &str)| json!({ "key": key, "value": value });
    json!({ "entries": pairs.iter().map(entry).collect::<Vec<_>>() })
}

#[test]
fn a_request_is_200_until_one_of_its_descriptors_is_over_its_limit_and_then_429() {
    let server = Server::start(&[POLICY]);
    let body =
        json!({ "domain": "edge", "descriptors": [entries(&[("user", "a")]), entries(&[("path", "/")])] });
    for left in [2, 1, 0] {
        let reply = ask(&server, &body);
        assert_eq!(reply.status, 200);
        let per_user = json!({ "name": "per-user", "requestsPerUnit": 3, "unit": "MINUTE" });
        let per_path = json!({ "name": "per-path", "requestsPerUnit": 10, "unit": "HOUR" });
        let statuses = json!([
            { "code": "OK", "limitRemaining": left, "currentLimit": per_user, "durationUntilReset": "10s" },
            { "code": "OK", "limitRemaining": 7 + left, "currentLimit": per_path, "durationUntilReset": "2770s" },
        ]);
        let metadata =
            json!({ "decided_by": "store", "limits": ["per-user", "per-path"], "binding": "per-user" });
        let expected = json!({ "overallCode": "OK", "statuses": statuses, "dynamicMetadata": metadata });
        assert_eq!(reply.json(), expected);
    }
    let refused = ask(&server, &body);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("10")));
    assert_eq!(refused.header("content-type"), Some("application/json"));
    let codes: Vec<_> =
        refused.json()["statuses"].as_array().unwrap().iter().map(|s| s["code"].clone()).collect();
    assert_eq!(
        (&refused.json()["overallCode"], codes),
        (&json!("OVER_LIMIT"), vec![json!("OVER_LIMIT"), json!("OK")])
    );
    // All or none: the other descriptor was not charged by the refused request.
    let path = json!({ "domain": "edge", "descriptors": [entries(&[("path", "/")])] });
    assert_eq!(ask(&server, &path).json()["statuses"][0]["limitRemaining"], 6);
}

/// Protobuf's JSON has two names for each field, and numbers may stand in quotes.
#[test]
fn both_names_of_a_field_and_quoted_numbers_mean_the_same() {
    let server = Server::start(&[POLICY]);
    let path = |own: Value| {
        let mut descriptor = entries(&[("path", "/")]);
        descriptor.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        descriptor
    };
    for (hits, own, left) in [
        ("hitsAddend", json!({ "hitsAddend": "3" }), 7),
        ("hits_addend", json!({ "hits_addend": 0 }), 7),
        ("hitsAddend", json!({}), 5),
        ("hits_addend", json!({ "isNegativeHits": false }), 3),
        ("hitsAddend", json!({ "limit": { "requestsPerUnit": "5", "unit": "DAY" } }), 3),
        (
            "hits_addend",
            json!({ "limit": { "requests_per_unit": 5, "unit": "DAY" }, "is_negative_hits": false }),
            1,
        ),
    ] {
        let body = json!({ "domain": "edge", "descriptors": [path(own)], (hits): "2" });
        assert_eq!(ask(&server, &body).json()["statuses"][0]["limitRemaining"], left, "{body}");
    }
}

#[test]
fn a_body_that_makes_no_sense_is_400_with_its_place() {
    let server = Server::start(&[POLICY]);
    let user = entries(&[("user", "a")]);
    let with = |field: &str, value: Value| {
        let mut descriptor = user.clone();
        descriptor[field] = value;
        json!({ "domain": "edge", "descriptors": [descriptor] })
    };
    for (body, words) in [
        (json!({ "descriptors": [user] }), "`domain` is missing"),
        (json!({ "domain": "edge" }), "`descriptors` is empty"),
        (json!({ "domain": "elsewhere", "descriptors": [user] }), "`elsewhere`"),
        (json!({ "domain": "edge", "descriptor": [user] }), "unknown field `descriptor`"),
        (json!({ "domain": "edge", "descriptors": [{}] }), "descriptor 0: `entries` is empty"),
        (json!({ "domain": "edge", "descriptors": [user], "hitsAddend": -1 }), "expected a whole number"),
        (
            json!({ "domain": "edge", "descriptors": [user], "hitsAddend": 1_u64 << 32 }),
            "expected a whole number",
        ),
        (with("hitsAddend", json!("many")), "expected a whole number"),
        (with("hitsAddend", json!(1.5)), "expected a whole number"),
        (with("limit", json!({ "requestsPerUnit": 1, "unit": "FORTNIGHT" })), "`FORTNIGHT`"),
        (with("limit", json!({ "requestsPerUnit": 1 })), "missing field `unit`"),
        (with("isNegativeHits", json!(true)), "`is_negative_hits`"),
    ] {
        let reply = ask(&server, &body);
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(reply.status == 400 && detail.contains(words), "{body}: {reply:?}");
    }
    assert_eq!(server.connect().get("/json").status, 405);
}
