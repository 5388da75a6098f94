//! Settings of a server: flags before the environment, before the file of `--config`, before defaults.
//!
//! The file adds no second way to set anything: each of its keys is a flag, and its values are put on the command line
//! where neither a flag nor a variable has said otherwise. So a value is checked, and a flag documented, in one place.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, error::ErrorKind, parser::ValueSource};

use super::{Cli, Failure, NoCli, sources::read_text};

mod file;
mod setting;
mod show;

use file::Entry;
pub(super) use setting::Setting;
pub(super) use show::{Verb, run};

/// The id of the flag that names the file; a verb that has it reads the file.
const CONFIG: &str = "config";

/// Reads a command line, the environment, and the file that either names.
pub(super) fn read(words: &[OsString]) -> Result<Cli, NoCli> {
    let first = said(words).map_err(NoCli::Words)?;
    let verb = deepest(&first);
    let path = verb.try_get_one::<PathBuf>(CONFIG).ok().flatten();
    let entries = path.map_or(Ok(Vec::new()), |path| entries(path, verb)).map_err(NoCli::File)?;
    let added: Vec<OsString> = entries.iter().flat_map(Entry::words).map(OsString::from).collect();
    let all = words.iter().chain(&added);
    let matches = Cli::command().try_get_matches_from(all).map_err(NoCli::Words)?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(NoCli::Words)?;
    let verb = deepest(&matches);
    if verb.try_contains_id(CONFIG).is_ok() {
        let of_file = |key: &str| entries.iter().any(|entry| entry.key == key);
        cli.settings = flags(&server()).filter_map(|flag| Setting::of(flag, verb, of_file)).collect();
    }
    Ok(cli)
}

/// What the words and the environment say. A flag that needs another may find it in the file.
fn said(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    match Cli::command().try_get_matches_from(words) {
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            Cli::command().ignore_errors(true).try_get_matches_from(words)
        }
        read => read,
    }
}

/// What the file says that neither a flag nor a variable does.
fn entries(path: &Path, verb: &ArgMatches) -> Result<Vec<Entry>, Failure> {
    let unusable = |error: &dyn std::fmt::Display| Failure::usage(format!("`{}`: {error}", path.display()));
    let text = read_text(path).map_err(|error| unusable(&format!("cannot be read: {error}")))?;
    let mut entries = file::read(&text, &server()).map_err(|error| unusable(&error))?;
    let explicit = [Some(ValueSource::CommandLine), Some(ValueSource::EnvVariable)];
    entries.retain(|entry| !explicit.contains(&verb.value_source(&entry.id)));
    Ok(entries)
}

/// The verb whose flags are the settings.
fn server() -> Command {
    let mut all = Cli::command();
    all.build();
    all.find_subcommand("serve").cloned().unwrap_or_default()
}

/// The flags of the verb that are settings.
fn flags(server: &Command) -> impl Iterator<Item = &clap::Arg> {
    server.get_arguments().filter(|flag| ![CONFIG, "help", "version"].contains(&flag.get_id().as_str()))
}

fn deepest(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, below)| deepest(below))
}
