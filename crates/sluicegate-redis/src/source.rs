//! A text that stands on a server and changes there: who has which tier.

use std::{fmt, sync::Arc, time::Duration};

use redis::{Cmd, Value};
use sluicegate::StoreError;
use tokio::sync::Notify;

use crate::{
    config::{ConfigError, RedisConfig, Servers},
    error::{failed, unreadable},
    key::config_key,
    server::{Live, Server},
};

/// How long a connection or an answer may take. No decision waits for it, and a text is larger than a decision.
const PATIENCE: Duration = Duration::from_secs(5);
/// The field that tells one text from the next.
const VERSION: &str = "version";
/// The field that holds the text.
const TEXT: &str = "assignments";

/// The assignments of a domain on a server: a hash with their `version` and their text. Whoever writes it sets both in
/// one command, and publishes anything to the channel of the same name.
///
/// It is only ever read, on a connection of its own. The text is fetched when the version is another than before, so a
/// look costs one short command.
pub struct ConfigSource {
    server: Server,
    key: String,
    max_len: usize,
    published: Arc<Notify>,
    live: Option<Live>,
    version: Option<Vec<u8>>,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server did not answer, or refused to.
    #[error(transparent)]
    Server(#[from] StoreError),
    /// The key, or a field of its hash, is not there.
    #[error("`{key}` has no field `{field}`")]
    Missing {
        /// The key.
        key: String,
        /// The field.
        field: &'static str,
    },
    /// The text is longer than anyone reads. It was not fetched.
    #[error("`{TEXT}` of `{key}` has {len} bytes, and at most {max_len} are read")]
    TooLong {
        /// The key.
        key: String,
        /// Its length, in bytes.
        len: usize,
        /// The bound.
        max_len: usize,
    },
    /// The text is not UTF-8.
    #[error("`{TEXT}` of `{0}` is not UTF-8")]
    NoText(String),
}

impl ConfigSource {
    /// The assignments of a domain, at most `max_len` bytes of them. It connects when it is read.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration cannot be used, or names a group of servers.
    pub fn new(config: &RedisConfig, domain: &str, max_len: usize) -> Result<Self, ConfigError> {
        let config = config.clone().connect_timeout(PATIENCE).response_timeout(PATIENCE);
        let Servers::One(server) = config.servers()? else { return Err(ConfigError::NotOneServer) };
        let (key, published) = (config_key(domain), Arc::default());
        Ok(Self { server, key, max_len, published, live: None, version: None })
    }

    /// Woken when something is published, on a connection that a read has made. A notice can be lost with its connection:
    /// whoever waits for one looks now and then all the same.
    pub fn published(&self) -> Arc<Notify> {
        self.published.clone()
    }

    /// The text, if its version is another than that of the text that was read last.
    ///
    /// # Errors
    /// [`SourceError`] if there is none that can be read. The next call begins anew.
    pub async fn read(&mut self) -> Result<Option<String>, SourceError> {
        let asked = self.ask(redis::cmd("HGET").arg(&self.key).arg(VERSION)).await?;
        if self.version.is_some() && bytes(asked) == self.version {
            return Ok(None);
        }
        // The length first: nothing else keeps a text of half a gigabyte out of memory.
        match self.ask(redis::cmd("HSTRLEN").arg(&self.key).arg(TEXT)).await? {
            Value::Int(len) => self.check_len(usize::try_from(len).unwrap_or(usize::MAX))?,
            _ => return Err(unreadable().with_nothing_counted().into()),
        }
        let both = self.ask(redis::cmd("HMGET").arg(&self.key).arg(VERSION).arg(TEXT)).await?;
        let Value::Array(both) = both else { return Err(unreadable().with_nothing_counted().into()) };
        let mut both = both.into_iter().map(bytes);
        let version = both.next().flatten().ok_or_else(|| self.missing(VERSION))?;
        let text = both.next().flatten().ok_or_else(|| self.missing(TEXT))?;
        let text = String::from_utf8(text).map_err(|_| SourceError::NoText(self.key.clone()))?;
        self.version = Some(version);
        Ok(Some(text))
    }

    fn check_len(&self, len: usize) -> Result<(), SourceError> {
        let (key, max_len) = (self.key.clone(), self.max_len);
        if len > max_len { Err(SourceError::TooLong { key, len, max_len }) } else { Ok(()) }
    }

    fn missing(&self, field: &'static str) -> SourceError {
        SourceError::Missing { key: self.key.clone(), field }
    }

    async fn ask(&mut self, command: &Cmd) -> Result<Value, StoreError> {
        let mut live = match self.live.take().filter(|live| !live.has_ended()) {
            Some(live) => live,
            None => self.connect().await?,
        };
        let answer = live.send(command).await;
        let answer = answer.map_err(|cause| failed(live.server(), cause).with_nothing_counted());
        self.live = Some(live);
        answer
    }

    async fn connect(&self) -> Result<Live, StoreError> {
        let mut live = self.server.connect_hearing(self.published.clone()).await?;
        let subscribed = live.subscribe(&self.key).await;
        subscribed.map_err(|cause| failed(live.server(), cause).with_nothing_counted())?;
        Ok(live)
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

impl fmt::Debug for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSource").field("key", &self.key).finish_non_exhaustive()
    }
}
