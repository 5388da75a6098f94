//! The Redis store on a real server: how it connects, what it survives, and what it answers when it cannot decide.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use sluicegate::{
    Clock, Counted, Store, StoreError,
    core::{Align, Micros, Retry, Rule, Subject},
};
use sluicegate_redis::{ConfigError, RedisClock, RedisConfig, RedisStore, record_key};
use sluicegate_tests::{
    RedisServer,
    checks::{admitted_at_once, lives},
    fixtures::{HOUR, Limit, subject},
    rights,
};

const NOON: Micros = Micros::from_secs(1_790_000_000);

/// Tests share their machine: a connection and an answer may take long.
const PATIENCE: Duration = Duration::from_secs(20);

fn config(url: &str) -> RedisConfig {
    RedisConfig::from_url(url).unwrap().connect_timeout(PATIENCE).response_timeout(PATIENCE)
}

fn limit(amount: u64) -> Limit {
    Limit::new("hourly", Rule::fixed_window(amount, HOUR, Align::Epoch).unwrap())
}

async fn remaining(store: &RedisStore, limit: &Limit, user: &str) -> u64 {
    store.peek(&[limit.ask(user, 1)], NOON).await.unwrap().asks[0].remaining.unwrap()
}

async fn takes(store: &RedisStore, user: &str) -> Result<bool, StoreError> {
    Ok(store.take(&[limit(2).ask(user, 1)], NOON).await?.allowed)
}

#[tokio::test]
async fn it_counts_over_tcp_and_over_a_unix_socket() {
    let server = RedisServer::start();
    let unix = RedisStore::open(&config(&server.unix_url())).unwrap();
    assert!(takes(&server.store(), "alice").await.unwrap());
    assert!(takes(&unix, "alice").await.unwrap());
    assert!(!takes(&unix, "alice").await.unwrap());
}

#[tokio::test]
async fn it_counts_over_tls_and_trusts_the_authority_that_it_was_given_alone() {
    let server = RedisServer::with_tls();
    let (url, ca) = server.tls_url();
    let store = RedisStore::open(&config(&url).trusting(ca)).unwrap();
    assert!(takes(&store, "alice").await.unwrap());
    let other = sluicegate_tests::certs::Certs::new().ca;
    let wary = RedisStore::open(&config(&url).trusting(other)).unwrap();
    assert_eq!(takes(&wary, "alice").await.unwrap_err().counted(), Counted::Nothing);
    let no_tls = RedisStore::open(&config(&server.url()).trusting(ca));
    assert!(matches!(no_tls, Err(ConfigError::CaWithoutTls)), "{no_tls:?}");
}

/// The commands that `docs/operating/redis.md` lists are all that the store needs.
#[tokio::test]
async fn a_user_with_the_least_rights_and_a_database_of_its_own_are_enough() {
    let server = RedisServer::start();
    rights::give(&server, &[rights::STORE, rights::DATABASE]);
    let mut admin = server.admin();
    let config = config(&server.url_as("limiter", "password", 3));
    let clock = RedisClock::start(&config).unwrap();
    clock.sync().await.unwrap();
    let store = RedisStore::open(&config).unwrap().with_clock(clock.clone());
    store.ping().await.unwrap();
    // Every call there is: a count, one that finds state from far ahead and moves it, a look, and forgetting.
    let two = Limit::new("log", Rule::sliding_log(2, HOUR).unwrap());
    for now in [clock.now().plus(HOUR), clock.now()] {
        assert!(store.take(&[two.ask("alice", 1)], now).await.unwrap().allowed);
    }
    assert!(!store.peek(&[two.ask("alice", 1)], clock.now()).await.unwrap().allowed);
    let mut third = redis::Client::open(format!("{}/3", server.url())).unwrap().get_connection().unwrap();
    let keys: usize = redis::cmd("DBSIZE").query(&mut third).unwrap();
    assert_eq!((keys, lives(&mut admin).len()), (1, 0));
    assert!(store.forget(two.id, &subject("alice")).await.unwrap());
    let wrong =
        RedisStore::open(&RedisConfig::from_url(&server.url_as("limiter", "wrong", 3)).unwrap()).unwrap();
    assert_eq!(takes(&wrong, "alice").await.unwrap_err().counted(), Counted::Nothing);
}

#[test]
fn an_url_that_is_none_is_refused_and_secrets_are_not_shown() {
    for url in ["", "localhost", "http://localhost", "redis://", "redis://host/notanumber"] {
        assert!(matches!(RedisConfig::from_url(url), Err(ConfigError::Url(_))), "{url}");
    }
    let shown = format!("{:?}", RedisConfig::from_url("redis://user:secret@host:1/2").unwrap());
    assert!(!shown.contains("secret") && shown.contains("host:1/2"), "{shown}");
}

/// A flush of the script cache answers NOSCRIPT; then nothing has run, and that alone is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushing_scripts_in_the_middle_loses_nothing_and_doubles_nothing() {
    let server = RedisServer::start();
    let (store, tight) = (server.store(), limit(150));
    let flushing = std::thread::spawn({
        let mut admin = server.admin();
        move || {
            for _ in 0..200 {
                redis::cmd("SCRIPT").arg("FLUSH").exec(&mut admin).unwrap();
            }
        }
    });
    let taking = (store.clone(), tight.clone());
    let passed = admitted_at_once(400, move |_| {
        let (store, tight) = taking.clone();
        async move { store.take(&[tight.ask("alice", 1)], NOON).await.unwrap().allowed }
    })
    .await;
    flushing.join().unwrap();
    assert_eq!((passed, remaining(&store, &tight, "alice").await), (150, 0));
}

#[tokio::test]
async fn of_many_calls_that_find_no_script_one_loads_it() {
    let server = RedisServer::start();
    let (store, wide) = (server.store(), limit(1_000));
    let passed = admitted_at_once(200, move |_| {
        let (store, wide) = (store.clone(), wide.clone());
        async move { store.take(&[wide.ask("alice", 1)], NOON).await.unwrap().allowed }
    })
    .await;
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.admin()).unwrap();
    let loads = stats.lines().find(|line| line.starts_with("cmdstat_script|load")).unwrap();
    assert_eq!(passed, 200);
    assert!(loads.contains("calls=1,"), "{loads}");
}

#[tokio::test]
async fn after_flushall_every_key_is_as_if_never_used() {
    let server = RedisServer::start();
    let (store, tight) = (server.store(), limit(2));
    assert!(store.take(&[tight.ask("alice", 2)], NOON).await.unwrap().allowed);
    redis::cmd("FLUSHALL").exec(&mut server.admin()).unwrap();
    assert_eq!(remaining(&store, &tight, "alice").await, 2);
    assert!(takes(&store, "alice").await.unwrap());
}

#[tokio::test]
async fn no_value_of_a_key_collides_with_another_or_leaves_the_prefix() {
    let server = RedisServer::start();
    let (store, tight) = (server.store(), limit(1));
    let long = ["x".repeat(10_000), "x".repeat(9_999) + "y"];
    let odd = [
        "", " ", "a", "A", "a ", "{a}", "}:s", "a:b", "a=b", "%61", "%h", "\0", "\r\n", "é", "e\u{301}",
        "🦀", "*",
    ];
    let users: Vec<&str> = odd.into_iter().chain(long.iter().map(String::as_str)).collect();
    for user in &users {
        assert!(store.take(&[tight.ask(user, 1)], NOON).await.unwrap().allowed, "{user:?}");
        assert!(!store.take(&[tight.ask(user, 1)], NOON).await.unwrap().allowed, "{user:?}");
    }
    let lives = lives(&mut server.admin());
    assert_eq!(lives.len(), users.len());
    assert!(
        lives.keys().all(|key| key.starts_with("sg1:{test:user=") && key.ends_with("}:s") && key.len() < 400)
    );
}

/// Keys that were meant to share a slot and did not were found in gateways (spring-cloud-gateway#248,
/// apache/shenyu#2808): there the limiter failed open without a word.
#[test]
fn keys_of_one_tenant_share_their_slot_whatever_else_they_count_by() {
    let of = |user: Option<&str>| {
        Subject::new("api", &[("org", Some("acme"))], &[("user", user), ("x", Some("}{"))])
    };
    let slot_part = |key: String| key[key.find('{').unwrap()..=key.find('}').unwrap()].to_owned();
    let tags = [Some("a"), Some("{b}"), None].map(|user| slot_part(record_key(&of(user))));
    assert_eq!(tags, ["{api:org=acme}"; 3].map(str::to_owned));
}

#[tokio::test]
async fn forgetting_one_limit_leaves_the_others_of_the_subject_and_their_time_to_live() {
    let server = RedisServer::start();
    let store = server.store();
    let limits = [
        limit(5),
        Limit::new("log", Rule::sliding_log(5, HOUR).unwrap()),
        Limit::new("counter", Rule::sliding_counter(5, HOUR).unwrap()),
    ];
    let asks: Vec<_> = limits.iter().map(|limit| limit.ask("alice", 3)).collect();
    assert!(store.take(&asks, NOON).await.unwrap().allowed);
    for gone in 0..limits.len() {
        assert!(store.forget(limits[gone].id, &subject("alice")).await.unwrap());
        assert!(!store.forget(limits[gone].id, &subject("alice")).await.unwrap());
        assert!(lives(&mut server.admin()).values().all(|life| *life > 0));
        for (index, limit) in limits.iter().enumerate() {
            let left = if index <= gone { 5 } else { 2 };
            assert_eq!(remaining(&store, limit, "alice").await, left);
        }
    }
    assert_eq!(lives(&mut server.admin()).len(), 0);
}

#[tokio::test]
async fn a_lost_connection_is_made_again_by_the_next_call() {
    let mut server = RedisServer::start();
    let store = server.store();
    assert!(takes(&store, "alice").await.unwrap());
    server.stop();
    let refused = takes(&store, "alice").await.unwrap_err();
    server.restart();
    assert!(takes(&store, "alice").await.unwrap(), "after {refused:?}");
    // A closed connection is noticed while idle: the next call does not fail first.
    redis::cmd("CLIENT")
        .arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .arg("SKIPME")
        .arg("yes")
        .exec(&mut server.admin())
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await; // until the closing has come through the socket
    assert!(takes(&store, "alice").await.unwrap());
}

#[tokio::test]
async fn without_a_server_it_says_at_once_that_nothing_was_counted() {
    let mut server = RedisServer::start();
    let store = RedisStore::open(&config(&server.url())).unwrap();
    server.stop();
    let (began, address) = (Instant::now(), format!("127.0.0.1:{}", server.port()));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let store = store.clone();
        calls.spawn(async move { takes(&store, "alice").await });
    }
    for answer in calls.join_all().await {
        let error = answer.unwrap_err();
        assert_eq!(error.counted(), Counted::Nothing);
        assert_eq!(error.to_string(), format!("redis at `{address}` cannot be reached"));
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// Without a timeout a limiter waits for ever on a server that hangs (bucket4j#406); with one, nobody knows whether the
/// call was counted, and saying otherwise would count twice.
#[tokio::test]
async fn a_server_that_hangs_is_an_unknown_outcome_within_the_timeout() {
    let server = RedisServer::start();
    let quick = config(&server.url()).response_timeout(Duration::from_millis(300));
    let store = RedisStore::open(&quick).unwrap();
    assert!(takes(&server.store(), "alice").await.unwrap());
    // On a busy machine the first answers may be late as well.
    while store.ping().await.is_err() {}
    redis::cmd("CLIENT").arg("PAUSE").arg(2_000).arg("ALL").exec(&mut server.admin()).unwrap();
    let began = Instant::now();
    let error = takes(&store, "alice").await.unwrap_err();
    assert_eq!(error.counted(), Counted::Unknown);
    assert_eq!(error.to_string(), format!("redis at `127.0.0.1:{}` did not answer in time", server.port()));
    assert!(began.elapsed() < Duration::from_millis(1_900), "{:?}", began.elapsed());
    // The call in question is counted after all when the pause is over: that is what unknown means.
    assert!(!takes(&server.store(), "alice").await.unwrap());
}

#[tokio::test]
async fn a_server_without_memory_refuses_and_nothing_is_counted() {
    let server = RedisServer::with(&["--maxmemory-policy", "noeviction"]);
    let store = server.store();
    assert!(takes(&store, "alice").await.unwrap());
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").exec(&mut server.admin()).unwrap();
    let error = takes(&store, "bob").await.unwrap_err();
    assert_eq!(error.counted(), Counted::Nothing, "{error:?}");
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0").exec(&mut server.admin()).unwrap();
    assert_eq!(remaining(&store, &limit(2), "bob").await, 2);
}

#[tokio::test]
async fn a_key_that_someone_else_wrote_is_an_error_and_stays_as_it_is() {
    let server = RedisServer::start();
    let (store, mut admin) = (server.store(), server.admin());
    let key = record_key(&subject("alice"));
    redis::cmd("SET").arg(&key).arg("5").exec(&mut admin).unwrap();
    assert!(takes(&store, "alice").await.is_err());
    assert!(store.peek(&[limit(2).ask("alice", 1)], NOON).await.is_err());
    let value: String = redis::cmd("GET").arg(&key).query(&mut admin).unwrap();
    assert_eq!(value, "5");
    redis::cmd("DEL").arg(&key).exec(&mut admin).unwrap();
    redis::cmd("LPUSH").arg(&key).arg("5").exec(&mut admin).unwrap();
    assert_eq!(takes(&store, "alice").await.unwrap_err().counted(), Counted::Nothing);
    // What take cannot decide, peek does not claim to know.
    assert!(store.peek(&[limit(2).ask("alice", 1)], NOON).await.is_err());
}

#[tokio::test]
async fn a_request_with_too_many_asks_is_refused_before_it_is_sent() {
    let server = RedisServer::start();
    let limits: Vec<Limit> = (0..129).map(|n| Limit::new(&format!("l{n}"), limit(5).rule)).collect();
    let asks: Vec<_> = limits.iter().map(|limit| limit.ask("alice", 1)).collect();
    let store = server.store();
    assert_eq!(store.take(&asks, NOON).await.unwrap_err().counted(), Counted::Nothing);
    assert!(store.take(&asks[..128], NOON).await.unwrap().allowed);
    assert!(store.take(&[], NOON).await.unwrap().allowed);
}

#[tokio::test]
async fn the_clock_tells_the_servers_time() {
    let server = RedisServer::start();
    let clock = RedisClock::start(&config(&server.url())).unwrap();
    clock.sync().await.unwrap();
    let mut admin = server.admin();
    for _ in 0..20 {
        let before = clock.now().as_u64();
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut admin).unwrap();
        let after = clock.now().as_u64();
        let server_us = seconds * 1_000_000 + micros;
        // Both clocks are this machine's: what is left is half a round trip, and a busy machine's pauses.
        assert!(server_us + 50_000 > before && server_us < after + 50_000, "{before} {server_us} {after}");
    }
}

/// A clock that stepped back an hour must not lock a window of a minute for an hour, nor open it again
/// (sethvargo/go-limiter#41, tikv/pd#10744).
#[tokio::test]
async fn state_from_an_hour_ahead_is_moved_to_the_servers_time_and_keeps_what_was_used() {
    let server = RedisServer::start();
    let clock = RedisClock::start(&config(&server.url())).unwrap();
    clock.sync().await.unwrap();
    let store = server.store().with_clock(clock.clone());
    let minute = Duration::from_secs(60);
    let fixed = Limit::new("fixed", Rule::fixed_window(10, minute, Align::FirstRequest).unwrap());
    let ahead = clock.now().plus(HOUR);
    assert!(store.take(&[fixed.ask("alice", 10)], ahead).await.unwrap().allowed);
    // The caller's own time is stale as well: an hour behind the server. The server's decides.
    let behind = Micros::new(clock.now().as_u64() - 3_600_000_000);
    let denied = store.take(&[fixed.ask("alice", 1)], behind).await.unwrap();
    let Some(Retry::After(wait)) = denied.asks[0].retry else { panic!("{denied:?}") };
    assert!(wait <= minute && wait > Duration::from_secs(50), "{wait:?}");
    let later = clock.now().plus(minute);
    assert!(store.take(&[fixed.ask("alice", 10)], later).await.unwrap().allowed);
}

/// A record of one entry as a stranger might write it.
fn entry(machine: u8, id: [u8; 4], resets_at: u8, numbers: &[f64]) -> Vec<u8> {
    let head = [&[machine][..], &id, &[resets_at, 0, 0, 0, 0]].concat();
    numbers.iter().fold(head, |bytes, number| [&bytes[..], &number.to_le_bytes()].concat())
}

/// A log of −2.6 entries once ended where it began, and the script went round and round: the whole server was busy.
#[tokio::test]
async fn whatever_stands_in_a_record_a_call_ends_and_says_that_nothing_was_counted() {
    let server = RedisServer::start();
    let (store, mut admin) = (server.store(), server.admin());
    let minute = Duration::from_secs(60);
    let limits = [
        Limit::new("window", Rule::fixed_window(10, minute, Align::Epoch).unwrap()),
        Limit::new("log", Rule::sliding_log(10, minute).unwrap()),
        Limit::new("counter", Rule::sliding_counter(10, minute).unwrap()),
        Limit::new("bucket", Rule::token_bucket(10, minute, 10).unwrap()),
    ];
    let odd = [-2.6, f64::NAN, f64::INFINITY, 1e300, 0.0];
    let ids = limits.iter().map(|limit| limit.ask("alice", 1).id.as_u32().to_le_bytes());
    let mut planted: Vec<Vec<u8>> = vec![b"5".to_vec(), vec![0; 26], vec![255; 60], vec![1; 25]];
    for id in ids.chain([[1, 2, 3, 4]]) {
        for machine in 0..=5 {
            for (first, second) in odd.into_iter().flat_map(|first| odd.map(|second| (first, second))) {
                planted.push(entry(machine, id, 0, &[first, second]));
                planted.push(entry(machine, id, 255, &[first, second, f64::NAN]));
            }
        }
    }
    let key = record_key(&subject("alice"));
    let (all, mut unknown) = (planted.len() * limits.len(), 0);
    for bytes in planted {
        for limit in &limits {
            redis::cmd("SET").arg(&key).arg(&bytes).exec(&mut admin).unwrap();
            let ask = limit.ask("alice", 1);
            let peeked = store.peek(std::slice::from_ref(&ask), NOON).await;
            let taken = store.take(std::slice::from_ref(&ask), NOON).await;
            let left: Vec<u8> = redis::cmd("GET").arg(&key).query(&mut admin).unwrap();
            if let Err(error) = &taken {
                let known = error.counted() == Counted::Nothing;
                assert!(known || left != bytes, "{bytes:?} {limit:?} {error:?}");
                unknown += usize::from(!known);
            }
            if let Err(error) = &peeked {
                assert_eq!(error.counted(), Counted::Nothing, "{bytes:?} {limit:?} {error:?}");
            }
            // Either a call ends with an answer or with an error; a script that does not end fails by its timeout.
            let forgotten = store.forget(ask.id, &ask.subject).await;
            assert!(
                !forgotten.is_err_and(|error| error.to_string().contains("in time")),
                "{bytes:?} {limit:?}"
            );
        }
    }
    // A script checks the layout. An odd number in a sound layout may be counted before it is read here.
    assert!(unknown * 20 < all, "{unknown} of {all}");
}
