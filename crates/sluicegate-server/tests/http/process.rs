//! The binary as a process: flags, environment, signals and exit codes.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::json;

pub(crate) use crate::binary::sluicegate;
use crate::{binary::Process, support::Client};

/// A serving process, and a connection to its door.
pub(crate) struct Serving {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
}

impl Serving {
    pub(crate) fn start(command: &mut Command) -> Self {
        let process = Process::start(command, 1);
        let address = process.address("http").parse().unwrap();
        Self { process, address, client: Client::connect(address) }
    }
}

/// A policy file of its own; it is removed when dropped.
pub(crate) struct PolicyFile(pub(crate) PathBuf);

impl PolicyFile {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sluicegate-{}-{name}.yaml", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

fn one_a_day(domain: &str) -> String {
    format!(
        "version: 1\ndomain: {domain}\nlimits:\n  - {{ name: one, algorithm: fixed_window, limit: 1, per: 1d, key: [] }}\n"
    )
}

fn failed(output: &Output, code: i32, words: &[&str]) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}");
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
}

#[test]
fn without_a_policy_it_serves_a_sample_and_ends_with_0_on_either_signal() {
    for signal in ["-TERM", "-INT"] {
        let mut serving = Serving::start(sluicegate().args(["serve", "--http", "127.0.0.1:0"]));
        let reply = serving.client.post("/v1/take", r#"{"attributes": {"user": "alice"}}"#);
        assert_eq!(reply.status, 200);
        assert_ne!(reply.json()["limits"], json!([]));
        serving.process.signal(signal);
        assert_eq!(serving.process.wait(), Some(0));
    }
}

#[test]
fn several_policies_are_served_by_domain_and_headers_are_chosen_by_flag() {
    let (left, right) =
        (PolicyFile::new("left", &one_a_day("left")), PolicyFile::new("right", &one_a_day("right")));
    let mut command = sluicegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--headers", "x-ratelimit", "--reset", "delta"]);
    command.arg("--policy").arg(&left.0).arg("--policy").arg(&right.0);
    let mut serving = Serving::start(&mut command);
    for (domain, status) in [("left", 200), ("right", 200), ("left", 429), ("default", 400)] {
        let body = format!(r#"{{"domain": "{domain}", "attributes": {{}}}}"#);
        let reply = serving.client.post("/v1/take", body);
        assert_eq!(reply.status, status, "{domain}");
        assert_eq!(reply.header("ratelimit"), None);
        let reset = reply.header("x-ratelimit-reset").map(|reset| reset.parse::<u64>().unwrap());
        assert!(reset.is_none_or(|reset| reset <= 86_400), "{reset:?}");
    }
}

#[test]
fn every_flag_has_a_twin_in_the_environment() {
    let file = PolicyFile::new("environment", &one_a_day("there"));
    let mut command = sluicegate();
    command.arg("serve").env("SLUICEGATE_HTTP", "127.0.0.1:0").env("SLUICEGATE_HEADERS", "none");
    command.env("SLUICEGATE_POLICY", &file.0);
    let mut serving = Serving::start(&mut command);
    let reply = serving.client.post("/v1/take", r#"{"domain": "there", "attributes": {}}"#);
    assert_eq!((reply.status, reply.header("x-ratelimit-limit")), (200, None));
}

#[test]
fn what_cannot_be_served_is_told_with_exit_code_2() {
    let wrong = PolicyFile::new("wrong", "version: 1\nlimit: []\n");
    let twin = PolicyFile::new("twin", &one_a_day("same"));
    let serve = |arguments: &[&str]| {
        sluicegate().args(["serve", "--http", "127.0.0.1:0"]).args(arguments).output().unwrap()
    };
    let (wrong, twin) = (wrong.0.to_str().unwrap(), twin.0.to_str().unwrap());
    failed(&serve(&["--policy", wrong]), 2, &["error: ", wrong, "line 2"]);
    failed(&serve(&["--policy", "/does/not/exist.yaml"]), 2, &["/does/not/exist.yaml"]);
    failed(&serve(&["--policy", twin, "--policy", twin]), 2, &["`same`", "hint: "]);
    failed(&serve(&["--headers", "ietff"]), 2, &["`ietff`"]);
    failed(&serve(&["--store", "etcd://localhost"]), 2, &["memory"]);
    failed(&serve(&["--nonsense"]), 2, &["--nonsense"]);
}

#[test]
fn a_port_that_is_taken_is_told_with_exit_code_3() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = sluicegate().args(["serve", "--http", &address]).output().unwrap();
    failed(&output, 3, &[&address, "hint: "]);
}
