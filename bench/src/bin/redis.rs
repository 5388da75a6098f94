//! The Redis store against bare scripts, on a `redis-server` of its own: `cargo run --release --bin redis`.
//!
//! Server time is what the server process used (INFO cpu) per decision of a pipelined client, so that neither the
//! client nor the machine's other work counts. Medians of alternating rounds.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Cmd, aio::MultiplexedConnection};
use sluicegate::{
    Store,
    core::{Align, Ask, LimitId, Micros, Rule, Subject},
};
use sluicegate_bench::{
    gcra::TEXTBOOK_GCRA,
    median,
    server::{Server, cpu_us},
};
use sluicegate_redis::{RedisStore, record_key};

const NOW: Micros = Micros::from_secs(1_790_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const KEYS: usize = 100;
/// Commands of one pipeline, pipelines of one round, and rounds.
const PIPELINE: usize = 200;
const PIPELINES: usize = 50;
const ROUNDS: usize = 11;
/// Calls at once of the client's measurement, and calls of one round.
const IN_FLIGHT: usize = 512;
const CALLS: usize = 60_000;

/// What people write first: count, and end with the window.
const INCRBY_PEXPIRE: &str = "local n = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return n";
/// The same with the window's end set by its first count alone.
const INCRBY_FIRST_PEXPIRE: &str = "local n = redis.call('INCRBY', KEYS[1], ARGV[1])
if n == tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return n";
/// One pipeline of a contestant, ready to be sent.
struct Contestant {
    name: &'static str,
    pipeline: Vec<u8>,
    figures: Vec<f64>,
}

impl Contestant {
    fn new(name: &'static str, mut command: impl FnMut(usize) -> Cmd) -> Self {
        let mut pipeline = Vec::new();
        (0..PIPELINE).for_each(|at| command(at % KEYS).write_packed_command(&mut pipeline));
        Self { name, pipeline, figures: Vec::new() }
    }

    fn round(&mut self, server: &Server, admin: &mut redis::Connection) {
        let mut stream = TcpStream::connect(&server.address).expect("a connection");
        self.send(&mut stream);
        let before = cpu_us(admin);
        (0..PIPELINES).for_each(|_| self.send(&mut stream));
        self.figures.push((cpu_us(admin) - before) / (PIPELINE * PIPELINES) as f64);
    }

    /// Sends the pipeline and reads until an echo that is asked for last comes back.
    fn send(&self, stream: &mut TcpStream) {
        const END: &[u8] = b"the-end-of-replies\r\n";
        stream.write_all(&self.pipeline).expect("a pipeline sent");
        stream.write_all(b"*2\r\n$4\r\nECHO\r\n$18\r\nthe-end-of-replies\r\n").expect("an echo sent");
        let (mut buffer, mut tail) = (vec![0; 1 << 16], Vec::new());
        while !tail.ends_with(END) {
            let read = stream.read(&mut buffer).expect("replies");
            assert!(!buffer[..read].windows(5).any(|bytes| bytes == b"-ERR "), "{} fails", self.name);
            tail.extend_from_slice(&buffer[..read]);
            tail.drain(..tail.len().saturating_sub(END.len()));
        }
    }

    fn us(&self) -> f64 {
        median(self.figures.clone())
    }
}

fn subject(key: usize) -> Subject {
    Subject::new("api", &[], &[("user", Some(format!("user-{key}").as_str()))])
}

fn ask<'a>(rule: &'a Rule, name: &str, key: usize) -> Ask<'a> {
    Ask::new(rule, LimitId::of(name, rule), subject(key), 1)
}

fn fixed(amount: u64) -> Rule {
    Rule::fixed_window(amount, MINUTE, Align::Epoch).expect("a rule")
}

fn bucket(amount: u64) -> Rule {
    Rule::token_bucket(amount, MINUTE, amount).expect("a rule")
}

const ENOUGH: u64 = 30_000_000;

fn server_time(server: &Server, store: &RedisStore) -> Vec<Contestant> {
    let mut admin = server.admin();
    let load = |admin: &mut redis::Connection, script: &str| -> String {
        redis::cmd("SCRIPT").arg("LOAD").arg(script).query(admin).expect("a script")
    };
    let bare = |sha: String, arguments: Vec<u64>| {
        move |key: usize| {
            let mut call = redis::cmd("EVALSHA");
            call.arg(&sha).arg(1).arg(format!("bare:{{api:user=user-{key}}}")).arg(&arguments);
            call
        }
    };
    let ours = |rule: Rule, limits: usize| {
        move |key: usize| {
            let names: Vec<String> = (0..limits).map(|limit| format!("limit-{limit}")).collect();
            let asks: Vec<Ask<'_>> = names.iter().map(|name| ask(&rule, name, key)).collect();
            store.take_call(&asks, NOW).expect("a call")
        }
    };
    let now_us = NOW.as_u64();
    let mut contestants = vec![
        Contestant::new("INCRBY, PEXPIRE", bare(load(&mut admin, INCRBY_PEXPIRE), vec![1, 60_000])),
        Contestant::new(
            "INCRBY, first PEXPIRE",
            bare(load(&mut admin, INCRBY_FIRST_PEXPIRE), vec![1, 60_000]),
        ),
        Contestant::new(
            "textbook GCRA",
            bare(load(&mut admin, TEXTBOOK_GCRA), vec![now_us, 60, 100_000_000, 1]),
        ),
        Contestant::new("fixed_window", ours(fixed(ENOUGH), 1)),
        Contestant::new("fixed_window, denied", ours(fixed(0), 1)),
        Contestant::new("fixed_window x3", ours(fixed(ENOUGH), 3)),
        Contestant::new("fixed_window x10", ours(fixed(ENOUGH), 10)),
        Contestant::new("token_bucket", ours(bucket(ENOUGH), 1)),
        Contestant::new("token_bucket, denied", ours(bucket(0), 1)),
        Contestant::new("token_bucket x3", ours(bucket(ENOUGH), 3)),
        Contestant::new("token_bucket x10", ours(bucket(ENOUGH), 10)),
    ];
    for _ in 0..ROUNDS {
        for contestant in &mut contestants {
            redis::cmd("FLUSHALL").exec(&mut admin).expect("an empty server");
            contestant.round(server, &mut admin);
        }
    }
    contestants
}

/// Loads the scripts of all calls that are measured.
async fn load_scripts(store: &RedisStore) {
    for rule in [fixed(ENOUGH), bucket(ENOUGH)] {
        for limits in [1, 3, 10] {
            let names: Vec<String> = (0..limits).map(|limit| format!("limit-{limit}")).collect();
            let asks: Vec<Ask<'_>> = names.iter().map(|name| ask(&rule, name, 0)).collect();
            store.take(&asks, NOW).await.expect("a decision");
        }
    }
}

/// Bytes of one record with three limits, and of three keys with one each.
async fn bytes(server: &Server, store: &RedisStore) -> (f64, f64) {
    let rule = bucket(100);
    let asks: Vec<Ask<'_>> = (0..3).map(|limit| ask(&rule, &format!("limit-{limit}"), 0)).collect();
    store.take(&asks, NOW).await.expect("a decision");
    let usage = |key: String| -> f64 {
        redis::cmd("MEMORY").arg("USAGE").arg(key).query(&mut server.admin()).expect("a size")
    };
    let together = usage(record_key(&subject(0)));
    let mut apart = 0.0;
    for key in 1..4 {
        store.take(&[ask(&rule, "limit-0", key)], NOW).await.expect("a decision");
        apart += usage(record_key(&subject(key)));
    }
    (together, apart)
}

/// Decisions per second with [`IN_FLIGHT`] calls at once.
async fn per_second<A: Future<Output = ()> + Send>(call: impl Fn(usize) -> A + Send + Sync + 'static) -> f64 {
    let (call, began) = (Arc::new(call), Instant::now());
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..IN_FLIGHT {
        let call = call.clone();
        callers.spawn(async move {
            for at in 0..CALLS / IN_FLIGHT {
                call(caller + at).await;
            }
        });
    }
    callers.join_all().await;
    CALLS as f64 / began.elapsed().as_secs_f64()
}

async fn bare_client(mut redis: MultiplexedConnection, call: &Cmd) {
    redis.send_packed_command(call).await.expect("an answer");
}

async fn our_client(store: &RedisStore, rule: &Rule, id: LimitId, subject: Subject) {
    let ask = Ask::new(rule, id, subject, 1);
    store.take(&[ask], NOW).await.expect("a decision");
}

/// The store's decisions per second as a share of the bare client's on the same script. What both need lives for as long
/// as the process, as in a server.
async fn client_share(server: &Server, store: RedisStore) -> f64 {
    let store: &'static RedisStore = Box::leak(Box::new(store));
    let rule: &'static Rule = Box::leak(Box::new(bucket(ENOUGH)));
    let calls = (0..KEYS).map(|key| store.take_call(&[ask(rule, "limit-0", key)], NOW).expect("a call"));
    let calls: &'static [Cmd] = Vec::leak(calls.collect());
    let subjects: &'static [Subject] = Vec::leak((0..KEYS).map(subject).collect());
    let client = redis::Client::open(server.url.as_str()).expect("a url");
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let bare = client.get_multiplexed_async_connection_with_config(&patient).await.expect("a connection");
    let id = LimitId::of("limit-0", rule);
    let mut shares = Vec::new();
    for _ in 0..ROUNDS {
        let bare = bare.clone();
        let floor = per_second(move |at| bare_client(bare.clone(), &calls[at % KEYS])).await;
        let own = per_second(move |at| our_client(store, rule, id, subjects[at % KEYS].clone())).await;
        shares.push(own / floor);
    }
    median(shares)
}

fn print(what: &str, ratio: f64, target: &str) {
    println!("| {what:<62} | {ratio:>5.2} | {target:>6} |");
}

#[tokio::main]
async fn main() {
    let server = Server::start();
    let store = server.store();
    load_scripts(&store).await;
    let contestants = server_time(&server, &store);
    let us = |name: &str| contestants.iter().find(|own| own.name == name).expect("a contestant").us();
    println!("| server time per decision, pipelined | µs |\n|---|---|");
    for contestant in &contestants {
        println!("| {} | {:.2} |", contestant.name, contestant.us());
    }
    println!("\n| {:<62} | ratio | target |\n|---|---|---|", "what");
    print("fixed_window : INCRBY, PEXPIRE", us("fixed_window") / us("INCRBY, PEXPIRE"), "<=1.8");
    print("fixed_window : INCRBY, first PEXPIRE", us("fixed_window") / us("INCRBY, first PEXPIRE"), "");
    print("token_bucket : textbook GCRA", us("token_bucket") / us("textbook GCRA"), "<=0.85");
    for machine in ["fixed_window", "token_bucket"] {
        let of = |suffix: &str| us(&format!("{machine}{suffix}")) / us(machine);
        print(&format!("{machine}: three limits of a subject : one"), of(" x3"), "<=1.3");
        print(&format!("{machine}: ten limits of a subject : one"), of(" x10"), "<=2");
        print(&format!("{machine}: denied : admitted"), of(", denied"), "<=0.8");
    }
    let (together, apart) = bytes(&server, &store).await;
    print("bytes: one record of three limits : three keys", together / apart, "<=0.5");
    let share = client_share(&server, store).await;
    print("decisions/s, 512 in flight: store : bare client, same script", share, ">=0.9");
}
