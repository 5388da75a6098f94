//! Whether the server has known guesses for long enough to be believed.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::Value;
use sluicegate::{StoreError, core::Micros};

use crate::{connection::Call, key::LOGIN_SINCE_KEY, topology::Topology};

/// How long a server that knew nothing is doubted, in milliseconds: a quarter of an hour.
const DOUBTED_MS: u64 = 900_000;
/// How often the server is asked, in milliseconds.
const ASK_EVERY_MS: u64 = 1_000;
/// How long the key lives, in seconds. It is written anew by the first who does not find it, so that once in that time
/// strangers are challenged for a quarter of an hour.
const LIFETIME_S: u64 = 365 * 86_400;

/// When the server was last asked, and what it said.
#[derive(Debug, Default)]
pub(super) struct Since {
    asked_at: AtomicU64,
    since: AtomicU64,
}

impl Since {
    /// Whether the server has known guesses for less than a quarter of an hour. The first to find nothing writes when that
    /// was, so that all instances doubt for as long.
    pub(super) async fn is_new(&self, servers: &Topology, now: Micros) -> Result<bool, StoreError> {
        let now = now.as_u64() / 1_000;
        let asked_at = self.asked_at.load(Ordering::Acquire);
        if asked_at == 0 || now.saturating_sub(asked_at) >= ASK_EVERY_MS {
            let since = ask(servers, now).await?;
            self.since.store(since, Ordering::Release);
            self.asked_at.store(now, Ordering::Release);
        }
        Ok(now.saturating_sub(self.since.load(Ordering::Acquire)) < DOUBTED_MS)
    }
}

async fn ask(servers: &Topology, now: u64) -> Result<u64, StoreError> {
    let mut get = redis::cmd("GET");
    get.arg(LOGIN_SINCE_KEY);
    let slot = servers.slot(LOGIN_SINCE_KEY);
    if let Some(since) = number(&servers.run(slot, Call::of(&get)).await?) {
        return Ok(since);
    }
    tracing::warn!("the server knows of no guesses: strangers are challenged for a quarter of an hour");
    let mut set = redis::cmd("SET");
    set.arg(LOGIN_SINCE_KEY).arg(now).arg("NX").arg("EX").arg(LIFETIME_S);
    servers.run(slot, Call::of(&set)).await?;
    // Another instance may have been first.
    Ok(number(&servers.run(slot, Call::of(&get)).await?).unwrap_or(now))
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}
