//! A process that takes when it is told to: `ask_by_clock URL AMOUNT WINDOW_US server|own`.
//!
//! It says `ready`, and for each line with the number of a limit `allowed`, `denied` or `unknown`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test's helper")]

use std::{
    io::{BufRead, Write},
    time::Duration,
};

use sluicegate::{Clock, Store, SystemClock};
use sluicegate_redis::{RedisClock, RedisConfig, RedisStore};
use sluicegate_tests::{asker::limits, fixtures::Limit};

/// Tests share their machine: an answer may take long.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main(worker_threads = 1)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let config = RedisConfig::from_url(&arguments[1]).unwrap().response_timeout(PATIENCE);
    let window = Duration::from_micros(arguments[3].parse().unwrap());
    let limits: Vec<Limit> = limits(arguments[2].parse().unwrap(), window)
        .into_iter()
        .map(|(name, rule)| Limit::new(name, rule))
        .collect();
    let store = RedisStore::open(&config).unwrap();
    if arguments[4] == "own" {
        return answer(&store, &SystemClock::new(), &limits).await;
    }
    let clock = RedisClock::start(&config).unwrap();
    clock.sync().await.unwrap();
    answer(&store.with_clock(clock.clone()), &clock, &limits).await;
}

async fn answer(store: &RedisStore, clock: &impl Clock, limits: &[Limit]) {
    store.ping().await.unwrap();
    say("ready");
    for line in std::io::stdin().lock().lines() {
        let limit = &limits[line.unwrap().parse::<usize>().unwrap()];
        let decided = store.take(&[limit.ask("alice", 1)], clock.now()).await;
        say(decided.map_or("unknown", |decision| if decision.allowed { "allowed" } else { "denied" }));
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
