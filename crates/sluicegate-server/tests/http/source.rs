//! Assignments that stand on a Redis server, while the binary serves.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use sluicegate_tests::{RedisServer, redis_server::until, rights};
use tempfile::TempDir;

use crate::{
    changes::{Served, of_amount},
    process::sluicegate,
};

const KEY: &str = "sg1:{!config:default}:c";

/// Puts a text there, as an operator's program does.
fn put(redis: &RedisServer, version: &str, text: &str) {
    redis.command(&["HSET", KEY, "version", version, "assignments", text]);
}

pub(crate) fn assigning(entries: &str) -> String {
    format!("version: 1\nassignments: [{entries}]\n")
}

/// A policy under which the tier of a user shows as the amount of its limit: 100 without a tier.
pub(crate) fn policy(folder: &TempDir) -> PathBuf {
    let file = folder.path().join("policy.yaml");
    let tiers = "tiers:\n  free: { per-user: { limit: 5 } }\n  pro: { per-user: { limit: 1000 } }\n";
    fs::write(&file, format!("{}{tiers}", of_amount(100))).unwrap();
    file
}

pub(crate) fn serve(source: &str) -> (TempDir, PathBuf, Served) {
    let folder = tempfile::tempdir().unwrap();
    let file = policy(&folder);
    let served =
        Served::start(folder.path(), &["--policy", file.to_str().unwrap(), "--config-source", source]);
    (folder, file, served)
}

pub(crate) fn amount(served: &Served, user: &str) -> Value {
    served.take(&json!({"user": user}))["limits"][0]["limit"].clone()
}

pub(crate) fn says(served: &Served, field: &str, words: &str) -> bool {
    served.status().get(field).is_some_and(|why| why.as_str().unwrap().contains(words))
}

#[test]
fn assignments_on_redis_take_effect_with_or_without_a_notice() {
    let redis = RedisServer::start();
    put(&redis, "1", &assigning("{ user: alice, tier: pro }"));
    let (_folder, _file, served) = serve(&redis.url());
    assert_eq!(amount(&served, "alice"), 1_000);
    put(&redis, "2", &assigning("{ user: alice, tier: free }"));
    redis.command(&["PUBLISH", KEY, ""]);
    until("a published change is in force", || amount(&served, "alice") == 5);
    put(
        &redis,
        "3",
        &assigning("{ user: bob, tier: pro }, { user: carol, tier: pro, until: 2001-01-01T00:00:00Z }"),
    );
    until("a change is found", || amount(&served, "bob") == 1_000);
    assert_eq!((amount(&served, "alice"), amount(&served, "carol")), (json!(100), json!(100)));
    put(&redis, "4", &assigning(""));
    assert_eq!(served.admin("POST", "/admin/reload", "").0, 200);
    assert_eq!(amount(&served, "bob"), 100, "a reload asks at once");
}

#[test]
fn a_source_that_is_down_or_comes_back_empty_keeps_what_is_in_force_and_is_told_once() {
    let mut redis = RedisServer::start();
    put(&redis, "1", &assigning("{ user: alice, tier: pro }"));
    let (_folder, file, served) = serve(&redis.url());
    redis.stop();
    until("the status tells", || says(&served, "unread", "cannot be reached"));
    assert_eq!(amount(&served, "alice"), 1_000);
    // The policies can be changed meanwhile.
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("limit: 100,", "limit: 200,")).unwrap();
    assert_eq!(served.admin("POST", "/admin/reload", "").0, 200);
    assert_eq!((amount(&served, "alice"), amount(&served, "bob")), (json!(1_000), json!(200)));
    redis.restart();
    until("the status tells", || says(&served, "unread", "has no field `version`"));
    assert_eq!(amount(&served, "alice"), 1_000);
    assert_eq!(served.log().matches("cannot be read: what is in force stays").count(), 1, "{}", served.log());
    put(&redis, "1", &assigning("{ user: bob, tier: pro }"));
    redis.command(&["HSET", KEY, "version", "2"]);
    until("the source is heard again", || amount(&served, "bob") == 1_000);
    until("the status tells", || served.status().get("unread").is_none());
    assert_eq!(amount(&served, "alice"), 200);
}

#[test]
fn bad_assignments_on_redis_are_rejected_whole_and_the_old_ones_stay() {
    let redis = RedisServer::start();
    put(&redis, "1", &assigning("{ user: alice, tier: pro }"));
    let (_folder, _file, served) = serve(&redis.url());
    let bad = [
        ("{ user: alice, tier: free }, { user: bob, tier: prp }", "did you mean `pro`?"),
        ("{ user: alice, tier: free }, { user: bob, limit: 1000000 }", "no field `limit`"),
        ("{ user: alice, tier: free }, { user: alice, tier: pro }", "two tiers at the same time"),
    ];
    let texts = bad.map(|(entries, why)| (assigning(entries), why));
    let other =
        (assigning("").replace("assignments", "domain: other\nassignments"), "for the domain `other`");
    for (version, (text, why)) in texts.into_iter().chain([other]).enumerate() {
        put(&redis, &format!("bad {version}"), &text);
        redis.command(&["PUBLISH", KEY, ""]);
        until(why, || says(&served, "rejected", why));
        assert_eq!((amount(&served, "alice"), amount(&served, "bob")), (json!(1_000), json!(100)), "{why}");
    }
    put(&redis, "2", &assigning("{ user: alice, tier: free }"));
    until("a good one is in force", || amount(&served, "alice") == 5);
    assert_eq!(served.status().get("rejected"), None);
}

#[test]
fn a_text_that_is_too_long_is_not_fetched() {
    let redis = RedisServer::start();
    put(&redis, "1", &assigning("{ user: alice, tier: pro }"));
    let (_folder, _file, served) = serve(&redis.url());
    put(&redis, "2", &format!("{}#{}", assigning(""), "x".repeat(4 * 1024 * 1024)));
    until("the status tells", || says(&served, "unread", "at most 4194304 are read"));
    assert_eq!(amount(&served, "alice"), 1_000);
    let fetched = redis.info("commandstats");
    let fetched = fetched.lines().find(|line| line.starts_with("cmdstat_hmget")).unwrap();
    assert!(fetched.contains("calls=1,"), "{fetched}");
}

#[test]
fn a_source_needs_no_right_to_write_and_its_password_is_told_nowhere() {
    let mut redis = RedisServer::start();
    put(&redis, "1", &assigning("{ user: alice, tier: pro }"));
    rights::give(&redis, &[rights::SOURCE]);
    let (_folder, _file, served) = serve(&redis.url_as("limiter", "password", 0));
    assert_eq!(amount(&served, "alice"), 1_000);
    put(&redis, "2", &assigning("{ user: alice, tier: free }"));
    until("a change is in force", || amount(&served, "alice") == 5);
    redis.stop();
    until("the status tells", || says(&served, "unread", "cannot be reached"));
    let told = format!("{}{}", served.status(), served.log());
    assert!(!told.contains("password"), "{told}");
}

/// A copy of what was bad would be bad for ever, and one that is torn no copy at all.
#[test]
fn a_start_without_the_source_uses_the_last_good_copy_if_it_is_told_to() {
    let mut redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (policy(&folder), folder.path().join("copy.yaml"));
    let source = redis.url();
    let arguments = ["--policy", file.to_str().unwrap(), "--config-source", &source];
    let arguments = [&arguments[..], &["--config-cache", copy.to_str().unwrap()]].concat();
    let kept = || fs::read_to_string(&copy).unwrap_or_default();
    let [first, good, bad] =
        ["{ user: alice, tier: pro }", "{ user: bob, tier: pro }", "{ user: bob, tier: prp }"].map(assigning);
    put(&redis, "1", &first);
    let served = Served::start(folder.path(), &arguments);
    until("the first text is kept", || kept() == first);
    put(&redis, "2", &good);
    until("a change is kept", || kept() == good);
    put(&redis, "3", &bad);
    until("a bad one is rejected", || says(&served, "rejected", "prp"));
    assert_eq!(kept(), good);
    drop(served);
    redis.stop();
    let served = Served::start(folder.path(), &arguments);
    assert_eq!((amount(&served, "alice"), amount(&served, "bob")), (json!(100), json!(1_000)));
    until("the status tells", || says(&served, "unread", "the assignments are those kept in"));
    assert!(served.log().contains("those that were kept hold"), "{}", served.log());
    redis.restart();
    put(&redis, "4", &first);
    until("the source is heard", || amount(&served, "alice") == 1_000);
    until("the status tells", || served.status().get("unread").is_none());
    until("it is kept", || kept() == first);
}

#[test]
fn a_server_does_not_start_on_assignments_that_it_has_never_heard() {
    let mut redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let file = policy(&folder);
    let start = |source: &str| {
        let mut command = sluicegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--policy", file.to_str().unwrap()]);
        let output = command.args(["--config-source", source]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, told) = start(&format!("{}?domain=api", redis.url()));
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("`sg1:{!config:api}:c` has no field `version`"), "{told}");
    redis.stop();
    assert_eq!(start(&redis.url()).0, Some(3));
    for unknown in ["redis+cluster://u:s3cret@a", "etcd://u:s3cret@a", "redis://u:s3cret@a:b", "file:"] {
        let (code, told) = start(unknown);
        assert_eq!(code, Some(2), "{told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
}
