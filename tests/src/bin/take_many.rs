//! A process that makes many calls at once, for tests that need several processes: `take_many URL LIMIT TASKS ROUNDS`.
//!
//! It says `ready`, waits for a line, and then prints how much was admitted, after each round. Calls cost 1 to 3.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test's helper")]

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sluicegate::{
    Store,
    core::{Align, Ask, LimitId, Micros, Rule, Subject},
};
use sluicegate_redis::{RedisConfig, RedisStore};
use sluicegate_tests::checks::admitted_at_once;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    let (limit, tasks, rounds) = (u64::try_from(number(2)).unwrap(), number(3), number(4));
    let config = RedisConfig::from_url(&arguments[1]).unwrap().response_timeout(Duration::from_secs(20));
    let store = RedisStore::open(&config).unwrap();
    store.ping().await.unwrap();
    say("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for _ in 0..rounds {
        let (store, admitted) = (store.clone(), Arc::new(AtomicU64::new(0)));
        let sum = admitted.clone();
        admitted_at_once(tasks, move |call| {
            let (store, sum) = (store.clone(), sum.clone());
            async move {
                let cost = 1 + u64::try_from(call % 3).unwrap();
                let passes = take(store, limit, cost).await;
                sum.fetch_add(if passes { cost } else { 0 }, Ordering::Relaxed);
                passes
            }
        })
        .await;
        say(&admitted.load(Ordering::Relaxed).to_string());
    }
}

async fn take(store: RedisStore, limit: u64, cost: u64) -> bool {
    let rule = Rule::fixed_window(limit, Duration::from_secs(3_600), Align::Epoch).unwrap();
    let subject = Subject::new("test", &[], &[("user", Some("shared"))]);
    let ask = Ask::new(&rule, LimitId::of("shared", &rule), subject, cost);
    store.take(&[ask], Micros::from_secs(1_790_000_000)).await.unwrap().allowed
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
