//! Every way in which a call to Redis fails: what the caller is told about counting is true, no call waits without
//! bound, and nothing is counted twice.
#![allow(clippy::print_stderr)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use sluicegate::{
    Counted, Store, StoreError,
    core::{Align, Decision, Micros, Rule, State},
};
use sluicegate_redis::{Finding, Record, RedisCause, RedisConfig, RedisStore, record_key};
use sluicegate_tests::{
    Fault, Load, Proxy, RedisServer, Witness,
    fixtures::{HOUR, Limit, subject},
    ports::free_port,
    redis_server::until,
    rights,
};

const NOON: Micros = Micros::from_secs(1_790_000_000);
/// How long a connection and an answer may take.
const TIMEOUT: Duration = Duration::from_millis(200);
/// A connect and a response timeout for the call and for one before it, and what a busy machine adds.
const LONGEST: Duration = Duration::from_secs(3);
const AMOUNT: u64 = 1_000_000;

fn limit() -> Limit {
    Limit::new("hourly", Rule::fixed_window(AMOUNT, HOUR, Align::Epoch).unwrap())
}

fn store(url: &str) -> RedisStore {
    let config = RedisConfig::from_url(url).unwrap();
    RedisStore::open(&config.connect_timeout(TIMEOUT).response_timeout(TIMEOUT)).unwrap()
}

async fn take(store: &RedisStore) -> Result<Decision, StoreError> {
    store.take(&[limit().ask("alice", 1)], NOON).await
}

/// What is stored, read without the store.
fn used(server: &RedisServer) -> u64 {
    let record: Option<Vec<u8>> =
        redis::cmd("GET").arg(record_key(&subject("alice"))).query(&mut server.admin()).unwrap();
    let state = Record::new(&record.unwrap_or_default()).state(limit().id, &limit().rule).unwrap();
    match state {
        Some(State::FixedWindow(state)) => state.used,
        _ => 0,
    }
}

fn cause(error: &StoreError) -> &RedisCause {
    std::error::Error::source(error).unwrap().downcast_ref().unwrap()
}

/// redis-rs repeats writes whose connection broke, in its cluster client, and lets calls wait for a reconnect without
/// bound: a call may then be counted twice, and the caller waits for it.
#[tokio::test]
async fn a_connection_that_is_cut_never_charges_twice_and_never_blocks() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let store = store(&proxy.url());
    assert!(take(&store).await.unwrap().allowed);
    let mut expected = 1;
    for (fault, counts) in [(Fault::CutBeforeRequest("EVALSHA"), 0), (Fault::CutBeforeReply("EVALSHA"), 1)] {
        proxy.set(fault);
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let began = Instant::now();
            let error = take(&store).await.unwrap_err();
            slowest = slowest.max(began.elapsed());
            expected += counts;
            assert_eq!(
                (error.counted(), used(&server)),
                (Counted::Unknown, expected),
                "{fault:?}: {error:?}"
            );
        }
        eprintln!("{fault:?}: 50 cut, {counts} counted of each, worst {slowest:?}");
        assert!(slowest < LONGEST, "{slowest:?}");
        proxy.set(Fault::Pass);
        assert!(take(&store).await.unwrap().allowed);
        expected += 1;
        assert_eq!(used(&server), expected);
    }
    assert_eq!(proxy.cuts(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_under_load_neither_lose_nor_double_a_count() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let store = store(&proxy.url());
    let witness = Witness::of(&store, &subject("witness"));
    let load = Load::of(20, move |_| {
        let store = store.clone();
        async move { take(&store).await }
    });
    for _ in 0..10 {
        for fault in [Fault::CutBeforeRequest("EVALSHA"), Fault::CutBeforeReply("EVALSHA"), Fault::Refuse] {
            proxy.set(Fault::Pass);
            tokio::time::sleep(Duration::from_millis(20)).await; // calls come through before the next fault
            proxy.set(fault);
            tokio::time::sleep(Duration::from_millis(5)).await; // and some meet it
        }
    }
    proxy.set(Fault::Pass);
    let told = load.end(LONGEST).await;
    witness.held(LONGEST).await;
    let used = used(&server);
    eprintln!("cuts under load: {told}; {} cut, {used} stored", proxy.cuts());
    assert!(told.admitted() > 100 && told.unknown() > 0 && told.nothing() > 0, "{told}");
    assert!((told.admitted()..=told.admitted() + told.unknown()).contains(&used), "{used} stored: {told}");
}

/// A path that swallows packets looks like a slow server; a limiter that waits for it adds its worst second to every
/// request.
#[tokio::test]
async fn a_server_that_is_slow_silent_or_half_heard_costs_a_bounded_time_and_counts_what_is_said() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let store = store(&proxy.url());
    assert!(take(&store).await.unwrap().allowed);
    proxy.set(Fault::Delay(TIMEOUT / 4));
    assert!(take(&store).await.unwrap().allowed);
    let mut expected = 2;
    for (fault, meanwhile) in [(Fault::Blackhole, 0), (Fault::HalfOpen, 1)] {
        proxy.set(fault);
        let began = Instant::now();
        let sent = take(&store).await.unwrap_err();
        assert_eq!((sent.counted(), used(&server)), (Counted::Unknown, expected + meanwhile), "{fault:?}");
        // The connection is given up: the next call finds no way to make one, and has sent nothing.
        let unsent = take(&store).await.unwrap_err();
        assert_eq!(unsent.counted(), Counted::Nothing, "{fault:?}: {unsent:?}");
        assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
        eprintln!("{fault:?}: a call and the next {:?}", began.elapsed());
        proxy.set(Fault::Pass);
        assert!(take(&store).await.unwrap().allowed);
        // What was sent arrives after all: that is what unknown means. It arrives once.
        expected += 2;
        until("the call in question arrives", || used(&server) == expected);
    }
}

/// After a failover the old master is a replica. A connection to it stands and refuses every write for ever.
#[tokio::test]
async fn a_master_that_became_a_replica_loses_its_connection_and_counts_nothing() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let proxy = Proxy::to(server.port());
    let store = store(&proxy.url());
    assert!(take(&store).await.unwrap().allowed);
    server.follow(&other);
    for connections in 1..=3 {
        let error = take(&store).await.unwrap_err();
        assert_eq!((error.counted(), proxy.connections()), (Counted::Nothing, connections), "{error:?}");
        assert!(cause(&error).hint().unwrap().contains("replica"), "{error:?}");
    }
    server.promote();
    // What it had counted went when it copied the other.
    assert!(take(&store).await.unwrap().allowed);
    assert_eq!(used(&server), 1);
}

#[tokio::test]
async fn a_server_that_refuses_writes_for_its_own_reasons_counts_nothing() {
    let server = RedisServer::with(&["--save", "3600 1", "--dbfilename", "dump"]);
    let store = store(&server.url());
    assert!(take(&store).await.unwrap().allowed);
    let refused = |error: StoreError, code: &str| {
        assert_eq!(error.counted(), Counted::Nothing, "{error:?}");
        assert!(cause(&error).to_string().starts_with(code), "{error:?}");
        assert!(cause(&error).hint().is_some(), "{error:?}");
    };
    server.set("min-replicas-to-write", "1");
    refused(take(&store).await.unwrap_err(), "NOREPLICAS");
    server.set("min-replicas-to-write", "0");
    // A file cannot take the place of a folder: saving fails.
    std::fs::create_dir(server.dir().join("dump")).unwrap();
    server.command(&["BGSAVE"]);
    until("saving has failed", || server.info("persistence").contains("rdb_last_bgsave_status:err"));
    refused(take(&store).await.unwrap_err(), "MISCONF");
    server.set("stop-writes-on-bgsave-error", "no");
    assert!(take(&store).await.unwrap().allowed);
    assert_eq!(used(&server), 2);
}

#[tokio::test]
async fn a_replica_without_its_master_and_a_cluster_without_slots_count_nothing() {
    let (server, mut master) =
        (RedisServer::with(&["--replica-serve-stale-data", "no"]), RedisServer::start());
    server.follow(&master);
    master.stop();
    until("the link is lost", || server.info("replication").contains("master_link_status:down"));
    let error = take(&store(&server.url())).await.unwrap_err();
    assert_eq!(error.counted(), Counted::Nothing);
    assert!(cause(&error).to_string().starts_with("MASTERDOWN"), "{error:?}");

    // The bus's own port would be one of those that outgoing connections are given.
    let bus = free_port().to_string();
    let empty = RedisServer::with(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    let error = take(&store(&empty.url())).await.unwrap_err();
    assert_eq!(error.counted(), Counted::Nothing);
    assert!(cause(&error).to_string().starts_with("CLUSTERDOWN"), "{error:?}");
    let error = take(&store(&empty.url().replace("redis:", "redis+cluster:"))).await.unwrap_err();
    assert_eq!(error.counted(), Counted::Nothing);
    assert!(error.to_string().contains("knows of no slots"), "{error:?}");
}

#[tokio::test]
async fn a_user_who_may_not_is_told_what_is_missing_and_counts_nothing() {
    let server = RedisServer::start();
    let may =
        ["on", ">secret", "resetchannels", "~sg1:*", "-@all", "+evalsha", "+script|load", "+get", "+del"];
    let setuser: Vec<&str> = ["ACL", "SETUSER", "limiter"].into_iter().chain(may).collect();
    server.command(&setuser);
    let limited = store(&server.url_as("limiter", "secret", 0));
    let error = take(&limited).await.unwrap_err();
    assert_eq!((error.counted(), used(&server)), (Counted::Nothing, 0), "{error:?}");
    assert!(cause(&error).hint().unwrap().contains("rights"), "{error:?}");
    for url in [
        server.url_as("limiter", "wrong", 0),
        server.url_as("nobody", "secret", 0),
        format!("{}/99", server.url()),
    ] {
        let error = take(&store(&url)).await.unwrap_err();
        assert_eq!(error.counted(), Counted::Nothing);
        assert!(cause(&error).refuses_user() && cause(&error).hint().is_some(), "{url}: {error:?}");
    }
    let open = store(&server.url());
    assert!(take(&open).await.unwrap().allowed);
    // A password that is set later is for new connections; the one that stands goes on.
    server.set("requirepass", "later");
    assert!(take(&open).await.unwrap().allowed);
    let error = take(&store(&server.url())).await.unwrap_err();
    assert!(cause(&error).refuses_user() && error.counted() == Counted::Nothing, "{error:?}");
}

#[tokio::test]
async fn an_evicting_policy_and_a_missing_right_are_found_and_what_may_not_be_asked_is_no_failure() {
    let server = RedisServer::start();
    let open = store(&server.url());
    assert_eq!(open.inspect(NOON).await.unwrap(), []);
    server.set("maxmemory-policy", "allkeys-lru");
    assert_eq!(open.inspect(NOON).await.unwrap(), [Finding::Evicts("allkeys-lru".into())]);
    let enough = rights::STORE;
    let found = async |given: &str| {
        rights::give(&server, &[given]);
        store(&server.url_as("limiter", "password", 0)).inspect(NOON).await.unwrap()
    };
    assert_eq!(found(enough).await, [Finding::EvictionUnknown]);
    for right in ["+info", "+config|get"] {
        assert_eq!(found(&format!("{enough} {right}")).await, [Finding::Evicts("allkeys-lru".into())]);
    }
    for right in ["+evalsha", "+script|load", "+get", "+set", "+del", "+ping"] {
        let rest: Vec<&str> = enough.split(' ').filter(|other| *other != right).collect();
        let findings = found(&rest.join(" ")).await;
        assert!(matches!(findings[0], Finding::LacksRight(_)), "without {right}: {findings:?}");
    }
    // Nothing is left of a look that could be finished.
    assert_eq!(found(enough).await, [Finding::EvictionUnknown]);
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(&mut server.admin()).unwrap(), 0);
}
