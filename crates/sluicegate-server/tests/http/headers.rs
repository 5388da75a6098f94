//! Headers of decisions, read with a parser of structured fields.

use std::time::Duration;

use sfv::{BareItem, List, ListEntry, Parser};
use sluicegate::headers::{Families, HeaderStyle, Reset};
use sluicegate_server::http::DoorConfig;

use crate::support::{NOW_S, Reply, Server};

const TWO_LIMITS: &str = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user] }
  - { name: split-second, algorithm: token_bucket, limit: 2, per: 1500ms, burst: 5, key: [user] }
  - { name: free, algorithm: fixed_window, limit: unlimited, per: 1m, key: [user] }
";
const ALICE: &str = r#"{"attributes": {"user": "alice"}}"#;

type Members = Vec<(String, Vec<(String, i64)>)>;

/// The members of a list of strings with integer parameters.
fn members(reply: &Reply, name: &str) -> Members {
    let text = reply.header(name).unwrap_or_else(|| panic!("no {name} in {reply:?}"));
    let list: List = Parser::new(text).parse().unwrap();
    let member = |entry: ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("an inner list in {text}") };
        let BareItem::String(policy) = item.bare_item else { panic!("no string in {text}") };
        let parameters = item.params.into_iter().map(|(key, value)| {
            let BareItem::Integer(value) = value else { panic!("no integer in {text}") };
            (key.as_str().to_owned(), i64::from(value))
        });
        (policy.as_str().to_owned(), parameters.collect())
    };
    list.into_iter().map(member).collect()
}

fn expected(members: &[(&str, &[(&str, i64)])]) -> Members {
    let own = |(name, value): &(&str, i64)| ((*name).to_owned(), *value);
    members.iter().map(|(name, rest)| ((*name).to_owned(), rest.iter().map(own).collect())).collect()
}

#[test]
fn every_bounded_limit_is_told_as_a_structured_field() {
    let reply = Server::start(&[TWO_LIMITS]).post("/v1/take", ALICE);
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""per-user";q=3;w=60, "split-second";q=2"#));
    let policies = expected(&[("per-user", &[("q", 3), ("w", 60)]), ("split-second", &[("q", 2)])]);
    assert_eq!(members(&reply, "ratelimit-policy"), policies);
    let limits = expected(&[("per-user", &[("r", 2), ("t", 10)]), ("split-second", &[("r", 4), ("t", 1)])]);
    assert_eq!(members(&reply, "ratelimit"), limits);
}

#[test]
fn the_older_headers_tell_the_binding_limit() {
    let reply = Server::start(&[TWO_LIMITS]).post("/v1/take", ALICE);
    assert_eq!(reply.header("x-ratelimit-limit"), Some("3"));
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(reply.header("x-ratelimit-reset"), Some((NOW_S + 10).to_string().as_str()));
    assert_eq!(reply.header("retry-after"), None);
}

#[test]
fn a_denial_tells_the_same_wait_in_both_families() {
    let server = Server::start(&[TWO_LIMITS]);
    server.post("/v1/take", r#"{"attributes": {"user": "alice"}, "cost": 3}"#);
    server.clock.turn(Duration::from_millis(8_300));
    let reply = server.post("/v1/take", ALICE);
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("2")));
    let limits = members(&reply, "ratelimit");
    assert_eq!(limits[0], ("per-user".into(), vec![("r".into(), 0), ("t".into(), 2)]));
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("0"));
    server.clock.turn(Duration::from_secs(2));
    assert_eq!(server.post("/v1/take", ALICE).status, 200);
}

/// tower-governor sent `retry-after: 0` for every rate of a request a second or more: clients came back at once.
#[test]
fn a_wait_below_a_second_is_told_as_one_second() {
    let policy = "
version: 1
limits:
  - { name: fast, algorithm: gcra, limit: 100, per: 1s, burst: 1, key: [] }
";
    let server = Server::start(&[policy]);
    server.post("/v1/take", r#"{"attributes": {}}"#);
    let reply = server.post("/v1/take", r#"{"attributes": {}}"#);
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
    assert_eq!(members(&reply, "ratelimit"), expected(&[("fast", &[("r", 0), ("t", 1)])]));
}

#[test]
fn a_cost_that_never_fits_has_no_time_to_wait() {
    let reply = Server::start(&[TWO_LIMITS]).post("/v1/take", r#"{"attributes": {"user": "a"}, "cost": 4}"#);
    assert_eq!((reply.status, reply.header("retry-after")), (403, None));
    assert_eq!(members(&reply, "ratelimit")[0], ("per-user".into(), vec![("r".into(), 3)]));
}

#[test]
fn the_largest_amount_is_told_whole() {
    let policy = "
version: 1
limits:
  - { name: huge, algorithm: fixed_window, limit: 2251799813685, per: 1ms, key: [] }
";
    let reply = Server::start(&[policy]).post("/v1/take", r#"{"attributes": {}}"#);
    assert_eq!(members(&reply, "ratelimit-policy"), expected(&[("huge", &[("q", 2_251_799_813_685)])]));
    assert_eq!(members(&reply, "ratelimit")[0].1[0], ("r".into(), 2_251_799_813_684));
}

#[test]
fn a_bucket_that_was_emptied_tells_the_time_of_its_next_token() {
    let policy = "
version: 1
limits:
  - { name: slow, algorithm: token_bucket, limit: 1, per: 10s, burst: 6, key: [] }
";
    let server = Server::start(&[policy]);
    let emptied = server.post("/v1/take", r#"{"attributes": {}, "cost": 6}"#);
    assert_eq!(members(&emptied, "ratelimit"), expected(&[("slow", &[("r", 0), ("t", 10)])]));
    server.clock.turn(Duration::from_millis(9_500));
    let peeked = server.post("/v1/peek", r#"{"attributes": {}, "cost": 0}"#);
    assert_eq!(members(&peeked, "ratelimit"), expected(&[("slow", &[("r", 0), ("t", 1)])]));
    assert_eq!(peeked.header("x-ratelimit-reset"), Some((NOW_S + 60).to_string().as_str()));
    server.clock.turn(Duration::from_millis(500));
    assert_eq!(server.post("/v1/take", r#"{"attributes": {}}"#).status, 200);
}

fn told(families: &str, reset: Reset) -> Reply {
    let headers = HeaderStyle { families: families.parse::<Families>().unwrap(), reset };
    let server = Server::start_with(&[TWO_LIMITS], DoorConfig { headers, ..DoorConfig::default() });
    server.post("/v1/take", r#"{"attributes": {"user": "alice"}, "cost": 3}"#);
    server.post("/v1/take", ALICE)
}

#[test]
fn families_can_be_turned_off() {
    let has = |reply: &Reply| {
        ["ratelimit-policy", "ratelimit", "x-ratelimit-limit", "retry-after"]
            .map(|name| reply.header(name).is_some())
    };
    assert_eq!(has(&told("ietf,x-ratelimit", Reset::Epoch)), [true, true, true, true]);
    assert_eq!(has(&told("ietf", Reset::Epoch)), [true, true, false, true]);
    assert_eq!(has(&told("x-ratelimit", Reset::Epoch)), [false, false, true, true]);
    assert_eq!(has(&told("none", Reset::Epoch)), [false, false, false, true]);
}

#[test]
fn the_reset_can_be_told_from_now_instead_of_from_the_epoch() {
    assert_eq!(told("x-ratelimit", Reset::Delta).header("x-ratelimit-reset"), Some("10"));
}

/// SDKs retry a 429 of their own accord: against an exhausted month they would go on for weeks.
#[test]
fn an_exhausted_quota_tells_clients_to_stop() {
    let policy = "
version: 1
limits:
  - { name: month, algorithm: quota, limit: 1, period: { every: month }, key: [user] }
  - { name: burst, algorithm: gcra, limit: 1, per: 1m, burst: 2, key: [client] }
";
    let server = Server::start(&[policy]);
    let take = |user: &str| {
        server.post("/v1/take", format!(r#"{{"attributes": {{"user": "{user}", "client": "c"}}}}"#))
    };
    let admitted = take("alice");
    assert_eq!((admitted.status, admitted.header("x-should-retry")), (200, None));
    let policies = members(&admitted, "ratelimit-policy");
    assert_eq!(policies[0], expected(&[("month", &[("q", 1)])])[0], "a month has no length");
    let exhausted = take("alice");
    assert_eq!((exhausted.status, exhausted.header("x-should-retry")), (429, Some("false")));
    let wait_s: u64 = exhausted.header("retry-after").unwrap().parse().unwrap();
    assert!(wait_s > 86_400, "{wait_s} s is not the end of the month");
    assert_eq!(take("bob").status, 200);
    let too_fast = take("carol");
    assert_eq!(
        (too_fast.status, too_fast.header("x-should-retry")),
        (429, None),
        "a rate limit is worth another try"
    );
}
