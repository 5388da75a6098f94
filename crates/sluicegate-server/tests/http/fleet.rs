//! A fleet of processes whose Redis is gone: together they admit exactly what the limit says, times the headroom.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use sluicegate_tests::{RedisServer, redis_server::until};

use crate::process::{PolicyFile, Serving, sluicegate};

/// Windows and refills that outlast the test. The sixth of a limit of 5 is on no instance of seven.
const POLICY: &str = "
version: 1
limits:
  - { name: window, algorithm: fixed_window, limit: 100, per: 1d, align: first_request, key: [user], headroom: 1.5, match: { on: window } }
  - { name: bucket, algorithm: token_bucket, limit: 100, per: 1d, burst: 33, key: [user], match: { on: bucket } }
  - { name: small, algorithm: sliding_log, limit: 5, per: 1d, key: [user], match: { on: small } }
";
const GRANTED: [(&str, usize); 3] = [("window", 150), ("bucket", 33), ("small", 5)];
/// The size of one entry of the fleet's list.
const ENTRY: usize = 24;

fn serve(redis: &RedisServer, policy: &PolicyFile, flags: &[String]) -> Serving {
    let mut command = sluicegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--store", &redis.url(), "--policy"]).arg(&policy.0);
    Serving::start(command.args(flags))
}

/// How many of 200 requests at once pass at one instance; each answer is a decision, and says who made it.
fn hammer(instance: &mut Serving, on: &str, decided_by: &str) -> usize {
    let request = json!({"attributes": {"user": "alice", "on": on}});
    let batch = json!({"requests": vec![request; 200]}).to_string();
    let results = instance.client.post("/v1/batch", batch).json()["results"].clone();
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), 200);
    assert!(results.iter().all(|result| result["decided_by"] == decided_by), "{results:?}");
    results.iter().filter(|result| result["allowed"] == true).count()
}

#[test]
fn without_redis_a_fleet_of_processes_admits_exactly_the_limit_times_the_headroom() {
    let policy = PolicyFile::new("fleet", POLICY);
    for size in [1, 2, 4, 7] {
        let mut redis = RedisServer::start();
        let flags = |rank: usize| {
            ["--instances", &size.to_string(), "--instance-rank", &rank.to_string()].map(str::to_owned)
        };
        let mut fleet: Vec<Serving> = (0..size).map(|rank| serve(&redis, &policy, &flags(rank))).collect();
        redis.stop();
        for (on, granted) in GRANTED {
            let passed: usize = fleet.iter_mut().map(|instance| hammer(instance, on, "fallback")).sum();
            assert_eq!(passed, granted, "{on} on {size} instances");
        }
    }
}

/// Nobody told them how many they are: they learn it through Redis while it is there.
#[test]
fn a_fleet_learns_its_size_and_after_the_outage_counts_together_again() {
    let (mut redis, policy) = (RedisServer::start(), PolicyFile::new("learning-fleet", POLICY));
    // Tests share their machine; a server that is gone refuses at once.
    let patient = ["--store-deadline-ms", "5000"].map(str::to_owned);
    let mut fleet: Vec<Serving> = (0..4).map(|_| serve(&redis, &policy, &patient)).collect();
    let listed = || {
        let list: usize = redis::cmd("STRLEN").arg("sg1:{!fleet}:i").query(&mut redis.admin()).unwrap();
        list / ENTRY
    };
    until("all instances are in the list", || listed() == 4);
    // Each reads the list again within a second of the last one's entry; nothing tells when it has.
    thread::sleep(Duration::from_millis(2_500));
    redis.stop();
    for (on, granted) in GRANTED {
        let passed: usize = fleet.iter_mut().map(|instance| hammer(instance, on, "fallback")).sum();
        assert_eq!(passed, granted, "{on}");
    }

    redis.restart();
    for instance in &mut fleet {
        wait_for_the_store(instance);
    }
    // The store that came back is empty, and nothing that was counted without it has been told to it.
    let request = json!({"attributes": {"user": "alice", "on": "window"}, "cost": 25}).to_string();
    let answers = fleet.iter_mut().map(|instance| instance.client.post("/v1/take", &request).json());
    let remaining: Vec<_> = answers.map(|answer| answer["limits"][0]["remaining"].clone()).collect();
    assert_eq!(remaining, [75, 50, 25, 0].map(|left| json!(left)));
    assert_eq!(fleet[0].client.post("/v1/take", &request).status, 429);
}

/// Until the store decides about every key again.
fn wait_for_the_store(instance: &mut Serving) {
    let begin = Instant::now();
    let by_the_store = |instance: &mut Serving| {
        let peek =
            |user: usize| json!({"attributes": {"user": user.to_string(), "on": "small"}, "dry_run": true});
        let batch = json!({"requests": (0..100).map(peek).collect::<Vec<_>>()}).to_string();
        let results = instance.client.post("/v1/batch", batch).json();
        results["results"].as_array().unwrap().iter().all(|result| result["decided_by"] == "store")
    };
    while !by_the_store(instance) {
        assert!(begin.elapsed() < Duration::from_secs(30), "the store does not decide again");
        // The breaker closes on its own, some time soon.
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_rank_that_no_instance_has_is_refused() {
    for flags in [
        &["--instances", "3", "--instance-rank", "3"][..],
        &["--instances", "3"],
        &["--instances", "0", "--instance-rank", "0"],
    ] {
        let output = sluicegate().args(["serve", "--http", "127.0.0.1:0"]).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}
