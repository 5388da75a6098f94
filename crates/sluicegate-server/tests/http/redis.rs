//! The door over a real Redis, from the binary.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use sluicegate_tests::{RedisCluster, RedisServer, Watched, rights};

use crate::{
    concurrency::{at_once, passed},
    process::{PolicyFile, Serving, sluicegate},
};

/// Windows that begin with the first count: none ends while a test runs.
const THREE_LIMITS: &str = "
version: 1
limits:
  - { name: wide, algorithm: fixed_window, limit: 100000, per: 1d, align: first_request, key: [user] }
  - { name: narrow, algorithm: fixed_window, limit: 1000, per: 1d, align: first_request, key: [user] }
  - { name: all, algorithm: sliding_counter, limit: 200000, per: 1d, key: [] }
";

/// A server that waits for its store longer than the default: tests share their machine, and a decision without the
/// store is not what they count.
fn serve(redis: &RedisServer, policy: &PolicyFile) -> Serving {
    let mut command = sluicegate();
    command.env("SLUICEGATE_STORE_TIMEOUT_MS", "20000").env("SLUICEGATE_STORE_DEADLINE_MS", "10000");
    command.args(["serve", "--http", "127.0.0.1:0", "--store", &redis.url(), "--policy"]).arg(&policy.0);
    Serving::start(&mut command)
}

/// Two processes that share one Redis, 200 and 50 requests at once, a limit of 1,000 in the midst of two others.
#[test]
fn two_servers_on_one_redis_let_through_exactly_what_is_left() {
    let (redis, policy) = (RedisServer::start(), PolicyFile::new("two-servers", THREE_LIMITS));
    let (mut left, right) = (serve(&redis, &policy), serve(&redis, &policy));
    for (user, used, clients) in [("a", 990_u32, 200), ("b", 998, 50)] {
        let used_up = format!(r#"{{"attributes": {{"user": "{user}"}}, "cost": {used}}}"#);
        assert_eq!(left.client.post("/v1/take", used_up).status, 200);
        let body = format!(r#"{{"attributes": {{"user": "{user}"}}}}"#);
        let replies = at_once(&[left.address, right.address], clients, &body);
        assert_eq!(passed(&replies), usize::try_from(1_000 - used).unwrap());
        let limits = left.client.post("/v1/peek", body).json()["limits"].clone();
        assert_eq!((&limits[0]["remaining"], &limits[1]["remaining"]), (&json!(99_000), &json!(0)));
    }
    let all = left.client.post("/v1/peek", r#"{"attributes": {"user": "c"}}"#).json()["limits"][2].clone();
    assert_eq!(all["remaining"], json!(198_000), "a denial of the second limit has charged the third");
}

#[test]
fn a_batch_on_redis_is_as_exact() {
    let (redis, policy) = (RedisServer::start(), PolicyFile::new("batch", THREE_LIMITS));
    let mut server = serve(&redis, &policy);
    let batch = format!(r#"{{"requests": [{}]}}"#, vec![r#"{"attributes": {"user": "a"}}"#; 700].join(","));
    for expected in [700, 300] {
        let results = server.client.post("/v1/batch", &batch).json()["results"].as_array().unwrap().clone();
        assert_eq!(results.iter().filter(|result| result["allowed"] == true).count(), expected);
        assert!(results.iter().all(|result| result["decided_by"] == "store"));
    }
}

#[test]
fn a_redis_that_dies_fails_no_request_and_decides_again_when_it_is_back() {
    let (mut redis, policy) = (RedisServer::start(), PolicyFile::new("dies", THREE_LIMITS));
    let mut server = serve(&redis, &policy);
    let body = r#"{"attributes": {"user": "a"}}"#;
    let decided_by = |server: &mut Serving| {
        let reply = server.client.post("/v1/take", body);
        assert_eq!(reply.status, 200);
        reply.json()["decided_by"].as_str().unwrap().to_owned()
    };
    assert_eq!(decided_by(&mut server), "store");
    redis.stop();
    assert_eq!(decided_by(&mut server), "fallback");
    assert_eq!(server.client.get("/readyz").status, 200);
    redis.restart();
    let begin = Instant::now();
    while decided_by(&mut server) != "store" {
        assert!(begin.elapsed() < Duration::from_secs(20), "the store is not asked again");
        // The connection comes back on its own, some time soon.
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_denial_from_memory_says_so_and_names_what_was_not_asked() {
    let text = "{version: 1, limits: [
        {name: hot, algorithm: fixed_window, limit: 1, per: 1d, align: first_request, key: [user], cache_denials: true},
        {name: all, algorithm: sliding_counter, limit: 9, per: 1d, key: []}]}";
    let (redis, policy) = (RedisServer::start(), PolicyFile::new("memory", text));
    let mut server = serve(&redis, &policy);
    let mut take = || server.client.post("/v1/take", r#"{"attributes": {"user": "a"}}"#);
    assert_eq!(take().json()["allowed"], true);
    // A tenth of a second may pass between two requests: then the store is asked again.
    let denied =
        std::iter::repeat_with(&mut take).take(1_000).find(|reply| reply.json()["decided_by"] == "cache");
    let reply = denied.expect("a denial from memory");
    let denied = reply.json();
    assert_eq!((reply.status, &denied["binding"], &denied["degraded"]), (429, &json!("hot"), &json!(false)));
    let told = |at: usize| {
        let limit = &denied["limits"][at];
        ["allowed", "decided_by", "limit", "remaining"].map(|field| limit[field].clone())
    };
    assert_eq!(told(0), [json!(false), json!("cache"), json!(1), json!(0)]);
    assert_eq!(told(1), [json!(true), json!("cache"), json!(9), json!(null)]);
}

/// What a server says on standard error until it listens.
fn said_at_start(store: &str) -> String {
    let mut command = sluicegate();
    command.env("SLUICEGATE_STORE_TIMEOUT_MS", "5000").args([
        "serve",
        "--http",
        "127.0.0.1:0",
        "--store",
        store,
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut said = String::new();
    child.stderr.unwrap().read_to_string(&mut said).unwrap();
    assert!(line.starts_with("listening on "), "{line:?} {said}");
    said
}

/// The rights that `docs/operating/redis.md` lists are all that the server needs: it warns of nothing.
#[test]
fn a_server_runs_with_the_least_rights_on_every_topology() {
    let one = RedisServer::start();
    rights::give(&one, &[rights::STORE]);
    let group = Watched::with(&[rights::SENTINEL]);
    rights::give(&group.servers[0], &[rights::STORE, rights::MASTER]);
    let cluster = RedisCluster::start();
    for node in &cluster.nodes {
        rights::give(node, &[rights::STORE, rights::NODE]);
    }
    let of_sentinels = "?sentinel_user=watcher&sentinel_password=password";
    for store in [
        one.url_as("limiter", "password", 0),
        group.url_with("limiter:password@", of_sentinels),
        cluster.url_with("limiter:password@"),
    ] {
        let policy = PolicyFile::new("least", THREE_LIMITS);
        let mut command = sluicegate();
        command.env("SLUICEGATE_STORE_TIMEOUT_MS", "5000");
        command.args(["serve", "--http", "127.0.0.1:0", "--store", &store, "--policy"]).arg(&policy.0);
        let mut server = Serving::start(&mut command);
        let taken = server.client.post("/v1/take", r#"{"attributes": {"user": "a"}}"#).json();
        assert_eq!((&taken["allowed"], &taken["decided_by"]), (&json!(true), &json!("store")), "{store}");
        let said = said_at_start(&store);
        assert!(!said.contains("WARN") && said.contains("does not say whether it frees keys"), "{said}");
    }
}

#[test]
fn a_server_warns_of_eviction_and_of_a_missing_right_and_says_what_to_do() {
    let redis = RedisServer::start();
    redis.set("maxmemory-policy", "volatile-lru");
    let said = said_at_start(&redis.url());
    assert!(said.contains("volatile-lru") && said.contains("maxmemory-policy noeviction"), "{said}");
    rights::give(&redis, &[&rights::STORE.replace(" +del", "")]);
    let said = said_at_start(&redis.url_as("limiter", "password", 0));
    assert!(said.contains("lacks a right") && said.contains("docs/operating/redis.md"), "{said}");
}

/// Waiting does not help, and a limiter that was started all the same would let everything pass.
#[test]
fn a_server_does_not_start_on_a_redis_that_refuses_its_user_or_its_database() {
    let redis = RedisServer::start();
    for (store, hint) in [
        (redis.url_as("limiter", "wrong", 0), "hint: check the user and the password"),
        (format!("{}/99", redis.url()), "hint: check the database number"),
    ] {
        let ended =
            sluicegate().args(["serve", "--http", "127.0.0.1:0", "--store", &store]).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(3), "{said}");
        assert!(said.contains(hint) && said.contains(&format!("127.0.0.1:{}", redis.port())), "{said}");
        assert!(!said.contains("wrong:") && !said.contains(":wrong"), "{said}");
    }
}
