//! `sluicegate doctor`: the checklist of a limiter in production, gone through on the running system.

mod monitoring;
mod policies;
mod report;
mod server;
mod store;

use std::process::ExitCode;

use clap::ValueEnum;

use self::report::{Item, Report};
use super::{Failure, decide::Request, runtime, sources::Sources};
use crate::domains::DEFAULT_DOMAIN;

/// Flags of `doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// The HTTP door of a running server, such as `http://127.0.0.1:8080`: its headers and metrics are looked at.
    #[arg(long, env = "SLUICEGATE_DOCTOR_URL", value_name = "URL")]
    url: Option<String>,
    /// The Prometheus that should scrape it, such as `http://127.0.0.1:9090`.
    #[arg(long, env = "SLUICEGATE_DOCTOR_PROMETHEUS", value_name = "URL")]
    prometheus: Option<String>,
    /// A request that some limit applies to. It is looked at and not counted.
    #[command(flatten)]
    request: Request,
    /// Ends with exit code 1 if there is a warning, too.
    #[arg(long, env = "SLUICEGATE_DOCTOR_STRICT")]
    strict: bool,
    /// How the list looks.
    #[arg(long, env = "SLUICEGATE_DOCTOR_OUTPUT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Text,
    Json,
    Markdown,
}

/// Goes through the list: 0 if nothing fails, 1 if something does.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let checked = args.sources.checked()?;
    let (attributes, _costs) = args.request.read()?;
    let report = runtime()?.block_on(async {
        let mut items = store::items(&args.sources.store).await?;
        items.extend(policies::items(&checked));
        let domain = checked.first().map_or(DEFAULT_DOMAIN, |checked| checked.policy.domain());
        items.extend(server::items(args.url.as_deref(), domain, &attributes).await);
        items.extend(monitoring::items(args.prometheus.as_deref()).await);
        items.push(Item::to_do(
            "tests",
            "the tests of your service ask concurrently",
            "no machine can see that from here",
            "fire a burst at it in your pipeline: `sluicegate race --url …`",
        ));
        Ok::<_, Failure>(Report(items))
    })?;
    report.tell(args.output);
    Ok(if report.fails(args.strict) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
