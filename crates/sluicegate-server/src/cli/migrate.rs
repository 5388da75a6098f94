//! `sluicegate migrate`: the tables of a source of assignments.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use super::{Failure, runtime, sources::Unread};
use crate::{
    causes::with_causes,
    postgres::{MIGRATIONS, PostgresUrl, migrate},
};

/// Flags of `migrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The database, as `serve` is told it: `postgres://[user[:password]@]host[:port][/database]`. The user must be one that
    /// may create a schema.
    #[arg(
        long,
        env = "SLUICEGATE_CONFIG_SOURCE",
        value_name = "SOURCE",
        hide_env_values = true,
        required_unless_present = "print"
    )]
    config_source: Option<Unread>,
    /// Prints what would be done to an empty database, for those who do it by other means, and connects to none.
    #[arg(long, env = "SLUICEGATE_MIGRATE_PRINT")]
    print: bool,
}

/// Makes the tables, or adds what this release needs; done again, it changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let told = match &args.config_source {
        Some(source) if !args.print => runtime()?.block_on(made(source))?,
        _ => sql(),
    };
    // Nobody may be reading; it is done all the same.
    let _ = stdout().write_all(told.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn sql() -> String {
    let steps = MIGRATIONS.map(|migration| migration.sql);
    format!("CREATE SCHEMA sluicegate;\n\n{}", steps.join("\n"))
}

async fn made(source: &Unread) -> Result<String, Failure> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| source.0.starts_with(scheme)) {
        return Err(Failure::usage("only a source `postgres://…` has tables"));
    }
    let url: PostgresUrl = source.0.parse().map_err(|error| Failure::usage(with_causes(&error)))?;
    let made = migrate(&url)
        .await
        .map_err(|error| Failure::undecided(format!("`{url}`: {}", with_causes(&error))))?;
    if made.is_empty() {
        return Ok("the tables are up to date\n".to_owned());
    }
    let names: Vec<_> = made.iter().map(|migration| migration.name).collect();
    Ok(format!("made {}\n", names.join(", ")))
}
