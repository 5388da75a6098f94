use std::{fmt::Write as _, fs};

use clap::{Command, CommandFactory};
use sluicegate_server::cli::Cli;

use crate::support::{Folder, run};

const VERBS: [&str; 8] = ["serve", "take", "peek", "policy", "race", "replay", "completions", "manual"];

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
    assert!(page("sluicegate-race").contains("SLUICEGATE_RACE_ALLOW_REMOTE"));
    assert_eq!(run(&["manual", "/does/not/exist"]).code, Some(3));
}

/// `docs/reference/cli.md` is written from the flags themselves. `SLUICEGATE_BLESS=1` writes it anew.
#[test]
fn the_reference_page_is_up_to_date() {
    let mut root = timeless(Cli::command().term_width(100));
    root.build();
    let mut page =
        "# The command line\n\nGenerated from the program: every flag, its environment twin and default.\n"
            .to_owned();
    for command in all_commands(&root) {
        let mut command = command.clone();
        if command.get_bin_name().is_some_and(|name| name.contains(" help")) {
            continue;
        }
        let name = command.get_bin_name().unwrap_or("sluicegate").to_owned();
        let help = command.render_long_help().to_string();
        let help: Vec<_> = help.lines().map(str::trim_end).collect();
        write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end()).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    if std::env::var_os("SLUICEGATE_BLESS").is_some() {
        fs::write(path, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap_or_default(), page, "run with SLUICEGATE_BLESS=1");
}

/// Without the values that this process's environment happens to hold.
fn timeless(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_env_values(true)).mut_subcommands(timeless)
}

fn all_commands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().flat_map(all_commands);
    std::iter::once(command).chain(below).collect()
}
