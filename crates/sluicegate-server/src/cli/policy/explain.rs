//! `sluicegate policy explain`: what a policy makes of a request, and why.

use std::{
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use sluicegate::{Limiter, LimiterError, core::Policy};

use super::{DENIED, Failure, sources};
use crate::{
    causes::with_causes,
    cli::{
        decide::{Output, Request},
        runtime,
    },
    explain,
};

/// Flags of `policy explain`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The policy file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    store: sources::StoreArgs,
    /// How the answer looks; `json` is what `/v1/explain` of the HTTP door says.
    #[arg(long, env = "SLUICEGATE_OUTPUT", default_value = "text")]
    output: Output,
}

/// Explains, counts nothing, and ends as `peek` does: with 0 for allowed or 1 for denied.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let named = |error| Failure::usage(format!("`{}`: {error}", args.file.display()));
    let policy = sources::read(&args.file).map_err(named)?;
    runtime()?.block_on(explain(policy, args))
}

async fn explain(policy: Policy, args: &Args) -> Result<ExitCode, Failure> {
    let (attributes, costs) = args.request.read()?;
    let (store, clock) = sources::open(&args.store.url()?).await?;
    let limiter = Limiter::new(policy, store, clock);
    let explanation = limiter.policy().explain(&attributes, &costs).map_err(Failure::usage)?;
    let verdict = limiter.peek(&attributes, &costs).await.map_err(|error| match error {
        LimiterError::Ask(error) => Failure::usage(error),
        other => Failure::undecided(with_causes(&other)),
    })?;
    let text = match args.output {
        Output::Text => {
            let word = if verdict.allowed { "would be allowed" } else { "would be denied" };
            format!("{word}\n{}", explain::to_text(&verdict, &explanation))
        }
        Output::Json => format!("{:#}\n", explain::to_json(&verdict, &explanation)),
    };
    // Nobody may be reading; the exit code says it all the same.
    let _ = stdout().write_all(text.as_bytes());
    Ok(if verdict.allowed { ExitCode::SUCCESS } else { ExitCode::from(DENIED) })
}
