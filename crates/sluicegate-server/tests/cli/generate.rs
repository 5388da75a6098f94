use std::fs;

use crate::support::{Folder, run};

const VERBS: [&str; 7] = ["serve", "take", "peek", "policy", "race", "completions", "manual"];

#[test]
fn every_shell_learns_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = run(&["completions", shell]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(VERBS.iter().all(|verb| run.out.contains(verb)), "{shell}");
    }
    assert_eq!(run(&["completions", "dos"]).code, Some(2));
}

#[test]
fn every_verb_has_a_manual_page_that_names_its_flags() {
    let folder = Folder::new("manual");
    assert_eq!(run(&["manual", folder.path()]).code, Some(0));
    let page = |name: &str| fs::read_to_string(format!("{}/{name}.1", folder.path())).unwrap();
    assert!(VERBS.iter().all(|verb| page("sluicegate").contains(verb)));
    for verb in VERBS {
        assert!(page(&format!("sluicegate-{verb}")).starts_with(".ie"), "{verb}");
    }
    assert!(page("sluicegate-race").contains("SLUICEGATE_ALLOW_REMOTE"));
    assert_eq!(run(&["manual", "/does/not/exist"]).code, Some(3));
}
