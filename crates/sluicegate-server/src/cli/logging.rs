//! Log lines: to standard error, so that standard output holds nothing but answers.

use std::io::{IsTerminal, stderr};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// What is logged, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Logging {
    /// What to log: a level, or levels per module such as `info,sluicegate_server=debug`.
    #[arg(long, global = true, env = "SLUICEGATE_LOG", default_value = "info", value_name = "FILTER")]
    log: EnvFilter,
    /// How log lines look.
    #[arg(long, global = true, env = "SLUICEGATE_LOG_FORMAT", default_value = "text")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Sets up logging for this process; in a process that has it already, nothing changes.
pub(super) fn start(args: &Logging) {
    // A line that nobody reads any more is lost. The default says so with `eprintln!`, which panics in the request
    // that wrote the line.
    let lines = tracing_subscriber::fmt().with_env_filter(args.log.clone()).with_writer(stderr);
    // Colours are for people: a file gets none, nor does who asks for none (https://no-color.org).
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = lines.log_internal_errors(false).with_ansi(colours);
    let started = match args.log_format {
        Format::Text => lines.try_init(),
        Format::Json => lines.json().try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "logging was set up before");
    }
}
