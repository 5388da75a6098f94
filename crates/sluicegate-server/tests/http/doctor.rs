//! The checklist, gone through on real systems that are well, and on ones that are not.

use std::process::Output;

use serde_json::Value;
use sluicegate_tests::RedisServer;

use crate::{
    metrics::{Prometheus, serve},
    process::sluicegate,
};

const POLICY: &str = "
version: 1
limits:
  - { name: per-user, algorithm: sliding_counter, limit: 100, per: 1m, key: [user] }
";

fn doctor(arguments: &[&str]) -> Output {
    // Tests share their machine, and that is not what is looked at.
    let patient = ("SLUICEGATE_STORE_TIMEOUT_MS", "20000");
    sluicegate().arg("doctor").args(arguments).env(patient.0, patient.1).output().unwrap()
}

/// The states of all items by their names.
fn states(output: &Output) -> Vec<(String, String)> {
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let items = list["items"].as_array().unwrap();
    let word = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    items.iter().map(|item| (word(item, "id"), word(item, "state"))).collect()
}

#[track_caller]
fn not_passed(output: &Output, expected: &[(&str, &str)]) {
    let states = states(output);
    let told = String::from_utf8_lossy(&output.stdout);
    let not_passed: Vec<_> = states.iter().filter(|(_, state)| state != "pass").collect();
    let not_passed: Vec<_> = not_passed.iter().map(|(id, state)| (id.as_str(), state.as_str())).collect();
    assert_eq!(not_passed, expected, "{told}");
}

#[test]
fn a_system_that_is_well_passes_in_everything_that_a_machine_can_see() {
    let redis = RedisServer::with(&["--appendonly", "yes"]);
    let (mut serving, file) = serve("doctor-well", POLICY, &["--store", &redis.url()]);
    let prometheus = Prometheus::scraping(serving.address);
    prometheus.wait_until_scraped();
    serving.client.post("/v1/take", r#"{"attributes": {"user": "alice"}}"#);
    let (url, watch) = (format!("http://{}", serving.address), format!("http://{}", prometheus.address));
    let policy = file.0.to_str().unwrap();
    let store = redis.url();
    let all = ["user=alice", "--policy", policy, "--store", &store, "--url", &url, "--prometheus", &watch];
    // Assignments are written by hand, for good.
    redis.command(&["HSET", "sg1:{!config:api}:c", "version", "1"]);
    let before = redis.command(&["DBSIZE"]);
    let output = doctor(&[&all[..], &["--output", "json"]].concat());
    not_passed(&output, &[("tests", "warn")]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(doctor(&[&all[..], &["--strict"]].concat()).status.code(), Some(1));
    // Nothing was counted, and nothing is left behind.
    let peek = serving.client.post("/v1/peek", r#"{"attributes": {"user": "alice"}}"#);
    assert_eq!(peek.json()["limits"][0]["remaining"], 99);
    assert_eq!(redis.command(&["DBSIZE"]), before);
}

#[test]
fn each_fault_of_a_system_is_named_with_what_to_do() {
    let redis = RedisServer::with(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    redis.command(&["SET", "sg1:{x}:k:planted", "1"]);
    let store = redis.url();
    let (serving, file) = serve("doctor-ill", "
version: 1
limits:
  - { name: all, algorithm: fixed_window, limit: 10, per: 1m, key: [], on_store_failure: allow, enforcement: shadow }
", &["--headers", "none"]);
    let (url, policy) = (format!("http://{}", serving.address), file.0.to_str().unwrap());
    // A Prometheus that is none.
    let output = doctor(&[
        "--policy",
        policy,
        "--store",
        &store,
        "--url",
        &url,
        "--prometheus",
        &url,
        "--output",
        "json",
    ]);
    assert_eq!(output.status.code(), Some(1));
    not_passed(
        &output,
        &[
            ("expiry", "fail"),
            ("eviction", "fail"),
            ("persistence", "warn"),
            ("lint", "warn"),
            ("keyed", "warn"),
            ("enforced", "warn"),
            ("fail-open", "warn"),
            ("headers", "warn"),
            ("scraped", "fail"),
            ("alerts", "fail"),
            ("tests", "warn"),
        ],
    );
    let markdown = doctor(&["--policy", policy, "--store", &store, "--output", "markdown"]);
    let told = String::from_utf8(markdown.stdout).unwrap();
    assert!(told.contains("| FAIL | expiry | every key has an expiry | 1 of "), "{told}");
    assert!(told.contains("such as `sg1:{x}:k:planted` | they are not written by sluicegate"), "{told}");
}

#[test]
fn a_store_that_is_gone_fails_what_asks_it_and_the_rest_is_gone_through() {
    let mut redis = RedisServer::start();
    redis.stop();
    let output = doctor(&["--store", &redis.url(), "--output", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let failed: Vec<_> =
        states(&output).into_iter().filter(|(_, state)| state == "fail").map(|(id, _)| id).collect();
    assert_eq!(failed, ["atomic", "rights", "latency"]);
}

/// A server that answers everything with a page of its own.
#[test]
fn another_programs_server_does_not_pass() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            _ = std::io::Read::read(&mut stream, &mut [0; 4_096]);
            let page = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
            _ = std::io::Write::write_all(&mut stream, page.as_bytes());
        }
    });
    let output = doctor(&["--url", &url, "--output", "json"]);
    assert!(states(&output).contains(&("metrics".to_owned(), "fail".to_owned())));
}

#[test]
fn without_anything_it_goes_through_the_embedded_store_and_the_sample() {
    let output = doctor(&[]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("pass  atomic        the check and the count are one step: 50 at once at 998 of 1000, 5 times: 2 to 2 passed, 2 may\n"), "{told}");
    assert!(told.contains("played through: 10 of 20 passed a limit of 10"), "{told}");
    assert!(told.contains("WARN  central"), "{told}");
}
