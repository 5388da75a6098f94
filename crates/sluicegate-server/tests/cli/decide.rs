use serde_json::json;

use crate::support::{Folder, Serving, finish, run, sample, sluicegate};

const BUCKET: &str = "{ name: bucket, algorithm: token_bucket, limit: 10, per: 1s, key: [user] }";
const TOKENS: &str =
    "{ name: tokens, algorithm: token_bucket, limit: 100, per: 1s, key: [user], unit: tokens }";
const NOTHING: &str =
    "{ name: nothing, algorithm: gcra, limit: 0, per: 1s, key: [], match: { user: mallory } }";
const STRICT: &str = "{ name: strict, algorithm: gcra, limit: 9, per: 1s, key: [org], if_missing: refuse, match: { kind: strict } }";

#[test]
fn exit_codes_tell_allowed_and_denied_apart() {
    let folder = Folder::new("codes");
    let policy = folder.policy("p.yaml", &[BUCKET, TOKENS, NOTHING]);
    for verb in ["take", "peek"] {
        let allowed = run(&[verb, "user=alice", "--policy", &policy]);
        assert_eq!(allowed.code, Some(0), "{allowed:?}");
        let denied = run(&[verb, "user=mallory", "--policy", &policy]);
        assert_eq!(denied.code, Some(1), "{denied:?}");
        assert!(denied.out.starts_with("denied, can never pass\n"), "{denied:?}");
        assert!(denied.out.contains("  nothing denies: 0 requests left, gcra of 0 per 1s\n"), "{denied:?}");
    }
}

#[test]
fn costs_are_given_per_unit() {
    let folder = Folder::new("costs");
    let policy = folder.policy("p.yaml", &[BUCKET, TOKENS]);
    let run = run(&["take", "user=a", "--cost", "3", "--cost", "tokens=40", "--policy", &policy]);
    assert_eq!(run.code, Some(0));
    let expected = "allowed
  bucket allows: 7 requests left, token_bucket of 10 per 1s
  tokens allows: 60 tokens left, token_bucket of 100 per 1s
";
    assert_eq!(run.out, expected);
}

#[test]
fn a_decision_in_json_is_what_the_http_door_says() {
    let folder = Folder::new("json");
    let policy = folder.policy("p.yaml", &[BUCKET, TOKENS, NOTHING]);
    let serving = Serving::start(&policy);
    let cases = [
        (vec!["user=alice"], json!({"domain": "here", "attributes": {"user": "alice"}})),
        (
            vec!["user=bob", "--cost", "11"],
            json!({"domain": "here", "attributes": {"user": "bob"}, "cost": 11}),
        ),
        (vec!["user=mallory"], json!({"domain": "here", "attributes": {"user": "mallory"}})),
        (
            vec!["user=carol", "--cost", "2", "--cost", "tokens=7"],
            json!({"domain": "here", "attributes": {"user": "carol"}, "cost": {"requests": 2, "tokens": 7}}),
        ),
    ];
    for (arguments, body) in cases {
        let mut command = sluicegate();
        command.args(["take", "--output", "json", "--policy", &policy]).args(&arguments);
        let answer: serde_json::Value =
            serde_json::from_str(&serving.post("/v1/take", &body.to_string())).unwrap();
        assert_eq!(finish(&mut command).json(), answer, "{arguments:?}");
    }
}

#[test]
fn what_makes_no_sense_is_told_with_exit_code_2_and_nothing_is_decided() {
    let folder = Folder::new("usage");
    let policy = folder.policy("p.yaml", &[BUCKET, STRICT]);
    let cases = [
        (vec!["user"], "an attribute is written `name=value`"),
        (vec!["=x"], "an attribute is written `name=value`"),
        (vec!["user=a", "user=b"], "the attribute `user` is given twice"),
        (vec!["--cost", "-1"], ""),
        (vec!["--cost=-1"], "a cost is a whole number from 0 to 9007199254740991, or `unit=number`"),
        (vec!["--cost", "1.5"], "a cost is a whole number"),
        (vec!["--cost", "9007199254740992"], "a cost is a whole number"),
        (vec!["--cost", "1", "--cost", "requests=2"], "the cost in `requests` is given twice"),
        (vec!["--cost", "token=1"], "no limit of domain `here` counts the unit `token`"),
        (vec!["--domain", "there"], "no policy has the domain `there`"),
        (vec!["kind=strict"], "limit `strict` needs the attribute `org`"),
        (vec!["--store", "etcd://localhost"], "store"),
        (vec!["--output", "xml"], "xml"),
        (vec!["--unheard"], "--unheard"),
    ];
    for (arguments, message) in cases {
        let run = finish(sluicegate().args(["take", "--policy", &policy]).args(&arguments));
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{arguments:?}: {run:?}");
        assert!(run.err.contains(message), "{arguments:?}: {run:?}");
    }
}

#[test]
fn an_argument_that_is_not_utf_8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let run = finish(sluicegate().arg("take").arg(std::ffi::OsStr::from_bytes(b"user=\xff")));
    assert_eq!(run.code, Some(2), "{run:?}");
}

#[test]
fn odd_values_are_values_like_any_other() {
    for value in ["", "a=b", "{}", "a b", "line\nbreak", "😀", "-x", &"x".repeat(10_000)] {
        let run = run(&["take", &format!("user={value}")]);
        assert_eq!(run.code, Some(0), "{value:?}: {run:?}");
    }
}

#[test]
fn without_a_domain_the_only_one_is_asked_and_of_several_the_default() {
    let login = sample("right/login.yaml");
    let only = run(&["peek", "account=a", "ip=::1", "--policy", &login]);
    assert_eq!(only.code, Some(0), "{only:?}");
    let (default, both) = (sample("right/sample.yaml"), ["peek", "user=a", "--policy", &login, "--policy"]);
    let several = finish(sluicegate().args(both).arg(&default));
    assert!(several.out.contains("per-user allows"), "{several:?}");
}

#[test]
fn every_flag_has_a_twin_in_the_environment() {
    let folder = Folder::new("twins");
    let policy = folder.policy("p.yaml", &[BUCKET, TOKENS]);
    let mut command = sluicegate();
    command.args(["take", "user=a"]).env("SLUICEGATE_POLICY", &policy).env("SLUICEGATE_DOMAIN", "here");
    command.env("SLUICEGATE_COST", "3,tokens=101").env("SLUICEGATE_OUTPUT", "json");
    let run = finish(command.env("SLUICEGATE_STORE", "memory"));
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!((&run.json()["binding"], &run.json()["limits"][0]["cost"]), (&json!("tokens"), &json!(3)));
}

/// `eprintln!` panics when nobody reads: `sluicegate take … 2>&1 | head -0` ended with 101 instead of its answer.
#[test]
fn an_exit_code_is_told_even_where_nobody_reads() {
    let folder = Folder::new("unread");
    let policy = folder.policy("p.yaml", &[BUCKET]);
    let cases = [
        (vec!["take", "user=a", "--policy", "missing.yaml"], 2),
        (vec!["policy", "check", "missing.yaml"], 2),
        (vec!["take", "user=a", "--policy", &policy, "--store", "redis://127.0.0.1:1"], 3),
        (vec!["take", "user=a", "--policy", &policy, "--output", "json"], 0),
        (vec!["take", "user=a", "--policy", &policy, "--cost", "11"], 1),
    ];
    for (arguments, code) in cases {
        let (reader, unread) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sluicegate();
        command.args(&arguments).env("SLUICEGATE_LOG", "debug");
        command.stdout(unread.try_clone().unwrap()).stderr(unread);
        assert_eq!(command.status().unwrap().code(), Some(code), "{arguments:?}");
    }
}

/// A log line that could not be written panicked in the request that wrote it: one log shipper that ends, and the
/// server answers nobody any more.
#[test]
fn a_server_whose_log_nobody_reads_goes_on_answering() {
    let folder = Folder::new("unread-log");
    let policy = folder.policy("p.yaml", &[BUCKET]);
    let (reader, unread) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = sluicegate();
    command.env("SLUICEGATE_LOG", "debug").stderr(unread);
    let serving = Serving::start_by(command, &policy, "redis://127.0.0.1:1");
    for _ in 0..3 {
        let answer = serving.post("/v1/take", r#"{"domain": "here", "attributes": {"user": "alice"}}"#);
        assert!(answer.contains(r#""decided_by":"fallback""#), "{answer}");
    }
}
