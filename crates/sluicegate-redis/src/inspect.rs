//! A look at the server before it is relied on: what would show later, at a bad moment, is said at once.

use std::{collections::HashMap, fmt, time::Duration};

use redis::{Cmd, Value};
use sluicegate::{
    Store, StoreError,
    core::{Align, Ask, LimitId, Micros, Rule, Subject},
};

use crate::{
    connection::Call,
    error::{RedisCause, unreadable},
    key::CONFIG_PREFIX,
    script,
    store::RedisStore,
    topology::Slot,
};

/// Something about the server that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Keys are freed when memory is short: a limit whose key is freed begins anew.
    Evicts(String),
    /// The user has no right to ask whether keys are freed.
    EvictionUnknown,
    /// The user lacks a right that decisions need, as the server says.
    LacksRight(String),
}

impl Finding {
    /// What someone who runs the server can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Evicts(_) => "set `maxmemory-policy noeviction`",
            Self::EvictionUnknown => "give the user `+info`, or make sure of `maxmemory-policy noeviction`",
            Self::LacksRight(_) => "docs/operating/redis.md lists the rights that the user needs",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts(policy) => {
                write!(f, "redis frees keys when memory is short (`{policy}`), and their limits begin anew")
            }
            Self::EvictionUnknown => {
                f.write_str("redis does not say whether it frees keys when memory is short")
            }
            Self::LacksRight(said) => write!(f, "the user of redis lacks a right: {said}"),
        }
    }
}

/// What was found among the keys of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The keys of this program that were looked at.
    pub keys: usize,
    /// Those without an expiry.
    pub without_expiry: Vec<String>,
}

impl RedisStore {
    /// Looks for keys of this program that have no expiry, at most so many of a server (of a cluster: one node), and
    /// goes on between other calls: nothing waits for it.
    ///
    /// # Errors
    /// [`StoreError`] if the server cannot be asked, or its user may not ask for keys.
    pub async fn survey(&self, most: usize) -> Result<Survey, StoreError> {
        let (mut cursor, mut survey) = ("0".to_owned(), Survey::default());
        loop {
            let page = redis::cmd("SCAN").arg(&cursor).arg(&["MATCH", "sg1:*", "COUNT", "200"]).to_owned();
            let page = self.command(&page).await?;
            let (next, keys): (String, Vec<String>) =
                redis::from_redis_value(page).map_err(|_| unreadable())?;
            for key in keys {
                let left = self.command(redis::cmd("PTTL").arg(&key)).await?;
                survey.keys += 1;
                // -1 is without expiry, -2 is gone meanwhile. What an operator wrote for good is no count.
                if left == Value::Int(-1) && !key.starts_with(CONFIG_PREFIX) {
                    survey.without_expiry.push(key);
                }
            }
            cursor = next;
            if cursor == "0" || survey.keys >= most {
                return Ok(survey);
            }
        }
    }

    /// What a server says of how it keeps its data: a field of `INFO persistence`.
    ///
    /// # Errors
    /// [`StoreError`] if the server cannot be asked, or its user may not ask for it.
    pub async fn persistence(&self, name: &str) -> Result<Option<String>, StoreError> {
        let info = self.command(redis::cmd("INFO").arg("persistence")).await.and_then(text)?;
        Ok(field(&info, &format!("{name}:")))
    }

    /// Looks whether the server (of a cluster: one node) keeps keys, and whether its user may do what decisions need. To
    /// find out it counts once for a subject that no policy can name, and forgets that again.
    ///
    /// # Errors
    /// [`StoreError`] if the server cannot be asked.
    pub async fn inspect(&self, now: Micros) -> Result<Vec<Finding>, StoreError> {
        let mut findings = Vec::new();
        if let Err(error) = self.rehearse(now).await {
            findings.push(Finding::LacksRight(missing_right(error)?));
        }
        findings.extend(self.eviction().await?);
        Ok(findings)
    }

    /// Every kind of call that decisions make, once. The clock asks for the time by itself.
    async fn rehearse(&self, now: Micros) -> Result<(), StoreError> {
        self.ping().await?;
        // A server that has the scripts already would not be asked whether they may be loaded.
        self.command(redis::cmd("SCRIPT").arg("LOAD").arg(script::FORGET)).await?;
        let rule = Rule::fixed_window(u64::from(u16::MAX), Duration::from_secs(1), Align::Epoch);
        let Ok(rule) = rule else { return Ok(()) };
        let id = LimitId::of("probe", &rule);
        // No domain has an empty name.
        let subject = |name| Subject::new("", &[("probe", None)], &[(name, None)]);
        let asks = ["a", "b"].map(|name| Ask::new(&rule, id, subject(name), 1));
        self.take(&asks, now).await?;
        self.peek(&asks, now).await?;
        for ask in &asks {
            self.forget(id, &ask.subject).await?;
        }
        Ok(())
    }

    async fn eviction(&self) -> Result<Option<Finding>, StoreError> {
        let info = self.command(redis::cmd("INFO").arg("memory")).await.and_then(text);
        let told = match info {
            Ok(info) => field(&info, "maxmemory_policy:"),
            Err(error) => {
                missing_right(error)?;
                let config = self.command(redis::cmd("CONFIG").arg("GET").arg("maxmemory-policy")).await;
                match config {
                    Ok(config) => redis::from_redis_value::<HashMap<String, String>>(config)
                        .ok()
                        .and_then(|mut told| told.remove("maxmemory-policy")),
                    Err(error) => missing_right(error).map(|_said| None)?,
                }
            }
        };
        Ok(match told {
            None => Some(Finding::EvictionUnknown),
            Some(policy) if policy == "noeviction" => None,
            Some(policy) => Some(Finding::Evicts(policy)),
        })
    }

    async fn command(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.servers.run(Slot::FIRST, Call::of(command)).await.map_err(StoreError::with_nothing_counted)
    }
}

/// What the server said about a right that is missing; any other error is one.
fn missing_right(error: StoreError) -> Result<String, StoreError> {
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<RedisCause>());
    match cause.filter(|cause| cause.lacks_right()) {
        Some(cause) => Ok(cause.to_string()),
        None => Err(error),
    }
}

fn field(info: &str, name: &str) -> Option<String> {
    info.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

fn text(value: Value) -> Result<String, StoreError> {
    redis::from_redis_value(value).map_err(|_not_text| unreadable())
}
