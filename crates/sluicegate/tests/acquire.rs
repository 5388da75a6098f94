//! Waiting for room, on a clock that is turned by the runtime.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use sluicegate::{
    Clock, Limiter,
    core::{Attributes, Costs, Micros, Policy},
    embedded::EmbeddedStore,
};
use tokio::{task::JoinSet, time::Instant};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3_600);

/// The runtime's clock, which stands still until all tasks wait and then goes to the next timer.
#[derive(Debug)]
struct Turned(Instant);

impl Clock for Turned {
    fn now(&self) -> Micros {
        Micros::from_secs(1_700_000_000).plus(self.0.elapsed())
    }
}

type Own = Arc<Limiter<Arc<EmbeddedStore>, Turned>>;

fn limiter(limit: &str) -> Own {
    let policy = Policy::parse(&format!("version: 1\nlimits:\n  - {{ name: x, {limit} }}\n")).unwrap();
    Arc::new(Limiter::new(policy, Arc::new(EmbeddedStore::default()), Turned(Instant::now())))
}

fn of(user: &str) -> Attributes {
    [("user", user)].into_iter().collect()
}

/// When each of the tasks was admitted, in the order in which they came.
async fn admitted_after(limiter: &Own, costs: &[u64]) -> Vec<Duration> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for (at, cost) in costs.iter().copied().enumerate() {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            let verdict = limiter.acquire(&of("a"), &Costs::requests(cost), LONG).await.unwrap();
            assert!(verdict.allowed);
            (at, begun.elapsed())
        });
    }
    let mut ended = tasks.join_all().await;
    ended.sort_unstable();
    ended.into_iter().map(|(_, after)| after).collect()
}

/// PyrateLimiter#191 and #185: after one sleep a waiter took its place for granted, and all passed at once.
#[tokio::test(start_paused = true)]
async fn ten_tasks_at_three_in_three_seconds_end_by_threes() {
    let limiter = limiter("algorithm: sliding_log, limit: 3, per: 3s, key: [user]");
    let seconds: Vec<_> = admitted_after(&limiter, &[1; 10]).await.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [0, 0, 0, 3, 3, 3, 6, 6, 6, 9]);
}

/// rustcommon PR#73: waiters collapsed into one cycle, and the bucket was empty for the last of them too early.
#[tokio::test(start_paused = true)]
async fn a_large_cost_is_not_overtaken_by_small_ones() {
    let limiter = limiter("algorithm: gcra, limit: 1, per: 1s, burst: 5, key: [user]");
    let after = admitted_after(&limiter, &[5, 5, 1, 1]).await;
    assert_eq!(after, [0, 5, 6, 7].map(|seconds| SECOND * seconds));
}

#[tokio::test(start_paused = true)]
async fn a_leaky_bucket_lets_them_go_evenly() {
    let limiter = limiter("algorithm: leaky_bucket, limit: 2, per: 1s, max_delay: 1s, key: [user]");
    let after = admitted_after(&limiter, &[1; 6]).await;
    assert_eq!(after, [0, 1, 2, 3, 4, 5].map(|halves| SECOND / 2 * halves));
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_admitted_in_time_is_told_at_once_and_counts_nothing() {
    let limiter = limiter("algorithm: fixed_window, limit: 1, per: 10s, align: first_request, key: [user]");
    let begun = Instant::now();
    let acquire = |patience| {
        let limiter = limiter.clone();
        async move { limiter.acquire(&of("a"), &Costs::default(), patience).await.map(|verdict| verdict.allowed) }
    };
    assert!(acquire(Duration::ZERO).await.unwrap());
    assert!(!acquire(SECOND * 9).await.unwrap());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(acquire(SECOND * 10).await.unwrap());
    assert_eq!(begun.elapsed(), SECOND * 10);
    let never = limiter.acquire(&of("a"), &Costs::requests(2), LONG).await.unwrap();
    assert!(!never.allowed);
    assert_eq!(begun.elapsed(), SECOND * 10, "what never fits is not waited for");
}

#[tokio::test(start_paused = true)]
async fn who_waits_behind_others_is_told_when_his_patience_ends() {
    let limiter = limiter("algorithm: sliding_log, limit: 1, per: 10s, key: [user]");
    assert!(limiter.acquire(&of("a"), &Costs::default(), LONG).await.unwrap().allowed);
    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(&of("a"), &Costs::default(), LONG).await.unwrap().allowed }
    });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    let second = limiter.acquire(&of("a"), &Costs::default(), SECOND * 4).await.unwrap();
    assert!(!second.allowed && begun.elapsed() == SECOND * 4, "{:?}", begun.elapsed());
    assert!(first.await.unwrap());
    let other = limiter.acquire(&of("b"), &Costs::default(), Duration::ZERO).await.unwrap();
    assert!(other.allowed, "another key has a queue of its own");
}

/// A caller that goes away gives its place up: nothing is counted for it, and nobody waits for it.
#[tokio::test(start_paused = true)]
async fn a_dropped_wait_leaves_no_trace() {
    let limiter = limiter("algorithm: sliding_log, limit: 1, per: 10s, key: [user]");
    let begun = Instant::now();
    assert!(limiter.acquire(&of("a"), &Costs::default(), LONG).await.unwrap().allowed);
    let gone: Vec<_> = (0..5)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(&of("a"), &Costs::default(), LONG).await.is_ok() })
        })
        .collect();
    tokio::time::sleep(SECOND).await; // All five are waiting.
    gone.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(limiter.acquire(&of("a"), &Costs::default(), LONG).await.unwrap().allowed);
    assert_eq!(begun.elapsed(), SECOND * 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In arrival order, and never earlier than the bucket's law allows.
    #[test]
    fn waiters_pass_in_order_and_within_the_law(costs in prop::collection::vec(1..=5_u64, 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let after = runtime.block_on(async {
            let limiter = limiter("algorithm: token_bucket, limit: 3, per: 1s, burst: 5, key: [user]");
            admitted_after(&limiter, &costs).await
        });
        prop_assert!(after.is_sorted(), "{after:?}");
        for (from, begin) in after.iter().enumerate() {
            let mut taken = 0;
            for (end, cost) in after.iter().zip(&costs).skip(from) {
                taken += cost;
                let span_us = u64::try_from(end.saturating_sub(*begin).as_micros()).unwrap();
                prop_assert!(taken * 1_000_000 <= 5_000_000 + span_us * 3, "{taken} in {span_us} us");
            }
        }
    }
}
