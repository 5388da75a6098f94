//! Where it stands who has which tier: a file, or a server that is heard over the network.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluicegate::core::policy::MAX_FILE_LEN;
use sluicegate_redis::{ConfigSource, RedisConfig};
use tokio::{sync::Notify, time::timeout};

use super::{Failure, kept::Kept, sources::Unread};
use crate::{
    causes::with_causes,
    domains::DEFAULT_DOMAIN,
    postgres::{self, PostgresUrl},
};

/// How often a server is asked when it publishes nothing: notices get lost with connections.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where assignments come from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// A file.
    File(PathBuf),
    /// A server.
    Remote(Arc<Remote>),
}

impl Origin {
    /// Reads the words of `--config-source`, which may hold a password and are not repeated.
    pub(super) fn parse(words: &Unread) -> Result<Self, Failure> {
        let words = words.0.as_str();
        if let Some(path) = words.strip_prefix("file:").filter(|path| !path.is_empty()) {
            return Ok(Self::File(PathBuf::from(path)));
        }
        let is = |schemes: [&str; 2]| schemes.iter().any(|scheme| words.starts_with(scheme));
        let remote = match () {
            () if is(["redis://", "rediss://"]) => Remote::redis(words)?,
            () if is(["postgres://", "postgresql://"]) => Remote::postgres(words)?,
            () => return Err(unknown()),
        };
        Ok(Self::Remote(Arc::new(remote)))
    }
}

impl fmt::Display for Origin {
    /// As `--config-source` has it, without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Remote(remote) => f.write_str(&remote.name),
        }
    }
}

fn unknown() -> Failure {
    Failure::usage(
        "`--config-source` names no source; known are `file:PATH`, `redis://…`, `rediss://…` and `postgres://…`",
    )
}

/// Who is asked.
#[derive(Debug)]
enum Source {
    Redis(ConfigSource),
    Postgres(postgres::Source),
}

impl Source {
    /// The text, if it is another than the one before; else why there is none.
    async fn read(&mut self) -> Result<Option<String>, String> {
        match self {
            Self::Redis(source) => source.read().await.map_err(|error| with_causes(&error)),
            Self::Postgres(source) => source.read().await.map_err(|error| with_causes(&error)),
        }
    }
}

/// A server as it was heard last. Nothing waits for it: while it is down, what it said last is what it says.
#[derive(Debug)]
pub(super) struct Remote {
    /// Its URL, without a password.
    pub(super) name: String,
    /// The domain whose assignments it has.
    pub(super) domain: String,
    source: tokio::sync::Mutex<Source>,
    published: Arc<Notify>,
    heard: Mutex<Heard>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Heard {
    text: Option<String>,
    problem: Option<String>,
    /// The copy that the text is from, until the server has been heard.
    copy: Option<String>,
}

impl Remote {
    fn redis(words: &str) -> Result<Self, Failure> {
        let (url, domain) = words.split_once("?domain=").unwrap_or((words, DEFAULT_DOMAIN));
        let config = RedisConfig::from_url(url).map_err(|error| Failure::usage(with_causes(&error)))?;
        let source = ConfigSource::new(&config, domain, MAX_FILE_LEN);
        let source = source.map_err(|error| Failure::usage(with_causes(&error)))?;
        let published = source.published();
        let name = format!("{config}?domain={domain}");
        Ok(Self::new(name, domain.to_owned(), Source::Redis(source), published))
    }

    fn postgres(words: &str) -> Result<Self, Failure> {
        let url: PostgresUrl = words.parse().map_err(|error| Failure::usage(with_causes(&error)))?;
        let (name, domain) = (url.to_string(), url.domain.clone());
        let source = postgres::Source::new(url, MAX_FILE_LEN);
        let told = source.told();
        Ok(Self::new(name, domain, Source::Postgres(source), told))
    }

    fn new(name: String, domain: String, source: Source, published: Arc<Notify>) -> Self {
        let source = tokio::sync::Mutex::new(source);
        Self { name, domain, source, published, heard: Mutex::default(), changed: Notify::new() }
    }

    /// Asks the server now.
    pub(super) async fn look(&self) {
        let read = self.source.lock().await.read().await;
        let mut heard = self.heard();
        heard.problem = read.as_ref().err().map(|error| format!("`{}`: {error}", self.name));
        if let Ok(Some(text)) = read {
            (heard.text, heard.copy) = (Some(text), None);
            self.changed.notify_one();
        }
    }

    /// Takes a copy for what the server would say, if it has not been heard yet and there is one.
    pub(super) fn suppose(&self, kept: &Kept) {
        let mut heard = self.heard();
        if heard.text.is_some() {
            return;
        }
        let (file, problem) = (kept.0.display().to_string(), heard.problem.clone());
        match kept.read() {
            Ok(text) => {
                tracing::warn!(
                    problem,
                    file,
                    "the assignments cannot be heard: those that were kept hold until they are"
                );
                (heard.text, heard.copy) = (Some(text), Some(file));
            }
            Err(error) => tracing::error!(%error, file, "there are no assignments that were kept"),
        }
    }

    /// Where its text is from.
    pub(super) fn speaker(&self) -> String {
        self.heard().copy.clone().unwrap_or_else(|| self.name.clone())
    }

    /// Asks for ever: when something is published, and now and then.
    pub(super) async fn listen(&self) {
        loop {
            // Either way it is time to ask.
            let _elapsed = timeout(LOOK_EVERY, self.published.notified()).await;
            self.look().await;
        }
    }

    /// Waits until the server has said something new.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What it said last.
    pub(super) fn text(&self) -> Option<String> {
        self.heard().text.clone()
    }

    /// Why it could not be heard, if the last try failed.
    pub(super) fn problem(&self) -> Option<String> {
        let heard = self.heard();
        let problem = heard.problem.clone()?;
        Some(match &heard.copy {
            Some(file) => format!("{problem}; the assignments are those kept in `{file}`"),
            None => problem,
        })
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
