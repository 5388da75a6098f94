//! The command line: one file per verb. Every flag has an environment twin `SLUICEGATE_…`, those of `race` `SLUICEGATE_RACE_…`.

use std::{
    fmt::Display,
    io::{Write, stderr},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

mod asking;
mod config;
mod decide;
mod doctor;
mod enforcement;
mod generate;
mod guard;
mod kept;
mod listeners;
mod load;
mod logging;
mod login;
mod migrate;
mod origin;
mod policy;
mod race;
mod replay;
mod security;
mod serve;
mod sources;
mod supervisor;
mod verify;
mod watch;

/// Rate limits as one atomic decision.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, about, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    logging: logging::Logging,
    #[command(subcommand)]
    verb: Verb,
    /// What the flags of a verb that reads a config file are by now, and where each was said.
    #[arg(skip)]
    settings: Vec<config::Setting>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Answers requests over HTTP.
    Serve(Box<serve::Args>),
    /// Takes: counts the request if it is allowed. Exit code 0 allowed, 1 denied, 2 usage, 3 could not decide.
    Take(decide::TakeArgs),
    /// Answers as `take` would, and counts nothing.
    Peek(decide::Args),
    /// Turns a limit or a domain of a running server on, into shadow, or off.
    Enforcement(enforcement::Args),
    /// Makes the tables that a source of assignments on PostgreSQL needs.
    Migrate(migrate::Args),
    /// Tells the settings of a server, and where each is from.
    #[command(subcommand)]
    Config(config::Verb),
    /// Works on policy files.
    #[command(subcommand)]
    Policy(policy::Verb),
    /// Works on logins.
    #[command(subcommand)]
    Login(login::Verb),
    /// Fires bursts at a limiter that is nearly full, and counts what gets through. Exit code 1 if it was too much.
    Race(race::Args),
    /// Goes through what a limiter in production needs, on the running system. Exit code 1 if something fails.
    Doctor(Box<doctor::Args>),
    /// Asks a server at a given rate, and tells the times of its answers and whether it refused as many as its policy says.
    Load(Box<load::Args>),
    /// Proves or refutes from a history of calls that limits kept their laws. Exit code 1 refuted, 4 denied falsely.
    Verify(verify::Args),
    /// Decides the requests of a log by a policy, at the log's own times: what would it have denied, and whom?
    Replay(replay::Args),
    /// Prints the completions of a shell.
    Completions(generate::Completions),
    /// Writes the manual pages.
    Manual(generate::Manual),
}

impl Cli {
    /// Runs the command line of this process: flags come before the environment, and that before the file of `--config`.
    pub fn run_process() -> ExitCode {
        match config::read(&std::env::args_os().collect::<Vec<_>>()) {
            Ok(cli) => cli.run(),
            Err(NoCli::Words(error)) => error.exit(),
            Err(NoCli::File(failure)) => failure.report(),
        }
    }

    /// Runs the verb and says how it ended.
    pub fn run(self) -> ExitCode {
        logging::start(&self.logging);
        let outcome = match self.verb {
            Verb::Serve(args) => serve::run(*args),
            Verb::Take(args) => decide::take(&args),
            Verb::Peek(args) => decide::peek(&args),
            Verb::Enforcement(args) => enforcement::run(&args),
            Verb::Migrate(args) => migrate::run(&args),
            Verb::Config(verb) => Ok(config::run(&verb, &self.settings)),
            Verb::Policy(verb) => policy::run(&verb),
            Verb::Login(verb) => login::run(&verb),
            Verb::Race(args) => race::run(&args),
            Verb::Doctor(args) => doctor::run(&args),
            Verb::Load(args) => load::run(&args),
            Verb::Verify(args) => verify::run(&args),
            Verb::Replay(args) => replay::run(&args),
            Verb::Completions(args) => Ok(generate::completions(&args)),
            Verb::Manual(args) => generate::manual(&args),
        };
        outcome.unwrap_or_else(Failure::report)
    }
}

/// Why there is nothing to run.
enum NoCli {
    /// The words make no sense, or ask for help.
    Words(clap::Error),
    /// The config file makes none.
    File(Failure),
}

/// The exit code of a request that was refused.
pub const DENIED: u8 = 1;
/// The exit code of a command line, policy or input that makes no sense.
pub const USAGE: u8 = 2;
/// The exit code when no decision could be made, or a service could not be run.
pub const UNDECIDED: u8 = 3;

/// A verb that could not do its work: what a person is told, and the exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A mistake of the caller's: exit code [`USAGE`].
    pub fn usage(message: impl Display) -> Self {
        Self { code: USAGE, message: message.to_string(), hint: None }
    }

    /// Something outside failed: exit code [`UNDECIDED`].
    pub fn undecided(message: impl Display) -> Self {
        Self { code: UNDECIDED, message: message.to_string(), hint: None }
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    fn report(self) -> ExitCode {
        let hint = self.hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        // Nobody may be reading; the exit code says it all the same.
        let _ = stderr().write_all(format!("error: {}\n{hint}", self.message).as_bytes());
        ExitCode::from(self.code)
    }
}

/// The runtime of a verb that waits for anything.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| Failure::undecided(format!("cannot start the runtime: {error}")))
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_twin() {
        let mut command = Cli::command();
        command.build();
        let upper = |name: &str| name.replace('-', "_").to_uppercase();
        for (verb, flag) in
            all_commands(&command).into_iter().flat_map(|verb| verb.get_opts().map(move |flag| (verb, flag)))
        {
            let name = upper(flag.get_long().unwrap_or_default());
            // A name that says little without its verb has the verb before it.
            let twins =
                [format!("SLUICEGATE_{name}"), format!("SLUICEGATE_{}_{name}", upper(verb.get_name()))];
            let own = flag.get_env().and_then(|own| own.to_str()).unwrap_or_default();
            assert!(twins.iter().any(|twin| twin == own), "{} --{name}: {own}", verb.get_name());
        }
    }

    fn all_commands(command: &Command) -> Vec<&Command> {
        let below = command.get_subcommands().flat_map(all_commands);
        std::iter::once(command).chain(below).collect()
    }
}
