//! Limiters as they are often written, and wrong. Each must be caught by a check that ours passes: a check that cannot
//! fail would prove nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use sluicegate::{Clock, Store, SystemClock, core::Rule};
use sluicegate_tests::{
    RedisServer,
    checks::{admitted_at_once, lives},
    fixtures::Limit,
};

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    // Tests share their machine: an answer may take long.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Read, compare, count: others read in between.
async fn get_check_incr(mut redis: MultiplexedConnection, key: &str, limit: u64) -> bool {
    let used: Option<u64> = redis::cmd("GET").arg(key).query_async(&mut redis).await.unwrap();
    if used.unwrap_or(0) >= limit {
        return false;
    }
    let _used: u64 = redis::cmd("INCR").arg(key).query_async(&mut redis).await.unwrap();
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_then_increment_is_caught_by_fifty_calls_at_once() {
    let server = RedisServer::start();
    let redis = connect(&server).await;
    // One round may pass by luck, where the calls happen to come one after the other.
    let mut most = 0;
    for _ in 0..50 {
        redis::cmd("SET").arg("naive").arg(998).exec(&mut server.admin()).unwrap();
        let redis = redis.clone();
        most = most.max(admitted_at_once(50, move |_| get_check_incr(redis.clone(), "naive", 1_000)).await);
        if most > 2 {
            return;
        }
    }
    panic!("the race did not show: at most {most} passed");
}

/// Counts, and sets the time to live in a second command, unless the client dies before it.
async fn incr_then_expire(mut redis: MultiplexedConnection, key: &str, dies: bool) {
    let used: u64 = redis::cmd("INCR").arg(key).query_async(&mut redis).await.unwrap();
    if used == 1 && !dies {
        redis::cmd("EXPIRE").arg(key).arg(60).exec_async(&mut redis).await.unwrap();
    }
}

#[tokio::test]
async fn expire_in_a_second_command_is_caught_by_a_look_at_every_key() {
    let server = RedisServer::start();
    let redis = connect(&server).await;
    incr_then_expire(redis.clone(), "lucky", false).await;
    incr_then_expire(redis.clone(), "blocked-for-ever", true).await;
    incr_then_expire(redis, "blocked-for-ever", false).await;
    let lives = lives(&mut server.admin());
    assert!(lives["lucky"] > 0);
    assert_eq!(lives["blocked-for-ever"], -1);
}

const WINDOW: Duration = Duration::from_secs(2);
const LIMIT: u64 = 10;

/// Spends 1 at the start of a window and 8 at its end, and counts what passes of ten calls just after the edge. The
/// counts of the last window have hardly faded: at most 2 may pass. `take` gets the number of the try: on a machine
/// under load a pause may spoil one.
async fn passed_after_the_edge<A: Future<Output = bool>>(take: impl Fn(usize) -> A) -> usize {
    for round in 0..10 {
        if let Some(passed) = try_around_the_edge(|| take(round)).await {
            return passed;
        }
    }
    panic!("this machine pauses for so long that no window can be hit");
}

/// `None` if a pause took a call out of the part of the window where it belongs.
async fn try_around_the_edge<A: Future<Output = bool>>(take: impl Fn() -> A) -> Option<usize> {
    let clock = SystemClock::new();
    let window_us = u64::try_from(WINDOW.as_micros()).unwrap();
    let window = || clock.now().as_u64() / window_us;
    let left_of_window = || Duration::from_micros(window_us - clock.now().as_u64() % window_us);
    // Redis expires keys by real time alone, so that this is one of the few tests that wait for it.
    tokio::time::sleep(left_of_window() + WINDOW / 50).await;
    let first = window();
    take().await;
    let in_time = left_of_window() > WINDOW * 95 / 100;
    // The other counts come late in the window: that is where the bad counters lose them.
    tokio::time::sleep(WINDOW * 7 / 10).await;
    for _ in 0..8 {
        take().await;
    }
    let in_time = in_time && window() == first;
    // Up to 0.15 into the next window, the 9 of the last one still count as 7.65 or more: room for 2 at most.
    tokio::time::sleep(left_of_window() + WINDOW / 10).await;
    let mut passed = 0;
    for _ in 0..10 {
        passed += usize::from(take().await);
    }
    let in_time = in_time && window() == first + 1 && left_of_window() > WINDOW * 85 / 100;
    in_time.then_some(passed)
}

/// Two windows in one hash whose time to live is one window from the first count: it takes the counts of the end of the
/// window with it.
const COUNTER_WITH_SHORT_LIFE: &str = r"
local start = math.floor(tonumber(ARGV[1]) / tonumber(ARGV[2]))
local into = tonumber(ARGV[1]) % tonumber(ARGV[2]) / tonumber(ARGV[2])
local previous = tonumber(redis.call('HGET', KEYS[1], start - 1) or '0')
local current = tonumber(redis.call('HGET', KEYS[1], start) or '0')
if previous * (1 - into) + current + 1 > tonumber(ARGV[3]) then return 0 end
redis.call('HINCRBY', KEYS[1], start, 1)
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], math.floor(ARGV[2] / 1000)) end
return 1";

/// Hits at 0:00 and 0:59 of a minute, and at 1:01 the whole counter was gone (Southclaws/swirl PR#3).
#[tokio::test]
async fn a_time_to_live_of_one_window_is_caught_by_calls_after_the_edge() {
    let server = RedisServer::start();
    let (redis, clock) = (connect(&server).await, SystemClock::new());
    let passed = passed_after_the_edge(|round| {
        let (mut redis, now) = (redis.clone(), clock.now().as_u64());
        async move {
            let window_us = u64::try_from(WINDOW.as_micros()).unwrap();
            let script = redis::Script::new(COUNTER_WITH_SHORT_LIFE);
            let mut call = script.key(format!("short-{round}"));
            call.arg(now).arg(window_us).arg(LIMIT);
            call.invoke_async::<u64>(&mut redis).await.unwrap() == 1
        }
    })
    .await;
    assert!(passed > 2, "the failure did not show: {passed} passed");
}

#[tokio::test]
async fn ours_remembers_the_window_before_when_its_key_would_have_ended() {
    let server = RedisServer::start();
    let store = server.store();
    let (rule, clock) = (Rule::sliding_counter(LIMIT, WINDOW).unwrap(), SystemClock::new());
    let limit = Limit::new("edge", rule);
    let passed = passed_after_the_edge(|round| {
        let (store, limit, now) = (store.clone(), limit.clone(), clock.now());
        async move { store.take(&[limit.ask(&round.to_string(), 1)], now).await.unwrap().allowed }
    })
    .await;
    assert!(passed <= 2, "{passed} passed");
}
