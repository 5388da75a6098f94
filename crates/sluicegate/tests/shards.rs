//! Counters that are split over shards: together they admit exactly the limit, and each request is counted once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use sluicegate::{
    Clock, Limiter, Once, Settled, Store, StoreError, Verb,
    core::{
        Ask, Attributes, Charge, Costs, Decision, LimitId, Micros, Policy, RequestId, Retry, Subject,
        policy::{Matched, Shards},
    },
    embedded::EmbeddedStore,
};

const ALGORITHMS: [&str; 4] = ["fixed_window", "sliding_counter", "token_bucket", "gcra"];

/// A clock that stands still.
#[derive(Clone, Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Micros {
        Micros::from_secs(1_790_000_000)
    }
}

/// The embedded store, with the number of its takes and of their asks.
#[derive(Clone, Debug, Default)]
struct Counted {
    store: Arc<EmbeddedStore>,
    takes: Arc<AtomicUsize>,
}

impl Store for Counted {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.takes.fetch_add(1, Ordering::Relaxed);
        self.store.take(asks, now).await
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        self.store.take_once(id, asks, now).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.store.peek(asks, now).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        self.store.settle(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        self.store.forget(id, subject).await
    }
}

fn limiter(limits: &str) -> Limiter<Counted, Noon> {
    let policy = Policy::parse(&format!("version: 1\nlimits:\n{limits}")).unwrap();
    Limiter::new(policy, Counted::default(), Noon)
}

fn takes(limiter: &Limiter<Counted, Noon>) -> usize {
    limiter.store().takes.swap(0, Ordering::Relaxed)
}

fn edge(algorithm: &str, limit: u64, shards: u32) -> String {
    format!(
        "  - {{ name: edge, algorithm: {algorithm}, limit: {limit}, per: 1h, key: [], shards: {shards} }}"
    )
}

fn shards<'p>(matched: &Matched<'p>) -> &'p Shards {
    matched.limits[0].shards().unwrap()
}

/// What each shard has left.
async fn left(limiter: &Limiter<Counted, Noon>) -> Vec<u64> {
    let matched = limiter.policy().apply(&Attributes::default(), &Costs::requests(1)).unwrap();
    let mut left = Vec::new();
    for shard in 0..shards(&matched).parts().len() {
        let ask = matched.limits[0].ask_on(shard).unwrap();
        left.push(limiter.store().peek(&[ask], Noon.now()).await.unwrap().asks[0].remaining.unwrap());
    }
    left
}

/// Tasks ask until all shards are full, and a little longer.
async fn hammered(limiter: &Arc<Limiter<Counted, Noon>>, limit: usize) -> usize {
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..limit * 4 {
                    let verdict = limiter.take(&Attributes::default(), &Costs::requests(1)).await.unwrap();
                    admitted += usize::from(verdict.allowed);
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_shards_together_admit_exactly_the_limit_however_many_ask_at_once() {
    for algorithm in ALGORITHMS {
        for (limit, shards) in [(100, 2), (203, 8), (64, 64)] {
            let limiter = Arc::new(limiter(&edge(algorithm, limit, shards)));
            let admitted = hammered(&limiter, usize::try_from(limit).unwrap()).await;
            assert_eq!(admitted, usize::try_from(limit).unwrap(), "{algorithm} {shards}");
            assert_eq!(left(&limiter).await, vec![0; usize::try_from(shards).unwrap()], "{algorithm}");
        }
    }
}

/// With two shards the other one is where the room is: no request is denied as long as there is any.
#[tokio::test]
async fn of_two_shards_the_second_is_asked_when_the_first_is_full() {
    let limiter = limiter(&edge("fixed_window", 101, 2));
    for call in 0..101 {
        let verdict = limiter.take(&Attributes::default(), &Costs::requests(1)).await.unwrap();
        assert!(verdict.allowed, "{call}");
    }
    takes(&limiter);
    let verdict = limiter.take(&Attributes::default(), &Costs::requests(1)).await.unwrap();
    assert!(!verdict.allowed);
    assert_eq!(takes(&limiter), 2, "one more try, and no third");
}

#[tokio::test]
async fn a_cost_above_the_least_share_is_never_admitted_and_not_tried_twice() {
    for algorithm in ALGORITHMS {
        let limiter = limiter(&edge(algorithm, 103, 4));
        for _ in 0..50 {
            // Three shards of 26 could take it and one of 25 could not.
            let verdict = limiter.take(&Attributes::default(), &Costs::requests(26)).await.unwrap();
            assert_eq!(verdict.retry(), Some(Retry::Never), "{algorithm}");
            assert_eq!(takes(&limiter), 1, "{algorithm}");
        }
        assert_eq!(left(&limiter).await, [26, 26, 26, 25], "{algorithm}");
        let verdict = limiter.take(&Attributes::default(), &Costs::requests(25)).await.unwrap();
        let told = verdict.limits[0].decision;
        assert!(verdict.allowed && told.remaining <= Some(1), "{algorithm}");
        assert_eq!((told.limit, told.capacity), (Some(103), Some(25)), "{algorithm}");
    }
}

#[tokio::test]
async fn what_another_limit_denies_is_not_tried_on_another_shard_and_counts_nothing() {
    let one = "  - { name: one, algorithm: fixed_window, limit: 1, per: 1h, key: [user] }";
    let limiter = limiter(&format!("{}\n{one}", edge("gcra", 100, 4)));
    let alice = Attributes::from_iter([("user", "alice")]);
    assert!(limiter.take(&alice, &Costs::requests(1)).await.unwrap().allowed);
    takes(&limiter);
    for _ in 0..20 {
        assert!(!limiter.take(&alice, &Costs::requests(1)).await.unwrap().allowed);
        assert_eq!(takes(&limiter), 1);
    }
    assert_eq!(left(&limiter).await.iter().sum::<u64>(), 99);
}

#[tokio::test]
async fn a_peek_looks_at_one_shard_and_counts_nothing() {
    let limiter = limiter(&edge("sliding_counter", 100, 8));
    for _ in 0..50 {
        let verdict = limiter.decide(Verb::Peek, &Attributes::default(), &Costs::requests(1)).await.unwrap();
        assert_eq!(verdict.limits[0].decision.remaining, Some(12));
    }
    assert_eq!(left(&limiter).await, [13, 13, 13, 13, 12, 12, 12, 12]);
}

/// A request that is made again must find the shard that counted it, wherever it is made.
#[tokio::test]
async fn a_request_with_an_id_is_counted_once_by_one_shard() {
    let limiter = limiter(&edge("fixed_window", 6_400, 64));
    for id in 0..100 {
        let id: RequestId = format!("order-{id}").parse().unwrap();
        for _ in 0..5 {
            let told = limiter.take_once(&id, &Attributes::default(), &Costs::requests(1)).await.unwrap();
            assert!(told.allowed);
        }
    }
    assert_eq!(left(&limiter).await.iter().sum::<u64>(), 6_300);
}

#[tokio::test]
async fn in_shadow_a_split_counter_counts_as_it_would_if_it_decided() {
    let limits = edge("fixed_window", 101, 2).replace("shards", "enforcement: shadow, shards");
    let limiter = limiter(&limits);
    for call in 0..120 {
        let verdict = limiter.take(&Attributes::default(), &Costs::requests(1)).await.unwrap();
        assert!(verdict.allowed);
        assert_eq!(verdict.limits[0].decision.allowed, call < 101, "{call}");
    }
}

/// How much of the limit is used when the first request is denied, and of the next requests until as many have asked as
/// the limit says: what `docs/concepts/hot-keys.md` states.
#[tokio::test]
async fn few_are_denied_before_the_limit_is_reached() {
    const LIMIT: u64 = 10_000;
    for (shards, first_denial_at_least, admitted_at_least) in
        [(2, 10_000, 10_000), (8, 9_500, 9_900), (64, 8_500, 9_700)]
    {
        fastrand::seed(7);
        let limiter = limiter(&edge("fixed_window", LIMIT, shards));
        let (mut admitted, mut first_denial) = (0, None);
        for call in 0..LIMIT {
            let verdict = limiter.take(&Attributes::default(), &Costs::requests(1)).await.unwrap();
            admitted += u64::from(verdict.allowed);
            if !verdict.allowed {
                first_denial = first_denial.or(Some(call));
            }
        }
        let first_denial = first_denial.unwrap_or(LIMIT);
        assert!(first_denial >= first_denial_at_least, "{shards} shards: {first_denial}");
        assert!(admitted >= admitted_at_least, "{shards} shards: {admitted}");
    }
}
