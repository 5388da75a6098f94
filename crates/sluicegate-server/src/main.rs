//! The binary `sluicegate`.

use std::process::ExitCode;

use clap::Parser;
use sluicegate_server::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
