//! `SG.TAKE` and `SG.PEEK`: policies by the Redis protocol.

use super::support::Server;

const POLICY: &str = "
version: 1
domain: api
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user] }
  - { name: tokens, algorithm: gcra, unit: tokens, limit: 100, per: 1m, burst: 100, key: [user] }
";

#[test]
fn a_decision_says_what_the_http_door_says() {
    let server = Server::start_with(&[POLICY], None);
    let mut client = server.connect();
    client.ask(&["HELLO", "3"]);
    let first = client.ask(&["SG.TAKE", "api", "user=al=ice", "COST", "2", "cost", "tokens=60"]);
    assert!(first.starts_with("{allowed: true, binding: per-user,"), "{first}");
    assert!(first.contains("remaining: 1,") && first.contains("remaining: 40,"), "{first}");
    let peek = client.ask(&["sg.peek", "api", "user=al=ice", "COST", "2"]);
    assert!(peek.contains("allowed: false") && peek.contains("retry_after_ms: 10000"), "{peek}");
    let denied = client.ask(&["SG.TAKE", "api", "user=al=ice", "COST", "tokens=41"]);
    assert!(denied.contains("allowed: false") && denied.contains("binding: tokens"), "{denied}");
    let never = client.ask(&["SG.TAKE", "api", "user=al=ice", "COST", "4"]);
    assert!(never.contains("retry_after_ms: never"), "{never}");
    let last = client.ask(&["SG.TAKE", "api", "user=al=ice"]);
    assert!(
        last.contains("allowed: true") && last.contains("remaining: 0,"),
        "nothing was half charged: {last}"
    );
    let flat = server.connect().ask(&["SG.PEEK", "api", "user=bob"]);
    assert!(flat.starts_with("[allowed 1 binding per-user decided_by store degraded 0"), "{flat}");
}

#[test]
fn what_makes_no_request_is_refused_by_name() {
    let server = Server::start_with(&[POLICY], None);
    let mut client = server.connect();
    let cases: [(&[&str], &str); 8] = [
        (&[], "-ERR wrong number of arguments for `sg.take`"),
        (&["nowhere", "user=x"], "-ERR no policy has the domain `nowhere`"),
        (&["api", "user"], "-ERR `user` is neither `attribute=value` nor `COST`"),
        (&["api", "user=x", "user=y"], "-ERR the attribute `user` is given twice"),
        (&["api", "=x"], "-ERR the attribute `` is given twice or has no name"),
        (&["api", "user=x", "COST"], "-ERR wrong number of arguments for `sg.take`"),
        (&["api", "user=x", "COST", "-1"], "-ERR a cost is a whole number"),
        (&["api", "user=x", "COST", "apples=1"], "-ERR no limit of domain `api` counts the unit `apples`"),
    ];
    for (words, message) in cases {
        let answer = client.ask(&[&["SG.TAKE"], words].concat());
        assert!(answer.starts_with(message), "{words:?}: {answer}");
    }
}
