//! `sluicegate serve`: the doors, until a signal ends them.

use std::{
    io::{ErrorKind, Write, stdout},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use super::{Failure, sources::Sources};
use crate::{
    causes::with_causes,
    http::{self, Door, DoorConfig, Families, HeaderStyle, Reset},
};

/// Flags of `serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Where the HTTP door listens; port 0 takes a free one.
    #[arg(long, env = "SLUICEGATE_HTTP", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    http: SocketAddr,
    /// The most connections that the HTTP door holds at once; further ones wait in the listen queue.
    #[arg(long, env = "SLUICEGATE_MAX_CONNECTIONS", default_value = "10000", value_name = "N")]
    max_connections: u32,
    /// How long to go on serving after a stop signal turned `/readyz` red, in ms, so that load balancers notice.
    #[arg(long, env = "SLUICEGATE_DRAIN_MS", default_value = "0", value_name = "MS")]
    drain_ms: u32,
    /// Families of rate limit headers to send: `ietf`, `x-ratelimit`, both with a comma, or `none`.
    #[arg(long, env = "SLUICEGATE_HEADERS", default_value = "ietf,x-ratelimit", value_name = "FAMILIES")]
    headers: Families,
    /// What `X-RateLimit-Reset` counts: seconds since the epoch, or from now.
    #[arg(long, env = "SLUICEGATE_RESET", default_value = "epoch")]
    reset: Reset,
}

/// Serves until SIGTERM or SIGINT; requests in flight are answered before the process ends.
pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    super::runtime()?.block_on(serve(args))
}

async fn serve(args: Args) -> Result<ExitCode, Failure> {
    let style = HeaderStyle { families: args.headers, reset: args.reset };
    let door = Door::new(args.sources.open().await?, DoorConfig { headers: style, ..DoorConfig::default() });
    let listener = TcpListener::bind(args.http).await.map_err(|error| {
        Failure::undecided(format!("cannot listen on `{}`: {error}", args.http)).hint(match error.kind() {
            ErrorKind::AddrInUse => "another process holds the port; `--http 127.0.0.1:0` takes a free one",
            ErrorKind::PermissionDenied => "ports below 1024 are for root; take a higher one",
            _ => "take an address of this machine, such as `127.0.0.1:8080`",
        })
    })?;
    let stop = stop_signal().map_err(|error| Failure::undecided(with_causes(&error)))?;
    announce(&listener);
    let config = http::Config {
        max_connections: args.max_connections,
        drain: Duration::from_millis(args.drain_ms.into()),
        write_timeout: http::Config::WRITE_TIMEOUT,
    };
    http::serve(listener, Arc::new(door), config, stop).await;
    Ok(ExitCode::SUCCESS)
}

/// Says on standard output where the door listens: the one line that scripts wait for.
fn announce(listener: &TcpListener) {
    if let Ok(address) = listener.local_addr() {
        // Nobody may be reading; the door serves all the same.
        let _ = writeln!(stdout(), "listening on http://{address}");
    }
}

/// Ends at the first SIGTERM or SIGINT. The handlers are in place when this returns.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
