//! The one place that opens a store, from the words of `--store`.

use std::{fmt, str::FromStr, sync::Arc};

use sluicegate::{
    Clock, Store, StoreError, SystemClock,
    core::{Ask, Decision, LimitId, Micros, Subject},
    embedded::EmbeddedStore,
};
use sluicegate_redis::{ConfigError, RedisClock, RedisConfig, RedisStore};

/// Where counts are kept, as written: `memory`, or the URL of Redis.
///
/// ```
/// use sluicegate_server::store::StoreUrl;
/// assert!(matches!("memory".parse(), Ok(StoreUrl::Memory)));
/// let redis: StoreUrl = "redis://limiter:secret@127.0.0.1:6380/3".parse()?;
/// assert_eq!(redis.to_string(), "redis://127.0.0.1:6380/3");
/// assert!("etcd://localhost".parse::<StoreUrl>().is_err());
/// # Ok::<(), sluicegate_server::store::UnknownStore>(())
/// ```
#[derive(Clone, Debug, Default)]
pub enum StoreUrl {
    /// In this process.
    #[default]
    Memory,
    /// On Redis: one server, the master of a group, or a cluster. Displayed without its password.
    Redis(Box<RedisConfig>),
}

/// Words that name no store. The words themselves are not repeated: they may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum UnknownStore {
    /// No kind of store is written like that.
    #[error(
        "this is no store; known are `memory`, `redis://…`, `rediss://…`, `unix://…`, `redis+sentinel://…` and \
         `redis+cluster://…`"
    )]
    Scheme,
    /// A Redis whose address cannot be read.
    #[error(transparent)]
    Redis(#[from] ConfigError),
}

/// How the URL of a Redis server begins.
const REDIS_SCHEMES: [&str; 8] = [
    "redis://",
    "rediss://",
    "unix://",
    "redis+unix://",
    "redis+sentinel://",
    "rediss+sentinel://",
    "redis+cluster://",
    "rediss+cluster://",
];

impl FromStr for StoreUrl {
    type Err = UnknownStore;

    fn from_str(text: &str) -> Result<Self, UnknownStore> {
        if text == "memory" {
            Ok(Self::Memory)
        } else if REDIS_SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            Ok(Self::Redis(Box::new(RedisConfig::from_url(text)?)))
        } else {
            Err(UnknownStore::Scheme)
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis(config) => config.fmt(f),
        }
    }
}

/// Any store that the command line can name; clones share it.
#[derive(Clone, Debug)]
pub enum AnyStore {
    /// In this process.
    Memory(Arc<EmbeddedStore>),
    /// On a Redis server.
    Redis(RedisStore),
}

/// The clock of a store: all that share a store share its clock.
#[derive(Clone, Debug)]
pub enum AnyClock {
    /// This machine's.
    System(Arc<SystemClock>),
    /// A Redis server's, as this process knows it.
    Redis(RedisClock),
}

impl AnyStore {
    /// Opens a store with its clock. A server that does not answer yet is no error: the store connects when asked,
    /// and the clock tells this machine's time until it has heard the server's.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration cannot be used.
    pub async fn open(url: &StoreUrl) -> Result<(Self, AnyClock), ConfigError> {
        let StoreUrl::Redis(config) = url else {
            let store = Arc::new(EmbeddedStore::default());
            return Ok((Self::Memory(store), AnyClock::System(Arc::default())));
        };
        let clock = RedisClock::start(config)?;
        if let Err(error) = clock.sync().await {
            let error = crate::causes::with_causes(&error);
            tracing::warn!(error, store = %url, "the store cannot be used yet: until it can, requests pass uncounted");
        }
        let store = RedisStore::open(config)?.with_clock(clock.clone());
        Ok((Self::Redis(store), AnyClock::Redis(clock)))
    }
}

impl Store for AnyStore {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => store.take(asks, now).await,
            Self::Redis(store) => store.take(asks, now).await,
        }
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => store.peek(asks, now).await,
            Self::Redis(store) => store.peek(asks, now).await,
        }
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        match self {
            Self::Memory(store) => store.forget(id, subject).await,
            Self::Redis(store) => store.forget(id, subject).await,
        }
    }
}

impl Clock for AnyClock {
    fn now(&self) -> Micros {
        match self {
            Self::System(clock) => clock.now(),
            Self::Redis(clock) => clock.now(),
        }
    }
}
