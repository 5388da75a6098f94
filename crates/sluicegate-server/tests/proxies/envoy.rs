//! A real Envoy in front of the doors, by the configurations of `docs/operating/envoy.md`.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sluicegate_tests::RedisServer;

use crate::{
    ROOT,
    support::{Place, Proxied, Reply, block},
};

/// The limit of each client in the page's policies.
const LIMIT: usize = 20;

fn envoy(place: Place, configuration: &str) -> Proxied {
    fs::write(place.path("envoy.yaml"), place.recipe("envoy", &format!("yaml\n# {configuration}"))).unwrap();
    let mut envoy = Command::new(format!("{ROOT}/target/tools/envoy/envoy/_bin/envoy"));
    envoy.args(["-c", "envoy.yaml", "--concurrency", "2", "--disable-hot-restart", "--log-level", "error"]);
    place.start(envoy)
}

fn policy(name: &str) -> String {
    block("envoy", &format!("yaml\n# {name}"))
}

/// So many clients at once, each with a forged address of its own.
fn at_once(proxied: &Proxied, clients: usize) -> Vec<Reply> {
    thread::scope(|scope| {
        let asked: Vec<_> = (0..clients).map(|client| scope.spawn(move || proxied.get(client))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    })
}

fn count(replies: &[Reply], status: u16) -> usize {
    replies.iter().filter(|reply| reply.status == status).count()
}

/// Counts live in Redis, so that a limiter that comes back knows them; while it is away, Envoy's failure mode decides.
#[test]
fn the_filter_refuses_exactly_what_is_beyond_the_limit_before_and_after_the_limiter_was_killed() {
    let redis = RedisServer::start();
    let patient = ["--store-deadline-ms", "10000", "--store-timeout-ms", "20000"];
    let place = Place::new(&policy("policy.yaml"), &[&["--store", &redis.url()], &patient[..]].concat());
    let mut proxied = envoy(place, "envoy.yaml");
    for used in 1..=5 {
        let reply = proxied.get(used);
        assert_eq!((reply.status, reply.body.as_str()), (200, "the application"), "{reply:?}");
        let left = (LIMIT - used).to_string();
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(left.as_str()), "{reply:?}");
        let limit = reply.header("x-ratelimit-limit");
        assert_eq!(limit, Some(r#"20, 20;w=3600;name="per-client""#), "{reply:?}");
        let reset_s: u64 = reply.header("x-ratelimit-reset").unwrap().parse().unwrap();
        assert!((3_500..=3_600).contains(&reset_s), "{reply:?}");
    }

    proxied.end_limiter();
    assert_eq!(count(&at_once(&proxied, 30), 200), 30, "requests pass while nobody answers");

    proxied.restart_limiter();
    let replies = at_once(&proxied, 60);
    assert_eq!((count(&replies, 200), count(&replies, 429)), (LIMIT - 5, 60 - (LIMIT - 5)), "{replies:?}");
    assert_eq!(proxied.reached(), 5 + 30 + LIMIT - 5);
    for refused in replies.iter().filter(|reply| reply.status == 429) {
        assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"), "{refused:?}");
        assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"), "{refused:?}");
        let retry_s: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((3_400..=3_600).contains(&retry_s), "{refused:?}");
        let body: Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(body["binding"], "per-client");
    }
    // A path that no limit matches is not limited.
    assert_eq!(proxied.request("/free", "").status, 200);
}

/// The application says after each answer what it cost: 500 tokens of 1,000 each time.
#[test]
fn what_an_answer_cost_is_charged_when_its_stream_is_done() {
    let proxied = envoy(Place::new(&policy("policy.yaml"), &[]), "envoy.yaml");
    for left in [500, 0] {
        let reply = proxied.request("/free", "x-org: acme\r\n");
        assert_eq!((reply.status, reply.header("x-tokens")), (200, Some("500")), "{reply:?}");
        remains(&proxied, left);
    }
    let refused = proxied.request("/free", "x-org: acme\r\n");
    assert_eq!((refused.status, proxied.reached()), (429, 2), "{refused:?}");
    assert_eq!(proxied.request("/free", "x-org: other\r\n").status, 200);
}

/// Waits until so many tokens remain: Envoy charges after its client has the answer, and tells nobody.
fn remains(proxied: &Proxied, tokens: u64) {
    let begun = Instant::now();
    loop {
        let told = proxied.ask_limiter("/v1/peek", r#"{"attributes": {"org": "acme"}}"#);
        let told: Value = serde_json::from_str(&told.body).unwrap();
        if told["limits"][0]["remaining"] == json!(tokens) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{told}");
        thread::sleep(Duration::from_millis(5)); // Nothing tells when a charge has arrived.
    }
}

#[test]
fn ext_authz_refuses_exactly_what_is_beyond_the_limit_and_fails_open() {
    let arguments = ["--forward-auth", "ip=client,method=method,endpoint=path"];
    let place = Place::new(
        &policy("authz-policy.yaml"),
        &[&arguments[..], &["--trusted-proxies", "127.0.0.1"]].concat(),
    );
    let mut proxied = envoy(place, "authz.yaml");
    let replies = at_once(&proxied, 60);
    assert_eq!((count(&replies, 200), count(&replies, 429)), (LIMIT, 60 - LIMIT), "{replies:?}");
    assert_eq!(proxied.reached(), LIMIT);
    for reply in &replies {
        assert!(reply.header("ratelimit").unwrap().starts_with(r#""per-client";r="#), "{reply:?}");
        assert_eq!(reply.header("retry-after").is_some(), reply.status == 429, "{reply:?}");
    }
    assert_eq!(proxied.request("/free", "").status, 200);
    proxied.end_limiter();
    assert_eq!(proxied.get(99).status, 200);
}
