//! Real Redis servers that die, hang, refuse, go silent and crawl: every caller is decided about, and soon.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(
    clippy::print_stdout,
    reason = "each scene tells its numbers, for a person who asks with `--nocapture`"
)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use sluicegate::{
    Clock, SureStore, Verb,
    core::{Align, DecidedBy, Rule, Share},
    guard::{GuardConfig, Guarded, Membership},
};
use sluicegate_redis::{Fleet, RedisClock, RedisConfig, RedisStore};
use sluicegate_tests::{
    Fault, Proxy, RedisServer,
    fixtures::{HOUR, Limit},
};

const DEADLINE: Duration = Duration::from_millis(20);
/// How long a recovery may take on a machine that others use as well.
const PATIENCE: Duration = Duration::from_secs(30);

fn config(url: &str) -> RedisConfig {
    RedisConfig::from_url(url).unwrap()
}

fn guarded(url: &str) -> Guarded<RedisStore> {
    let config = GuardConfig { deadline: DEADLINE, ..GuardConfig::default() };
    Guarded::new(RedisStore::open(&self::config(url)).unwrap(), Arc::default(), config)
}

fn limit() -> Limit {
    Limit::new("guarded", Rule::fixed_window(1_000_000, HOUR, Align::Epoch).unwrap())
}

fn now() -> sluicegate::core::Micros {
    sluicegate::SystemClock::new().now()
}

/// Of many callers at once, over and over: the longest wait, and who decided last.
async fn hammer(store: &Guarded<RedisStore>) -> (Duration, Vec<DecidedBy>) {
    const CALLERS: usize = 16;
    const TIMES: usize = 40;
    let callers = (0..CALLERS).map(|caller| {
        let (store, limit) = (store.clone(), limit());
        tokio::spawn(async move {
            let (mut longest, mut last) = (Duration::ZERO, DecidedBy::Store);
            for call in 0..TIMES {
                let ask = [limit.ask(&format!("{caller}-{call}"), 1)];
                let begin = Instant::now();
                let decision = store.decide(Verb::Take, &ask, now()).await;
                longest = longest.max(begin.elapsed());
                assert!(decision.allowed);
                last = decision.decided_by();
            }
            (longest, last)
        })
    });
    let ended: Vec<_> = join_all(callers).await.into_iter().map(Result::unwrap).collect();
    (
        ended.iter().map(|(longest, _)| *longest).max().unwrap(),
        ended.into_iter().map(|(_, last)| last).collect(),
    )
}

/// By how much this machine is late just now: what a timer that does nothing else is told.
async fn lateness(stop: tokio::sync::watch::Receiver<bool>) -> Duration {
    let mut latest = Duration::ZERO;
    while !*stop.borrow() {
        let begin = Instant::now();
        // What is measured is this sleep.
        tokio::time::sleep(DEADLINE).await;
        latest = latest.max(begin.elapsed().saturating_sub(DEADLINE));
    }
    latest
}

/// Nobody waits longer than the deadline and what the machine adds to any wait; when it is over, nobody asks the store.
async fn survives(scene: &str, store: &Guarded<RedisStore>) {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let idle = tokio::spawn(lateness(stopped));
    let (longest, last) = hammer(store).await;
    stop.send(true).unwrap();
    let late = idle.await.unwrap();
    println!("{scene}: longest wait {longest:?}, the machine was late by {late:?}");
    assert!(
        longest <= DEADLINE + 3 * late + Duration::from_millis(50),
        "{scene}: {longest:?}, late {late:?}"
    );
    assert!(last.iter().all(|by| *by == DecidedBy::Fallback), "{scene}: {last:?}");
}

/// Until the store decides about everything.
async fn recovers(scene: &str, store: &Guarded<RedisStore>) {
    let begin = Instant::now();
    while !store.breaker().is_closed() {
        assert!(begin.elapsed() < PATIENCE, "{scene}: the breaker does not close");
        // Nothing tells when it has closed.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("{scene}: the store decided again after {:?}", begin.elapsed());
    // One call may be late on a busy machine; that the store decides at all is what is waited for.
    let (limit, begin) = (limit(), Instant::now());
    while store.decide(Verb::Take, &[limit.ask(scene, 1)], now()).await.decided_by() != DecidedBy::Store {
        assert!(begin.elapsed() < PATIENCE, "{scene}: the store does not decide");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_caller_is_decided_about_in_time_whatever_befalls_the_way_to_redis() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let store = guarded(&proxy.url());
    recovers("before", &store).await;
    for fault in [
        Fault::Refuse,
        Fault::Blackhole,
        Fault::HalfOpen,
        Fault::Delay(Duration::from_millis(100)),
        Fault::CutBeforeRequest("EVALSHA"),
        Fault::CutBeforeReply("EVALSHA"),
    ] {
        let scene = format!("{fault:?}");
        proxy.set(fault);
        survives(&scene, &store).await;
        proxy.set(Fault::Pass);
        recovers(&scene, &store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_caller_is_decided_about_in_time_when_redis_is_killed_or_stopped() {
    let mut server = RedisServer::start();
    let store = guarded(&server.url());
    recovers("before", &store).await;
    server.freeze();
    survives("stopped", &store).await;
    server.thaw();
    recovers("stopped", &store).await;
    server.stop();
    survives("killed", &store).await;
    server.restart();
    recovers("killed", &store).await;
}

/// An attempt of the task behind it to connect may have failed just before the server came.
async fn heard(instance: &Fleet) {
    let until_heard = async { while instance.beat().await.is_err() {} };
    tokio::time::timeout(PATIENCE, until_heard).await.expect("the fleet is heard");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_learn_how_many_they_are_and_keep_it_when_redis_dies() {
    let mut server = RedisServer::start();
    let mut fleet = Vec::new();
    for _ in 0..7 {
        let clock = RedisClock::start(&config(&server.url())).unwrap();
        clock.sync().await.unwrap();
        let membership = Arc::new(Membership::default());
        fleet.push((Fleet::join(&config(&server.url()), clock, membership.clone()).unwrap(), membership));
    }
    let learn = async |fleet: &[(Fleet, Arc<Membership>)]| -> Vec<Share> {
        for (instance, _) in fleet.iter().chain(fleet) {
            heard(instance).await;
        }
        let mut shares: Vec<Share> = fleet.iter().map(|(_, membership)| membership.share()).collect();
        shares.sort_by_key(|share| share.rank());
        shares
    };
    let whole: Vec<Share> = (0..7).map(|rank| Share::new(7.try_into().unwrap(), rank).unwrap()).collect();
    assert_eq!(learn(&fleet).await, whole);
    let left: i64 = redis::cmd("PTTL").arg("sg1:{!fleet}:i").query(&mut server.admin()).unwrap();
    assert!((1..=5_000).contains(&left), "{left}");

    server.stop();
    assert!(fleet[0].0.beat().await.is_err());
    let kept: Vec<u32> = fleet.iter().map(|(_, membership)| membership.share().instances().get()).collect();
    assert_eq!(kept, [7; 7]);

    // The list is empty now: who writes first does not take itself for the only one.
    server.restart();
    heard(&fleet[3].0).await;
    assert_eq!(fleet[3].1.share().instances().get(), 7);
    // Those that left are missed after five seconds, and believed to have left after five more.
    fleet.truncate(2);
    let begin = Instant::now();
    while learn(&fleet).await != [0, 1].map(|rank| Share::new(2.try_into().unwrap(), rank).unwrap()) {
        assert!(begin.elapsed() < PATIENCE, "the fleet does not shrink");
        // A lifetime has to pass on the server's clock.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(begin.elapsed() > Duration::from_secs(4), "{:?}", begin.elapsed());
}
