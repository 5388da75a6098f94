//! Asks that wait decided together, against one call each on the same script: `cargo run --release --bin gather`.
//!
//! Server time is what the server process used (INFO cpu). Medians of alternating rounds.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Cmd, aio::MultiplexedConnection};
use sluicegate::{
    Store,
    core::{Ask, LimitId, Micros, Rule, Subject},
};
use sluicegate_bench::{
    median,
    server::{Server, cpu_us},
};
use sluicegate_redis::RedisStore;

const NOW: Micros = Micros::from_secs(1_790_000_000);
const ENOUGH: u64 = 30_000_000;
const ROUNDS: usize = 7;

/// What one round of calls showed.
struct Round {
    per_second: f64,
    per_cpu_second: f64,
    p50_us: f64,
    p99_us: f64,
}

/// So many callers, each with calls one after another; each call gets a number.
async fn round<A>(
    server: &Server,
    callers: usize,
    calls: usize,
    call: impl Fn(usize) -> A + Send + Sync + 'static,
) -> Round
where
    A: Future<Output = ()> + Send,
{
    let mut admin = server.admin();
    let (call, cpu_before, began) = (Arc::new(call), cpu_us(&mut admin), Instant::now());
    let mut running = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let call = call.clone();
        running.spawn(async move {
            let mut took_us = Vec::with_capacity(calls / callers);
            for at in 0..calls / callers {
                let began = Instant::now();
                call(caller + at * callers).await;
                took_us.push(began.elapsed().as_secs_f64() * 1e6);
            }
            took_us
        });
    }
    let mut took_us: Vec<f64> = running.join_all().await.concat();
    let seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = (cpu_us(&mut admin) - cpu_before) / 1e6;
    took_us.sort_by(f64::total_cmp);
    Round {
        per_second: took_us.len() as f64 / seconds,
        per_cpu_second: took_us.len() as f64 / cpu_seconds,
        p50_us: took_us[took_us.len() / 2],
        p99_us: took_us[took_us.len() * 99 / 100],
    }
}

/// What both contestants call, for as long as the process lives, as in a server.
#[derive(Clone, Copy)]
struct World {
    store: &'static RedisStore,
    rule: &'static Rule,
    id: LimitId,
    subjects: &'static [Subject],
    calls: &'static [Cmd],
}

impl World {
    fn new(server: &Server, keys: usize) -> Self {
        let store: &'static RedisStore = Box::leak(Box::new(server.store()));
        let rule: &'static Rule =
            Box::leak(Box::new(Rule::token_bucket(ENOUGH, Duration::from_secs(60), ENOUGH).expect("a rule")));
        let id = LimitId::of("limit", rule);
        let subject =
            |key: usize| Subject::new("api", &[], &[("user", Some(format!("user-{key}").as_str()))]);
        let subjects: &'static [Subject] = Vec::leak((0..keys).map(subject).collect());
        let call = |subject: &Subject| {
            store.take_call(&[Ask::new(rule, id, subject.clone(), 1)], NOW).expect("a call")
        };
        let calls = Vec::leak(subjects.iter().map(call).collect());
        Self { store, rule, id, subjects, calls }
    }

    async fn gathered(self, at: usize) {
        let subject = self.subjects[at % self.subjects.len()].clone();
        let ask = Ask::new(self.rule, self.id, subject, 1);
        self.store.take(&[ask], NOW).await.expect("a decision");
    }

    async fn one_call(self, mut redis: MultiplexedConnection, at: usize) {
        redis.send_packed_command(&self.calls[at % self.calls.len()]).await.expect("an answer");
    }
}

/// Ratios of ours to one call each.
#[derive(Default)]
struct Ratios {
    per_second: Vec<f64>,
    per_cpu_second: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

async fn compare(server: &Server, keys: usize, callers: usize, calls: usize) -> Ratios {
    let world = World::new(server, keys);
    world.gathered(0).await;
    let client = redis::Client::open(server.url.as_str()).expect("a url");
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let bare = client.get_multiplexed_async_connection_with_config(&patient).await.expect("a connection");
    let mut ratios = Ratios::default();
    for _ in 0..ROUNDS {
        let redis = bare.clone();
        let one = round(server, callers, calls, move |at| world.one_call(redis.clone(), at)).await;
        let own = round(server, callers, calls, move |at| world.gathered(at)).await;
        ratios.per_second.push(own.per_second / one.per_second);
        ratios.per_cpu_second.push(own.per_cpu_second / one.per_cpu_second);
        ratios.p50.push(own.p50_us / one.p50_us);
        ratios.p99.push(own.p99_us / one.p99_us);
    }
    ratios
}

fn print(what: &str, ratios: Vec<f64>, target: &str) {
    println!("| {what:<66} | {:>6.2} | {target:>6} |", median(ratios));
}

#[tokio::main]
async fn main() {
    let server = Server::start();
    println!(
        "| ours : one call each                                               | ratio  | target |\n|---|---|---|"
    );
    let hot = compare(&server, 1, 64, 64_000).await;
    print("one key, 64 in flight: decisions per second of the server's time", hot.per_cpu_second, ">=15");
    print("one key, 64 in flight: decisions per second", hot.per_second, "");
    print("one key, 64 in flight: p99", hot.p99, "");
    let many = compare(&server, 10_000, 512, 102_400).await;
    print("10,000 keys, 512 in flight: decisions per second", many.per_second, ">=1.5");
    print("10,000 keys, 512 in flight: decisions per second of server time", many.per_cpu_second, "");
    print("10,000 keys, 512 in flight: p99", many.p99, "<=1");
    let idle = compare(&server, 10_000, 1, 10_000).await;
    print("one in flight: median latency", idle.p50, "<=1.05");
    print("one in flight: p99", idle.p99, "");
}
