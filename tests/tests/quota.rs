//! Quotas on every store, by policies as people write them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use sluicegate::{
    Limiter, Store, Verdict,
    core::{Attributes, Costs, Policy, Retry},
    embedded::EmbeddedStore,
};
use sluicegate_tests::{HandClock, RedisServer};

/// 2026-12-01T00:00:00Z.
const DECEMBER: u64 = 1_796_083_200;
const DAY: u64 = 86_400;

const LAYERS: &str = "version: 1
slot_by: [org]
limits:
  - { name: edge, algorithm: fixed_window, limit: 10000, per: 1m, key: [] }
  - { name: application, algorithm: fixed_window, limit: 100, per: 1m, key: [app] }
  - { name: monthly, algorithm: quota, limit: 10000, period: { every: month }, key: [org] }
";

fn limiter<S: Store>(policy: &str, store: S, second: u64) -> Limiter<S, HandClock> {
    Limiter::new(Policy::parse(policy).unwrap(), store, HandClock::at(second))
}

fn attributes() -> Attributes {
    Attributes::from_iter([("org", "acme"), ("app", "shop")])
}

fn remaining(verdict: &Verdict<'_>, limit: &str) -> u64 {
    let limit = verdict.limits.iter().find(|verdict| verdict.name == limit);
    limit.unwrap().decision.remaining.unwrap()
}

/// The edge lets 10,000 a minute pass, the application 100 a minute, the contract 10,000 a month. Of 150 requests in a minute
/// the last 50 are denied by the application, and what is denied costs neither the edge nor the month.
async fn denied_requests_cost_the_month_nothing(store: impl Store) {
    let limiter = limiter(LAYERS, store, DECEMBER + 10 * DAY);
    let (who, one) = (attributes(), Costs::default());
    for request in 1..=150 {
        let verdict = limiter.take(&who, &one).await.unwrap();
        assert_eq!(verdict.allowed, request <= 100, "request {request}");
        if !verdict.allowed {
            assert_eq!(verdict.binding_limit().unwrap().name, "application");
        }
    }
    let verdict = limiter.peek(&who, &one).await.unwrap();
    assert_eq!((remaining(&verdict, "monthly"), remaining(&verdict, "edge")), (9_900, 9_900));
}

/// An exhausted month says when the next one begins, and begins anew then, without any job.
async fn a_month_begins_anew_at_its_boundary(store: impl Store) {
    let policy = "version: 1
limits:
  - { name: monthly, algorithm: quota, limit: 3, period: { every: month, anchor_day: 31 }, key: [org] }
";
    let limiter = limiter(policy, store, DECEMBER + 29 * DAY);
    let (who, one) = (attributes(), Costs::default());
    for left in [2, 1, 0] {
        assert_eq!(remaining(&limiter.take(&who, &one).await.unwrap(), "monthly"), left);
    }
    let denied = limiter.take(&who, &one).await.unwrap();
    assert_eq!(denied.retry(), Some(Retry::After(Duration::from_secs(DAY))));
    limiter.clock().turn(Duration::from_micros(DAY * 1_000_000 - 1));
    assert!(!limiter.take(&who, &one).await.unwrap().allowed);
    limiter.clock().turn(Duration::from_micros(1));
    assert_eq!(remaining(&limiter.take(&who, &one).await.unwrap(), "monthly"), 2);
    let never = limiter.take(&who, &Costs::requests(4)).await.unwrap();
    assert_eq!(never.retry(), Some(Retry::Never), "more than a month's worth");
}

#[tokio::test]
async fn quotas_hold_in_this_process() {
    denied_requests_cost_the_month_nothing(EmbeddedStore::default()).await;
    a_month_begins_anew_at_its_boundary(EmbeddedStore::default()).await;
}

#[tokio::test]
async fn quotas_hold_on_redis() {
    let server = RedisServer::start();
    denied_requests_cost_the_month_nothing(server.store()).await;
    a_month_begins_anew_at_its_boundary(server.store()).await;
}
