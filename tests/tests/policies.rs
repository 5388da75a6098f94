//! The samples in `policies/`: the right ones load, each of the wrong ones is answered with the expected message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use sluicegate_core::{Policy, policy::lint};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies").join(name)
}

fn samples(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "yaml")).collect();
    files.sort();
    files
}

#[test]
fn every_right_policy_loads() {
    let files = samples("right");
    assert!(files.len() >= 6, "only {} samples", files.len());
    for file in files {
        let policy = Policy::parse(&fs::read_to_string(&file).unwrap());
        let policy = policy.unwrap_or_else(|error| panic!("{}:\n{error}", file.display()));
        assert!(!policy.limits().is_empty(), "{}", file.display());
    }
}

/// The message beside each file is compared to the letter: line, column, what is wrong, the quoted line and the hint.
/// `SLUICEGATE_BLESS=1` writes the messages anew, for a person to review.
#[test]
fn every_wrong_policy_is_answered_with_its_message() {
    let bless = std::env::var_os("SLUICEGATE_BLESS").is_some();
    let files = samples("wrong");
    assert!(files.len() >= 30, "only {} samples", files.len());
    let mut failures = Vec::new();
    for file in files {
        let Err(error) = Policy::parse(&fs::read_to_string(&file).unwrap()) else {
            failures.push(format!("{} was accepted", file.display()));
            continue;
        };
        let (message, expected) = (format!("{error}\n"), file.with_extension("txt"));
        if bless {
            fs::write(&expected, &message).unwrap();
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if message != wanted {
            failures.push(format!("{}\nexpected:\n{wanted}\ngot:\n{message}", file.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_wrong_policy_holds_one_mistake() {
    for file in samples("wrong") {
        let error = Policy::parse(&fs::read_to_string(&file).unwrap()).unwrap_err();
        assert_eq!(error.problems().len(), 1, "{}:\n{error}", file.display());
    }
}

#[test]
fn no_message_is_left_without_its_file() {
    let entries = fs::read_dir(folder("wrong")).unwrap().map(|entry| entry.unwrap().path());
    let stray: Vec<_> = entries.filter(|path| !path.with_extension("yaml").exists()).collect();
    assert!(stray.is_empty(), "{stray:?}");
}

/// What we show as an example is what we would let pass a review.
#[test]
fn no_right_policy_has_a_finding() {
    for file in samples("right") {
        let checked = lint::check(&fs::read_to_string(&file).unwrap()).unwrap();
        let told: Vec<_> = checked.findings.iter().map(|found| (found.lint.code, &found.problem)).collect();
        assert!(told.is_empty(), "{}: {told:#?}", file.display());
    }
}
