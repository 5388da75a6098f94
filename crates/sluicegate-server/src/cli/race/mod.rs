//! `sluicegate race`: fires bursts at a limiter that is nearly full, and counts what gets through.

use std::{
    fmt,
    io::{Write, stdout},
    process::{self, ExitCode},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::ValueEnum;
use serde::Serialize;
use tokio::{sync::Barrier, task::JoinSet};

use super::{Failure, decide::Output, sources::StoreArgs};
use crate::store::StoreUrl;

mod naive;
mod ours;
mod target;

/// The exit code when more got through than the limit allows.
const OVER_ADMITTED: u8 = 1;

/// Flags of `race`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The limiter to race against, unless `--url` names an endpoint.
    #[arg(long, env = "SLUICEGATE_RACE_LIMITER", default_value = "sluicegate", conflicts_with = "url")]
    limiter: Limiter,
    #[command(flatten)]
    store: StoreArgs,
    /// The limit.
    #[arg(
        long, env = "SLUICEGATE_RACE_LIMIT", default_value = "1000", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    limit: u32,
    /// How much of it is used before each burst. Without it all but 2, or nothing against an endpoint that is asked
    /// without `{key}`.
    #[arg(
        long, env = "SLUICEGATE_RACE_USED", value_name = "N",
        value_parser = clap::value_parser!(u32).range(0..=1_000_000)
    )]
    used: Option<u32>,
    /// Requests of one burst, all at once.
    #[arg(
        long, env = "SLUICEGATE_RACE_BURST", default_value = "50", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    burst: u32,
    /// Bursts, each against a key of its own. Without it 10, or 1 against an endpoint that is asked without `{key}`.
    #[arg(
        long, env = "SLUICEGATE_RACE_ROUNDS", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    rounds: Option<u32>,
    #[command(flatten)]
    target: target::Endpoint,
    /// How the report looks.
    #[arg(long, env = "SLUICEGATE_OUTPUT", default_value = "text")]
    output: Output,
}

/// Limiters that this program brings.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Limiter {
    /// This program's: one atomic decision.
    Sluicegate,
    /// GET, compare, INCR on the given Redis: the limiter that people write first, to show what the race looks like.
    GetCheckIncr,
}

/// What is raced against.
trait Contender {
    /// One request, ready to be sent.
    type Racer: Racer;

    /// What the report calls it.
    fn name(&self) -> String;

    /// Uses that much of the limit of a fresh key.
    async fn prepare(&self, key: &str, used: u32) -> Result<(), RaceError>;

    /// Gets a request ready, up to its connection.
    async fn racer(&self, key: &str) -> Result<Self::Racer, RaceError>;

    /// Removes what the round left, where that is possible.
    async fn clear(&self, key: &str) -> Result<(), RaceError>;
}

/// One request.
trait Racer: Send + 'static {
    /// Sends it: whether it was admitted.
    fn run(self) -> impl Future<Output = Result<bool, RaceError>> + Send;
}

/// A race that says nothing about the limiter.
#[derive(Debug, thiserror::Error)]
enum RaceError {
    /// The limiter did not answer.
    #[error("{what}: {error}")]
    Unanswered { what: &'static str, error: Box<dyn std::error::Error + Send + Sync> },
    /// The limiter refused what should have passed before the burst.
    #[error("request {at} of the {used} before the burst was denied")]
    DeniedEarly { at: u32, used: u32 },
    /// Neither admitted nor denied.
    #[error("the endpoint answered {0}, and 200 admits, 429 denies")]
    OtherStatus(hyper::StatusCode),
    /// A task ended without an answer.
    #[error("a request was lost")]
    Lost,
}

impl RaceError {
    fn unanswered(what: &'static str) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> Self {
        move |error| Self::Unanswered { what, error }
    }
}

/// Races, reports, and ends with 0 if the limit held, 1 if it did not.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(used) = args.used.filter(|used| *used > args.limit) {
        let message = format!("`--used {used}` exceeds `--limit {}`", args.limit);
        return Err(
            Failure::usage(message).hint("use less than the limit, so that something is left to race for")
        );
    }
    let report = super::runtime()?.block_on(contest(args))?;
    let _ = match args.output {
        Output::Text => write!(stdout(), "{report}"),
        Output::Json => writeln!(stdout(), "{}", serde_json::json!(report)),
    };
    Ok(if report.over_admitted_rounds > 0 { ExitCode::from(OVER_ADMITTED) } else { ExitCode::SUCCESS })
}

/// What is left of a limit before a burst, unless `--used` says.
const LEFT: u32 = 2;
/// The longest wait for a connection or an answer. A burst on a busy machine is slow, and that is not what is measured.
const PATIENCE: Duration = Duration::from_secs(10);

/// The store, waited for with patience.
fn patient(store: &StoreArgs) -> Result<StoreUrl, Failure> {
    Ok(match store.url()? {
        StoreUrl::Redis(config) => {
            StoreUrl::Redis(Box::new(config.connect_timeout(PATIENCE).response_timeout(PATIENCE)))
        }
        memory @ StoreUrl::Memory => memory,
    })
}

/// What the incident asks of this program's own limiter on a store: 50 requests at once at 998 of 1,000, a few times.
/// Answers the report, and whether it was exact.
pub(super) async fn incident(store: &StoreArgs) -> Result<(String, bool), Failure> {
    let race = Race { limit: 1_000, used: 998, burst: 50, rounds: 5 };
    let report =
        race.against(&ours::Ours::open(&patient(store)?, race).await?).await.map_err(Failure::undecided)?;
    let Report { used, limit, burst, rounds, admitted_least, admitted_most, allowed, .. } = &report;
    let told = format!(
        "{burst} at once at {used} of {limit}, {rounds} times: {admitted_least} to {admitted_most} passed, \
         {allowed} may"
    );
    Ok((told, report.over_admitted_rounds + report.under_admitted_rounds == 0))
}

async fn contest(args: &Args) -> Result<Report, Failure> {
    // A single burst against a wrong limiter may pass by luck.
    let is_fresh = args.target.is_fresh_each_round();
    let rounds = args.rounds.unwrap_or(if is_fresh { 10 } else { 1 });
    let used = args.used.unwrap_or(if is_fresh { args.limit.saturating_sub(LEFT) } else { 0 });
    let race = Race { limit: args.limit, used, burst: args.burst, rounds };
    let report = if let Some(target) = args.target.open(race).await? {
        race.against(&target).await
    } else {
        match args.limiter {
            Limiter::Sluicegate => race.against(&ours::Ours::open(&patient(&args.store)?, race).await?).await,
            Limiter::GetCheckIncr => {
                race.against(&naive::GetCheckIncr::open(&patient(&args.store)?, race)?).await
            }
        }
    };
    report.map_err(Failure::undecided)
}

/// The numbers of a race.
#[derive(Clone, Copy, Debug)]
struct Race {
    limit: u32,
    used: u32,
    burst: u32,
    rounds: u32,
}

impl Race {
    async fn against(self, contender: &impl Contender) -> Result<Report, RaceError> {
        let run = run_id();
        let mut admitted = Vec::new();
        for round in 0..self.rounds {
            let key = format!("race-{run}-{round}");
            contender.prepare(&key, self.used).await?;
            let passed = self.burst(contender, &key).await;
            contender.clear(&key).await?;
            admitted.push(passed?);
        }
        Ok(Report::new(contender.name(), self, &admitted))
    }

    /// All requests get ready first and are let go together: how many passed.
    async fn burst(self, contender: &impl Contender, key: &str) -> Result<u32, RaceError> {
        let gate = Arc::new(Barrier::new(usize::try_from(self.burst).unwrap_or(usize::MAX)));
        let mut racers = Vec::new();
        for _ in 0..self.burst {
            racers.push(contender.racer(key).await?);
        }
        let mut tasks = JoinSet::new();
        for racer in racers {
            let gate = Arc::clone(&gate);
            tasks.spawn(async move {
                gate.wait().await;
                racer.run().await
            });
        }
        let mut passed = 0;
        while let Some(ended) = tasks.join_next().await {
            passed += u32::from(ended.map_err(|_| RaceError::Lost)??);
        }
        Ok(passed)
    }

    /// What a burst may get through.
    fn allowed(self) -> u32 {
        (self.limit - self.used).min(self.burst)
    }
}

/// A name that no other run has, so that old counters do not disturb.
fn run_id() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", process::id(), since_epoch.as_micros())
}

/// What came of it.
#[derive(Debug, Serialize)]
struct Report {
    limiter: String,
    limit: u32,
    used: u32,
    burst: u32,
    rounds: u32,
    /// What each burst may get through.
    allowed: u32,
    admitted_least: u32,
    admitted_most: u32,
    /// Rounds in which more passed.
    over_admitted_rounds: usize,
    /// Rounds in which less passed.
    under_admitted_rounds: usize,
}

impl Report {
    fn new(limiter: String, race: Race, admitted: &[u32]) -> Self {
        let Race { limit, used, burst, rounds } = race;
        let allowed = race.allowed();
        Self {
            limiter,
            limit,
            used,
            burst,
            rounds,
            allowed,
            admitted_least: admitted.iter().min().copied().unwrap_or_default(),
            admitted_most: admitted.iter().max().copied().unwrap_or_default(),
            over_admitted_rounds: admitted.iter().filter(|passed| **passed > allowed).count(),
            under_admitted_rounds: admitted.iter().filter(|passed| **passed < allowed).count(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limiter, limit, used, burst, rounds, allowed, admitted_least, admitted_most, .. } = self;
        writeln!(f, "limiter   {limiter}")?;
        writeln!(f, "race      {burst} requests at once, {used} of {limit} used, rounds: {rounds}")?;
        writeln!(f, "allowed   {allowed}")?;
        if admitted_least == admitted_most {
            writeln!(f, "admitted  {admitted_most}")?;
        } else {
            writeln!(f, "admitted  {admitted_least} to {admitted_most}")?;
        }
        match (self.over_admitted_rounds, self.under_admitted_rounds) {
            (0, 0) => writeln!(f, "verdict   exact"),
            (0, under) => {
                writeln!(f, "verdict   never too much; less than allowed in {under} of {rounds} rounds")
            }
            (over, _) => {
                let excess = admitted_most - allowed;
                writeln!(f, "verdict   OVER-ADMITTED in {over} of {rounds} rounds, by up to {excess}")
            }
        }
    }
}
