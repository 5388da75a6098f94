//! `sluicegate load` against real servers: it finds as many refusals as the policy says, and says so when it does not.

use std::process::{Command, Output};

use serde_json::Value;

use crate::{
    metrics::serve,
    process::{PolicyFile, sluicegate},
};

fn policy(limit: u32) -> String {
    format!(
        "version: 1\nlimits:\n  - {{ name: per-user, algorithm: token_bucket, limit: {limit}, per: 1s, burst: {limit}, key: [user] }}\n"
    )
}

fn load(url: &str, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let Output { status, stdout, stderr } =
        sluicegate().args(["load", "--output", "json", "--url", url]).args(arguments).output().unwrap();
    let told = serde_json::from_slice(&stdout).unwrap_or_default();
    (status.code(), told, String::from_utf8(stderr).unwrap())
}

/// 20 users with 2 a second each, who ask for 10 a second each: four of five are refused, but for the bursts.
#[test]
fn the_share_of_refusals_is_the_one_that_the_policy_says() {
    let (serving, file) = serve("load-right", &policy(2), &[]);
    let url = format!("http://{}", serving.address);
    let shape = ["--rate", "200", "--for-s", "3", "--users", "20", "--skew", "0.5"];
    let right = ["--policy", file.0.to_str().unwrap()];
    let (code, told, error) = load(&url, &[&shape[..], &right].concat());
    assert_eq!((code, &told["as_expected"]), (Some(0), &true.into()), "{told} {error}");
    assert_eq!((&told["requests"], &told["other"], &told["failed"]), (&600.into(), &0.into(), &0.into()));
    let count = |name: &str| told[name].as_u64().unwrap();
    assert_eq!(count("allowed") + count("denied"), 600);
    assert!(count("denied") > 300, "{told}");
    let ms = |part: &str| told["latency_ms"][part].as_f64().unwrap();
    assert!(0.0 < ms("p50") && ms("p50") <= ms("p99") && ms("p99") <= ms("p99.9"), "{told}");

    // The same server against a policy that is not its own.
    let other = PolicyFile::new("load-other", &policy(5));
    let wrong = ["--policy", other.0.to_str().unwrap()];
    let (code, told, _) = load(&url, &[&shape[..], &wrong].concat());
    assert_eq!((code, &told["as_expected"]), (Some(1), &false.into()), "{told}");
}

/// A server that stops for a second answers slowly to all who were due meanwhile, not only to those who had been sent.
#[test]
fn who_had_to_wait_for_a_connection_has_waited() {
    let (serving, _file) = serve("load-frozen", &policy(1_000), &[]);
    let url = format!("http://{}", serving.address);
    serving.process.signal("-STOP");
    let frozen = std::thread::spawn(move || {
        load(&url, &["--rate", "100", "--for-s", "2", "--connections", "1", "--users", "1"])
    });
    // The time that the server stands still is what is measured.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    serving.process.signal("-CONT");
    let (code, told, _) = frozen.join().unwrap();
    assert_eq!((code, &told["failed"]), (Some(0), &0.into()), "{told}");
    // About 130 of 200 were due while it stood still: the median of all waited for hundreds of milliseconds.
    assert!(told["latency_ms"]["p50"].as_f64().unwrap() > 100.0, "{told}");
}

#[test]
fn without_a_server_and_with_a_mistake_it_says_what_to_do() {
    let (code, _, error) = load("http://127.0.0.1:1", &["--rate", "10", "--for-s", "1"]);
    assert_eq!(code, Some(3));
    assert!(
        error.contains("no request was answered") && error.contains("hint: is a server at `--url`?"),
        "{error}"
    );
    for (url, word) in
        [("https://127.0.0.1:1", "is no `http://` URL"), ("http://192.0.2.1:80", "is not this machine")]
    {
        let (code, _, error) = load(url, &[]);
        assert_eq!(code, Some(2));
        assert!(error.contains(word) && error.contains("hint: "), "{error}");
    }
    for wrong in [["--skew", "NaN"], ["--skew", "101"], ["--tolerance", "inf"]] {
        let (code, _, error) = load("http://127.0.0.1:1", &wrong);
        assert!(code == Some(2) && error.contains("is no number from 0 to 100"), "{error}");
    }
    let (code, _, error) = load("http://127.0.0.1:1", &["--rate", "1000000", "--for-s", "3600"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("more than 20000000 requests"), "{error}");
}

/// A domain that the server does not have: every answer is a mistake, and that is not as it should be.
#[test]
fn answers_that_are_no_decisions_are_not_as_expected() {
    let (serving, _file) = serve("load-errors", &policy(2), &[]);
    let url = format!("http://{}", serving.address);
    let (code, told, _) = load(&url, &["--rate", "20", "--for-s", "1", "--domain", "other"]);
    assert_eq!((code, &told["other"]), (Some(1), &20.into()), "{told}");
}

/// k6 is not there to run it; whether it is a program at all is what can be seen.
#[test]
fn the_script_for_k6_is_a_program() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/k6/sluicegate.mjs");
    let output = Command::new("node").args(["--check", script]).output();
    let output = output.expect("node is needed: apt-get install nodejs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
