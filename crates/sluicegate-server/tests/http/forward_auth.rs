//! The door for proxies: which requests it reads how, and what it answers.

use std::time::Duration;

use sluicegate_server::http::{DoorConfig, ForwardAuth};

use crate::support::{Reply, Server};

const POLICY: &str = "
version: 1
domain: edge
limits:
  - { name: per-client, algorithm: fixed_window, limit: 2, per: 1m, key: [ip] }
  - { name: never, algorithm: gcra, limit: 0, per: 1m, key: [], match: { endpoint: /closed } }
  - { name: posts, algorithm: fixed_window, limit: 1, per: 1m, key: [user], match: { method: POST }, if_missing: skip }
";

fn ask(server: &Server, method: &str, path: &str, headers: &[&str]) -> Reply {
    let headers: Vec<_> = headers.iter().map(|header| header.split_once(": ").unwrap()).collect();
    server.connect().request(method, path, &headers, b"")
}

#[test]
fn a_request_passes_with_200_and_is_refused_with_429_whatever_its_method() {
    let server = Server::start(&[POLICY]);
    let from = ["x-forwarded-for: 198.51.100.7"];
    assert_eq!(ask(&server, "GET", "/forward-auth/edge", &from).status, 200);
    let second = ask(&server, "DELETE", "/forward-auth/edge", &from);
    assert_eq!((second.status, second.header("x-ratelimit-remaining")), (200, Some("0")));
    let refused =
        ask(&server, "PROPFIND", "/forward-auth/edge/any;deny_status=404/path?deny_status=404", &from);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("10")));
    assert_eq!(refused.json()["binding"], "per-client");
    let as_nginx = ask(&server, "GET", "/forward-auth/edge;deny_status=403", &from);
    assert_eq!((as_nginx.status, as_nginx.header("retry-after")), (403, Some("10")));
    server.clock.turn(Duration::from_secs(10));
    assert_eq!(ask(&server, "GET", "/forward-auth/edge;deny_status=403", &from).status, 200);
}

/// axes#224 and others: each forged left-most address was a new client.
#[test]
fn a_thousand_forged_addresses_count_as_one_client() {
    let server = Server::start(&[POLICY]);
    let passed = (0..1_000)
        .filter(|forged| {
            let header = format!("x-forwarded-for: 1.2.{}.{}, 198.51.100.7", forged / 250, forged % 250);
            ask(&server, "GET", "/forward-auth/edge", &[&header]).status == 200
        })
        .count();
    assert_eq!(passed, 2);
}

/// Supabase, as reported: without the header there was no limit at all.
#[test]
fn requests_without_an_address_share_one_limit() {
    let server = Server::start(&[POLICY]);
    let headers: [&[&str]; 4] = [&[], &["x-forwarded-for: nonsense"], &["x-forwarded-for: "], &[]];
    let statuses = headers.map(|headers| ask(&server, "GET", "/forward-auth/edge", headers).status);
    assert_eq!(statuses, [200, 200, 429, 429]);
}

#[test]
fn attributes_are_what_was_declared_and_nothing_else() {
    let server = Server::start(&[POLICY]);
    let closed = ["x-forwarded-for: 10.0.0.1", "x-forwarded-uri: /closed?x=/open"];
    assert_eq!(ask(&server, "GET", "/forward-auth/edge", &closed).status, 403, "it can never pass");
    let undeclared = ["x-forwarded-for: 10.0.0.2", "x-forwarded-method: POST", "user: alice"];
    assert_eq!(ask(&server, "GET", "/forward-auth/edge/closed", &undeclared).status, 200);

    let attributes = "ip=client,method=method,endpoint=path,user=header:x-user".parse().unwrap();
    let forward_auth = ForwardAuth { attributes, ..ForwardAuth::default() };
    let server = Server::start_with(&[POLICY], DoorConfig { forward_auth, ..DoorConfig::default() });
    let from = "x-forwarded-for: 10.0.0.3";
    assert_eq!(ask(&server, "GET", "/forward-auth/edge/closed?x=1", &[from]).status, 403);
    assert_eq!(ask(&server, "POST", "/forward-auth/edge/open", &[from, "x-user: alice"]).status, 200);
    assert_eq!(ask(&server, "POST", "/forward-auth/edge/open", &[from, "x-user: alice"]).status, 429);
}

#[test]
fn a_proxy_that_asks_wrongly_is_told_what_is_wrong() {
    let server = Server::start(&[POLICY]);
    for (path, detail) in [
        ("/forward-auth/nowhere", "no policy has the domain `nowhere`"),
        ("/forward-auth/", "name the domain: `/forward-auth/DOMAIN`"),
        ("/forward-auth/edge;deny_status=500", "the one parameter is `;deny_status=`, from 400 to 499"),
    ] {
        let reply = ask(&server, "GET", path, &[]);
        assert_eq!(reply.status, 400, "{path}");
        assert_eq!(reply.json()["detail"], detail);
    }
}
