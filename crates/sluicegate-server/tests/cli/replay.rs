use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use flate2::{Compression, write::GzEncoder};

use crate::support::{Folder, Run, finish, run, sluicegate};

const LIMIT: &str = "{ name: per-ip, algorithm: fixed_window, limit: 2, per: 1m, key: [ip] }";
const LOOSER: &str = "{ name: per-ip, algorithm: fixed_window, limit: 3, per: 1m, key: [ip] }";

/// Four requests of one address within a minute, and one of another.
fn log() -> String {
    let line = |ip: &str, second: u32| {
        format!("{ip} - - [30/Nov/2026:12:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"curl\"\n")
    };
    [line("::1", 1), line("::1", 2), line("::2", 3), "oops\n".to_owned(), line("::1", 5), line("::1", 4)]
        .concat()
}

fn told(policy: &str, log: &str) -> String {
    format!(
        "{log}: 5 requests from 2026-11-30T12:00:01Z to 2026-11-30T12:00:05Z
  1 lines could not be read
    line 4: it has no time in brackets
  1 requests stand after later ones, by up to 1s: each is decided at the latest time before it
{policy}: 3 pass, 2 denied (40.0%)
  per-ip: of 5 requests 3 pass, 2 denied by it (40.0%)
    2 denied: ip=::1
"
    )
}

fn piped(command: &mut Command, input: &[u8]) -> Run {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn a_log_is_read_from_a_file_a_zipped_one_and_a_pipe_alike() {
    let folder = Folder::new("replay");
    let policy = folder.policy("p.yaml", &[LIMIT]);
    let (plain, zipped) = (format!("{}/a.log", folder.path()), format!("{}/a.log.gz", folder.path()));
    fs::write(&plain, log()).unwrap();
    // Two members, as a rotated log that was appended to has.
    let halves = log();
    let (first, second) = halves.split_at(100);
    let member = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    fs::write(&zipped, [member(first), member(second)].concat()).unwrap();
    for path in [&plain, &zipped] {
        let run = run(&["replay", path, "--policy", &policy]);
        assert_eq!((run.code, run.out), (Some(0), told(&policy, path)), "{}", run.err);
        assert_eq!(run.err, "", "a bar where nobody looks");
    }
    let run = piped(sluicegate().args(["replay", "-", "--policy", &policy]), log().as_bytes());
    assert_eq!((run.code, run.out), (Some(0), told(&policy, "-")), "{}", run.err);
}

#[test]
fn a_second_policy_and_a_picture_go_along() {
    let folder = Folder::new("replay-compare");
    let (policy, looser) = (folder.policy("p.yaml", &[LIMIT]), folder.policy("q.yaml", &[LOOSER]));
    let (path, picture) = (format!("{}/a.log", folder.path()), format!("{}/a.svg", folder.path()));
    fs::write(&path, log()).unwrap();
    let arguments = [
        "replay",
        &path,
        "--policy",
        &policy,
        "--compare",
        &looser,
        "--picture",
        &picture,
        "--output",
        "json",
    ];
    let run = run(&arguments);
    assert_eq!(run.code, Some(0), "{run:?}");
    let json = run.json();
    assert_eq!(json["differences"], serde_json::json!({"only_first": 0, "only_second": 1}));
    assert_eq!(json["policies"][1]["limits"][0]["denied"], 1);
    assert!(fs::read_to_string(&picture).unwrap().contains("per-ip: 2 of 5 denied"));
}

#[test]
fn what_cannot_be_replayed_is_a_usage_error() {
    let folder = Folder::new("replay-usage");
    let policy = folder.policy("p.yaml", &[LIMIT]);
    for arguments in [
        vec!["/does/not/exist", "--policy", &policy],
        vec!["-", "--policy", "/does/not/exist"],
        vec!["-", "--policy", &policy, "--map", "user"],
        vec!["-"],
    ] {
        let run = finish(sluicegate().arg("replay").args(&arguments).stdin(Stdio::null()));
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{arguments:?}: {run:?}");
    }
}
