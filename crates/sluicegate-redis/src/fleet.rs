//! How many instances share the server, and which of them this is: learned while the server is well, for the time in
//! which it is not.

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc, time::Duration};

use redis::Value;
use sluicegate::{
    Clock, Counted, StoreError,
    core::{Micros, Share},
    guard::Membership,
};
use tokio::task::AbortHandle;

use crate::{
    clock::RedisClock,
    config::{ConfigError, RedisConfig},
    connection::Call,
    error::unreadable,
    key::FLEET_KEY,
    script::{FLEET, Script},
    topology::Topology,
};

/// The most instances of a fleet: the list must stay one that a script goes through in well under a millisecond.
pub const MAX_INSTANCES: usize = 1_000;
/// How often an instance says that it is there.
const BEAT: Duration = Duration::from_secs(1);
/// How long an instance is counted that has not said so.
const LIFETIME: Duration = Duration::from_secs(5);

/// The length of an id, in letters.
const ID_LEN: usize = 16;
/// The length of an entry: the id, and when the instance was heard of.
const ENTRY_LEN: usize = ID_LEN + 8;

/// Says every second that this instance is there, and keeps a [`Membership`] in step with who else is, as long as it
/// lives. While the server does not answer, what was learned last holds.
///
/// More instances are believed at once. Fewer are believed only when they have been fewer for as long as an instance is
/// counted: a server that has come back empty hears of everyone within that time, and until then nobody may take the
/// share of those that were not heard of yet.
#[derive(Debug)]
pub struct Fleet {
    beating: Arc<Beating>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Beating {
    servers: Topology,
    script: Script,
    clock: RedisClock,
    id: String,
    membership: Arc<Membership>,
    doubt: parking_lot::Mutex<Doubt>,
}

/// Since when the fleet looks smaller than it was.
#[derive(Debug, Default)]
struct Doubt {
    learned: bool,
    smaller_since: Option<Micros>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fleet {
    /// Joins the fleet of a server, on a connection of its own. It must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration names no server.
    pub fn join(
        config: &RedisConfig,
        clock: RedisClock,
        membership: Arc<Membership>,
    ) -> Result<Self, ConfigError> {
        let beating = Arc::new(Beating {
            servers: Topology::of(config)?,
            script: Script::new(FLEET),
            clock,
            id: new_id(),
            membership,
            doubt: parking_lot::Mutex::default(),
        });
        let task = tokio::spawn(keep_beating(beating.clone())).abort_handle();
        Ok(Self { beating, task })
    }

    /// Says now that this instance is there, and learns who else is.
    ///
    /// # Errors
    /// [`StoreError`] if the server does not answer, or its fleet is full; what was learned before still holds.
    pub async fn beat(&self) -> Result<(), StoreError> {
        self.beating.beat().await
    }
}

async fn keep_beating(beating: Arc<Beating>) {
    let mut heard = true;
    loop {
        let beat = beating.beat().await;
        if let (true, Err(error)) = (heard, &beat) {
            let share = beating.membership.share();
            let (instances, rank) = (share.instances(), share.rank());
            tracing::warn!(%error, instances, rank, "the fleet cannot be heard: its last known size holds");
        }
        heard = beat.is_ok();
        tokio::time::sleep(BEAT).await;
    }
}

impl Beating {
    async fn beat(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let call = self.call(now);
        let told = self.servers.run(self.servers.slot(FLEET_KEY), Call::of_script(&self.script, &call)).await;
        let share = match told.map_err(StoreError::with_nothing_counted)? {
            Value::BulkString(list) => share(&list, self.id.as_bytes()).ok_or_else(full)?,
            _ => return Err(unreadable().with_nothing_counted()),
        };
        if self.doubt.lock().believes(self.membership.share(), share, now) {
            self.learn(share);
        }
        Ok(())
    }

    fn call(&self, now: Micros) -> redis::Cmd {
        let mut call = self.script.call(1, 4, 64);
        call.arg(FLEET_KEY).arg(now.as_u64() / 1_000).arg(self.id.as_str());
        call.arg(LIFETIME.as_millis().to_string()).arg(MAX_INSTANCES);
        call
    }

    fn learn(&self, share: Share) {
        if self.membership.share() != share {
            let (instances, rank) = (share.instances(), share.rank());
            tracing::info!(instances, rank, "the fleet has changed");
            self.membership.set(share);
        }
    }
}

impl Doubt {
    /// Whether what was heard now holds from now on.
    fn believes(&mut self, known: Share, heard: Share, now: Micros) -> bool {
        if std::mem::replace(&mut self.learned, true) && heard.instances() < known.instances() {
            let since = *self.smaller_since.get_or_insert(now);
            return now.since(since) >= LIFETIME;
        }
        self.smaller_since = None;
        true
    }
}

/// The share of the instance with that id, by the order of ids; `None` if it is not in the list.
fn share(list: &[u8], id: &[u8]) -> Option<Share> {
    let ids: BTreeSet<&[u8]> = list.chunks_exact(ENTRY_LEN).filter_map(|entry| entry.get(..ID_LEN)).collect();
    let rank = ids.iter().position(|other| *other == id)?;
    let instances = NonZeroU32::new(u32::try_from(ids.len()).ok()?)?;
    Share::new(instances, u32::try_from(rank).ok()?)
}

fn full() -> StoreError {
    StoreError::new(format!("the fleet has {MAX_INSTANCES} instances already"), Counted::Nothing)
}

/// 64 bits by chance: two instances with one id would take the same share.
fn new_id() -> String {
    format!("{:016x}", fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ids: &[&str]) -> Vec<u8> {
        ids.iter().flat_map(|id| [id.as_bytes(), &[0; 8]].concat()).collect()
    }

    fn of(instances: u32, rank: u32) -> Share {
        NonZeroU32::new(instances).and_then(|instances| Share::new(instances, rank)).unwrap()
    }

    #[test]
    fn ranks_follow_the_order_of_ids_whatever_the_order_of_the_list() {
        let (a, b, c) = ("000000000000000a", "000000000000000b", "000000000000000c");
        for listed in [[a, b, c], [c, b, a], [b, c, a]] {
            let ranks = [a, b, c].map(|id| share(&list(&listed), id.as_bytes()).unwrap());
            assert_eq!(ranks, [of(3, 0), of(3, 1), of(3, 2)]);
        }
        assert_eq!(share(&list(&[a, b]), c.as_bytes()), None);
    }

    /// A server that was restarted empty is told of one instance first: with the whole of every limit for it, the fleet
    /// would have many times the limit if the server went away again at once.
    #[test]
    fn a_smaller_fleet_is_believed_only_after_a_lifetime_and_a_larger_one_at_once() {
        let (mut doubt, at) = (Doubt::default(), |second: u64| Micros::from_secs(1_790_000_000 + second));
        assert!(doubt.believes(Share::ALONE, of(4, 1), at(0)));
        for second in 1..6 {
            assert!(!doubt.believes(of(4, 1), Share::ALONE, at(second)), "{second}");
        }
        assert!(doubt.believes(of(4, 1), of(5, 1), at(6)), "more, so all doubt ends");
        assert!(!doubt.believes(of(5, 1), of(3, 1), at(7)));
        assert!(!doubt.believes(of(5, 1), of(2, 1), at(11)));
        assert!(doubt.believes(of(5, 1), of(2, 1), at(12)));
    }
}
