//! Failures that other limiters shipped and that were reported in public, each as a test of the Redis store. The
//! comment tells the failure and where it was reported.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use sluicegate::{
    Store,
    core::{Align, AskDecision, Micros, Retry, Rule, State},
};
use sluicegate_redis::{RedisStore, record_key};
use sluicegate_tests::{
    RedisServer,
    checks::lives,
    fixtures::{HOUR, Limit, subject},
};

/// The start of a minute, an hour and a day, with digits to lose.
const NOON: Micros = Micros::from_secs(1_790_035_200);
const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    server: RedisServer,
    store: RedisStore,
}

impl Fixture {
    fn new() -> Self {
        let server = RedisServer::start();
        let store = server.store();
        Self { server, store }
    }

    async fn take(&self, limit: &Limit, cost: u64, now: Micros) -> AskDecision {
        self.store.take(&[limit.ask("alice", cost)], now).await.unwrap().asks[0]
    }

    /// How many of `calls` calls at one instant pass.
    async fn passed(&self, limit: &Limit, calls: usize, now: Micros) -> usize {
        let mut passed = 0;
        for _ in 0..calls {
            passed += usize::from(self.take(limit, 1, now).await.allowed);
        }
        passed
    }

    /// The time to live of the one key, in ms.
    fn life_ms(&self) -> i64 {
        let lives = lives(&mut self.server.admin());
        assert_eq!(lives.len(), 1, "{lives:?}");
        lives.into_values().next().unwrap()
    }
}

fn fixed(amount: u64, window: Duration) -> Limit {
    Limit::new("fixed", Rule::fixed_window(amount, window, Align::Epoch).unwrap())
}

fn log(amount: u64, window: Duration) -> Limit {
    Limit::new("log", Rule::sliding_log(amount, window).unwrap())
}

fn counter(amount: u64, window: Duration) -> Limit {
    Limit::new("counter", Rule::sliding_counter(amount, window).unwrap())
}

fn bucket(amount: u64, window: Duration, burst: u64) -> Limit {
    Limit::new("bucket", Rule::token_bucket(amount, window, burst).unwrap())
}

fn all(amount: u64, window: Duration) -> [Limit; 4] {
    [fixed(amount, window), log(amount, window), counter(amount, window), bucket(amount, window, amount)]
}

/// A time to live that ended exactly at the window's edge let the count begin anew inside the window
/// (rack-attack PR#85).
#[tokio::test]
async fn a_key_outlives_its_window() {
    for limit in all(5, SECOND) {
        let fixture = Fixture::new();
        fixture.take(&limit, 5, NOON).await;
        assert!(fixture.life_ms() > 1_000 + 1_000, "{limit:?}: {}", fixture.life_ms());
    }
}

/// At a time to live of 0 ms the old count was kept and the time to live renewed: windows lasted two or three times as
/// long (rate-limit-redis#216, PR#209). Here the window is in the value: a key that lives on counts from 1.
#[tokio::test]
async fn a_window_that_is_over_counts_from_one_though_its_key_lives() {
    let (fixture, limit) = (Fixture::new(), fixed(5, SECOND));
    assert_eq!(fixture.passed(&limit, 9, NOON).await, 5);
    assert!(fixture.life_ms() > 0);
    let answer = fixture.take(&limit, 1, NOON.plus(SECOND)).await;
    assert_eq!((answer.remaining, answer.reset_after), (Some(4), SECOND));
}

/// A comparison with `<` after the increment let 9 of 10 pass (redis-developer.github.io PR#613).
#[tokio::test]
async fn exactly_the_limit_passes() {
    for limit in all(10, HOUR) {
        assert_eq!(Fixture::new().passed(&limit, 13, NOON).await, 10, "{limit:?}");
    }
}

/// `EXPIRE` only where the value equals the amount: a key without time to live was never repaired
/// (OpenGateLLM#608, PatchMon#868).
#[tokio::test]
async fn a_count_gives_a_time_to_live_to_a_key_that_lost_its_own() {
    for limit in all(10, SECOND) {
        let fixture = Fixture::new();
        fixture.take(&limit, 5, NOON).await;
        let key = record_key(&subject("alice"));
        redis::cmd("PERSIST").arg(key).exec(&mut fixture.server.admin()).unwrap();
        assert_eq!(fixture.life_ms(), -1);
        fixture.take(&limit, 1, NOON).await;
        assert!(fixture.life_ms() > 0, "{limit:?}");
    }
}

/// Half a second was rounded down to no time to live at all: five passed, and then none for ever; 1.9 s became 1 s, so
/// that twice the traffic passed (node-rate-limiter-flexible, `duration` in seconds).
#[tokio::test]
async fn windows_that_are_no_whole_seconds_live_long_enough_and_end() {
    for window_ms in [1, 500, 1_900, 59_999] {
        let window = Duration::from_millis(window_ms);
        for limit in all(5, window) {
            let fixture = Fixture::new();
            assert_eq!(fixture.passed(&limit, 7, NOON).await, 5, "{limit:?}");
            let life = u64::try_from(fixture.life_ms()).unwrap();
            let reset = fixture.take(&limit, 0, NOON).await.reset_after;
            let need = u64::try_from(reset.as_millis()).unwrap();
            assert!(life > need && life <= need + 10_000, "{limit:?}: {life} of {need}");
            assert_eq!(fixture.passed(&limit, 7, NOON.plus(reset)).await, 5, "{limit:?}");
        }
    }
}

/// A fast rate's time to live was rounded to 0, the key was never stored, and all passed for ever
/// (brandur/redis-cell#50).
#[tokio::test]
async fn however_fast_the_rate_the_call_after_the_burst_is_refused() {
    for amount in [1_000, 1_000_000, 1_000_000_000] {
        let limit = bucket(amount, SECOND, 20);
        assert_eq!(Fixture::new().passed(&limit, 22, NOON).await, 20, "{amount}/s");
    }
}

/// A lifetime in ms was given to a command that takes seconds: keys lived a thousand times too long
/// (Losant/redis-gcra#6).
#[tokio::test]
async fn a_key_lives_no_longer_than_its_reset_and_the_grace() {
    let (fixture, limit) = (Fixture::new(), bucket(10, HOUR, 10));
    let reset = fixture.take(&limit, 1, NOON).await.reset_after;
    assert_eq!(reset, HOUR / 10);
    assert!((360_000..=370_000).contains(&fixture.life_ms()), "{}", fixture.life_ms());
}

/// The counters of an hour by minutes all lived as long as the first: at 1:01 the hits of 0:59 were gone, and 9 more
/// passed (Southclaws/swirl PR#3).
#[tokio::test]
async fn late_hits_of_a_window_count_in_the_next() {
    let minute = Duration::from_secs(60);
    for (limit, most) in [(log(10, minute), 2), (counter(10, minute), 2)] {
        let fixture = Fixture::new();
        assert_eq!(fixture.passed(&limit, 1, NOON).await, 1);
        assert_eq!(fixture.passed(&limit, 8, NOON.plus(59 * SECOND)).await, 8);
        assert!(fixture.life_ms() >= 61_000, "{}", fixture.life_ms());
        let passed = fixture.passed(&limit, 10, NOON.plus(61 * SECOND)).await;
        assert!(passed <= most, "{limit:?}: {passed}");
    }
}

/// The time to live was set when the counter became 1; the first increment was 0, since the cost was not known yet, and
/// so it never was (spring-cloud-zuul-ratelimit#200).
#[tokio::test]
async fn a_first_ask_at_cost_zero_does_not_spoil_the_time_to_live() {
    for limit in all(100, HOUR) {
        let fixture = Fixture::new();
        assert!(fixture.take(&limit, 0, NOON).await.allowed);
        assert_eq!(lives(&mut fixture.server.admin()).len(), 0);
        assert!(fixture.take(&limit, 33, NOON).await.allowed);
        assert!(fixture.life_ms() > 0, "{limit:?}");
    }
}

/// A sorted set of hits had no time to live: only a background task removed it (PyrateLimiter#187).
#[tokio::test]
async fn a_log_ends_by_itself() {
    let (fixture, limit) = (Fixture::new(), log(1_000, SECOND));
    fixture.passed(&limit, 50, NOON).await;
    assert!((1..=11_000).contains(&fixture.life_ms()), "{}", fixture.life_ms());
}

/// Of limit 10, 8 used: a refused ask for 5 burned the last 2 (node-rate-limiter-flexible#286, alisaifee/limits,
/// upstash/ratelimit-js PR#161).
#[tokio::test]
async fn a_refused_cost_burns_nothing() {
    for limit in all(10, HOUR) {
        let fixture = Fixture::new();
        assert!(fixture.take(&limit, 8, NOON).await.allowed);
        let before = fixture.store.state(&limit.rule, limit.id, &subject("alice")).await.unwrap();
        let refused = fixture.take(&limit, 5, NOON).await;
        assert!(!refused.allowed && refused.remaining == Some(2), "{refused:?}");
        assert_eq!(fixture.store.state(&limit.rule, limit.id, &subject("alice")).await.unwrap(), before);
        let last = fixture.take(&limit, 1, NOON).await;
        assert!(last.allowed && last.remaining == Some(1), "{last:?}");
    }
}

/// The check did not know the cost: at 9 of 10 a cost of 5 passed and left -4 (upstash/ratelimit-js, sliding window and
/// token bucket).
#[tokio::test]
async fn the_check_counts_the_cost() {
    for limit in all(10, HOUR) {
        let fixture = Fixture::new();
        assert!(fixture.take(&limit, 9, NOON).await.allowed);
        let refused = fixture.take(&limit, 5, NOON).await;
        assert!(!refused.allowed && refused.remaining == Some(1), "{refused:?}");
    }
}

/// One member for each unit of cost: costs above 8,000 overflowed Lua's stack (alisaifee/limits 3.5.0).
#[tokio::test]
async fn a_large_cost_is_one_entry() {
    let costs = [
        (fixed(2_000_000, HOUR), 1_000_000),
        (counter(2_000_000, HOUR), 1_000_000),
        (bucket(2_000_000, HOUR, 2_000_000), 1_000_000),
        (log(1_000, HOUR), 1_000),
    ];
    for (limit, cost) in costs {
        let fixture = Fixture::new();
        assert!(fixture.take(&limit, cost, NOON).await.allowed, "{limit:?}");
        let len: usize = redis::cmd("STRLEN")
            .arg(record_key(&subject("alice")))
            .query(&mut fixture.server.admin())
            .unwrap();
        assert!(len <= 36, "{limit:?}: {len} bytes");
    }
}

/// Numbers went through 14 digits: 1700000000123456789 came back as 1.7000000001235e+18; and 2^53 + 1 was stored as 2^53
/// (alisaifee/limits, node-rate-limiter-flexible).
#[tokio::test]
async fn every_digit_survives() {
    let fixture = Fixture::new();
    let now = Micros::new(1_700_000_000_123_457);
    let limit = bucket(7, 3 * SECOND, 11);
    fixture.take(&limit, 3, now).await;
    let stored = fixture.store.state(&limit.rule, limit.id, &subject("alice")).await.unwrap();
    let Some(State::Bucket(state)) = stored else { panic!("{stored:?}") };
    assert_eq!((state.time, state.level), (now.as_u64(), 9_000_000));
    // The largest amount that an hour allows, to the last unit.
    let most = (1 << 51) / 3_600_000;
    let large = fixed(most, HOUR);
    assert_eq!(fixture.take(&large, most - 1, NOON).await.remaining, Some(1));
    for too_much in [2, most + 1, (1 << 53) + 1, u64::MAX] {
        assert!(!fixture.take(&large, too_much, NOON).await.allowed, "{too_much}");
    }
    assert_eq!(fixture.take(&large, 1, NOON).await.remaining, Some(0));
}

/// An amount of 0 was a script error, "not an integer" (go-redis/redis_rate).
#[tokio::test]
async fn an_amount_of_zero_denies_and_is_no_error() {
    for limit in all(0, HOUR) {
        let fixture = Fixture::new();
        let answer = fixture.take(&limit, 1, NOON).await;
        assert_eq!((answer.allowed, answer.remaining, answer.retry), (false, Some(0), Some(Retry::Never)));
        assert!(fixture.take(&limit, 0, NOON).await.allowed);
    }
}

/// A burst that can never fit was told to wait (bucket4j#220, guava#7130).
#[tokio::test]
async fn a_cost_above_the_burst_never_passes() {
    let fixture = Fixture::new();
    let answer = fixture.take(&bucket(3, 2 * SECOND, 3), 4, NOON).await;
    assert_eq!((answer.allowed, answer.retry, answer.remaining), (false, Some(Retry::Never), Some(3)));
}

/// A late message with an older time set the bucket's time back: burst 4 let 4 pass at T, and 4 more after a refused
/// ask at T - 10 (spring-cloud-gateway#2412, go-zero#4072).
#[tokio::test]
async fn an_older_time_mints_no_tokens() {
    let (fixture, limit) = (Fixture::new(), bucket(1, SECOND, 4));
    let late = Micros::new(NOON.as_u64() - 3_000_000);
    let passed = fixture.passed(&limit, 5, NOON).await + fixture.passed(&limit, 1, late).await;
    assert_eq!(passed + fixture.passed(&limit, 5, NOON).await, 4);
}

/// A clock that steps back an hour drained the bucket and refilled nothing until it had caught up
/// (sethvargo/go-limiter#41), or minted tokens (tikv/pd#10744).
#[tokio::test]
async fn a_step_back_by_an_hour_neither_locks_nor_opens() {
    let minute = Duration::from_secs(60);
    for limit in all(10, minute) {
        let fixture = Fixture::new();
        assert_eq!(fixture.passed(&limit, 12, NOON).await, 10, "{limit:?}");
        let back = Micros::new(NOON.as_u64() - 3_600_000_000);
        assert_eq!(fixture.passed(&limit, 12, back).await, 0, "{limit:?}");
        // Each refused ask keeps what the first one moved: two windows later all of it is free.
        let mut now = back;
        for _ in 0..12 {
            now = now.plus(10 * SECOND);
            fixture.passed(&limit, 1, now).await;
        }
        assert!(fixture.take(&limit, 1, now.plus(minute)).await.allowed, "{limit:?}");
    }
}

/// Polls truncated the refill of slow rates to nothing (apache/polaris PR#3433, reinhardt-web#2246, axum-limit#2).
#[tokio::test]
async fn slow_rates_lose_nothing_to_frequent_asks() {
    let (fixture, limit) = (Fixture::new(), bucket(1, 10 * SECOND, 3));
    assert_eq!(fixture.passed(&limit, 4, NOON).await, 3);
    let mut passed = 0;
    for second in 1..=30 {
        passed += fixture.passed(&limit, 1, NOON.plus(second * SECOND)).await;
    }
    assert_eq!(passed, 3);
}

/// After hours of idleness a product overflowed and tokens were negative (bucket4j#51).
#[tokio::test]
async fn after_a_hundred_years_the_bucket_is_just_full() {
    let (fixture, limit) = (Fixture::new(), bucket(1 << 31, SECOND, 1 << 31));
    fixture.take(&limit, 1 << 31, NOON).await;
    let later = NOON.plus(Duration::from_secs(100 * 365 * 86_400));
    let answer = fixture.take(&limit, 1, later).await;
    assert_eq!((answer.allowed, answer.remaining), (true, Some((1 << 31) - 1)));
}

/// Optimistic retries gave up at 15 calls per second on one key (throttled#41), and a connection was made for every
/// request (actix-limitation).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_on_one_key_need_one_connection_and_no_retry() {
    let (fixture, limit) = (Fixture::new(), fixed(400, HOUR));
    let connections = |server: &RedisServer| -> u64 {
        let stats: String = redis::cmd("INFO").arg("stats").query(&mut server.admin()).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().parse().unwrap()
    };
    let before = connections(&fixture.server);
    let store = fixture.store.clone();
    let passed = sluicegate_tests::checks::admitted_at_once(1_000, move |_| {
        let (store, limit) = (store.clone(), limit.clone());
        async move { store.take(&[limit.ask("alice", 1)], NOON).await.unwrap().allowed }
    })
    .await;
    assert_eq!(passed, 400);
    // Ours, and the second look itself.
    assert_eq!(connections(&fixture.server) - before, 2);
}
