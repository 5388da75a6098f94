//! Requests with an id: counted once, however often they are made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use futures_util::future::{join_all, poll_immediate};
use sluicegate::{
    Counted, Once, Store,
    core::{Align, Ask, Decision, LimitId, Micros, RequestId, Rule, Subject},
    embedded::{EmbeddedConfig, EmbeddedStore},
};
use sluicegate_redis::{RedisStore, id_key, record_key};
use sluicegate_tests::{RedisServer, checks::lives};

const NOON: Micros = Micros::from_secs(1_790_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

fn id(text: &str) -> RequestId {
    text.parse().unwrap()
}

fn subject(domain: &str, user: &str) -> Subject {
    Subject::new(domain, &[], &[("user", Some(user))])
}

fn ask<'a>(rule: &'a Rule, subject: &Subject, cost: u64) -> Ask<'a> {
    Ask::new(rule, LimitId::of(rule.algorithm().name(), rule), subject.clone(), cost)
}

fn rules(amount: u64) -> Vec<Rule> {
    vec![
        Rule::fixed_window(amount, HOUR, Align::Epoch).unwrap(),
        Rule::sliding_log(amount, HOUR).unwrap(),
        Rule::sliding_counter(amount, HOUR).unwrap(),
        Rule::token_bucket(amount, HOUR, amount).unwrap(),
    ]
}

async fn once(store: &impl Store, name: &str, asks: &[Ask<'_>], now: Micros) -> Option<(Decision, Micros)> {
    match store.take_once(&id(name), asks, now).await.unwrap() {
        Once::Decided { decision, at } => Some((decision, at)),
        Once::OtherRequest => None,
    }
}

async fn left(store: &impl Store, ask: &Ask<'_>) -> u64 {
    store.peek(std::slice::from_ref(ask), NOON).await.unwrap().asks[0].remaining.unwrap()
}

/// What holds for every store.
async fn ids_hold(store: &impl Store) {
    let (rules, alice, bob) = (rules(10), subject("a", "alice"), subject("a", "bob"));
    let all = |subject: &Subject, cost| -> Vec<Ask<'_>> {
        rules.iter().map(|rule| ask(rule, subject, cost)).collect()
    };
    let asks = [all(&alice, 3), all(&bob, 2)].concat();
    let (first, at) = once(store, "order", &asks, NOON).await.unwrap();
    assert_eq!((first.allowed, at), (true, NOON));
    // Later, and after others have counted, the answer is as it was.
    store.take(&all(&alice, 5), NOON.plus(HOUR / 60)).await.unwrap();
    for hours in [0, 1, 23] {
        let again = once(store, "order", &asks, NOON.plus(hours * HOUR)).await;
        assert_eq!(again, Some((first.clone(), NOON)), "{hours} hours later");
    }
    for ask in all(&bob, 1) {
        assert_eq!(left(store, &ask).await, 8);
    }
    for other in [all(&alice, 3), all(&alice, 1), [all(&alice, 3), all(&bob, 1)].concat()] {
        assert_eq!(once(store, "order", &other, NOON).await, None);
    }
    // After a day it is another request.
    let (next, at) = once(store, "order", &asks, NOON.plus(24 * HOUR)).await.unwrap();
    assert_eq!((next.allowed, at), (true, NOON.plus(24 * HOUR)));
}

/// A denial that was remembered would deny a request that has room by now; one that is half charged is worse.
async fn denials_are_decided_anew(store: &impl Store) {
    let (rules, carol) = (rules(10), subject("a", "carol"));
    let asks: Vec<Ask<'_>> = rules.iter().map(|rule| ask(rule, &carol, 7)).collect();
    assert!(once(store, "first", &asks, NOON).await.unwrap().0.allowed);
    assert!(!once(store, "second", &asks, NOON).await.unwrap().0.allowed);
    let fewer: Vec<Ask<'_>> = rules.iter().map(|rule| ask(rule, &carol, 3)).collect();
    assert!(once(store, "second", &fewer, NOON).await.unwrap().0.allowed);
    let nothing: Vec<Ask<'_>> = rules.iter().map(|rule| ask(rule, &carol, 0)).collect();
    assert!(once(store, "third", &nothing, NOON).await.unwrap().0.allowed);
    assert!(once(store, "third", &asks, NOON.plus(10 * HOUR)).await.unwrap().0.allowed);
}

async fn domains_and_users_have_ids_of_their_own(store: &impl Store) {
    let rule = Rule::sliding_counter(10, HOUR).unwrap();
    for subject in [subject("b", "dave"), subject("c", "dave"), subject("b", "erin")] {
        let asks = [ask(&rule, &subject, 4)];
        for _try in 0..3 {
            assert_eq!(once(store, "same", &asks, NOON).await.unwrap().0.asks[0].remaining, Some(6));
        }
    }
}

async fn tries_at_once_are_counted_once(store: &impl Store) {
    let (rule, frank) = (Rule::gcra(100, HOUR, 100).unwrap(), subject("a", "frank"));
    let asks = [ask(&rule, &frank, 7)];
    let answers = join_all((0..50).map(|_| once(store, "at-once", &asks, NOON))).await;
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(left(store, &asks[0]).await, 93);
}

async fn all_hold(store: &impl Store) {
    ids_hold(store).await;
    denials_are_decided_anew(store).await;
    domains_and_users_have_ids_of_their_own(store).await;
    tries_at_once_are_counted_once(store).await;
}

#[tokio::test]
async fn an_id_is_counted_once_on_the_embedded_store() {
    all_hold(&EmbeddedStore::default()).await;
}

#[tokio::test]
async fn an_id_is_counted_once_on_redis() {
    let server = RedisServer::start();
    all_hold(&server.store()).await;
    // Whatever was written ends by itself: records with their grace, ids after a day and ten seconds.
    for (key, life) in lives(&mut server.admin()) {
        assert!(life > 0, "{key}");
        assert!(!key.contains(":i:") || life <= 86_410_000, "{key}: {life}");
    }
}

/// A retry without an id is a double charge whenever the first try was applied and its answer lost (one-api#2440).
#[tokio::test]
async fn a_try_whose_answer_nobody_heard_is_not_counted_again() {
    let server = RedisServer::start();
    let store: RedisStore = server.store();
    let (rule, user) = (Rule::gcra(100, HOUR, 100).unwrap(), subject("a", "grace"));
    let asks = [ask(&rule, &user, 7)];
    // The script is loaded and the connection stands, so that the first poll sends.
    once(&store, "warm", &[ask(&rule, &subject("a", "other"), 1)], NOON).await.unwrap();
    for number in 0..10 {
        let name = format!("lost-{number}");
        let id = id(&name);
        let mut first = Box::pin(store.take_once(&id, &asks, NOON));
        assert!(poll_immediate(&mut first).await.is_none());
        drop(first);
        once(&store, &name, &asks, NOON).await.unwrap();
        assert_eq!(left(&store, &asks[0]).await, 93 - 7 * number);
    }
}

#[tokio::test]
async fn an_id_lives_in_the_slot_of_the_first_limit_and_a_strange_one_counts_nothing() {
    let server = RedisServer::start();
    let (store, rule) = (server.store(), Rule::gcra(100, HOUR, 100).unwrap());
    let user = Subject::new("api", &[("org", Some("acme"))], &[("user", Some("heidi"))]);
    let asks = [ask(&rule, &user, 1)];
    once(&store, "x", &asks, NOON).await.unwrap();
    let mut keys: Vec<String> = lives(&mut server.admin()).into_keys().collect();
    keys.sort();
    let key = id_key(RequestId::scope(&asks), &id("x"));
    assert_eq!(key, "sg1:{api:org=acme}:i:x");
    assert_eq!(keys, [key.clone(), record_key(&user)]);
    for strange in ["", "short", "longer than the twenty-four bytes of a head"] {
        redis::cmd("SET").arg(&key).arg(strange).exec(&mut server.admin()).unwrap();
        if let Err(error) = store.take_once(&id("x"), &asks, NOON).await {
            assert_eq!(error.counted(), Counted::Nothing, "{strange}");
        }
        assert_eq!(left(&store, &asks[0]).await, 99, "{strange}");
    }
}

#[tokio::test]
async fn the_embedded_store_forgets_the_oldest_ids_beyond_a_named_number() {
    let store = EmbeddedStore::new(EmbeddedConfig { max_ids: 160, ..EmbeddedConfig::for_keys(1_000) });
    let (rule, user) = (Rule::gcra(1_000_000, HOUR, 1_000_000).unwrap(), subject("a", "ivan"));
    let asks = [ask(&rule, &user, 1)];
    for number in 0..10_000 {
        once(&store, &format!("id-{number}"), &asks, NOON).await.unwrap();
    }
    assert_eq!(left(&store, &asks[0]).await, 990_000);
    // The last is known, the first is not.
    once(&store, "id-9999", &asks, NOON).await.unwrap();
    assert_eq!(left(&store, &asks[0]).await, 990_000);
    once(&store, "id-0", &asks, NOON).await.unwrap();
    assert_eq!(left(&store, &asks[0]).await, 989_999);
}
