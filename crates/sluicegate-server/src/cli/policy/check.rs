//! `sluicegate policy check`: reads policy files and tells every mistake.

use std::{
    io::{Write, stderr, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use sluicegate::core::Policy;

use super::{USAGE, sources};

/// Flags of `policy check`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Policy files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Runs the verb: every file is checked, also after a bad one.
pub(super) fn run(args: &Args) -> ExitCode {
    let unsound = args.files.iter().filter(|file| !check(file)).count();
    if unsound == 0 { ExitCode::SUCCESS } else { ExitCode::from(USAGE) }
}

/// Says in one line what a sound file holds, or what is wrong with it.
fn check(file: &Path) -> bool {
    let name = file.display();
    let policy = sources::read(file);
    // Nobody may be reading; the exit code says it all the same.
    let _ = match &policy {
        Ok(policy) => writeln!(stdout(), "{name}: ok, {}", summary(policy)),
        Err(error) => writeln!(stderr(), "{name}: {error}"),
    };
    policy.is_ok()
}

fn summary(policy: &Policy) -> String {
    let count = policy.limits().len();
    let limits = if count == 1 { "limit" } else { "limits" };
    format!("domain `{}` with {count} {limits}", policy.domain())
}
