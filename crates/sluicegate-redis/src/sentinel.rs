//! The master of a group, as its sentinels tell.

use std::{collections::HashSet, fmt, sync::Arc};

use redis::Value;
use tokio::task::JoinSet;

use crate::{
    error::Unreachable,
    server::{Live, Server},
};

/// Sentinels of one group, and how to speak to the master that they name.
pub(crate) struct Sentinels {
    pub(crate) watchers: Vec<Server>,
    /// What the sentinels call the master.
    pub(crate) name: Arc<str>,
    /// The master, but for its address.
    pub(crate) master: Server,
}

/// What one attempt came to.
enum Found {
    /// A sentinel named this address.
    Named(String, u16),
    /// The server there is a master.
    Master(Live),
}

impl Sentinels {
    /// Connects to the master, within the connect timeout.
    ///
    /// All sentinels are asked at once, since one that hangs must not use up the time, and every address that any of
    /// them names is tried: for a moment after a failover they differ, and the old master may be the first to be named.
    /// A server that does not say of itself that it is a master is none.
    pub(crate) async fn connect(&self) -> Result<Live, Unreachable> {
        let searching = tokio::time::timeout(self.master.connect_timeout, self.search());
        searching.await.unwrap_or_else(|_elapsed| Err(self.silent()))
    }

    async fn search(&self) -> Result<Live, Unreachable> {
        let mut attempts = JoinSet::new();
        for sentinel in &self.watchers {
            attempts.spawn(ask(sentinel.clone(), self.name.clone()));
        }
        let (mut tried, mut failure) = (HashSet::new(), None::<Unreachable>);
        while let Some(attempt) = attempts.join_next().await {
            match attempt {
                Ok(Ok(Found::Master(live))) => return Ok(live),
                Ok(Ok(Found::Named(host, port))) => {
                    if tried.insert((host.clone(), port)) {
                        attempts.spawn(try_master(self.master.at(&host, port)));
                    }
                }
                // Of several reasons the one of a server that was reached tells the most.
                Ok(Err(other)) => failure = Some(failure.filter(Unreachable::was_reached).unwrap_or(other)),
                // An attempt that panicked found nothing.
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| self.silent()))
    }

    fn silent(&self) -> Unreachable {
        Unreachable::for_reason(&self.to_string(), "no sentinel led to a master in time")
    }
}

/// Where a sentinel says that the master is.
async fn ask(sentinel: Server, name: Arc<str>) -> Result<Found, Unreachable> {
    let mut live = sentinel.connect().await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name.as_ref());
    let answer = live.send(&question).await;
    let address = answer.and_then(|answer| Ok(redis::from_redis_value::<Option<(String, u16)>>(answer)?));
    match address.map_err(|cause| Unreachable::new(&sentinel.to_string(), cause))? {
        Some((host, port)) => Ok(Found::Named(host, port)),
        None => {
            Err(Unreachable::for_reason(&sentinel.to_string(), "the sentinel knows no master of that name"))
        }
    }
}

async fn try_master(server: Server) -> Result<Found, Unreachable> {
    let mut live = server.connect().await?;
    let role = live.send(&redis::cmd("ROLE")).await;
    let role = role.map_err(|cause| Unreachable::new(&server.to_string(), cause))?;
    if is_master(&role) {
        return Ok(Found::Master(live));
    }
    Err(Unreachable::for_reason(&server.to_string(), "the sentinels named it, and it is no master"))
}

/// ROLE's reply begins with the role.
fn is_master(role: &Value) -> bool {
    let Value::Array(parts) = role else { return false };
    matches!(parts.first(), Some(Value::BulkString(role)) if role == b"master")
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (master of `{}`)", list(&self.watchers), self.name)
    }
}

/// Addresses with commas between them.
pub(crate) fn list(servers: &[Server]) -> String {
    let addresses: Vec<String> = servers.iter().map(Server::to_string).collect();
    addresses.join(",")
}
