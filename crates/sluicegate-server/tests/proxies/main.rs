//! Real proxies that ask before they pass a request on, by the recipes of `docs/operating/forward-auth.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../common/process.rs"]
mod binary;
mod envoy;
mod restarts;
mod support;

use std::{fs, process::Command, thread};

use support::{Place, Proxied};

/// Nothing of a minute or an hour may end within the test, so the window moves with the requests.
const POLICY: &str = "
version: 1
limits:
  - { name: per-client, algorithm: sliding_log, limit: 5, per: 1h, key: [ip], match: { endpoint: \"/v1/*\" } }
";

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Twenty clients at once with forged addresses, a limit of five: exactly five reach the application, the others get a
/// true 429 that says when to come back; when the limiter is gone, requests pass.
fn limits_and_fails_open(mut proxied: Proxied) {
    let replies: Vec<_> = thread::scope(|scope| {
        let asked: Vec<_> = (0..20)
            .map(|client| {
                scope.spawn({
                    let proxied = &proxied;
                    move || proxied.get(client)
                })
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let passed: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
    assert_eq!(passed.len(), 5, "{replies:?}");
    assert!(passed.iter().all(|reply| reply.body == "the application"), "{passed:?}");
    assert_eq!(proxied.reached(), 5);
    for refused in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!(refused.status, 429, "{refused:?}");
        let retry_s: u64 = refused.header("retry-after").expect("a time to wait").parse().unwrap();
        assert!((3_500..=3_600).contains(&retry_s), "{refused:?}");
    }
    proxied.end_limiter();
    let open = proxied.get(99);
    assert_eq!((open.status, open.body.as_str()), (200, "the application"), "{open:?}");
}

#[test]
fn nginx_refuses_with_a_true_429_and_fails_open() {
    let place = Place::new(POLICY, &[]);
    let server = place.recipe("forward-auth", "nginx");
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {name};"))
        .concat();
    let conf =
        format!("user root;\npid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}\n{server}}}\n");
    fs::write(place.path("nginx.conf"), conf).unwrap();
    let mut nginx = Command::new("nginx");
    nginx.args(["-p", &place.path("."), "-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;"]);
    limits_and_fails_open(place.start(nginx));
}

#[test]
fn caddy_passes_the_refusal_on_and_fails_open() {
    let place = Place::new(POLICY, &[]);
    let options = "{\n  admin off\n  auto_https off\n}\n";
    fs::write(place.path("Caddyfile"), format!("{options}{}", place.recipe("forward-auth", "caddy")))
        .unwrap();
    let mut caddy = Command::new(format!("{ROOT}/target/tools/caddy/bin/caddy"));
    caddy
        .args(["run", "--config", "Caddyfile", "--adapter", "caddyfile"])
        .env("XDG_DATA_HOME", place.path("."));
    caddy.env("XDG_CONFIG_HOME", place.path("."));
    limits_and_fails_open(place.start(caddy));
}

#[test]
fn haproxy_asks_by_lua_and_fails_open() {
    let place = Place::new(POLICY, &[]);
    fs::write(place.path("limit.lua"), place.recipe("forward-auth", "lua")).unwrap();
    fs::write(place.path("haproxy.cfg"), place.recipe("forward-auth", "haproxy")).unwrap();
    let mut haproxy = Command::new("haproxy");
    haproxy.args(["-db", "-f", "haproxy.cfg"]);
    limits_and_fails_open(place.start(haproxy));
}

/// The proxy passes bytes on and says whose they are: each client has its own limit, and none can claim another's.
#[test]
fn haproxy_tells_the_client_by_the_proxy_protocol() {
    let arguments = ["--proxy-protocol-from", "127.0.0.1", "--forward-auth", "ip=client,endpoint=path"];
    let place = Place::new(POLICY, &[&arguments[..], &["--trusted-proxies", "192.0.2.1"]].concat());
    let defaults = "defaults\n  timeout connect 10s\n  timeout client 30s\n  timeout server 30s\n";
    let frontend = format!("frontend api\n  mode tcp\n  bind {}\n  default_backend limiter\n", place.proxy());
    let backend = place.recipe("security", "haproxy");
    fs::write(place.path("haproxy.cfg"), format!("{defaults}{frontend}{backend}")).unwrap();
    let mut haproxy = Command::new("haproxy");
    haproxy.args(["-db", "-f", "haproxy.cfg"]);
    let proxied = place.start(haproxy);
    for client in ["127.0.0.2", "127.0.0.3"] {
        let ask = |_| {
            let forged = "x-forwarded-for: 198.51.100.1\r\n";
            proxied.request_from(client, "/forward-auth/default/v1/chat", forged).status
        };
        let statuses: Vec<_> = (0..7).map(ask).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429], "{client}");
    }
}
