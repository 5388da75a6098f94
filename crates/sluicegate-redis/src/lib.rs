//! The Redis store: one script call per request, exact for any number of processes.
//!
//! All limits that count by the same subject share one record, which a script reads, decides on and writes in one
//! atomic step. Lua gives the verdict; the numbers of the answer are computed here, by the same arithmetic as on every
//! other store, from the record that the script replies with. How keys and records look: `docs/reference/keys.md`.
//!
//! ```no_run
//! use sluicegate_redis::{RedisClock, RedisConfig, RedisStore};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = RedisConfig::from_url("redis://limiter:secret@127.0.0.1:6379/3")?;
//! let clock = RedisClock::start(&config)?;
//! clock.sync().await?;
//! let store = RedisStore::open(&config)?.with_clock(clock.clone());
//! // A `Limiter` over `store` and `clock` decides like any other limiter on the same server.
//! # Ok(())
//! # }
//! ```

mod attempt;
mod clock;
mod cluster;
mod config;
mod connection;
mod error;
mod estimate;
mod fleet;
mod flight;
mod gather;
mod inspect;
mod key;
mod login;
mod number;
mod once;
mod packed;
mod record;
pub mod script;
mod sentinel;
mod server;
mod settle;
mod source;
mod split;
mod store;
mod straight;
mod topology;
mod url;

pub use clock::RedisClock;
pub use config::{ConfigError, RedisConfig};
pub use error::RedisCause;
pub use fleet::{Fleet, MAX_INSTANCES};
pub use inspect::{Finding, Survey};
pub use key::{id_key, record_key};
pub use login::{RedisLogin, login_record};
pub use record::{Malformed, Record};
pub use source::{ConfigSource, SourceError};
pub use store::{MAX_ASKS, RedisStore};
