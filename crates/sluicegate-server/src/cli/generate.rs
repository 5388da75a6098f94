//! `sluicegate completions` and `sluicegate manual`: what is generated from the command line's own description.

use std::{
    io::{self, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Failure};

/// Flags of `completions`.
#[derive(Debug, clap::Args)]
pub(super) struct Completions {
    /// The shell to complete for.
    shell: Shell,
}

/// Writes the script that teaches a shell the verbs and flags to standard output.
pub(super) fn completions(args: &Completions) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sluicegate", &mut script);
    // A reader that went away needs no script.
    let _ = io::Write::write_all(&mut stdout(), &script);
    ExitCode::SUCCESS
}

/// Flags of `manual`.
#[derive(Debug, clap::Args)]
pub(super) struct Manual {
    /// The folder that gets one page per verb; it must exist.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes the manual pages.
pub(super) fn manual(args: &Manual) -> Result<ExitCode, Failure> {
    let cannot = |error: io::Error, folder: &Path| {
        Failure::undecided(format!("cannot write the manual pages to `{}`: {error}", folder.display()))
    };
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(|error| cannot(error, &args.folder))?;
    Ok(ExitCode::SUCCESS)
}
