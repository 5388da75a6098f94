//! Log lines: to standard error, so that standard output holds nothing but answers.

use std::io::{IsTerminal, stderr};

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// What is logged, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Logging {
    /// What to log: a level, or levels per module such as `info,sluicegate_server=debug`.
    #[arg(
        long, global = true, env = "SLUICEGATE_LOG", default_value = "info", value_name = "FILTER",
        value_parser = filter
    )]
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

/// A filter that cannot be read.
#[derive(Debug, thiserror::Error)]
enum FilterError {
    #[error(
        "there is no level `{0}`: take off, error, warn, info, debug or trace, or write `{0}=debug` for a module"
    )]
    Level(String),
    #[error(transparent)]
    Malformed(#[from] tracing_subscriber::filter::ParseError),
}

/// A single word is a level. The filter's own grammar takes any other for a module, and a misspelt level for silence.
fn filter(text: &str) -> Result<EnvFilter, FilterError> {
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let unknown =
        text.split(',').map(str::trim).filter(is_word).find(|word| word.parse::<LevelFilter>().is_err());
    match unknown {
        Some(word) => Err(FilterError::Level(word.to_owned())),
        None => Ok(EnvFilter::try_new(text)?),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_no_module() {
        for right in ["info", "WARN", "off", "info,sluicegate_server=debug", "sluicegate_redis::clock", ""] {
            assert!(filter(right).is_ok(), "{right}");
        }
        for wrong in ["debg", "info,debg", "warning"] {
            assert!(matches!(filter(wrong), Err(FilterError::Level(_))), "{wrong}");
        }
        assert!(matches!(filter("sluicegate_server=loud"), Err(FilterError::Malformed(_))));
    }
}
