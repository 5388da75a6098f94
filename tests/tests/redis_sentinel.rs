//! The store behind Sentinel, on real processes: it finds the master, and finds the next one after a failover.
#![allow(clippy::print_stderr)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use sluicegate::{
    Clock, Counted, Store,
    core::{Align, Micros, Rule},
};
use sluicegate_redis::{RedisClock, RedisConfig, RedisStore};
use sluicegate_tests::{
    Load, Watched, Witness,
    certs::Certs,
    checks::admitted_at_once,
    fixtures::{HOUR, Limit, subject},
    rights,
};

const NOON: Micros = Micros::from_secs(1_790_000_000);
/// How long a connection and an answer may take.
const TIMEOUT: Duration = Duration::from_millis(300);
/// A connect and a response timeout for the call and for one before it, and what a busy machine adds.
const LONGEST: Duration = Duration::from_secs(4);
/// Service is exact again this long after a promotion.
const RECOVERY: Duration = Duration::from_secs(2);
const CALLERS: usize = 50;
const AMOUNT: u64 = 10_000_000;

fn config(url: &str) -> RedisConfig {
    RedisConfig::from_url(url).unwrap().connect_timeout(TIMEOUT).response_timeout(TIMEOUT)
}

fn hourly(name: &str, amount: u64) -> Limit {
    Limit::new(name, Rule::fixed_window(amount, HOUR, Align::Epoch).unwrap())
}

async fn used(store: &RedisStore, limit: &Limit, user: &str) -> u64 {
    limit.rule.amount() - store.peek(&[limit.ask(user, 0)], NOON).await.unwrap().asks[0].remaining.unwrap()
}

fn load(store: &RedisStore, limit: &Limit) -> Load {
    let (store, limit) = (store.clone(), limit.clone());
    Load::of(CALLERS, move |_| {
        let (store, limit) = (store.clone(), limit.clone());
        async move { store.take(&[limit.ask("alice", 1)], NOON).await }
    })
}

/// The master is killed under load, or hangs, so that its connections stay open and nothing answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failover_it_counts_exactly_again_within_two_seconds_of_the_promotion() {
    for hangs in [false, true] {
        let mut group = Watched::start();
        let store = RedisStore::open(&config(&group.url())).unwrap();
        let limit = hourly("load", AMOUNT);
        let (load, witness) = (load(&store, &limit), Witness::of(&store, &subject("witness")));
        tokio::time::sleep(Duration::from_millis(300)).await; // what a failover may lose is counted first
        if hangs {
            group.servers[0].freeze();
        } else {
            group.servers[0].stop();
        }
        let group = tokio::task::spawn_blocking(move || (group.promoted(1), group));
        let (promoted, group) = group.await.unwrap();
        let first = load.admitted_again(promoted, RECOVERY).await;
        let tight = hourly("after", 50);
        let exact = admitted_at_once(100, {
            let (store, tight) = (store.clone(), tight.clone());
            move |_| {
                let (store, tight) = (store.clone(), tight.clone());
                async move { store.take(&[tight.ask("alice", 1)], NOON).await.unwrap().allowed }
            }
        })
        .await;
        let recovered = promoted.elapsed();
        assert_eq!(exact, 50);
        assert!(recovered < RECOVERY, "{recovered:?}");
        let told = load.end(LONGEST).await;
        witness.held_but_for_losses(LONGEST, 1).await;
        let stored = used(&store, &limit, "alice").await;
        let lost = told.admitted().saturating_sub(stored);
        eprintln!(
            "a master {}: {told}; first admitted {first:?} after the promotion, exact {recovered:?} after it; \
             {stored} stored, {lost} acknowledged and lost with the master",
            if hangs { "hangs" } else { "killed" }
        );
        assert!(stored <= told.admitted() + told.unknown(), "{stored} stored, {told}");
        let late = told.last_failure().unwrap().saturating_duration_since(promoted);
        assert!(late < RECOVERY, "a call failed {late:?} after the promotion");
        if hangs {
            group.servers[0].thaw();
        }
    }
}

/// The rights that `docs/operating/redis.md` lists are all that the store needs, of the master and of the sentinels.
#[tokio::test]
async fn the_least_rights_are_enough_and_a_sentinel_that_is_gone_is_passed_over() {
    let mut group = Watched::with(&[rights::SENTINEL]);
    rights::give(&group.servers[0], &[rights::STORE, rights::DATABASE, rights::MASTER]);
    group.end_sentinel(0);
    let of_sentinels = "/3?sentinel_user=watcher&sentinel_password=password";
    let config = config(&group.url_with("limiter:password@", of_sentinels));
    let clock = RedisClock::start(&config).unwrap();
    clock.sync().await.unwrap();
    let store = RedisStore::open(&config).unwrap().with_clock(clock.clone());
    store.ping().await.unwrap();
    let limit = hourly("rights", 2);
    for now in [clock.now().plus(HOUR), clock.now()] {
        assert!(store.take(&[limit.ask("alice", 1)], now).await.unwrap().allowed);
    }
    assert!(!store.peek(&[limit.ask("alice", 1)], clock.now()).await.unwrap().allowed);
    for who in ["watcher&sentinel_password=wrong", "nobody&sentinel_password=password"] {
        let url = group.url_with("limiter:password@", &format!("/3?sentinel_user={who}"));
        let wrong = RedisStore::open(&self::config(&url)).unwrap();
        let refused = wrong.take(&[limit.ask("alice", 1)], NOON).await.unwrap_err();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(refused.counted() == Counted::Nothing && cause.contains("WRONGPASS"), "{refused:?}");
    }
}

#[tokio::test]
async fn sentinels_are_asked_over_tls_and_trusted_by_their_authority_alone() {
    let group = Watched::start();
    let limit = hourly("tls", 2);
    // Handshakes without optimisation on a shared machine take long.
    let patient = |url: &str| config(url).connect_timeout(Duration::from_secs(20));
    let ours = patient(&group.url_with_tls()).trusting(group.certs.ca.as_str());
    let store = RedisStore::open(&ours).unwrap();
    assert!(store.take(&[limit.ask("alice", 1)], NOON).await.unwrap().allowed);
    let other = patient(&group.url_with_tls()).trusting(Certs::new().ca);
    let refused = RedisStore::open(&other).unwrap().take(&[limit.ask("alice", 1)], NOON).await.unwrap_err();
    assert_eq!(refused.counted(), Counted::Nothing);
    assert_eq!(used(&store, &limit, "alice").await, 1);
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_and_a_master_that_is_none_are_refused() {
    let group = Watched::start();
    let limit = hourly("name", 2);
    let unknown = RedisStore::open(&config(&group.url().replace("/limits", "/limit"))).unwrap();
    let refused = unknown.take(&[limit.ask("alice", 1)], NOON).await.unwrap_err();
    assert_eq!(refused.counted(), Counted::Nothing);
    assert!(format!("{refused:?}").contains("knows no master of that name"), "{refused:?}");
    // The sentinels go on naming a server that somebody turned into a replica.
    group.servers[1].promote();
    group.servers[0].follow(&group.servers[1]);
    let store = RedisStore::open(&config(&group.url())).unwrap();
    let refused = store.take(&[limit.ask("alice", 1)], NOON).await.unwrap_err();
    assert_eq!(refused.counted(), Counted::Nothing);
    assert!(format!("{refused:?}").contains("it is no master"), "{refused:?}");
}
