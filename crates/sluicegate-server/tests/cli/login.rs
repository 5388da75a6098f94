use std::fs;

use crate::support::{Folder, run, sample};

fn row<'o>(out: &'o str, name: &str) -> Vec<&'o str> {
    let row =
        out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{out}"));
    row[name.len()..].split_whitespace().collect()
}

#[test]
fn an_audit_tells_what_a_policy_is_worth_beside_known_ones() {
    let file = sample("right/login.yaml");
    let run = run(&["login", "audit", &file]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(row(&run.out, &file)[..3], ["720", "720", "10"], "five in ten minutes");
    assert_eq!(row(&run.out, "sluicegate, strong")[..2], ["51", "12"]);
    assert_eq!(row(&run.out, "sluicegate, basic")[..2], ["864", "864"]);
    assert_eq!(row(&run.out, "authelia, 3 in 2 min, 5 min")[..2], ["1440", "1440"]);
    assert_eq!(row(&run.out, "django-axes, by address")[..2], ["unbounded", "unbounded"]);
    assert!(run.out.contains("addresses needed for all of the first day's guesses: 1\n"), "{run:?}");
}

/// As for the request that is named: the resets of the sample have a limit of their own.
#[test]
fn an_audit_is_of_the_request_that_is_named() {
    let file = sample("right/login.yaml");
    let run = run(&["login", "audit", &file, "action=reset"]);
    assert_eq!(row(&run.out, &file)[..2], ["3", "3"], "{run:?}");
}

#[test]
fn a_fresh_budget_per_address_and_a_lockout_for_good_are_flagged() {
    let folder = Folder::new("audit");
    let audit = |limit: &str| {
        let path = format!("{}/policy.yaml", folder.path());
        fs::write(&path, format!("version: 1\nlimits:\n  - {limit}\n")).unwrap();
        run(&["login", "audit", &path, "--account", "user"])
    };
    let pair = audit("{ name: pair, algorithm: fixed_window, limit: 5, per: 1m, key: [user, ip] }");
    assert_eq!(pair.code, Some(1), "{pair:?}");
    assert!(pair.out.contains("warning: no limit counts by `user` alone: every further address"), "{pair:?}");
    let shadow =
        audit("{ name: off, algorithm: fixed_window, limit: 5, per: 1m, key: [user], enforcement: shadow }");
    assert_eq!(shadow.code, Some(1), "what denies nothing bounds nothing: {shadow:?}");
    let long = audit("{ name: long, algorithm: gcra, limit: 1, per: 20d, burst: 3, key: [user] }");
    assert_eq!(long.code, Some(1), "{long:?}");
    assert!(long.out.contains("warning: anybody can lock an owner out for 20 d"), "{long:?}");
    let right = audit("{ name: right, algorithm: gcra, limit: 1, per: 30m, burst: 10, key: [user] }");
    assert_eq!(right.code, Some(0), "{right:?}");
}

#[test]
fn a_file_that_is_no_policy_is_a_usage_error() {
    assert_eq!(run(&["login", "audit", "/does/not/exist.yaml"]).code, Some(2));
    assert_eq!(run(&["login", "audit"]).code, Some(2));
}
