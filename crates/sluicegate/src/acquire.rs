//! Waiting for room instead of being refused.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use sluicegate_core::{
    Attributes, Costs, LimitId, Retry, Subject,
    policy::{Applied, AskError},
};
use tokio::{
    sync::Mutex as Turn,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    clock::Clock,
    limiter::{Limiter, Verb, Verdict},
    store::SureStore,
};

/// Queues that are looked through for ended ones when a new one is made: the map holds at most twice as many as wait.
const MIN_SWEPT: usize = 64;

/// What requests wait for: those that ask the same limits about the same subjects are in one queue.
type Awaited = Vec<(LimitId, Subject)>;

/// Who waits for what, in the order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues(Arc<Mutex<Lanes>>);

#[derive(Debug, Default)]
struct Lanes {
    lanes: HashMap<Awaited, Weak<Turn<()>>>,
    sweep_at: usize,
}

impl Queues {
    /// The queue for what is awaited; it lasts as long as somebody holds it.
    fn lane(&self, awaited: Awaited) -> Arc<Turn<()>> {
        let mut lanes = self.0.lock();
        if let Some(lane) = lanes.lanes.get(&awaited).and_then(Weak::upgrade) {
            return lane;
        }
        if lanes.lanes.len() >= lanes.sweep_at {
            lanes.lanes.retain(|_, lane| lane.strong_count() > 0);
            lanes.sweep_at = (2 * lanes.lanes.len()).max(MIN_SWEPT);
        }
        let lane = Arc::new(Turn::new(()));
        lanes.lanes.insert(awaited, Arc::downgrade(&lane));
        lane
    }
}

impl<S: SureStore, C: Clock> Limiter<S, C> {
    /// Takes, and waits until there is room: for callers that would rather wait than be refused, such as workers that
    /// call an API with a limit of its own. A leaky bucket's delay is waited for, too.
    ///
    /// Requests of this limiter that ask the same limits about the same keys are admitted in the order in which they
    /// came. Dropping the future gives the place up, and counts nothing while it waits. A request that cannot be
    /// admitted within `patience` is not counted: the verdict is the denial, at once where the limits say so in
    /// advance, and at the end of `patience` where others are still before it.
    ///
    /// Needs a tokio runtime with its time enabled.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use sluicegate::{Limiter, SystemClock, core::{Attributes, Costs, Policy}, embedded::EmbeddedStore};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let policy = Policy::parse("version: 1
    /// limits:
    ///   - { name: api, algorithm: sliding_log, limit: 1, per: 20ms, key: [] }")?;
    /// let limiter = Limiter::new(policy, Arc::new(EmbeddedStore::default()), SystemClock::new());
    /// for _ in 0..3 {
    ///     let verdict = limiter.acquire(&Attributes::default(), &Costs::default(), Duration::from_secs(5)).await?;
    ///     assert!(verdict.allowed);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AskError`] if the request does not fit the policy.
    pub async fn acquire(
        &self,
        attributes: &Attributes,
        costs: &Costs,
        patience: Duration,
    ) -> Result<Verdict<'_>, AskError> {
        let until = Instant::now().checked_add(patience);
        let lane = self.queues().lane(awaited(&self.policy().apply(attributes, costs)?.limits));
        let turn = match until {
            Some(until) => timeout_at(until, lane.lock()).await.ok(),
            None => Some(lane.lock().await),
        };
        if turn.is_none() {
            return self.decide_surely(Verb::Peek, attributes, costs).await;
        }
        loop {
            let verdict = self.decide_surely(Verb::Take, attributes, costs).await?;
            match verdict.retry() {
                Some(Retry::After(wait)) if is_within(wait, until) => sleep(wait).await,
                None if verdict.allowed => {
                    // The next in the queue need not wait for this one's delay.
                    drop(turn);
                    sleep(verdict.delay()).await;
                    return Ok(verdict);
                }
                _ => return Ok(verdict),
            }
        }
    }
}

fn awaited(applied: &[Applied<'_>]) -> Awaited {
    applied
        .iter()
        .filter_map(|applied| applied.ask.as_ref())
        .map(|ask| (ask.id, ask.subject.clone()))
        .collect()
}

/// Whether a wait that begins now ends in time; without an end every wait does.
fn is_within(wait: Duration, until: Option<Instant>) -> bool {
    until.is_none_or(|until| Instant::now().checked_add(wait).is_some_and(|then| then <= until))
}
