use std::{fs, io::Write, process::Stdio};

use serde_json::json;

use crate::support::{Folder, finish, run, sluicegate};

const WINDOW: &str = "{ name: window, algorithm: fixed_window, limit: 2, per: 1m, key: [user] }";

/// A call of the `window` limit at second `at`, in JSON.
fn call(key: &str, at: u64, decision: &str) -> String {
    let at_us = at * 1_000_000;
    let record = json!({
        "limit": "window", "key": key, "cost": 1, "start_us": at_us, "end_us": at_us + 700, "decision": decision
    });
    format!("{record}\n")
}

struct Case {
    folder: Folder,
    policy: String,
}

impl Case {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let policy = folder.policy("p.yaml", &[WINDOW]);
        Self { folder, policy }
    }

    fn file(&self, lines: &str) -> String {
        let path = format!("{}/history.jsonl", self.folder.path());
        fs::write(&path, lines).unwrap();
        path
    }

    fn verify(&self, lines: &str, flags: &[&str]) -> crate::support::Run {
        let path = self.file(lines);
        finish(sluicegate().args(["verify", &path, "--policy", &self.policy]).args(flags))
    }
}

#[test]
fn a_history_that_keeps_the_law_is_proven_with_exit_code_0() {
    let case = Case::new("verify-proven");
    let lines = [call("a", 60, "allowed"), call("a", 61, "allowed"), call("a", 62, "denied"), "\n".into()];
    let run = case.verify(&lines.concat(), &[]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    let expected = "\
limit   scope      keys     allowed      denied     unknown    admitted  verdict
window  store         1           2           1           0           2  proven
        tightest: 2 of 2 in [60000000us, 119999999us] for `a`
";
    assert_eq!(run.out, expected);
}

#[test]
fn an_admission_too_many_is_refuted_with_exit_code_1_and_named() {
    let case = Case::new("verify-refuted");
    let lines: String = (0..3).map(|at| call("b", at, "allowed")).chain([call("a", 0, "allowed")]).collect();
    let run = case.verify(&lines, &["--output", "json"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let tight = json!({ "key": "b", "from_us": 0, "to_us": 59_999_999, "admitted": 3, "bound": 2 });
    let expected = json!({
        "verdict": "refuted", "false_denials": 0, "limits": [{
            "limit": "window", "scope": "store", "instance": null, "verdict": "refuted",
            "keys": { "all": 2, "refuted": 1, "proven": 1 },
            "calls": { "allowed": 4, "denied": 0, "unknown": 0 },
            "admitted": 4, "tightest": tight, "possible": tight, "false_denials": 0, "false_denial": null,
            "charged_twice": 0, "charged_twice_id": null
        }]
    });
    assert_eq!(run.json(), expected);
}

#[test]
fn a_denial_with_room_has_an_exit_code_of_its_own() {
    let case = Case::new("verify-false");
    let run = case.verify(&[call("a", 0, "allowed"), call("a", 1, "denied")].concat(), &[]);
    assert_eq!(run.code, Some(4), "{run:?}");
    assert!(run.out.contains("false denials: 1, first in [1000000us, 1000999us] for `a`"), "{run:?}");
}

#[test]
fn clocks_that_disagree_are_allowed_for() {
    let case = Case::new("verify-clocks");
    let lines: String =
        [call("a", 58, "allowed"), call("a", 59, "allowed"), call("a", 59, "allowed")].concat();
    assert_eq!(case.verify(&lines, &[]).code, Some(1));
    let run = case.verify(&lines, &["--clock-error-us", "1000000"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.contains("not refuted"), "{run:?}");
}

#[test]
fn every_bad_line_is_named_by_its_number_and_nothing_is_judged() {
    let case = Case::new("verify-bad");
    let other = call("a", 0, "allowed").replace("window", "other");
    let long = format!("\"{}\"\n", "x".repeat(70_000));
    let lines = ["{\n", &call("a", 0, "allowed"), &call("a", 0, "maybe"), &other, &long, "[]"].concat();
    let run = case.verify(&lines, &[]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    for message in [
        "5 lines are no records that can be judged\n  line 1: EOF",
        "\n  line 3: unknown variant `maybe`",
        "\n  line 4: no limit is named `other`",
        "\n  line 5: it is longer than 65536 bytes",
        "\n  line 6: ",
    ] {
        assert!(run.err.contains(message), "{message}: {run:?}");
    }
}

#[test]
fn what_cannot_be_judged_is_a_usage_error() {
    let case = Case::new("verify-usage");
    assert!(case.verify("\n", &[]).err.contains("holds no record"));
    assert_eq!(case.verify("\n", &[]).code, Some(2));
    let missing = run(&["verify", "/does/not/exist.jsonl", "--policy", &case.policy]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("`/does/not/exist.jsonl`: cannot be read"), "{missing:?}");
    assert_eq!(run(&["verify", "/does/not/exist.jsonl"]).code, Some(2));
}

/// The page's policy and history give what the page says.
#[test]
fn the_reference_page_shows_what_is_said() {
    let page = include_str!("../../../../docs/reference/history.md");
    let block = |language: &str| {
        let rest = page.split_once(&format!("```{language}\n")).unwrap().1;
        rest.split_once("```").unwrap().0
    };
    let case = Case::new("verify-page");
    fs::write(&case.policy, block("yaml")).unwrap();
    let run = case.verify(block("json"), &[]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), block("text")), "{run:?}");
}

#[test]
fn a_history_may_come_by_standard_input() {
    let case = Case::new("verify-stdin");
    let mut command = sluicegate();
    command.args(["verify", "-", "--policy", &case.policy]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(call("a", 0, "allowed").as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
