//! Which server a call goes to.

use redis::Value;
use sluicegate::StoreError;

use crate::{
    cluster::{Cluster, slot_of},
    config::{ConfigError, RedisConfig, Servers},
    connection::{Call, Connection, Target},
    sentinel::Sentinels,
};

/// The part of the keys that one server decides on in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u16);

impl Slot {
    /// The one slot of a store that is not split; on a cluster, the slot whose server's clock is everyone's.
    pub(crate) const FIRST: Self = Self(0);
}

/// The servers of a store.
#[derive(Debug)]
pub(crate) enum Topology {
    /// One server at a time holds all keys.
    One(Box<Connection>),
    /// Each node of a cluster holds the keys of some slots.
    Cluster(Box<Cluster>),
}

impl Topology {
    /// # Errors
    /// [`ConfigError`] if the configuration cannot be used.
    pub(crate) fn of(config: &RedisConfig) -> Result<Self, ConfigError> {
        let servers = config.servers()?;
        Ok(match servers {
            Servers::One(server) => Self::One(Box::new(Connection::new(Target::Server(Box::new(server))))),
            Servers::Sentinels { sentinels, name, master } => {
                let group = Sentinels { watchers: sentinels, name, master };
                Self::One(Box::new(Connection::new(Target::Master(Box::new(group)))))
            }
            Servers::Cluster { first, seeds } => Self::Cluster(Box::new(Cluster::new(first, &seeds))),
        })
    }

    /// The slot of a key: calls of one slot are decided in one step.
    pub(crate) fn slot(&self, key: &str) -> Slot {
        match self {
            Self::One(_) => Slot::FIRST,
            Self::Cluster(_) => slot_of(key),
        }
    }

    /// One call to the server of a slot, which must be the slot of all its keys. It is sent at most once, but for
    /// answers that say that nothing has run.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer that the server stands by.
    pub(crate) async fn run(&self, slot: Slot, call: Call<'_>) -> Result<Value, StoreError> {
        match self {
            Self::One(connection) => connection.run(call).await,
            // Boxed: every call would carry the future of the rarer way.
            Self::Cluster(cluster) => Box::pin(cluster.run(slot, call)).await,
        }
    }
}
