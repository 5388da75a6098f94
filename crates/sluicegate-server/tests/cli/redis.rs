//! The verbs on a real Redis.

use std::{fs, thread};

use serde_json::json;
use sluicegate_tests::RedisServer;

use crate::support::{Folder, Serving, finish, run, sluicegate};

const THREE: &str = "{ name: three, algorithm: fixed_window, limit: 3, per: 1w, key: [user] }";
const DAILY: &str =
    "{ name: daily, algorithm: fixed_window, limit: 1000, per: 1d, align: first_request, key: [user] }";
const BUCKET: &str = "{ name: bucket, algorithm: token_bucket, limit: 10, per: 1s, key: [user] }";

fn keys(server: &RedisServer) -> Vec<String> {
    redis::cmd("KEYS").arg("*").query(&mut server.admin()).unwrap()
}

/// At 998 of 1,000 with 50 at once the limiter that people write first lets most of them through.
#[test]
fn the_naive_limiter_over_admits_and_this_one_lets_through_exactly_two() {
    let server = RedisServer::start();
    let race = |limiter: &str| {
        let store = server.url();
        run(&["race", "--limiter", limiter, "--store", &store, "--rounds", "20", "--output", "json"])
    };
    let ours = race("sluicegate");
    assert_eq!(ours.code, Some(0), "{ours:?}");
    assert_eq!((&ours.json()["admitted_least"], &ours.json()["admitted_most"]), (&json!(2), &json!(2)));

    let naive = race("get-check-incr");
    assert_eq!(naive.code, Some(1), "{naive:?}");
    assert!(naive.json()["admitted_most"].as_u64() > Some(10), "{naive:?}");
    assert!(naive.json()["over_admitted_rounds"].as_u64() > Some(0), "{naive:?}");
    assert_eq!(keys(&server), Vec::<String>::new(), "a race leaves nothing behind");
}

/// Two instances on one Redis: each holds half of the connections, and both count the same.
#[test]
fn instances_of_the_door_that_share_a_redis_let_through_exactly_what_is_left() {
    let server = RedisServer::start();
    let folder = Folder::new("instances");
    let policy = folder.policy("p.yaml", &[DAILY]);
    let instances = [(); 2].map(|()| Serving::start_on(&policy, &server.url()));
    let body =
        |cost: u32| json!({"domain": "here", "attributes": {"user": "alice"}, "cost": cost}).to_string();
    assert!(instances[0].post("/v1/take", &body(998)).starts_with(r#"{"allowed":true"#));
    let takes: Vec<_> = (0..50).map(|n| (&instances[n % 2], body(1))).collect();
    let answers: Vec<String> = thread::scope(|scope| {
        let racing: Vec<_> =
            takes.iter().map(|(instance, body)| scope.spawn(|| instance.post("/v1/take", body))).collect();
        racing.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    let passed = answers.iter().filter(|answer| answer.contains(r#""allowed":true,"binding""#)).count();
    assert_eq!(passed, 2, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.contains(r#""decided_by":"store""#)), "{answers:?}");
}

#[test]
fn processes_count_together_and_peek_counts_nothing() {
    let server = RedisServer::start();
    let folder = Folder::new("together");
    let (policy, url) = (folder.policy("p.yaml", &[THREE]), server.url());
    let ask = |verb: &str| run(&[verb, "user=alice", "--policy", &policy, "--store", &url]);
    let codes: Vec<_> = ["take", "peek", "peek", "take", "peek", "take", "peek", "take"]
        .into_iter()
        .map(|verb| ask(verb).code.unwrap())
        .collect();
    assert_eq!(codes, [0, 0, 0, 0, 0, 0, 1, 1]);
}

#[test]
fn both_stores_give_the_same_answer_to_the_letter() {
    let server = RedisServer::start();
    let folder = Folder::new("same");
    let policy = folder.policy("p.yaml", &[BUCKET]);
    for cost in ["1", "10", "11", "0"] {
        let ask = |store: &str, user: &str| {
            let user = format!("user={user}");
            run(&["take", &user, "--cost", cost, "--policy", &policy, "--store", store, "--output", "json"])
        };
        let (memory, redis) = (ask("memory", cost), ask(&server.url(), cost));
        assert_eq!((memory.code, memory.out), (redis.code, redis.out), "cost {cost}");
    }
}

#[test]
fn an_explanation_is_the_same_from_both_stores_and_knows_what_was_used() {
    let server = RedisServer::start();
    let folder = Folder::new("explain-redis");
    let policy = folder.policy("p.yaml", &[BUCKET]);
    let url = server.url();
    let explain = |store: &str| run(&["policy", "explain", &policy, "user=alice", "--store", store]);
    assert_eq!(explain("memory").out, explain(&url).out);
    run(&["take", "user=alice", "--cost", "2", "--policy", &policy, "--store", &url]);
    let (used, again) = (explain(&url), explain(&url));
    assert_ne!(used.out, explain("memory").out);
    let key = |out: &str| out.lines().find(|line| line.starts_with("  key")).map(str::to_owned);
    assert_eq!(key(&used.out), key(&again.out));
    assert_eq!((used.code, again.code), (Some(0), Some(0)), "{used:?}");
}

#[test]
fn a_redis_that_does_not_answer_is_exit_code_3_and_no_password_is_told() {
    for verb in ["take", "peek"] {
        let run = run(&[verb, "user=alice", "--store", "redis://limiter:s3cret@127.0.0.1:1"]);
        assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{run:?}");
        assert!(run.err.starts_with("error: ") && !run.err.contains("s3cret"), "{run:?}");
    }
    let race = run(&["race", "--store", "redis://limiter:s3cret@127.0.0.1:1"]);
    assert_eq!(race.code, Some(3), "{race:?}");
    assert!(!race.err.contains("s3cret"), "{race:?}");
    for wrong in ["redis://a:s3cret@host:notaport", "redis+cluster://a:s3cret@host/3", "http://a:s3cret@host"]
    {
        let run = run(&["take", "--store", wrong]);
        assert_eq!(run.code, Some(2), "{run:?}");
    }
}

#[test]
fn a_user_with_a_password_a_database_and_a_unix_socket_are_spoken_to() {
    let server = RedisServer::start();
    let rights = ["SETUSER", "limiter", "on", ">s3cret", "~sg1:*", "+@all"];
    redis::cmd("ACL").arg(&rights).exec(&mut server.admin()).unwrap();
    for url in [server.url_as("limiter", "s3cret", 3), server.unix_url()] {
        let run = run(&["take", "user=alice", "--store", &url]);
        assert_eq!(run.code, Some(0), "{url}: {run:?}");
    }
    let denied = run(&["take", "user=alice", "--store", &server.url_as("limiter", "wrong", 0)]);
    assert_eq!(denied.code, Some(3), "{denied:?}");
}

#[test]
fn tls_is_spoken_with_the_authority_that_is_named() {
    let server = RedisServer::with_tls();
    let folder = Folder::new("tls");
    let (url, pem) = server.tls_url();
    let ca = format!("{}/ca.pem", folder.path());
    fs::write(&ca, pem).unwrap();
    let trusted = run(&["take", "user=alice", "--store", &url, "--store-ca", &ca]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    // With room for all of them even the naive limiter admits what is allowed.
    let roomy = ["race", "--limiter", "get-check-incr", "--used", "0", "--burst", "3", "--rounds", "1"];
    let race = finish(sluicegate().args(roomy).args(["--store", &url, "--store-ca", &ca]));
    assert_eq!(race.code, Some(0), "{race:?}");

    let untrusted = run(&["take", "user=alice", "--store", &url]);
    assert_eq!(untrusted.code, Some(3), "{untrusted:?}");
    let plain = run(&["take", "user=alice", "--store", &server.url(), "--store-ca", &ca]);
    assert_eq!(plain.code, Some(2), "{plain:?}");
    let nowhere = finish(sluicegate().args(["take", "--store", &url, "--store-ca", "/does/not/exist"]));
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
}

/// The reader of the command line repeats what it cannot read: a URL with a slip in it showed its password.
#[test]
fn a_store_that_cannot_be_read_is_refused_without_its_password() {
    for store in
        ["redis://me:s3cret@127.0.0.1:1/x", "redis://me:s3cret@[::", "redsi://me:s3cret@127.0.0.1", "s3cret"]
    {
        for verb in [&["take", "user=a"][..], &["serve"], &["race"]] {
            let by_flag = finish(sluicegate().args(verb).args(["--store", store]));
            let by_environment = finish(sluicegate().args(verb).env("SLUICEGATE_STORE", store));
            for run in [by_flag, by_environment] {
                assert_eq!(run.code, Some(2), "{run:?}");
                assert!(run.err.starts_with("error: ") && !run.err.contains("s3cret"), "{run:?}");
            }
        }
    }
}
