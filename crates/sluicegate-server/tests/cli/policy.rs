use std::fs;

use crate::support::{run, sample};

#[test]
fn sound_policies_are_summed_up_in_a_line_each() {
    let (login, llm) = (sample("right/login.yaml"), sample("right/llm-tokens.yaml"));
    let run = run(&["policy", "check", &login, &llm]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let expected =
        format!("{login}: ok, domain `login` with 3 limits\n{llm}: ok, domain `llm` with 4 limits\n");
    assert_eq!((run.out, run.err), (expected, String::new()));
}

#[test]
fn mistakes_are_told_to_the_letter_and_files_after_a_bad_one_are_checked_too() {
    let (wrong, right) = (sample("wrong/limit-quoted.yaml"), sample("right/login.yaml"));
    let run = run(&["policy", "check", &wrong, &right]);
    let message = fs::read_to_string(sample("wrong/limit-quoted.txt")).unwrap();
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(run.err, format!("{wrong}: {message}"));
    assert!(run.out.starts_with(&format!("{right}: ok")), "{run:?}");
}

#[test]
fn a_file_that_is_not_there_and_none_at_all_are_usage_errors() {
    let missing = run(&["policy", "check", "/does/not/exist.yaml"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.starts_with("/does/not/exist.yaml: cannot be read: "), "{missing:?}");
    assert_eq!(run(&["policy", "check"]).code, Some(2));
}

/// A policy is read whole into memory: a device that never ends must not be.
#[test]
fn an_endless_file_is_refused() {
    let run = run(&["policy", "check", "/dev/zero"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("the file has 4194305 bytes"), "{run:?}");
}
