//! Asks that wait together are decided together: fewer calls, and the answers of one call each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::{join_all, poll_immediate};
use sluicegate::{
    Counted, Store,
    core::{Algorithm, Align, Ask, Decision, LimitId, Micros, Rule, Subject},
};
use sluicegate_redis::{RedisConfig, RedisStore, record_key};
use sluicegate_tests::{
    RedisServer,
    model::Model,
    sequence::{Jumps, World},
};

const NOON: Micros = Micros::from_secs(1_790_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

fn hourly(amount: u64) -> Rule {
    Rule::fixed_window(amount, HOUR, Align::Epoch).unwrap()
}

fn subject(user: &str) -> Subject {
    Subject::new("test", &[], &[("user", Some(user))])
}

fn ask<'a>(rule: &'a Rule, user: &str, cost: u64) -> Ask<'a> {
    Ask::new(rule, LimitId::of("per-user", rule), subject(user), cost)
}

/// Calls of scripts that the server has run.
/// Takes all at once; they arrive in this order.
async fn at_once(store: &RedisStore, requests: &[Vec<Ask<'_>>], now: Micros) -> Vec<Decision> {
    let taken = requests.iter().map(|asks| store.take(asks, now));
    join_all(taken).await.into_iter().map(Result::unwrap).collect()
}

fn cost(rng: &mut Rng, rule: &Rule) -> u64 {
    match rng.u8(0..10) {
        0 => 0,
        1 => rule.max_cost().saturating_add(1),
        2 => rng.u64(..=rule.max_cost()),
        _ => rng.u64(..=(rule.max_cost() / 20).max(1)),
    }
}

/// Requests for all limits of a world, about its subjects, with random costs.
fn requests<'w>(world: &'w World, rng: &mut Rng) -> Vec<Vec<Ask<'w>>> {
    let request = |rng: &mut Rng| {
        let subject = &world.subjects()[rng.usize(..world.subjects().len())];
        let ask = |(id, rule)| Ask::new(rule, id, subject.clone(), cost(rng, rule));
        world.limits().map(ask).collect()
    };
    (0..rng.usize(2..120)).map(|_| request(rng)).collect()
}

/// Waiters of one key that a limiter collapses into one step were found to admit one too many (pelikan-io/rustcommon
/// PR#73): here each gets, to the byte, what it had got alone and in its turn.
#[tokio::test]
async fn what_waits_together_is_answered_as_one_after_another_in_order_of_arrival() {
    let server = RedisServer::start();
    let store = server.store();
    for seed in 0..150 {
        let (mut rng, mut model) = (Rng::with_seed(seed), Model::default());
        let mut world = World::new(seed, "together", Jumps::BackAndForth);
        // A queue's requests are not decided together.
        if world.limits().any(|(_, rule)| rule.algorithm() == Algorithm::LeakyBucket) {
            continue;
        }
        for burst in 0..4 {
            // The clock moves on by what a step of the world would do.
            let _step = world.step();
            let requests = requests(&world, &mut rng);
            let answers = at_once(&store, &requests, world.now()).await;
            for (number, (asks, answer)) in requests.iter().zip(answers).enumerate() {
                let expected = model.take(asks, world.now());
                assert_eq!(answer, expected, "seed {seed}, burst {burst}, request {number}: {asks:?}");
            }
            for subject in world.subjects() {
                for (id, rule) in world.limits() {
                    let stored = store.state(rule, id, subject).await.unwrap();
                    let kept = model.kept(id, subject);
                    let has_reset = kept.is_some_and(|kept| kept.resets_at_us <= world.now().as_u64());
                    if !(stored.is_none() && has_reset) {
                        assert_eq!(stored.as_ref(), kept.map(|kept| &kept.state), "seed {seed}: {subject}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_thousand_that_wait_for_one_key_are_a_few_calls() {
    let server = RedisServer::start();
    let (store, rule) = (server.store(), hourly(1_000));
    at_once(&store, &[vec![ask(&rule, "warm", 1)]], NOON).await;
    let requests = vec![vec![ask(&rule, "hot", 1)]; 1_001];
    let before = server.script_calls();
    let answers = at_once(&store, &requests, NOON).await;
    // One for the first, one for the sum of all others, one for the sum of those that fit.
    assert_eq!(server.script_calls() - before, 3);
    let allowed: Vec<bool> = answers.iter().map(|answer| answer.allowed).collect();
    assert_eq!(allowed, [vec![true; 1_000], vec![false]].concat());
}

#[tokio::test]
async fn many_keys_that_wait_are_decided_32_a_call() {
    let server = RedisServer::start();
    let (store, rule) = (server.store(), hourly(1));
    let users: Vec<String> = (0..400).map(|user| format!("user-{user}")).collect();
    let requests: Vec<_> = users.iter().map(|user| vec![ask(&rule, user, 1)]).collect();
    // Scripts are loaded by those who need them first.
    let (requests, first) = requests.split_at(336);
    at_once(&store, first, NOON).await;
    let before = server.script_calls();
    assert!(at_once(&store, requests, NOON).await.iter().all(|answer| answer.allowed));
    // Up to sixteen go at once, less what has just been answered and not landed yet; the others are 32 a call.
    let made = server.script_calls() - before;
    assert!((11..=16 + 10).contains(&made), "{made}");
    assert!(at_once(&store, requests, NOON).await.iter().all(|answer| !answer.allowed));
}

#[tokio::test]
async fn requests_of_several_keys_wait_for_none_of_them_and_see_what_others_took() {
    let server = RedisServer::start();
    let (store, rule) = (server.store(), hourly(50));
    let users: Vec<String> = (0..200).map(|user| format!("user-{user}")).collect();
    let requests: Vec<_> = users.iter().map(|user| vec![ask(&rule, "all", 1), ask(&rule, user, 1)]).collect();
    let answers = at_once(&store, &requests, NOON).await;
    assert_eq!(answers.iter().filter(|answer| answer.allowed).count(), 50);
    for (user, answer) in users.iter().zip(answers) {
        let left = store.peek(&[ask(&rule, user, 1)], NOON).await.unwrap().asks[0].remaining;
        assert_eq!(left, Some(50 - u64::from(answer.allowed)), "{user}");
    }
}

#[tokio::test]
async fn whoever_goes_away_neither_counts_nor_keeps_others_waiting() {
    let server = RedisServer::start();
    let (store, rule) = (server.store(), hourly(1_000));
    let asks = [ask(&rule, "hot", 1)];
    let mut first = Box::pin(store.take(&asks, NOON));
    assert!(poll_immediate(&mut first).await.is_none());
    let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(store.take(&asks, NOON))).collect();
    for take in &mut waiting {
        assert!(poll_immediate(take).await.is_none());
    }
    waiting.truncate(60);
    // The first has been sent, and whether it counts nobody knows.
    drop(first);
    let answers = join_all(waiting).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().allowed));
    let left = store.peek(&asks, NOON).await.unwrap().asks[0].remaining.unwrap();
    assert!([939, 940].contains(&left), "{left}");
}

#[tokio::test]
async fn a_key_that_holds_something_else_fails_for_its_own_askers_alone() {
    let server = RedisServer::start();
    let (store, rule) = (server.store(), hourly(1));
    redis::cmd("LPUSH").arg(record_key(&subject("list"))).arg("x").exec(&mut server.admin()).unwrap();
    redis::cmd("SET").arg(record_key(&subject("text"))).arg("x").exec(&mut server.admin()).unwrap();
    let others: Vec<String> = (0..60).map(|user| format!("user-{user}")).collect();
    let users = others.iter().map(String::as_str).chain(["list", "text", "list"]);
    let asks: Vec<_> = users.map(|user| [ask(&rule, user, 1)]).collect();
    let answers = join_all(asks.iter().map(|asks| store.take(asks, NOON))).await;
    let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(failed.len(), 3);
    assert!(failed.iter().all(|error| error.counted() == Counted::Nothing));
    assert!(answers.iter().flatten().all(|answer| answer.allowed));
}

/// A server that hangs must not pile up callers: each waits for those before it once, and for its own call once.
#[tokio::test]
async fn a_server_that_hangs_fails_all_that_wait_within_two_timeouts() {
    let server = RedisServer::start();
    let timeout = Duration::from_millis(300);
    let config = RedisConfig::from_url(&server.url()).unwrap().response_timeout(timeout);
    let (store, rule) = (RedisStore::open(&config).unwrap(), hourly(1_000));
    store.ping().await.unwrap();
    server.freeze();
    let users: Vec<String> = (0..700).map(|user| format!("user-{user}")).collect();
    let asks: Vec<_> = users.iter().chain(vec![&users[0]; 100]).map(|user| [ask(&rule, user, 1)]).collect();
    let began = std::time::Instant::now();
    let answers = join_all(asks.iter().map(|asks| store.take(asks, NOON))).await;
    let waited = began.elapsed();
    server.thaw();
    assert!(answers.iter().all(Result::is_err));
    let unknown = |error: &sluicegate::StoreError| error.counted() == Counted::Unknown;
    assert!(answers.iter().filter_map(|answer| answer.as_ref().err()).any(unknown));
    // A connect timeout each on top, and time for a machine that is shared.
    assert!(waited < 2 * timeout + 2 * RedisConfig::CONNECT_TIMEOUT + Duration::from_secs(2), "{waited:?}");
    assert!(store.take(&asks[0], NOON).await.unwrap().allowed);
}
