//! Where the doors listen.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write, stdout},
    net::SocketAddr,
};

use tokio::net::TcpListener;

use super::Failure;
use crate::listen::{Listen, Listener};

/// Flags that say which doors there are, and where.
#[derive(Debug, clap::Args)]
pub(super) struct ListenArgs {
    /// Where the HTTP door listens; port 0 takes a free one.
    #[arg(long, env = "SLUICEGATE_HTTP", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    http: SocketAddr,
    /// Where the gRPC door listens, which answers Envoy's rate limit service: `ADDR` or `unix:/path`; without this flag there
    /// is none. `--grpc` alone is `127.0.0.1:8081`.
    #[arg(
        long, env = "SLUICEGATE_GRPC", value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:8081"
    )]
    grpc: Option<Listen>,
    /// Where the Redis door listens, which answers `CL.THROTTLE`, `SG.TAKE` and `SG.PEEK`; without this flag there is
    /// none. `--resp` alone is `127.0.0.1:6380`.
    #[arg(
        long, env = "SLUICEGATE_RESP", value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:6380"
    )]
    resp: Option<SocketAddr>,
    /// Where the admin door listens, which needs `--admin-token-file` or `--admin-token`; without this flag there is none.
    /// `--admin` alone is `127.0.0.1:8082`.
    #[arg(
        long, env = "SLUICEGATE_ADMIN", value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:8082"
    )]
    admin: Option<SocketAddr>,
}

/// The listeners of the doors.
pub(super) struct Listeners {
    pub(super) http: TcpListener,
    pub(super) grpc: Option<Listener>,
    pub(super) resp: Option<TcpListener>,
    pub(super) admin: Option<TcpListener>,
}

impl ListenArgs {
    /// Begins to listen.
    pub(super) async fn bind(&self) -> Result<Listeners, Failure> {
        let http = bind("--http", self.http).await?;
        let grpc = match &self.grpc {
            None => None,
            Some(address) => {
                let bound = Listener::bind(address).await;
                Some(bound.map_err(|error| cannot_listen("--grpc", address, &error))?)
            }
        };
        let resp = bind_maybe("--resp", self.resp).await?;
        Ok(Listeners { http, grpc, resp, admin: bind_maybe("--admin", self.admin).await? })
    }
}

impl Listeners {
    /// Says on standard output where each door listens: the lines that scripts wait for. The HTTP door's is the first.
    pub(super) fn announce(&self, encrypted: bool) {
        let [http, grpc, redis] =
            if encrypted { ["https", "grpcs", "rediss"] } else { ["http", "grpc", "redis"] };
        announce(http, self.http.local_addr());
        if let Some(listener) = &self.grpc {
            announce(grpc, listener.address());
        }
        if let Some(listener) = &self.resp {
            announce(redis, listener.local_addr());
        }
        if let Some(listener) = &self.admin {
            announce("admin", listener.local_addr());
        }
    }
}

async fn bind_maybe(flag: &str, address: Option<SocketAddr>) -> Result<Option<TcpListener>, Failure> {
    match address {
        Some(address) => bind(flag, address).await.map(Some),
        None => Ok(None),
    }
}

async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| cannot_listen(flag, address, &error))
}

fn cannot_listen(flag: &str, address: impl Display, error: &io::Error) -> Failure {
    let problem = Failure::undecided(format!("cannot listen on `{address}`: {error}"));
    match error.kind() {
        ErrorKind::AddrInUse => {
            problem.hint(format!("another process holds it; `{flag} 127.0.0.1:0` takes a free port"))
        }
        ErrorKind::PermissionDenied => problem.hint("ports below 1024 are for root; take a higher one"),
        _ => problem.hint("take an address of this machine, such as `127.0.0.1:8080`"),
    }
}

fn announce(scheme: &str, address: io::Result<impl Display>) {
    if let Ok(address) = address {
        // Nobody may be reading; the door serves all the same.
        let _ = writeln!(stdout(), "listening on {scheme}://{address}");
    }
}
