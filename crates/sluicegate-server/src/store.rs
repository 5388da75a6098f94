//! The one place that opens a store, from the words of `--store`.

use std::{fmt, str::FromStr, sync::Arc};

use sluicegate::{
    Clock, Store, StoreError, SystemClock,
    core::{Ask, Decision, LimitId, Micros, Subject},
    embedded::EmbeddedStore,
};

/// Where counts are kept, as written: `memory`.
///
/// ```
/// use sluicegate_server::store::StoreUrl;
/// assert_eq!("memory".parse(), Ok(StoreUrl::Memory));
/// assert!("etcd://localhost".parse::<StoreUrl>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreUrl {
    /// In this process.
    #[default]
    Memory,
}

/// Words that name no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no store; known are: `memory`")]
pub struct UnknownStore;

impl FromStr for StoreUrl {
    type Err = UnknownStore;

    fn from_str(text: &str) -> Result<Self, UnknownStore> {
        match text {
            "memory" => Ok(Self::Memory),
            _ => Err(UnknownStore),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// Any store that the command line can name; clones share it.
#[derive(Clone, Debug)]
pub enum AnyStore {
    /// In this process.
    Memory(Arc<EmbeddedStore>),
}

/// The clock of a store: all that share a store share its clock.
#[derive(Clone, Debug)]
pub enum AnyClock {
    /// This machine's.
    System(Arc<SystemClock>),
}

impl AnyStore {
    /// Opens a store with its clock.
    pub fn open(url: &StoreUrl) -> (Self, AnyClock) {
        match url {
            StoreUrl::Memory => {
                (Self::Memory(Arc::new(EmbeddedStore::default())), AnyClock::System(Arc::default()))
            }
        }
    }
}

impl Store for AnyStore {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => store.take(asks, now).await,
        }
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => store.peek(asks, now).await,
        }
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        match self {
            Self::Memory(store) => store.forget(id, subject).await,
        }
    }
}

impl Clock for AnyClock {
    fn now(&self) -> Micros {
        match self {
            Self::System(clock) => clock.now(),
        }
    }
}
