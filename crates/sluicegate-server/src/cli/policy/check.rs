//! `sluicegate policy check`: reads policy files and tells every mistake, and what is legal but probably not meant.

use std::{
    fmt::Write as _,
    io::{Write, stderr, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::ValueEnum;
use serde::Serialize;
use sluicegate::core::policy::{
    PolicyError, Problem,
    lint::{self, Checked, Lint},
};

use super::{FINDINGS, USAGE, sources};

/// Flags of `policy check`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Policy files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Ends with exit code 1 if there is a warning.
    #[arg(long, env = "SLUICEGATE_CHECK_STRICT")]
    strict: bool,
    /// How the findings look: for people, as JSON, or as annotations of GitHub's.
    #[arg(long, env = "SLUICEGATE_CHECK_OUTPUT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Text,
    Json,
    Github,
}

/// Runs the verb: every file is checked, also after a bad one.
pub(super) fn run(args: &Args) -> ExitCode {
    let reports: Vec<Report> = args.files.iter().map(|file| Report::of(file)).collect();
    match args.output {
        Output::Text => reports.iter().for_each(text),
        Output::Json => json(&reports),
        Output::Github => reports.iter().for_each(github),
    }
    if reports.iter().any(|report| !report.errors.is_empty()) {
        ExitCode::from(USAGE)
    } else if args.strict && reports.iter().any(|report| !report.warnings.is_empty()) {
        ExitCode::from(FINDINGS)
    } else {
        ExitCode::SUCCESS
    }
}

/// What is said of one file.
#[derive(Serialize)]
struct Report {
    file: String,
    /// The domain and the number of limits of a sound file.
    #[serde(flatten)]
    sound: Option<Sound>,
    errors: Vec<Entry>,
    warnings: Vec<Entry>,
}

#[derive(Serialize)]
struct Sound {
    domain: String,
    limits: usize,
}

/// One mistake or warning.
#[derive(Serialize)]
struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    line: u64,
    column: u64,
    message: String,
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    docs: Option<String>,
    /// For people: with the line itself.
    #[serde(skip)]
    shown: String,
}

impl Entry {
    fn of(problem: &Problem) -> Self {
        Self {
            code: None,
            limit: None,
            line: problem.line(),
            column: problem.column(),
            message: problem.what().to_owned(),
            hint: problem.hint_text().map(str::to_owned),
            docs: None,
            shown: problem.to_string(),
        }
    }

    /// A file that cannot be read has no place to point at.
    fn unreadable(error: &std::io::Error) -> Self {
        let message = format!("cannot be read: {error}");
        Self {
            code: None,
            limit: None,
            line: 1,
            column: 1,
            shown: message.clone(),
            message,
            hint: None,
            docs: None,
        }
    }
}

/// Where a lint is explained.
fn page(lint: &Lint) -> String {
    format!("{}/blob/main/docs/reference/lints.md#{}", env!("CARGO_PKG_REPOSITORY"), lint.code)
}

impl Report {
    fn of(path: &Path) -> Self {
        let file = path.display().to_string();
        let text = match sources::read_text(path) {
            Ok(text) => text,
            Err(error) => return Self::unsound(file, vec![Entry::unreadable(&error)]),
        };
        match lint::check(&text) {
            Ok(checked) => Self::sound(file, checked),
            Err(error) => Self::unsound(file, errors(&error)),
        }
    }

    fn unsound(file: String, errors: Vec<Entry>) -> Self {
        Self { file, sound: None, errors, warnings: Vec::new() }
    }

    fn sound(file: String, checked: Checked) -> Self {
        let Checked { policy, findings } = checked;
        let sound = Some(Sound { domain: policy.domain().to_owned(), limits: policy.limits().len() });
        let warnings = findings.into_iter().map(|finding| Entry {
            code: Some(finding.lint.code),
            limit: Some(finding.limit),
            docs: Some(page(finding.lint)),
            ..Entry::of(&finding.problem)
        });
        Self { file, sound, errors: Vec::new(), warnings: warnings.collect() }
    }
}

fn errors(error: &PolicyError) -> Vec<Entry> {
    error.problems().iter().map(Entry::of).collect()
}

/// Says in one line what a sound file holds, and tells the rest where mistakes are told.
fn text(report: &Report) {
    let file = &report.file;
    let mut told = String::new();
    if !report.errors.is_empty() {
        let shown: Vec<_> = report.errors.iter().map(|entry| entry.shown.as_str()).collect();
        let _ = writeln!(told, "{file}: {}", shown.join("\n"));
    }
    for entry in &report.warnings {
        let code = entry.code.unwrap_or_default();
        let _ = writeln!(told, "{file}: warning `{code}`: {}", entry.shown);
    }
    // Nobody may be reading; the exit code says it all the same.
    let _ = stderr().write_all(told.as_bytes());
    if let Some(sound) = &report.sound {
        let _ = writeln!(stdout(), "{file}: ok, {}", summary(sound, report.warnings.len()));
    }
}

fn summary(sound: &Sound, warnings: usize) -> String {
    let counted =
        |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let limits = counted(sound.limits, "limit");
    let warned = if warnings == 0 { String::new() } else { format!(", {}", counted(warnings, "warning")) };
    format!("domain `{}` with {limits}{warned}", sound.domain)
}

fn json(reports: &[Report]) {
    #[derive(Serialize)]
    struct All<'a> {
        files: &'a [Report],
    }
    if let Ok(mut text) = serde_json::to_string_pretty(&All { files: reports }) {
        text.push('\n');
        // Nobody may be reading; the exit code says it all the same.
        let _ = stdout().write_all(text.as_bytes());
    }
}

/// Annotations, as GitHub reads them from a job's output.
fn github(report: &Report) {
    let levels = [("error", &report.errors), ("warning", &report.warnings)];
    for (level, entry) in
        levels.into_iter().flat_map(|(level, all)| all.iter().map(move |entry| (level, entry)))
    {
        let title = entry.code.map(|code| format!(",title={}", escaped(code, true))).unwrap_or_default();
        let hint = entry.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        let message = escaped(&format!("{}{hint}", entry.message), false);
        let file = escaped(&report.file, true);
        let Entry { line, column, .. } = entry;
        // Nobody may be reading; the exit code says it all the same.
        let _ = writeln!(stdout(), "::{level} file={file},line={line},col={column}{title}::{message}");
    }
}

/// A text inside an annotation; in its properties commas and colons are escaped as well.
fn escaped(text: &str, property: bool) -> String {
    let base = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    if property { base.replace(':', "%3A").replace(',', "%2C") } else { base }
}
