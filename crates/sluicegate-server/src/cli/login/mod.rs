//! `sluicegate login …`: one file per verb.

use std::process::ExitCode;

use clap::Subcommand;

use super::{DENIED, Failure, decide, sources};

mod audit;
mod keys;

pub(super) use keys::LoginArgs;

/// What to do about guesses at secrets.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Tells what a policy is worth to the best attacker on one account, beside well-known ones. Exit code 1 if guesses are
    /// unbounded, or an owner can be made to wait for a week.
    Audit(audit::Args),
}

/// Runs the verb.
pub(super) fn run(verb: &Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Audit(args) => audit::run(args),
    }
}
