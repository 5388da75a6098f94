//! The one place that opens a store, from the words of `--store`.

use std::{fmt, str::FromStr, sync::Arc};

use prometheus_client::metrics::histogram::Histogram;
use sluicegate::{
    Clock, Once, Reason, Settled, Store, StoreError, SureStore, SystemClock, Verb,
    core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject},
    embedded::EmbeddedStore,
    guard::{GuardConfig, Guarded, Membership},
};
use sluicegate_redis::{ConfigError, Finding, RedisCause, RedisClock, RedisConfig, RedisStore};

use crate::metrics::Timed;

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

/// A store that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Redis is there, and refuses the user, the password or the database. Waiting does not help, and a limiter that
    /// was started all the same would let everything pass.
    #[error(transparent)]
    Refused(StoreError),
}

impl OpenError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Config(_) => None,
            Self::Refused(error) => cause(error)?.hint(),
        }
    }
}

impl AnyStore {
    /// Opens a store with its clock. A server that does not answer yet is no error: the store connects when asked,
    /// and the clock tells this machine's time until it has heard the server's.
    ///
    /// # Errors
    /// [`OpenError`] if the store could not be used however long one waited.
    pub async fn open(url: &StoreUrl) -> Result<(Self, AnyClock), OpenError> {
        let StoreUrl::Redis(config) = url else {
            let store = Arc::new(EmbeddedStore::default());
            return Ok((Self::Memory(store), AnyClock::System(Arc::default())));
        };
        let clock = RedisClock::start(config)?;
        if let Err(error) = clock.sync().await {
            if cause(&error).is_some_and(RedisCause::refuses_user) {
                return Err(OpenError::Refused(error));
            }
            let error = crate::causes::with_causes(&error);
            tracing::warn!(error, store = %url, "the store cannot be used yet");
        }
        let store = RedisStore::open(config)?.with_clock(clock.clone());
        Ok((Self::Redis(store), AnyClock::Redis(clock)))
    }

    /// Warns of what is not as it should be about a Redis, once each.
    pub async fn inspect(&self, clock: &AnyClock) {
        let Self::Redis(store) = self else { return };
        let apart = SystemClock::new().now().as_u64().abs_diff(clock.now().as_u64());
        if apart > MAX_APART_US {
            let apart_ms = apart / 1_000;
            tracing::warn!(apart_ms, "this machine's clock and that of redis differ; that of redis holds");
        }
        match store.inspect(clock.now()).await {
            Ok(findings) => findings.iter().for_each(tell),
            // Whether it can be reached has been said already.
            Err(error) => {
                tracing::debug!(error = crate::causes::with_causes(&error), "redis cannot be inspected");
            }
        }
    }
}

/// How far a machine's clock may be from that of Redis before someone is told, in microseconds. Nothing is decided by it,
/// but its logs and its neighbours' say other times.
const MAX_APART_US: u64 = 2_000_000;

fn tell(finding: &Finding) {
    let hint = finding.hint();
    if *finding == Finding::EvictionUnknown {
        tracing::info!(hint, "{finding}");
    } else {
        tracing::warn!(hint, "{finding}");
    }
}

fn cause(error: &StoreError) -> Option<&RedisCause> {
    std::error::Error::source(error)?.downcast_ref()
}

impl Store for AnyStore {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => store.take(asks, now).await,
            Self::Redis(store) => store.take(asks, now).await,
        }
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        match self {
            Self::Memory(store) => store.take_once(id, asks, now).await,
            Self::Redis(store) => store.take_once(id, asks, now).await,
        }
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        match self {
            Self::Memory(store) => store.peek(asks, now).await,
            Self::Redis(store) => store.peek(asks, now).await,
        }
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        match self {
            Self::Memory(store) => store.settle(id, charges, now).await,
            Self::Redis(store) => store.settle(id, charges, now).await,
        }
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        match self {
            Self::Memory(store) => store.forget(id, subject).await,
            Self::Redis(store) => store.forget(id, subject).await,
        }
    }
}

/// The store of a server: it always decides.
#[derive(Clone, Debug)]
pub enum ServedStore {
    /// In this process, where nothing stands between a decision and its state.
    Memory(Arc<EmbeddedStore>),
    /// On Redis, and by each limit's own rule while that does not answer.
    Redis(Guarded<Timed<RedisStore>>),
}

/// How a store over a network is. On the embedded store all is well.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// The thousandths of all keys that the store decides about.
    pub share_permille: u16,
    /// How often the breaker has opened.
    pub openings: u64,
    /// The decisions that wait for the store.
    pub in_flight: usize,
    fallbacks: [u64; Reason::ALL.len()],
}

impl Health {
    const WELL: Self =
        Self { share_permille: 1_000, openings: 0, in_flight: 0, fallbacks: [0; Reason::ALL.len()] };

    /// The decisions that were made without the store, by why.
    pub fn fallbacks(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.fallbacks)
    }
}

impl ServedStore {
    /// The store with what guards it, for an instance with that place in its fleet.
    pub fn of(store: AnyStore, membership: Arc<Membership>, config: GuardConfig) -> Self {
        match store {
            AnyStore::Memory(store) => Self::Memory(store),
            AnyStore::Redis(store) => Self::Redis(Guarded::new(Timed::new(store), membership, config)),
        }
    }

    /// How the store is by now.
    pub fn health(&self) -> Health {
        let Self::Redis(store) = self else { return Health::WELL };
        Health {
            share_permille: store.breaker().open_to_permille(),
            openings: store.breaker().openings(),
            in_flight: store.in_flight(),
            fallbacks: Reason::ALL.map(|reason| store.fallbacks(reason)),
        }
    }

    /// How long decisions waited for a store over a network.
    pub(crate) fn latency(&self) -> Option<Histogram> {
        let Self::Redis(store) = self else { return None };
        Some(store.store().latency().clone())
    }
}

impl SureStore for ServedStore {
    async fn decide_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Once {
        match self {
            Self::Memory(store) => store.decide_once(id, asks, now).await,
            Self::Redis(store) => Box::pin(store.decide_once(id, asks, now)).await,
        }
    }

    async fn decide(&self, verb: Verb, asks: &[Ask<'_>], now: Micros) -> Decision {
        match self {
            Self::Memory(store) => store.decide(verb, asks, now).await,
            Self::Redis(store) => Box::pin(store.decide(verb, asks, now)).await,
        }
    }
}

impl Store for ServedStore {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.decide(Verb::Take, asks, now).await)
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        Ok(self.decide_once(id, asks, now).await)
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.decide(Verb::Peek, asks, now).await)
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        match self {
            Self::Memory(store) => store.settle(id, charges, now).await,
            Self::Redis(store) => store.settle(id, charges, now).await,
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
