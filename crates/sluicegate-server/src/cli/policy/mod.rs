//! `sluicegate policy …`: one file per verb.

use std::process::ExitCode;

use clap::Subcommand;

use super::{DENIED, Failure, USAGE, sources};

mod check;
mod choose;
mod diff;
mod explain;
mod import;
mod schema;

/// The exit code of a check that found something, where that was asked for.
const FINDINGS: u8 = DENIED;

/// What to do with policy files.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Checks policy files: exit code 0 if all are sound, 2 if one is not. What is legal but probably not meant is a
    /// warning, and the exit code 1 with `--strict`.
    Check(check::Args),
    /// From a requirement to an algorithm, with a snippet and its worst case in numbers.
    Choose(choose::Args),
    /// Tells what changes, and for whom, when one policy takes the place of another: exit code 0 if nothing does, else 1.
    Diff(diff::Args),
    /// Tells which limits apply to a request and why the others do not, with their counts, and counts nothing.
    Explain(explain::Args),
    /// Makes policy files of another product's configuration, and says line by line what they cannot express.
    #[command(subcommand)]
    Import(import::Product),
    /// Prints the JSON Schema of policy files, for editors.
    Schema,
}

/// Runs the verb.
pub(super) fn run(verb: &Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Check(args) => Ok(check::run(args)),
        Verb::Choose(args) => choose::run(args),
        Verb::Diff(args) => diff::run(args),
        Verb::Explain(args) => explain::run(args),
        Verb::Import(product) => import::run(product),
        Verb::Schema => Ok(schema::run()),
    }
}
