//! The Redis store under load while the server is meddled with: every call ends in time, what it says about counting
//! is true, and afterwards everything is as before.
#![allow(clippy::print_stderr)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sluicegate::{
    Counted, Store,
    core::{Align, Micros, Rule},
};
use sluicegate_redis::{RedisConfig, RedisStore};
use sluicegate_tests::{
    Load, RedisServer, Witness,
    fixtures::{HOUR, Limit, subject},
};

const NOON: Micros = Micros::from_secs(1_790_000_000);
/// How long a connection and an answer may take.
const TIMEOUT: Duration = Duration::from_millis(300);
/// A connect and a response timeout for the call and for one before it, and what a busy machine adds.
const LONGEST: Duration = Duration::from_secs(4);
const CALLERS: usize = 20;
const AMOUNT: u64 = 1_000_000;

fn limits() -> [Limit; 2] {
    let rule = |amount| Rule::fixed_window(amount, HOUR, Align::Epoch).unwrap();
    [Limit::new("first", rule(AMOUNT)), Limit::new("second", rule(AMOUNT))]
}

fn store(server: &RedisServer) -> RedisStore {
    let config = RedisConfig::from_url(&server.url()).unwrap();
    RedisStore::open(&config.connect_timeout(TIMEOUT).response_timeout(TIMEOUT)).unwrap()
}

fn load(store: &RedisStore) -> Load {
    let store = store.clone();
    Load::of(CALLERS, move |_| {
        let store = store.clone();
        async move {
            let limits = limits();
            store.take(&[limits[0].ask("alice", 1), limits[1].ask("alice", 1)], NOON).await
        }
    })
}

/// What both limits say was used; they never differ.
async fn used(store: &RedisStore) -> u64 {
    let limits = limits();
    let peeked = store.peek(&[limits[0].ask("alice", 0), limits[1].ask("alice", 0)], NOON).await.unwrap();
    let used: Vec<u64> = peeked.asks.iter().map(|ask| AMOUNT - ask.remaining.unwrap()).collect();
    assert_eq!(used[0], used[1]);
    used[0]
}

/// Lets calls come through before the next meddling.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(60)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_scripts_lost_connections_and_pauses_neither_lose_nor_double_a_count() {
    let server = RedisServer::start();
    let store = store(&server);
    let (load, witness) = (load(&store), Witness::of(&store, &subject("witness")));
    let mut admin = server.admin();
    for _ in 0..5 {
        a_while().await;
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut admin).unwrap();
        a_while().await;
        let kill = ["KILL", "TYPE", "normal", "SKIPME", "yes"];
        kill.iter().fold(&mut redis::cmd("CLIENT"), |kill, word| kill.arg(word)).exec(&mut admin).unwrap();
    }
    server.freeze();
    tokio::time::sleep(TIMEOUT * 3).await; // longer than any call waits
    server.thaw();
    a_while().await;
    let told = load.end(LONGEST).await;
    witness.held(LONGEST).await;
    // What was sent while the server stood still is answered, to nobody, before the next call is.
    let (used, admitted, unknown) = (used(&store).await, told.admitted(), told.unknown());
    eprintln!("scripts and connections lost, and a pause: {told}; {used} stored");
    assert!(admitted > 100 && unknown > 0 && told.denied() == 0, "{told}");
    assert!((admitted..=admitted + unknown).contains(&used), "{used} used, {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_comes_back_is_counted_on_again() {
    let mut server = RedisServer::start();
    let store = store(&server);
    let (load, witness) = (load(&store), Witness::of(&store, &subject("witness")));
    for _ in 0..3 {
        a_while().await;
        server.stop();
        a_while().await;
        server.restart();
        // The restarted server is empty: what is there now was counted since.
        load.admitted_again(Instant::now(), LONGEST).await;
    }
    let told = load.end(LONGEST).await;
    witness.held_but_for_losses(LONGEST, 3).await;
    eprintln!("killed and started anew three times: {told}");
    assert!(told.nothing() > 0, "{told}");
    assert!(used(&store).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_runs_too_long_refuses_the_calls_and_nothing_is_counted_meanwhile() {
    let server = RedisServer::with(&["--lua-time-limit", "50"]);
    let store = store(&server);
    let limits = limits();
    let asks = [limits[0].ask("alice", 1), limits[1].ask("alice", 1)];
    assert!(store.take(&asks, NOON).await.unwrap().allowed);
    let mut slow = server.admin();
    let busy = std::thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut slow).unwrap_err();
    });
    let mut watcher = server.admin();
    while redis::cmd("PING").exec(&mut watcher).is_ok() {
        a_while().await;
    }
    let error = store.take(&asks, NOON).await.unwrap_err();
    assert_eq!(error.counted(), Counted::Nothing, "{error:?}");
    // The killer connects after the script began, which a busy server allows.
    redis::cmd("SCRIPT").arg("KILL").exec(&mut server.admin()).unwrap();
    busy.join().unwrap();
    assert!(store.take(&asks, NOON).await.unwrap().allowed);
    assert_eq!(used(&store).await, 2);
}

/// Instances of the old and the new policy meet on one record: each finds its limits there in any order, beside others
/// that it does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_with_different_limits_count_together_where_they_share_a_limit() {
    let server = RedisServer::start();
    let rules = [
        Rule::fixed_window(300, HOUR, Align::Epoch).unwrap(),
        Rule::sliding_log(300, HOUR).unwrap(),
        Rule::sliding_counter(300, HOUR).unwrap(),
        Rule::token_bucket(300, HOUR, 300).unwrap(),
    ];
    let limits: Vec<Limit> = (0..100).map(|n| Limit::new(&format!("l{n}"), rules[n % 4].clone())).collect();
    let limits = Arc::new(limits);
    // Each policy has the last four limits, and of the others a part of its own, in an order of its own.
    let parts: Vec<Vec<usize>> = vec![
        (0..100).collect(),
        (0..100).rev().collect(),
        (50..100).collect(),
        (0..20).chain(96..100).collect(),
        vec![99, 96, 98, 97],
    ];
    let counts: Vec<Arc<AtomicU64>> = (0..100).map(|_| Arc::default()).collect();
    let mut callers = tokio::task::JoinSet::new();
    for part in parts {
        let (store, limits, counts) = (server.store(), limits.clone(), counts.clone());
        callers.spawn(async move {
            for at in 0..90 {
                let asks: Vec<_> =
                    part.iter().map(|n| limits[*n].ask("alice", u64::from(at % 3 != 2))).collect();
                if store.take(&asks, NOON.plus(Duration::from_millis(at))).await.unwrap().allowed {
                    for n in &part {
                        counts[*n].fetch_add(asks[0].cost, Ordering::Relaxed);
                    }
                }
            }
        });
    }
    callers.join_all().await;
    let store = server.store();
    for (limit, count) in limits.iter().zip(counts) {
        let now = NOON.plus(Duration::from_millis(90));
        let left = store.peek(&[limit.ask("alice", 0)], now).await.unwrap().asks[0].remaining.unwrap();
        assert_eq!(300 - left, count.load(Ordering::Relaxed), "{limit:?}");
    }
}
