//! `sluicegate config show`.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::{
    super::{decide::Output, serve},
    setting::{Setting, Shown},
};

/// What is done with settings.
#[derive(Debug, Subcommand)]
pub(in super::super) enum Verb {
    /// Prints what `serve` would run with, given the same flags, and where each value is from; secrets are left out.
    Show(Box<ShowArgs>),
}

/// Flags of `config show`: those of `serve`.
#[derive(Debug, clap::Args)]
pub(in super::super) struct ShowArgs {
    #[command(flatten)]
    _server: serve::Args,
    /// How they are printed: `text` is a config file.
    #[arg(long, env = "SLUICEGATE_OUTPUT", default_value = "text")]
    output: Output,
}

/// Prints the settings.
pub(in super::super) fn run(verb: &Verb, settings: &[Setting]) -> ExitCode {
    let Verb::Show(args) = verb;
    let told = match args.output {
        Output::Text => settings.iter().map(line).collect::<String>(),
        Output::Json => {
            let all: Map<_, _> =
                settings.iter().map(|setting| (setting.key.clone(), object(setting))).collect();
            format!("{:#}\n", Value::Object(all))
        }
    };
    // Nobody may be reading.
    let _ = stdout().write_all(told.as_bytes());
    ExitCode::SUCCESS
}

/// A line of a config file. What would not be the same when it is read again is a comment.
fn line(setting: &Setting) -> String {
    let Setting { key, value, said } = setting;
    match value {
        Shown::Unset => format!("# {key} is not set\n"),
        Shown::Hidden => format!("# {key} is set, and not shown  # {said}\n"),
        Shown::Partly(safe) => format!("# {key}: {}  # {said}, without its secret\n", json!(safe)),
        Shown::Whole(values) => format!("{key}: {}  # {said}\n", written(values)),
    }
}

fn object(setting: &Setting) -> Value {
    let origin = setting.said.to_string();
    match &setting.value {
        Shown::Unset => json!({ "value": null, "origin": origin }),
        Shown::Hidden => json!({ "hidden": true, "origin": origin }),
        Shown::Partly(safe) => json!({ "value": safe, "hidden": true, "origin": origin }),
        Shown::Whole(values) => json!({ "value": written(values), "origin": origin }),
    }
}

fn written(values: &[String]) -> Value {
    match values {
        [value] => json!(value),
        values => json!(values),
    }
}
