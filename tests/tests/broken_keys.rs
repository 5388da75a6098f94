//! Keys that hold what no script of the store wrote: whoever asks for one gets an error, and nobody else notices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::Arc;

use futures_util::future::join_all;
use sluicegate::{
    Counted, Reason, Store, StoreError, SureStore, Verb,
    core::{Align, DecidedBy, Micros, Rule},
    guard::{GuardConfig, Guarded},
};
use sluicegate_redis::record_key;
use sluicegate_tests::{
    RedisServer,
    fixtures::{HOUR, Limit, subject},
};

const NOON: Micros = Micros::from_secs(1_790_000_000);

fn limit() -> Limit {
    Limit::new("hourly", Rule::fixed_window(1_000, HOUR, Align::Epoch).unwrap())
}

/// A user for each kind of value that a key can hold and no script of ours writes.
fn broken(server: &RedisServer) -> Vec<String> {
    let key = |name: &str| record_key(&subject(name));
    let mut users = Vec::new();
    let others = [("list", vec!["RPUSH"], "a"), ("set", vec!["SADD"], "a"), ("hyper", vec!["PFADD"], "a")];
    let fields =
        [("hash", vec!["HSET"], "a b"), ("sorted", vec!["ZADD"], "1 a"), ("stream", vec!["XADD"], "* a b")];
    for (name, mut command, value) in others.into_iter().chain(fields) {
        let key = key(name);
        command.push(&key);
        command.extend(value.split(' '));
        server.command(&command);
        users.push(name.to_owned());
    }
    for (name, text) in [("short", "5"), ("long", "twenty-six letters and more"), ("tag", "\u{1}")] {
        server.command(&["SET", &key(name), text]);
        users.push(name.to_owned());
    }
    users
}

fn is_of_the_key(error: &StoreError) -> bool {
    error.reason() == Reason::Request && error.counted() == Counted::Nothing
}

/// A `WRONGTYPE` counted as a failure of the store: three requests for one such key opened the breaker, and everybody
/// was decided without the store.
#[tokio::test]
async fn a_broken_key_does_not_turn_anybody_away_from_the_store() {
    let (server, limit) = (RedisServer::start(), limit());
    let guarded = Guarded::new(server.store(), Arc::default(), GuardConfig::default());
    for user in broken(&server) {
        for verb in [Verb::Take, Verb::Peek] {
            for _ in 0..30 {
                let decision = guarded.decide(verb, &[limit.ask(&user, 1)], NOON).await;
                assert_eq!(decision.decided_by(), DecidedBy::Fallback, "{user} {verb:?}");
            }
            assert!(guarded.breaker().is_closed(), "{user} {verb:?}");
        }
        let id = user.parse().unwrap();
        for _ in 0..30 {
            guarded.decide_once(&id, &[limit.ask(&user, 1)], NOON).await;
        }
        assert!(guarded.breaker().is_closed(), "{user} with an id");
    }
    let decision = guarded.decide(Verb::Take, &[limit.ask("alice", 1)], NOON).await;
    assert_eq!((decision.decided_by(), decision.asks[0].remaining), (DecidedBy::Store, Some(999)));
}

/// Requests that wait share calls: a record too short to be read failed all those that were asked for with it.
#[tokio::test]
async fn a_broken_key_fails_nobody_who_waits_with_it() {
    let (server, limit) = (RedisServer::start(), limit());
    let (store, broken) = (server.store(), broken(&server));
    let users: Vec<String> = (0..300).map(|user| format!("user-{user}")).collect();
    let all: Vec<&String> =
        users.iter().flat_map(|user| [user, &broken[user.len() % broken.len()]]).collect();
    let answers =
        join_all(all.iter().map(|user| async { store.take(&[limit.ask(user, 1)], NOON).await })).await;
    for (user, answer) in all.into_iter().zip(answers) {
        match answer {
            Ok(decision) => assert!(decision.allowed && users.contains(user), "{user}"),
            Err(error) => assert!(broken.contains(user) && is_of_the_key(&error), "{user}: {error:?}"),
        }
    }
}

/// `MGET` answers nothing for a key that is no string: a peek at several keys took it for one that was never used.
#[tokio::test]
async fn a_peek_at_several_keys_fails_where_a_take_of_them_does() {
    let (server, limit) = (RedisServer::start(), limit());
    let store = server.store();
    for user in broken(&server) {
        for asks in [vec![&*user], vec!["alice", &user], vec![&user, "alice", "bob"]] {
            let asks: Vec<_> = asks.into_iter().map(|user| limit.ask(user, 1)).collect();
            let (taken, peeked) = (store.take(&asks, NOON).await, store.peek(&asks, NOON).await);
            assert!(is_of_the_key(&taken.unwrap_err()), "{user}");
            assert!(is_of_the_key(&peeked.unwrap_err()), "{user}");
        }
    }
    let both = [limit.ask("alice", 1), limit.ask("bob", 1)];
    assert!(store.peek(&both, NOON).await.unwrap().asks.iter().all(|ask| ask.remaining == Some(1_000)));
}
