//! `sluicegate policy choose`: from a requirement to a limit.

use std::{
    fmt::Write as _,
    io::{Write, stdout},
    process::ExitCode,
    time::Duration,
};

use clap::builder::PossibleValuesParser;
use sluicegate::core::{
    Algorithm, Policy,
    policy::{
        Limit,
        choose::{self, NEEDS, Need, Wish},
    },
};

use super::Failure;
use crate::numbers::grouped;

/// Flags of `policy choose`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// What is needed. Without it, all needs are listed.
    #[arg(
        long,
        env = "SLUICEGATE_CHOOSE_NEED",
        value_name = "NEED",
        value_parser = PossibleValuesParser::new(NEEDS.iter().map(|need| need.name))
    )]
    need: Option<String>,
    /// How many; without it, a usual number.
    #[arg(long, env = "SLUICEGATE_CHOOSE_LIMIT", value_name = "N")]
    limit: Option<u64>,
    /// In how long a time, such as `1m`, or for a bill in which period, such as `month`; without it, a usual one.
    #[arg(long, env = "SLUICEGATE_CHOOSE_PER", value_name = "TIME")]
    per: Option<String>,
    /// The attributes to count by.
    #[arg(
        long,
        env = "SLUICEGATE_CHOOSE_KEY",
        value_delimiter = ',',
        default_value = "user",
        value_name = "ATTR"
    )]
    key: Vec<String>,
    /// Over how many regions the limit is divided, for the need `regions`.
    #[arg(long, env = "SLUICEGATE_CHOOSE_REGIONS", default_value = "3", value_name = "N")]
    regions: u64,
}

/// Prints a policy whose comments say why, or the list of needs.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let text =
        args.need.as_deref().and_then(Need::of_name).map_or_else(|| Ok(all()), |need| chosen(need, args))?;
    // Nobody may be reading.
    let _ = stdout().write_all(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// A line for each need.
fn all() -> String {
    let lines: Vec<_> = NEEDS.iter().map(|need| format!("{:<10}{}", need.name, need.wanted)).collect();
    lines.join("\n") + "\n"
}

fn chosen(need: &Need, args: &Args) -> Result<String, Failure> {
    let (limit, per) = (args.limit.unwrap_or(need.usual.0), args.per.as_deref().unwrap_or(need.usual.1));
    // A quota has a period of the calendar instead of a length, which the policy knows.
    if need.algorithm != Algorithm::Quota {
        choose::length(per).map_err(|error| Failure::usage(&error).hint(error.hint()))?;
    }
    let limits = need.limits(&Wish { limit, per, key: &args.key, regions: args.regions });
    let body = format!("version: 1\nlimits:\n{limits}");
    let policy = Policy::parse(&body).map_err(Failure::usage)?;
    let mut text = format!("# {}: {}\n# {}\n# {}\n", need.algorithm, need.wanted, need.why, need.beware);
    policy.limits().iter().for_each(|limit| worst_case(limit, per, &mut text));
    Ok(text + &body)
}

/// The limit's law, as numbers for its own window and for the hour or the day.
fn worst_case(limit: &Limit, per: &str, text: &mut String) {
    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);
    let Some(rule) = limit.grant.rule() else { return };
    let most = |length| grouped(rule.most_within(length));
    let (long, longer) = if rule.window() < HOUR { (HOUR, "1h") } else { (DAY, "1d") };
    let _ = write!(text, "# {} lets pass at most {} at once", limit.name, most(Duration::from_micros(1)));
    let _ = write!(text, ", {} in any {per}", most(rule.window()));
    if rule.window() < long {
        let _ = write!(text, ", {} in any {longer}", most(long));
    }
    text.push('\n');
}
