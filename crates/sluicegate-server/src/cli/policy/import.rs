//! `sluicegate policy import`: another product's configuration as policy files of ours.

use std::{
    fs,
    io::{Write, stderr, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use sluicegate::core::Policy;

use super::{Failure, sources};
use crate::import::{self, Import, ImportError, Imported, Note, Source};

/// Whose configuration it is.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Product {
    /// Envoy's rate limit service: trees of descriptors.
    EnvoyRatelimit(EnvoyArgs),
    /// Limitador: a list of limits.
    Limitador(LimitadorArgs),
}

/// Flags of `policy import envoy-ratelimit`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct EnvoyArgs {
    /// Configuration files; those of one domain become one policy.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// Flags of `policy import limitador`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LimitadorArgs {
    /// The limits file; each namespace becomes a policy.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Where the policies go.
#[derive(Debug, clap::Args)]
struct Target {
    /// A folder for one file per domain, `DOMAIN.yaml`; nothing is overwritten. Without it, a single policy goes to
    /// standard output.
    #[arg(long, env = "SLUICEGATE_INTO", value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// Writes the policies, and to standard error what they do not express.
pub(super) fn run(product: &Product) -> Result<ExitCode, Failure> {
    let (made, target) = match product {
        Product::EnvoyRatelimit(args) => (import_files(&args.files, import::envoy::import)?, &args.target),
        Product::Limitador(args) => {
            let only = |sources: &[Source<'_>]| match sources {
                [source] => import::limitador::import(*source),
                _ => Ok(Import::default()),
            };
            (import_files(std::slice::from_ref(&args.file), only)?, &args.target)
        }
    };
    tell(&made.notes);
    check(&made.policies)?;
    match (&target.into, made.policies.as_slice()) {
        (Some(folder), policies) => policies.iter().try_for_each(|policy| write(folder, policy))?,
        (None, [policy]) => {
            // Nobody may be reading.
            let _ = stdout().write_all(policy.text.as_bytes());
        }
        (None, policies) => {
            let message =
                format!("the files hold {} domains, and a policy file is about one", policies.len());
            return Err(Failure::usage(message).hint("give a folder for them: `--into policies`"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn import_files(
    files: &[PathBuf],
    import: impl FnOnce(&[Source<'_>]) -> Result<Import, ImportError>,
) -> Result<Import, Failure> {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let texts = files.iter().map(|file| {
        sources::read_text(file)
            .map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", file.display())))
    });
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let sources: Vec<_> = names.iter().zip(&texts).map(|(name, text)| Source { name, text }).collect();
    import(&sources).map_err(|error| {
        if let ImportError::Nothing(notes) = &error {
            tell(notes);
        }
        Failure::usage(error)
    })
}

fn tell(notes: &[Note]) {
    for note in notes {
        // Nobody may be reading; the policy holds the notes as well.
        let _ = writeln!(stderr(), "{note}");
    }
}

/// What is written is read back first: a file that this program would refuse is a defect of the import.
fn check(policies: &[Imported]) -> Result<(), Failure> {
    policies.iter().try_for_each(|policy| {
        let read = Policy::parse(&policy.text).map(drop);
        read.map_err(|error| {
            Failure::usage(format!("the policy of domain `{}` cannot be used:\n{error}", policy.domain))
        })
    })
}

fn write(folder: &Path, policy: &Imported) -> Result<(), Failure> {
    let path = folder.join(format!("{}.yaml", policy.domain));
    let cannot = |error| Failure::undecided(format!("cannot write `{}`: {error}", path.display()));
    let mut file = fs::File::create_new(&path).map_err(cannot)?;
    file.write_all(policy.text.as_bytes()).map_err(cannot)?;
    // Nobody may be reading.
    let _ = writeln!(stdout(), "{}", path.display());
    Ok(())
}
