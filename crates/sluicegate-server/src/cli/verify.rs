//! `sluicegate verify`: proves or refutes the laws of limits from a history of calls.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write, stdin, stdout},
    iter,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use sluicegate::{
    core::Micros,
    testing::history::{
        self, History, Interval, Limits, Outcome, Record, Report, Row, Scope, Tight, Verdict,
    },
};

use super::{Failure, decide::Output, sources};

/// The exit code of a history that refutes a law.
const REFUTED: u8 = 1;
/// The exit code of a history whose only fault are denials although there was room.
const FALSE_DENIALS: u8 = 4;
/// The longest line of a history, in bytes: as long as a request may be.
const MAX_LINE: usize = 64 * 1024;
/// Bad lines that are named one by one; the rest is counted.
const MAX_NAMED: usize = 20;

/// Flags of `verify`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The history: one record a line, in JSON. `-` is standard input.
    #[arg(value_name = "HISTORY")]
    history: PathBuf,
    /// The policy whose limits the records name.
    #[arg(long, env = "SLUICEGATE_POLICY", value_name = "FILE")]
    policy: PathBuf,
    /// How far the clocks of callers and store may be apart, in microseconds.
    #[arg(
        long, env = "SLUICEGATE_VERIFY_CLOCK_ERROR_US", default_value = "0", value_name = "US",
        value_parser = clap::value_parser!(u64).range(0..=86_400_000_000)
    )]
    clock_error_us: u64,
    /// How many instances share the limits in fallback. Without it only all instances together are held against the law.
    #[arg(
        long, env = "SLUICEGATE_VERIFY_INSTANCES", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    instances: Option<u32>,
    /// How the report looks.
    #[arg(long, env = "SLUICEGATE_OUTPUT", default_value = "text")]
    output: Output,
}

/// Reports, and ends with 0 if nothing is refuted and no denial is false.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let named =
        |path: &Path, error: &dyn std::fmt::Display| Failure::usage(format!("`{}`: {error}", path.display()));
    let policy = sources::read(&args.policy).map_err(|error| named(&args.policy, &error))?;
    let limits = Limits::from(&policy);
    let mut history = History::new(&limits);
    fill(&mut history, &args.history).map_err(|error| named(&args.history, &error))?;
    let clock_error = Duration::from_micros(args.clock_error_us);
    let report = history.check(&history::Settings { clock_error, instances: args.instances });
    // Nobody may be reading; the exit code says it all the same.
    let _ = match args.output {
        Output::Text => write!(stdout(), "{report}"),
        Output::Json => writeln!(stdout(), "{}", in_json(&report)),
    };
    Ok(match report.verdict() {
        Verdict::Refuted => ExitCode::from(REFUTED),
        _ if report.false_denials() > 0 => ExitCode::from(FALSE_DENIALS),
        _ => ExitCode::SUCCESS,
    })
}

/// A history that cannot be judged.
#[derive(Debug, thiserror::Error)]
enum HistoryError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("holds no record")]
    Empty,
    #[error("{count} lines are no records that can be judged{}", listed(named))]
    BadLines { count: usize, named: Vec<(u64, LineError)> },
}

fn listed(lines: &[(u64, LineError)]) -> String {
    let listed = lines.iter().map(|(number, error)| format!("  line {number}: {error}"));
    iter::once(String::new()).chain(listed).collect::<Vec<_>>().join("\n")
}

#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error("it is longer than {MAX_LINE} bytes")]
    TooLong,
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    #[error(transparent)]
    Record(#[from] history::RecordError),
}

/// Reads all lines, also after bad ones, so that all can be mended at once.
fn fill(history: &mut History<'_>, path: &Path) -> Result<(), HistoryError> {
    let mut lines: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(stdin().lock()),
        _ => Box::new(BufReader::new(File::open(path)?)),
    };
    let (mut number, mut records, mut bad, mut named) = (0, 0u64, 0, Vec::new());
    while let Some(line) = next_line(&mut *lines)? {
        number += 1;
        match line.and_then(|line| add(history, &line)) {
            Ok(added) => records += u64::from(added),
            Err(error) => {
                bad += 1;
                if named.len() < MAX_NAMED {
                    named.push((number, error));
                }
            }
        }
    }
    match (records, bad) {
        (_, 1..) => Err(HistoryError::BadLines { count: bad, named }),
        (0, 0) => Err(HistoryError::Empty),
        _ => Ok(()),
    }
}

/// The next line without more of it in memory than a line may have; `None` at the end.
fn next_line(lines: &mut dyn BufRead) -> io::Result<Option<Result<Vec<u8>, LineError>>> {
    let mut line = Vec::new();
    let bound = u64::try_from(MAX_LINE).unwrap_or(u64::MAX).saturating_add(1);
    let read = lines.take(bound).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.len() <= MAX_LINE || line.last() == Some(&b'\n') {
        return Ok(Some(Ok(line)));
    }
    lines.skip_until(b'\n')?;
    Ok(Some(Err(LineError::TooLong)))
}

/// Whether the line held a record; a blank one does not.
fn add(history: &mut History<'_>, line: &[u8]) -> Result<bool, LineError> {
    if line.trim_ascii().is_empty() {
        return Ok(false);
    }
    let line: Line = serde_json::from_slice(line)?;
    history.add(&line.into())?;
    Ok(true)
}

/// One line of a history. What else it holds is not read.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: String,
    #[serde(default)]
    instance: String,
    limit: String,
    #[serde(default)]
    key: String,
    cost: u64,
    start_us: u64,
    end_us: u64,
    decision: Decision,
    #[serde(default)]
    path: DecidedBy,
    #[serde(default)]
    replayed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Allowed,
    Denied,
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DecidedBy {
    #[default]
    Store,
    Fallback,
    Cache,
}

impl From<Line> for Record {
    fn from(line: Line) -> Self {
        let outcome = match line.decision {
            Decision::Allowed => Outcome::Allowed,
            Decision::Denied => Outcome::Denied,
            Decision::Unknown => Outcome::Unknown,
        };
        let path = match line.path {
            DecidedBy::Store => history::Path::Store,
            DecidedBy::Fallback => history::Path::Fallback,
            DecidedBy::Cache => history::Path::Cache,
        };
        Self {
            id: line.id,
            instance: line.instance,
            limit: line.limit,
            key: line.key,
            cost: line.cost,
            start: Micros::new(line.start_us),
            end: Micros::new(line.end_us),
            outcome,
            path,
            replayed: line.replayed,
        }
    }
}

fn in_json(report: &Report) -> Value {
    let rows: Vec<Value> =
        report.rows.iter().map(|((limit, scope), row)| row_json(limit, scope, row)).collect();
    json!({
        "verdict": word(report.verdict()),
        "false_denials": report.false_denials(),
        "limits": rows,
    })
}

fn row_json(limit: &str, scope: &Scope, row: &Row) -> Value {
    let (scope, instance) = match scope {
        Scope::Store => ("store", None),
        Scope::Fallback => ("fallback", None),
        Scope::Instance(name) => ("instance", Some(name)),
    };
    json!({
        "limit": limit,
        "scope": scope,
        "instance": instance,
        "verdict": word(row.verdict()),
        "keys": { "all": row.keys, "refuted": row.refuted, "proven": row.proven },
        "calls": { "allowed": row.allowed, "denied": row.denied, "unknown": row.unknown },
        "admitted": row.admitted,
        "tightest": row.certain.as_ref().map(tight_json),
        "possible": row.possible.as_ref().map(tight_json),
        "false_denials": row.false_denials,
        "false_denial": row.false_denial.as_ref().map(|(key, during)| during_json(key, *during)),
        "charged_twice": row.charged_twice,
        "charged_twice_id": row.charged_twice_id,
    })
}

fn tight_json((key, tight): &(String, Tight)) -> Value {
    let (from_us, to_us) = (tight.during.from.as_u64(), tight.during.to.as_u64());
    json!({ "key": key, "from_us": from_us, "to_us": to_us, "admitted": tight.admitted, "bound": tight.bound })
}

fn during_json(key: &str, during: Interval) -> Value {
    json!({ "key": key, "start_us": during.from.as_u64(), "end_us": during.to.as_u64() })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Proven => "proven",
        Verdict::NotRefuted => "not_refuted",
        Verdict::Refuted => "refuted",
    }
}
