//! `sluicegate load`: requests at a given rate, whatever the answers take, and whether as many are refused as the policy says.

mod drive;
mod expect;
mod plan;
mod report;

use std::{
    io::{Write, stdout},
    num::NonZeroU32,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use self::plan::{Plan, Shape};
use super::{
    Failure,
    decide::{Output, Request},
    runtime, sources,
};

/// The exit code when another share was refused than the policy says.
const OTHER_SHARE: u8 = 1;

/// The most requests of a run: who asks when is drawn before it begins.
const MAX_REQUESTS: u64 = 20_000_000;

/// Flags of `load`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The HTTP door to ask, such as `http://127.0.0.1:8080`.
    #[arg(long, env = "SLUICEGATE_LOAD_URL", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,
    /// The domain to ask in.
    #[arg(long, env = "SLUICEGATE_DOMAIN", default_value = "default", value_name = "DOMAIN")]
    domain: String,
    /// Requests a second. They are due at their times whatever the answers take.
    #[arg(long, env = "SLUICEGATE_LOAD_RATE", default_value = "200", value_name = "N")]
    rate: NonZeroU32,
    /// For how long, in seconds.
    #[arg(
        long = "for-s", env = "SLUICEGATE_LOAD_FOR_S", default_value = "30", value_name = "S",
        value_parser = clap::value_parser!(u32).range(1..=3_600)
    )]
    for_s: u32,
    /// How many requests are due at one instant.
    #[arg(long, env = "SLUICEGATE_LOAD_BURST", default_value = "1", value_name = "N")]
    burst: NonZeroU32,
    /// How many users ask, by the attribute `user`.
    #[arg(
        long, env = "SLUICEGATE_LOAD_USERS", default_value = "50", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    users: u32,
    /// How unevenly: 0 all alike, 1 as Zipf has it (the second asks half as often as the first, the third a third).
    #[arg(long, env = "SLUICEGATE_LOAD_SKEW", default_value = "0", value_name = "S", value_parser = small)]
    skew: f64,
    /// The seed of who asks when.
    #[arg(long, env = "SLUICEGATE_LOAD_SEED", default_value = "1", value_name = "N")]
    seed: u64,
    /// Connections. More than are needed cost nothing; fewer make requests wait, and the wait counts.
    #[arg(
        long, env = "SLUICEGATE_LOAD_CONNECTIONS", default_value = "64", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    connections: u32,
    /// Attributes and costs of every request, besides `user`.
    #[command(flatten)]
    request: Request,
    /// The policy that the server runs, alone and from empty counters: the share of refusals is held against it.
    #[arg(long, env = "SLUICEGATE_POLICY", value_name = "FILE")]
    policy: Option<PathBuf>,
    /// How many points of a hundred the share may be off: requests arrive a little later than they are due.
    #[arg(long, env = "SLUICEGATE_LOAD_TOLERANCE", default_value = "1", value_name = "POINTS", value_parser = small)]
    tolerance: f64,
    /// Ask hosts that are not this machine, too. Only do so where you may.
    #[arg(long, env = "SLUICEGATE_LOAD_ALLOW_REMOTE")]
    allow_remote: bool,
    /// How the report looks.
    #[arg(long, env = "SLUICEGATE_OUTPUT", default_value = "text")]
    output: Output,
}

/// A number from 0 to 100.
fn small(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is no number from 0 to 100"))
}

/// Drives, reports, and ends with 0, or with 1 if another share was refused than the policy says.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (attributes, costs) = args.request.read()?;
    let policy = args.policy.as_ref().map(|path| {
        sources::read(path).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
    });
    let policy = policy.transpose()?;
    if u64::from(args.rate.get()) * u64::from(args.for_s) > MAX_REQUESTS {
        let problem =
            Failure::usage(format!("`--rate` times `--for-s` is more than {MAX_REQUESTS} requests"));
        return Err(problem.hint("a shorter run tells as much"));
    }
    let shape = Shape { users: args.users, skew: args.skew, seed: args.seed, burst: args.burst };
    let plan = Plan::new(args.rate, Duration::from_secs(args.for_s.into()), shape);
    let runtime = runtime()?;
    let target = runtime.block_on(drive::Target::find(&args.url, args.allow_remote))?;
    let asks = drive::Asks { domain: &args.domain, attributes: &attributes, costs: &costs };
    let (began, mut report) = runtime.block_on(drive::drive(&target, &asks, &plan, args.connections))?;
    if let Some(policy) = policy {
        let denied = runtime.block_on(expect::denied(policy, &asks, &plan, began))?;
        report.expect(denied, args.tolerance);
    }
    let told = match args.output {
        Output::Text => report.to_string(),
        Output::Json => format!("{}\n", serde_json::json!(report)),
    };
    // Nobody may be reading; the exit code says it all the same.
    let _ = stdout().write_all(told.as_bytes());
    if report.unanswered() {
        return Err(Failure::undecided("no request was answered").hint("is a server at `--url`?"));
    }
    Ok(if report.is_as_expected() { ExitCode::SUCCESS } else { ExitCode::from(OTHER_SHARE) })
}
