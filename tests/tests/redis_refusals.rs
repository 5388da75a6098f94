//! Refusals that a real server gives only for a while: while it loads, while a slot is half moved, and when asked for keys
//! of two slots.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use sluicegate::{
    Counted, Store, StoreError,
    core::{Align, Ask, Micros, Rule, Subject},
};
use sluicegate_redis::{RedisCause, RedisConfig, RedisStore, record_key};
use sluicegate_tests::{
    RedisCluster, RedisServer,
    fixtures::{HOUR, Limit, subject},
};

const NOON: Micros = Micros::from_secs(1_790_000_000);
const PATIENCE: Duration = Duration::from_secs(20);

fn store(url: &str) -> RedisStore {
    let config = RedisConfig::from_url(url).unwrap();
    RedisStore::open(&config.connect_timeout(PATIENCE).response_timeout(PATIENCE)).unwrap()
}

fn limit() -> Limit {
    Limit::new("hourly", Rule::fixed_window(100, HOUR, Align::Epoch).unwrap())
}

/// Nothing was counted, and the server said so by this word.
fn refused_by(error: &StoreError, code: &str) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<RedisCause>());
    error.counted() == Counted::Nothing && cause.is_some_and(|cause| cause.to_string().starts_with(code))
}

async fn left(store: &RedisStore, ask: Ask<'_>) -> Option<u64> {
    store.peek(&[ask], NOON).await.unwrap().asks[0].remaining
}

#[tokio::test]
async fn a_server_that_loads_counts_nothing_and_then_goes_on_from_what_it_saved() {
    // Slow to load, and ready to answer meanwhile after every kilobyte.
    let slowly = ["--key-load-delay", "100", "--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::with(&[&["--dbfilename", "dump.rdb"][..], &slowly].concat());
    let (store, limit) = (store(&server.url()), limit());
    assert!(store.take(&[limit.ask("alice", 1)], NOON).await.unwrap().allowed);
    // Ten thousand keys take a second to load.
    server.command(&["EVAL", "for i = 1, 10000 do redis.call('SET', 'k' .. i, i, 'EX', 1000) end", "0"]);
    server.command(&["SAVE"]);
    server.begin_anew();
    let (began, mut loading) = (Instant::now(), 0);
    loop {
        match store.take(&[limit.ask("alice", 1)], NOON).await {
            Ok(decision) => break assert!(decision.allowed),
            Err(error) if refused_by(&error, "LOADING") => loading += 1,
            // It does not listen yet, or the connection to the one before it breaks.
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error:?}"),
        }
    }
    assert!(loading > 0, "no call met the server while it loaded");
    assert_eq!(left(&store, limit.ask("alice", 1)).await, Some(98));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_for_two_keys_of_a_slot_that_stays_half_moved_ends_soon_and_counts_nothing() {
    let (cluster, limit) = (RedisCluster::start(), limit());
    let store = store(&cluster.url());
    let of_org = |user| Subject::new("test", &[("org", Some("acme"))], &[("user", user)]);
    let both = [None, Some("alice")].map(|user| Ask::new(&limit.rule, limit.id, of_org(user), 1));
    assert!(store.take(&both, NOON).await.unwrap().allowed);
    let slot = cluster.slot(&record_key(&both[0].subject));
    let from = cluster.master_of(slot, 0);
    let runtime = tokio::runtime::Handle::current();
    let mut told = Vec::new();
    tokio::task::block_in_place(|| {
        cluster.move_slot(slot, from, (from + 1) % 3, || {
            let began = Instant::now();
            let answer = runtime.block_on(store.take(&both, NOON));
            told.push((answer, began.elapsed()));
        });
    });
    // After the first of the two keys has moved, no node has both.
    let mut half_moved = None;
    for (step, (answer, took)) in told.into_iter().enumerate() {
        match answer {
            Ok(decision) => assert!(decision.allowed),
            Err(error) => {
                assert!(refused_by(&error, "TRYAGAIN") && took < Duration::from_secs(5), "{step}: {error:?}");
                assert_eq!(half_moved.replace(step), None);
            }
        }
    }
    assert_eq!(half_moved, Some(2));
    // Once before, and at each of the six steps but that one.
    for ask in both {
        assert_eq!(left(&store, ask).await, Some(94));
    }
}

/// A store that is told of one server does not know that it has slots.
#[tokio::test]
async fn keys_of_two_slots_in_one_call_are_refused_and_the_url_is_named() {
    let (cluster, limit) = (RedisCluster::start(), limit());
    let own = |user: &String| cluster.master_of(cluster.slot(&record_key(&subject(user))), 0) == 0;
    let users: Vec<String> = (0..).map(|number| format!("user-{number}")).filter(own).take(2).collect();
    let store = store(&cluster.nodes[0].url());
    let error = store.take(&[limit.ask(&users[0], 1), limit.ask(&users[1], 1)], NOON).await.unwrap_err();
    assert!(refused_by(&error, "CROSSSLOT"), "{error:?}");
    let hint = std::error::Error::source(&error).unwrap().downcast_ref::<RedisCause>().unwrap().hint();
    assert!(hint.unwrap().contains("redis+cluster://"));
    for user in &users {
        assert_eq!(left(&store, limit.ask(user, 1)).await, Some(100));
    }
}
