//! `sluicegate policy diff`: what changes, and for whom.

use std::{
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use serde_json::json;
use sluicegate::core::policy::diff::{Change, diff};

use super::{FINDINGS, Failure, sources};
use crate::cli::decide::Output;

/// Flags of `policy diff`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The policy that is in force.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The policy that takes its place.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// How the changes look.
    #[arg(long, env = "SLUICEGATE_OUTPUT", default_value = "text")]
    output: Output,
}

/// Tells the changes; ends with 0 if there is none, with 1 if there is one.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let read = |file: &PathBuf| {
        sources::read(file).map_err(|error| Failure::usage(format!("`{}`: {error}", file.display())))
    };
    let changes = diff(&read(&args.old)?, &read(&args.new)?);
    let text = match args.output {
        Output::Json => {
            let json: Vec<_> = changes.iter().map(to_json).collect();
            format!("{:#}\n", json!({ "changes": json }))
        }
        Output::Text if changes.is_empty() => "nothing changes\n".to_owned(),
        Output::Text => changes.iter().map(line).collect::<Vec<_>>().join("\n") + "\n",
    };
    // Nobody may be reading; the exit code says it all the same.
    let _ = stdout().write_all(text.as_bytes());
    Ok(if changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) })
}

fn to_json(change: &Change) -> serde_json::Value {
    let Change { limit, kind, whom, what } = change;
    json!({ "limit": limit, "kind": kind, "whom": whom, "what": what })
}

fn line(change: &Change) -> String {
    let Change { limit, kind, whom, what } = change;
    let limit = limit.as_deref().unwrap_or("the policy");
    format!("{limit}, {kind} for {whom}: {what}")
}
