//! The binary `sluicegate`.

use std::process::ExitCode;

use sluicegate_server::cli::Cli;

fn main() -> ExitCode {
    Cli::run_process()
}
