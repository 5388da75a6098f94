//! Policies over both stores: layers of one decision, limits in shadow, and amounts that change while they are used.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::Arc;

use sluicegate::{
    Limiter, Store, Verdict,
    core::{Attributes, Costs, Policy},
    embedded::EmbeddedStore,
};
use sluicegate_tests::{HandClock, RedisServer};

/// A second that begins no window of a minute.
const NOW_S: u64 = 1_700_000_030;

fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn user(name: &str) -> Attributes {
    [("user", name)].into_iter().collect()
}

fn left(verdict: &Verdict<'_>) -> Vec<Option<u64>> {
    verdict.limits.iter().map(|limit| limit.decision.remaining).collect()
}

/// The classic question: what do the requests that one layer denies cost the others?
const LAYERS: &str = "
version: 1
limits:
  - { name: edge, algorithm: fixed_window, limit: 10000, per: 1m, key: [] }
  - { name: application, algorithm: sliding_counter, limit: 100, per: 1m, key: [user] }
  - { name: month, algorithm: fixed_window, limit: 10000, per: 30d, align: first_request, key: [user] }
";

async fn layers<S: Store>(store: S) {
    let limiter = Limiter::new(policy(LAYERS), store, Arc::new(HandClock::at(NOW_S)));
    for request in 1..=150 {
        let verdict = limiter.take(&user("alice"), &Costs::default()).await.unwrap();
        assert_eq!(verdict.allowed, request <= 100, "request {request}");
        let binding = verdict.binding_limit().map(|limit| limit.name);
        assert_eq!(binding, Some("application"), "request {request}");
    }
    let alice = limiter.peek(&user("alice"), &Costs::default()).await.unwrap();
    assert_eq!(left(&alice), [Some(9_900), Some(0), Some(9_900)], "the denied 50 cost nothing");
    let bob = limiter.peek(&user("bob"), &Costs::default()).await.unwrap();
    assert_eq!(left(&bob), [Some(9_900), Some(100), Some(10_000)]);
}

#[tokio::test]
async fn a_layer_that_denies_costs_the_others_nothing() {
    layers(EmbeddedStore::default()).await;
    let redis = RedisServer::start();
    layers(redis.store()).await;
}

const SHADOWED: &str = "
version: 1
limits:
  - { name: decides, algorithm: fixed_window, limit: 5, per: 1m, key: [user] }
  - { name: watched, algorithm: sliding_log, limit: 3, per: 1m, key: [user], enforcement: shadow }
  - { name: queued, algorithm: leaky_bucket, limit: 1, per: 1s, max_delay: 1s, key: [user], enforcement: shadow }
  - { name: switched-off, algorithm: gcra, limit: 0, per: 1m, key: [user], enforcement: off }
";

async fn shadow<S: Store>(store: S) {
    let limiter = Limiter::new(policy(SHADOWED), store, Arc::new(HandClock::at(NOW_S)));
    for request in 1..=7_u64 {
        let verdict = limiter.take(&user("alice"), &Costs::default()).await.unwrap();
        assert_eq!(verdict.allowed, request <= 5, "request {request}");
        assert_eq!(verdict.binding_limit().map(|limit| limit.name), Some("decides"));
        assert!(verdict.delay().is_zero(), "a queue in shadow makes nobody wait");
        let watched = &verdict.limits[1].decision;
        assert_eq!((watched.allowed, watched.remaining), (request <= 3, Some(3_u64.saturating_sub(request))));
        let off = &verdict.limits[3].decision;
        assert_eq!((off.allowed, off.limit, off.remaining), (true, Some(0), None));
    }
    let names: Vec<_> = limiter.policy().limits().iter().map(|limit| limit.enforcement.name()).collect();
    assert_eq!(names, ["on", "shadow", "shadow", "off"]);
}

/// A limit that was tried out in production must not be what breaks it, nor teach wrong numbers.
#[tokio::test]
async fn a_limit_in_shadow_counts_as_its_law_says_and_never_denies() {
    shadow(EmbeddedStore::default()).await;
    let redis = RedisServer::start();
    shadow(redis.store()).await;
}

async fn uncounted<S: Store>(store: S) {
    let text = "
version: 1
limits:
  - { name: decides, algorithm: fixed_window, limit: 2, per: 1m, key: [user] }
  - { name: watched, algorithm: fixed_window, limit: 10, per: 1m, key: [user], enforcement: shadow }
";
    let limiter = Limiter::new(policy(text), store, Arc::new(HandClock::at(NOW_S)));
    for _ in 0..9 {
        limiter.take(&user("alice"), &Costs::default()).await.unwrap();
    }
    let verdict = limiter.peek(&user("alice"), &Costs::default()).await.unwrap();
    assert_eq!(left(&verdict), [Some(0), Some(8)], "what the others deny is counted nowhere");
}

#[tokio::test]
async fn a_request_that_is_denied_is_not_counted_in_shadow_either() {
    uncounted(EmbeddedStore::default()).await;
    let redis = RedisServer::start();
    uncounted(redis.store()).await;
}

#[test]
fn the_domain_takes_back_what_its_limits_enforce_and_gives_nothing() {
    let shadowed = policy(&SHADOWED.replace("version: 1", "version: 1\nenforcement: shadow"));
    let words: Vec<_> = shadowed.limits().iter().map(|limit| shadowed.enforcement_of(limit).name()).collect();
    assert_eq!(words, ["shadow", "shadow", "shadow", "off"]);
    let off = policy(&SHADOWED.replace("version: 1", "version: 1\nenforcement: off"));
    let matched = off.apply(&user("alice"), &Costs::default()).unwrap();
    assert!(matched.limits.iter().all(|applied| applied.ask.is_none()));
}

/// One limit of each algorithm, by another amount for each policy.
fn each_algorithm(amount: u64) -> Policy {
    let limit =
        |name: &str, more: &str| format!("  - {{ name: {name}, {more}, limit: {amount}, key: [user] }}\n");
    policy(&format!(
        "version: 1\nlimits:\n{}{}{}{}{}",
        limit("window", "algorithm: fixed_window, per: 1h"),
        limit("log", "algorithm: sliding_log, per: 1h"),
        limit("counter", "algorithm: sliding_counter, per: 1h"),
        limit("bucket", "algorithm: token_bucket, per: 1h"),
        limit("gcra", "algorithm: gcra, per: 1h"),
    ))
}

async fn raised_and_lowered<S: Store + Clone>(store: S) {
    let clock = Arc::new(HandClock::at(NOW_S));
    let limiter = |amount| Limiter::new(each_algorithm(amount), store.clone(), clock.clone());
    let hundred = Costs::requests(100);
    assert!(limiter(100).take(&user("alice"), &hundred).await.unwrap().allowed);
    assert!(!limiter(100).take(&user("alice"), &Costs::default()).await.unwrap().allowed);
    let raised = limiter(1_000);
    let raised = raised.peek(&user("alice"), &Costs::default()).await.unwrap();
    assert_eq!(left(&raised), [Some(900); 5], "the next request has the rest of the new amount");
    assert!(limiter(1_000).take(&user("alice"), &Costs::requests(900)).await.unwrap().allowed);
    let lowered = limiter(10);
    let lowered = lowered.peek(&user("alice"), &Costs::default()).await.unwrap();
    assert_eq!(left(&lowered), [Some(0); 5], "never negative");
    for limit in &lowered.limits {
        let longest = limit.window.unwrap() * if limit.name == "counter" { 2 } else { 1 };
        assert!(
            limit.decision.reset_after <= longest,
            "{} resets in {:?}",
            limit.name,
            limit.decision.reset_after
        );
    }
}

/// A GCRA that keeps its old time of arrival would deny for hours after its amount was raised.
#[tokio::test]
async fn a_new_amount_holds_at_the_next_request_and_what_was_used_stays_used() {
    raised_and_lowered(Arc::new(EmbeddedStore::default())).await;
    let redis = RedisServer::start();
    raised_and_lowered(redis.store()).await;
}

async fn renamed<S: Store + Clone>(store: S) {
    let clock = Arc::new(HandClock::at(NOW_S));
    let before = "version: 1\nlimits:\n  - { name: a, algorithm: gcra, limit: 10, per: 1h, key: [user] }\n  - { name: b, algorithm: gcra, limit: 20, per: 1h, key: [user] }";
    let after = "version: 1\nlimits:\n  - { name: b, algorithm: gcra, limit: 20, per: 1h, key: [user] }\n  - { name: c, id: a, algorithm: gcra, limit: 10, per: 1h, key: [user] }";
    let limiter = |text| Limiter::new(policy(text), store.clone(), clock.clone());
    assert!(limiter(before).take(&user("alice"), &Costs::requests(4)).await.unwrap().allowed);
    let verdict = limiter(after);
    let verdict = verdict.peek(&user("alice"), &Costs::default()).await.unwrap();
    assert_eq!(left(&verdict), [Some(16), Some(6)]);
}

#[tokio::test]
async fn renaming_by_an_id_and_reordering_keep_every_counter() {
    renamed(Arc::new(EmbeddedStore::default())).await;
    let redis = RedisServer::start();
    renamed(redis.store()).await;
}
