//! Requests with an id whose limits are in several slots of a real Redis Cluster: counted once, whoever tries again and
//! whenever the tries before it broke off.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use futures_util::future::join_all;
use sluicegate::{
    Once, Store, StoreError,
    core::{Align, Ask, Decision, Micros, Rule},
};
use sluicegate_redis::{RedisConfig, RedisStore, record_key};
use sluicegate_tests::{
    RedisCluster,
    checks::lives,
    fixtures::{HOUR, Limit, subject},
};
use tokio::time::{sleep, timeout};

const NOON: Micros = Micros::from_secs(1_790_000_000);
const DAY: Duration = Duration::from_secs(86_400);
/// How long what was broken off may take to be given back.
const PATIENCE: Duration = Duration::from_secs(15);

fn store(cluster: &RedisCluster) -> RedisStore {
    let patience = Duration::from_secs(20);
    let config = RedisConfig::from_url(&cluster.url()).unwrap();
    RedisStore::open(&config.connect_timeout(patience).response_timeout(patience)).unwrap()
}

/// A user on each of the three nodes, in the order in which their slots are asked.
fn users(cluster: &RedisCluster, name: &str) -> Arc<[String]> {
    let mut of_node = BTreeMap::new();
    for user in (0..).map(|number| format!("{name}-{number}")) {
        let slot = cluster.slot(&record_key(&subject(&user)));
        of_node.entry(cluster.master_of(slot, 0)).or_insert((slot, user));
        if of_node.len() == 3 {
            break;
        }
    }
    let mut all: Vec<(u16, String)> = of_node.into_values().collect();
    all.sort();
    all.into_iter().map(|(_, user)| user).collect()
}

fn hourly(name: &str, amount: u64) -> Limit {
    Limit::new(name, Rule::fixed_window(amount, HOUR, Align::Epoch).unwrap())
}

async fn once(
    store: &RedisStore,
    id: &str,
    asks: &[Ask<'_>],
    now: Micros,
) -> Result<Option<(Decision, Micros)>, StoreError> {
    Ok(match store.take_once(&id.parse().unwrap(), asks, now).await? {
        Once::Decided { decision, at } => Some((decision, at)),
        Once::OtherRequest => None,
    })
}

async fn used(store: &RedisStore, limit: &Limit, user: &str) -> u64 {
    let peeked = store.peek(&[limit.ask(user, 0)], NOON).await.unwrap();
    limit.rule.amount() - peeked.asks[0].remaining.unwrap()
}

/// For what a task of its own gives back.
async fn until_used(store: &RedisStore, limit: &Limit, user: &str, expected: u64) {
    let began = Instant::now();
    loop {
        let found = used(store, limit, user).await;
        if found == expected {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{user}: {found} used, expected {expected}");
        sleep(Duration::from_millis(5)).await; // for the task
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_holds_over_slots_as_it_does_in_one() {
    let cluster = RedisCluster::start();
    let store = store(&cluster);
    the_answer_is_the_first_one(&store, &users(&cluster, "first")).await;
    denials_leave_nothing(&store, &users(&cluster, "denied")).await;
    tries_at_once_are_one_request(&cluster, &users(&cluster, "at-once")).await;
    exactly_as_many_ids_as_fit(&cluster, &users(&cluster, "fit")).await;
    whenever_a_try_breaks_off_it_is_counted_once(&cluster, &users(&cluster, "broken")).await;
    a_node_that_hangs_half_way(&cluster, &store, &users(&cluster, "hangs")).await;
    an_attempt_that_is_late_spoils_nothing(&cluster, &users(&cluster, "late")).await;
    every_key_expires(&cluster);
}

async fn the_answer_is_the_first_one(store: &RedisStore, users: &[String]) {
    let rules = [
        Rule::fixed_window(10, HOUR, Align::Epoch).unwrap(),
        Rule::sliding_log(10, HOUR).unwrap(),
        Rule::sliding_counter(10, HOUR).unwrap(),
        Rule::token_bucket(10, HOUR, 10).unwrap(),
    ];
    let limits: Vec<Limit> =
        rules.into_iter().map(|rule| Limit::new(rule.algorithm().name(), rule)).collect();
    let all = |cost| -> Vec<Ask<'_>> {
        users.iter().flat_map(|user| limits.iter().map(move |limit| limit.ask(user, cost))).collect()
    };
    let first = once(store, "order", &all(3), NOON).await.unwrap().unwrap();
    assert!(first.0.allowed && first.1 == NOON, "{first:?}");
    assert_eq!(first.0, {
        let mut alone = store.peek(&all(0), NOON).await.unwrap();
        alone.asks.iter_mut().zip(&first.0.asks).for_each(|(alone, told)| alone.delay = told.delay);
        alone
    });
    store.take(&all(2), NOON).await.unwrap();
    for hours in [0, 1, 23] {
        let again = once(store, "order", &all(3), NOON.plus(hours * HOUR)).await.unwrap();
        assert_eq!(again.as_ref(), Some(&first), "{hours} hours later");
    }
    for user in users {
        assert_eq!(used(store, &limits[0], user).await, 5);
    }
    for other in [all(1), all(3)[1..].to_vec()] {
        assert_eq!(once(store, "order", &other, NOON).await.unwrap(), None);
    }
    // In one slot alone it is another request too.
    assert_eq!(once(store, "order", &all(3)[..1], NOON).await.unwrap(), None);
    let next = once(store, "order", &all(3), NOON.plus(DAY)).await.unwrap().unwrap();
    assert_eq!((next.0.allowed, next.1), (true, NOON.plus(DAY)));
}

async fn denials_leave_nothing(store: &RedisStore, users: &[String]) {
    let (wide, tight) = (hourly("wide", 100), hourly("tight", 1));
    for at in 0..3 {
        let id = format!("denied-{at}");
        store.take(&[tight.ask(&users[at], 1)], NOON).await.unwrap();
        let ask = |(other, user): (usize, &'_ String)| {
            if other == at { tight.ask(user, 1) } else { wide.ask(user, 1) }
        };
        let asks: Vec<Ask<'_>> = users.iter().enumerate().map(ask).collect();
        for _ in 0..3 {
            let (denied, _) = once(store, &id, &asks, NOON).await.unwrap().unwrap();
            assert!(!denied.allowed && !denied.asks[at].allowed);
        }
        for user in users {
            assert_eq!(used(store, &wide, user).await, 0);
        }
        // There is room by now.
        store.forget(tight.id, &subject(&users[at])).await.unwrap();
        assert!(once(store, &id, &asks, NOON).await.unwrap().unwrap().0.allowed);
        for user in users {
            store.forget(wide.id, &subject(user)).await.unwrap();
        }
    }
    // What costs nothing is not remembered.
    let nothing: Vec<Ask<'_>> = users.iter().map(|user| wide.ask(user, 0)).collect();
    for minutes in [0, 1] {
        let now = NOON.plus(minutes * Duration::from_secs(60));
        let (decision, at) = once(store, "nothing", &nothing, now).await.unwrap().unwrap();
        assert!(decision.allowed && at.since(now) < Duration::from_secs(30), "{at:?}");
    }
}

async fn tries_at_once_are_one_request(cluster: &RedisCluster, users: &[String]) {
    let stores = [store(cluster), store(cluster), store(cluster)];
    let limit = hourly("at-once", 1_000);
    let asks: Vec<Ask<'_>> = users.iter().map(|user| limit.ask(user, 7)).collect();
    for round in 0..10 {
        let id = format!("round-{round}");
        let tries = (0..30).map(|number| once(&stores[number % 3], &id, &asks, NOON));
        let answers: Vec<_> =
            join_all(tries).await.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
        assert!(answers[0].0.allowed && answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        for user in users {
            assert_eq!(used(&stores[0], &limit, user).await, 7 * (round + 1));
        }
    }
}

/// Forty requests, each tried five times at once from three processes, and room for eleven.
async fn exactly_as_many_ids_as_fit(cluster: &RedisCluster, users: &Arc<[String]>) {
    let stores = [store(cluster), store(cluster), store(cluster)];
    let (wide, tight) = (hourly("wide", 1_000), hourly("tight", 11));
    let tries = (0..200).map(|number| {
        let (store, users) = (stores[number % 3].clone(), users.clone());
        let limits = [wide.clone(), wide.clone(), tight.clone()];
        tokio::spawn(async move {
            let id = format!("fits-{}", number % 40);
            let asks: Vec<Ask<'_>> =
                users.iter().zip(&limits).map(|(user, limit)| limit.ask(user, 1)).collect();
            let (decision, _) = once(&store, &id, &asks, NOON).await.unwrap().unwrap();
            (id, decision.allowed)
        })
    });
    let answers: Vec<(String, bool)> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let admitted: BTreeSet<&String> =
        answers.iter().filter(|(_, allowed)| *allowed).map(|(id, _)| id).collect();
    assert_eq!(admitted.len(), 11);
    for (user, limit) in users.iter().zip([&wide, &wide, &tight]) {
        assert_eq!(used(&stores[0], limit, user).await, 11, "{user}");
    }
}

/// Each of sixty requests is tried by two callers at once, who give up after a random time and try again.
async fn whenever_a_try_breaks_off_it_is_counted_once(cluster: &RedisCluster, users: &Arc<[String]>) {
    let stores = [store(cluster), store(cluster)];
    let limit = hourly("broken", 1_000);
    let callers = (0..120).map(|number| {
        let (store, users, limit) = (stores[number % 2].clone(), users.clone(), limit.clone());
        tokio::spawn(async move {
            let (id, mut rng) =
                (format!("broken-{}", number / 2), Rng::with_seed(u64::try_from(number).unwrap()));
            let asks: Vec<Ask<'_>> = users.iter().map(|user| limit.ask(user, 1)).collect();
            let mut broken = 0;
            loop {
                let patience = Duration::from_micros(rng.u64(0..20_000) * (1 + broken / 20));
                if let Ok(answer) = timeout(patience, once(&store, &id, &asks, NOON)).await {
                    let (decision, at) = answer.unwrap().unwrap();
                    assert!(decision.allowed, "{id}");
                    break (id, decision, at, broken);
                }
                broken += 1;
            }
        })
    });
    let mut told: BTreeMap<String, (Decision, Micros)> = BTreeMap::new();
    let mut all_broken = 0;
    for caller in join_all(callers).await {
        let (id, decision, at, broken) = caller.unwrap();
        let first = told.entry(id.clone()).or_insert_with(|| (decision.clone(), at));
        assert_eq!(*first, (decision, at), "{id}: two answers");
        all_broken += broken;
    }
    assert!(all_broken > 100, "{all_broken} broke off");
    for user in users.iter() {
        until_used(&stores[0], &limit, user, 60).await;
    }
}

/// The first part is counted, the second nobody knows about, and the caller has gone.
async fn a_node_that_hangs_half_way(cluster: &RedisCluster, store: &RedisStore, users: &[String]) {
    let limit = hourly("hangs", 1_000);
    let asks: Vec<Ask<'_>> = users.iter().map(|user| limit.ask(user, 5)).collect();
    let slot = cluster.slot(&record_key(&subject(&users[1])));
    let node = &cluster.nodes[cluster.master_of(slot, 0)];
    node.freeze();
    assert!(timeout(Duration::from_millis(300), once(store, "hangs", &asks, NOON)).await.is_err());
    node.thaw();
    let (decision, _) = once(store, "hangs", &asks, NOON).await.unwrap().unwrap();
    assert!(decision.allowed);
    for user in users {
        until_used(store, &limit, user, 5).await;
    }
}

/// Two attempts wait for one node, which then hears them in either order: the earlier one may come after the later one, and
/// must not give back what that has relied on.
async fn an_attempt_that_is_late_spoils_nothing(cluster: &RedisCluster, users: &[String]) {
    let (stores, limit) = ([store(cluster), store(cluster)], hourly("late", 1_000));
    // The id is in the slot of the first ask, which is decided last.
    let asks: Vec<Ask<'_>> = users.iter().rev().map(|user| limit.ask(user, 1)).collect();
    let slot = cluster.slot(&record_key(&subject(&users[0])));
    let node = &cluster.nodes[cluster.master_of(slot, 0)];
    for store in &stores {
        store.peek(&asks, NOON).await.unwrap();
    }
    for round in 1..=8 {
        let id = format!("late-{round}");
        let [first, second] = [&stores[round % 2], &stores[(round + 1) % 2]];
        node.freeze();
        let late = async {
            sleep(Duration::from_millis(150)).await; // longer than an attempt goes first
            once(second, &id, &asks, NOON).await
        };
        let thaw = async {
            sleep(Duration::from_millis(200)).await; // both wait for the node
            node.thaw();
        };
        let (early, late, ()) = tokio::join!(once(first, &id, &asks, NOON), late, thaw);
        let (early, late) = (early.unwrap().unwrap(), late.unwrap().unwrap());
        assert!(early.0.allowed && early == late, "{early:?}\n{late:?}");
        for user in users {
            until_used(first, &limit, user, u64::try_from(round).unwrap()).await;
        }
    }
}

fn every_key_expires(cluster: &RedisCluster) {
    let mut kinds = BTreeSet::new();
    for (key, life_ms) in cluster.nodes[..3].iter().flat_map(|node| lives(&mut node.admin())) {
        assert!(life_ms > 0, "{key}: {life_ms}");
        kinds.extend(key.split("}:").nth(1).and_then(|rest| rest.chars().next()));
    }
    assert_eq!(kinds, BTreeSet::from(['a', 'i', 'p', 's']));
}
