//! `sluicegate policy …`: one file per verb.

use std::process::ExitCode;

use clap::Subcommand;

use super::{Failure, USAGE, sources};

mod check;
mod import;

/// What to do with policy files.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Checks policy files: exit code 0 if all are sound, 2 if one is not.
    Check(check::Args),
    /// Makes policy files of another product's configuration, and says line by line what they cannot express.
    #[command(subcommand)]
    Import(import::Product),
}

/// Runs the verb.
pub(super) fn run(verb: &Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Check(args) => Ok(check::run(args)),
        Verb::Import(product) => import::run(product),
    }
}
