//! `sluicegate replay`: what a policy would have done to traffic that was logged.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufRead, BufReader, IsTerminal, Read, Write, stderr, stdin, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::ValueEnum;
use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Failure, sources};
use crate::numbers::grouped;
use crate::replay::{
    self, Config, FieldMap, Format, LimitReport, Mapping, Named, PolicyReport, Report, WorstKey,
};

/// Flags of `replay`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The log, gzipped or not; `-` is standard input.
    #[arg(value_name = "LOG")]
    access_log: PathBuf,
    /// The policy that decides.
    #[arg(long, env = "SLUICEGATE_REPLAY_POLICY", value_name = "FILE")]
    policy: PathBuf,
    /// A second policy that decides the same requests, on a store of its own.
    #[arg(long, env = "SLUICEGATE_REPLAY_COMPARE", value_name = "FILE")]
    compare: Option<PathBuf>,
    /// How the lines are written.
    #[arg(long, env = "SLUICEGATE_REPLAY_FORMAT", default_value = "auto")]
    format: Format,
    /// Which fields become which attributes, such as `user=.auth.user,endpoint=.path,time=.ts`. Without it, a web
    /// server's line gives `ip`, `user`, `method`, `endpoint`, `status`, `referer` and `user_agent`, and an object all
    /// of its texts and numbers.
    #[arg(long, env = "SLUICEGATE_REPLAY_MAP", value_delimiter = ',', value_name = "ATTR=.FIELD")]
    map: Vec<Mapping>,
    /// A file for a picture of demand against limits over time (SVG).
    #[arg(long, env = "SLUICEGATE_REPLAY_PICTURE", value_name = "FILE")]
    picture: Option<PathBuf>,
    /// How the report looks.
    #[arg(long, env = "SLUICEGATE_OUTPUT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Reads the log to its end and reports.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let files = std::iter::once(&args.policy).chain(&args.compare);
    let policies = files.map(|file| named(file)).collect::<Result<Vec<_>, _>>()?;
    let log = args.access_log.display().to_string();
    let cannot = |error: io::Error| Failure::usage(format!("cannot read `{log}`: {error}"));
    let config = Config { format: args.format, map: FieldMap::new(args.map.iter().cloned()) };
    let (input, bar) = open(&args.access_log).map_err(cannot)?;
    // The bar follows the bytes of the file, which are fewer than those of the lines in it if it is gzipped.
    let report = replay::run(input, &config, policies, |_| bar.tick()).map_err(cannot)?;
    bar.finish_and_clear();
    if let Some(path) = &args.picture {
        let svg = replay::picture::svg(&report, &log);
        fs::write(path, svg)
            .map_err(|error| Failure::undecided(format!("cannot write `{}`: {error}", path.display())))?;
    }
    let told = match args.output {
        Output::Text => text(&report, &log),
        Output::Json => serde_json::to_string_pretty(&report).map_err(Failure::undecided)? + "\n",
    };
    // Nobody may be reading.
    let _ = stdout().write_all(told.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn named(path: &Path) -> Result<Named, Failure> {
    let name = path.display().to_string();
    let policy = sources::read(path).map_err(|error| Failure::usage(format!("`{name}`: {error}")))?;
    Ok(Named { name, policy })
}

/// The lines of the log, unzipped, and the bar that shows how far they are read.
fn open(path: &Path) -> io::Result<(Box<dyn BufRead>, ProgressBar)> {
    let piped = path.as_os_str() == "-";
    let (raw, length): (Box<dyn Read>, _) = if piped {
        (Box::new(stdin().lock()), None)
    } else {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        (Box::new(file), Some(metadata.len()).filter(|_| metadata.is_file()))
    };
    let bar = progress_bar(length);
    let mut raw = BufReader::with_capacity(1 << 16, bar.wrap_read(raw));
    let gzipped = raw.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let lines: Box<dyn BufRead> =
        if gzipped { Box::new(BufReader::new(MultiGzDecoder::new(raw))) } else { Box::new(raw) };
    Ok((lines, bar))
}

/// On standard error, and only where a person looks at it.
fn progress_bar(length: Option<u64>) -> ProgressBar {
    let target =
        if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let known = "{bar:40} {percent}% {bytes} of {total_bytes}, {eta} left";
    let unknown = "{spinner} {bytes}, {bytes_per_sec}";
    let template = if length.is_some() { known } else { unknown };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(length, target).with_style(style)
}

fn text(report: &Report, log: &str) -> String {
    let mut text = String::new();
    let span = match (&report.from, &report.to) {
        (Some(from), Some(to)) => format!(" from {from} to {to}"),
        _ => String::new(),
    };
    let _ = writeln!(text, "{log}: {} requests{span}", grouped(report.requests));
    if report.bad_lines.count > 0 {
        let _ = writeln!(text, "  {} lines could not be read", grouped(report.bad_lines.count));
        for bad in &report.bad_lines.first {
            let _ = writeln!(text, "    line {}: {}", bad.line, bad.why);
        }
    }
    if report.disorder.count > 0 {
        let longest = std::time::Duration::from_millis(report.disorder.longest_ms);
        let _ = writeln!(
            text,
            "  {} requests stand after later ones, by up to {longest:?}: each is decided at the latest time before it",
            grouped(report.disorder.count)
        );
    }
    report.policies.iter().for_each(|policy| policy_text(policy, &mut text));
    if let Some(differences) = report.differences {
        let (first, second) = (grouped(differences.only_first), grouped(differences.only_second));
        let _ = writeln!(
            text,
            "differences: {first} requests pass with the first policy alone, {second} with the second"
        );
    }
    text
}

fn policy_text(policy: &PolicyReport, text: &mut String) {
    let PolicyReport { passed, denied, malformed, .. } = policy;
    let all = passed + denied + malformed;
    let _ = writeln!(
        text,
        "{}: {} pass, {} denied ({})",
        policy.policy,
        grouped(*passed),
        grouped(*denied),
        share(*denied, all)
    );
    if *malformed > 0 {
        let why = policy.malformed_because.join("; ");
        let _ = writeln!(text, "  {} do not fit the policy: {why}", grouped(*malformed));
    }
    for limit in &policy.limits {
        limit_text(limit, text);
    }
}

fn limit_text(limit: &LimitReport, text: &mut String) {
    let LimitReport { name, matched, passed, denied, worst, .. } = limit;
    let (matched, share) = (grouped(*matched), share(*denied, *matched));
    let _ = writeln!(
        text,
        "  {name}: of {matched} requests {} pass, {} denied by it ({share})",
        grouped(*passed),
        grouped(*denied)
    );
    for WorstKey { key, denied, missed_at_most } in worst {
        let about = if *missed_at_most > 0 {
            format!(" to {}", grouped(denied + missed_at_most))
        } else {
            String::new()
        };
        let _ = writeln!(text, "    {}{about} denied: {key}", grouped(*denied));
    }
}

/// A share in percent, with one decimal.
fn share(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    format!("{}.{}%", tenths / 10, tenths % 10)
}
