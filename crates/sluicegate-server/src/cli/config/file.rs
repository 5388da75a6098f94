//! The file of `--config`, read as strictly as a policy.

use std::collections::HashMap;

use clap::{Arg, ArgAction, Command, CommandFactory, error::ErrorKind};
use sluicegate::core::policy::{
    Place, PolicyError, Problem,
    suggest::{closest, did_you_mean},
    tree::{self, Node, Value},
};

use super::{super::Cli, flags, setting::key};

/// A key of the file, with what stands for it on a command line.
pub(super) struct Entry {
    pub(super) key: String,
    /// The id of its flag.
    pub(super) id: String,
    flag: String,
    values: Vec<String>,
}

impl Entry {
    /// Its flags with their values.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|value| format!("--{}={value}", self.flag))
    }
}

/// Reads the settings of a file; unknown and repeated keys, and values that their flags do not take, are mistakes.
pub(super) fn read(text: &str, server: &Command) -> Result<Vec<Entry>, PolicyError> {
    let mut problems = Vec::new();
    let entries = match pairs(text) {
        Ok(pairs) => sorted(pairs, server, &mut problems),
        Err(problem) => {
            problems.push(problem);
            Vec::new()
        }
    };
    // Without the lines at fault, which may hold passwords.
    PolicyError::check("", problems)?;
    Ok(entries)
}

/// The keys and values; a file of nothing but comments has none.
fn pairs(text: &str) -> Result<Vec<(Node, Node)>, Problem> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let root = tree::parse(text)?;
    match root.value {
        Value::Map(pairs) => Ok(pairs),
        _ => Err(Problem::new(root.place, "a config file must be a mapping of keys to values")
            .hint("write `http: 127.0.0.1:8080`, one key a line")),
    }
}

fn sorted(pairs: Vec<(Node, Node)>, server: &Command, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let known: HashMap<String, &Arg> = flags(server).map(|flag| (key(flag), flag)).collect();
    let mut seen: HashMap<String, u64> = HashMap::new();
    let mut entries = Vec::new();
    for (name, node) in pairs {
        let entry = named(&name, &known).and_then(|flag| {
            if let Some(line) = seen.insert(key(flag), name.place.line) {
                let twice = Problem::new(name.place, format!("`{}` is given twice", key(flag)));
                return Err(twice.hint(format!("remove one; the first is in line {line}")));
            }
            entry(flag, name.place, node)
        });
        match entry {
            Ok(entry) => entries.push(entry),
            Err(problem) => problems.push(problem),
        }
    }
    entries
}

/// The flag that a key means.
fn named<'a>(name: &Node, known: &HashMap<String, &'a Arg>) -> Result<&'a Arg, Problem> {
    let Value::Text(typed) = &name.value else {
        return Err(Problem::new(name.place, "a key must be a word"));
    };
    known.get(typed).copied().ok_or_else(|| {
        let problem =
            Problem::new(name.place, format!("a config file has no key `{}`", typed.escape_debug()));
        problem.hint(match closest(typed, known.keys().map(String::as_str)) {
            Some(meant) => did_you_mean(meant),
            None => "the keys are the flags of `sluicegate serve`, with `_` for `-`".to_owned(),
        })
    })
}

fn entry(flag: &Arg, place: Place, node: Node) -> Result<Entry, Problem> {
    let (name, long) = (key(flag), flag.get_long().unwrap_or_default().to_owned());
    let at = node.place;
    let nodes = match node.value {
        Value::Null => {
            return Err(
                Problem::new(place, format!("`{name}` has no value")).hint("give one, or remove the key")
            );
        }
        Value::List(nodes) => nodes,
        _ => vec![node],
    };
    if nodes.len() != 1 && !matches!(flag.get_action(), ArgAction::Append) {
        return Err(Problem::new(at, format!("`{name}` takes one value")));
    }
    let values = nodes.iter().map(|node| scalar(&name, node)).collect::<Result<Vec<_>, _>>()?;
    let entry = Entry { key: name, id: flag.get_id().to_string(), flag: long, values };
    match refused(&entry) {
        Some(why) => Err(Problem::new(at, format!("`{}`: {why}", entry.key))),
        None => Ok(entry),
    }
}

fn scalar(name: &str, node: &Node) -> Result<String, Problem> {
    match &node.value {
        Value::Text(text) => Ok(text.clone()),
        Value::Whole(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        _ => Err(Problem::new(node.place, format!("`{name}` must be a text or a whole number"))
            .hint("put it in quotes if it is a text")),
    }
}

/// What the command line says to a value that it does not take.
fn refused(entry: &Entry) -> Option<String> {
    let words = ["sluicegate".to_owned(), "serve".to_owned()].into_iter().chain(entry.words());
    let error = Cli::command().try_get_matches_from(words).err()?;
    // What a flag needs besides may stand elsewhere.
    if matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict) {
        return None;
    }
    let told = error.render().to_string();
    let lines: Vec<_> =
        told.lines().map(str::trim).take_while(|line| !line.starts_with("For more")).collect();
    Some(lines.join(" ").trim().trim_start_matches("error: ").to_owned())
}
