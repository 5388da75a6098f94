//! All of it together: a store that always decides, and soon.

use std::{sync::Arc, time::Duration};

use sluicegate_core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject};

use super::{
    alarm::Alarm,
    bounded::Bounded,
    breaker::{Breaker, Probe},
    deadline::Deadline,
    denials::DenialCache,
    fallback::Fallback,
    membership::Membership,
};
use crate::{
    embedded::EmbeddedConfig,
    limiter::Verb,
    store::{Once, Reason, Settled, Store, StoreError, SureStore},
};

/// How a store is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardConfig {
    /// How long a decision may wait for the store.
    pub deadline: Duration,
    /// How many may wait at once.
    pub max_in_flight: usize,
    /// How much is counted in this process while the store cannot decide.
    pub local: EmbeddedConfig,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            deadline: Deadline::<()>::DEFAULT,
            max_in_flight: Bounded::<()>::DEFAULT,
            local: EmbeddedConfig::default(),
        }
    }
}

/// A store that always decides: in time by itself, or each limit's own rule does without it. Clones share everything.
///
/// It must be called within a tokio runtime that has its timer.
#[derive(Debug)]
pub struct Guarded<S>(Arc<Guard<S>>);

#[derive(Debug)]
struct Guard<S> {
    store: DenialCache<Bounded<Breaker<Deadline<S>>>>,
    fallback: Fallback,
    alarm: Alarm,
}

impl<S> Clone for Guarded<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Store + Probe + 'static> Guarded<S> {
    /// Guards a store, for an instance with that place in its fleet.
    pub fn new(store: S, membership: Arc<Membership>, config: GuardConfig) -> Self {
        // Three quarters of the deadline: a store that is no faster half of the time is about to miss it.
        let slow = config.deadline * 3 / 4;
        let store = Breaker::new(Deadline::new(store, config.deadline), slow);
        Self(Arc::new(Guard {
            store: DenialCache::new(Bounded::new(store, config.max_in_flight)),
            fallback: Fallback::new(membership, config.local),
            alarm: Alarm::default(),
        }))
    }

    /// The breaker, to look at.
    pub fn breaker(&self) -> &Breaker<Deadline<S>> {
        self.0.store.store().store()
    }

    /// The store that is guarded.
    pub fn store(&self) -> &S {
        self.breaker().store().store()
    }

    /// The calls that wait for the store.
    pub fn in_flight(&self) -> usize {
        self.0.store.store().in_flight()
    }

    /// The decisions that were made without the store for a reason.
    pub fn fallbacks(&self, reason: Reason) -> u64 {
        self.0.alarm.raised_for(reason)
    }

    /// The store's answer, if there is one; either is told to whoever watches.
    fn heard<T>(&self, answer: Result<T, StoreError>, now: Micros) -> Option<T> {
        let alarm = &self.0.alarm;
        match answer {
            Ok(answer) => {
                if alarm.is_raised() && self.breaker().is_closed() {
                    alarm.end(now);
                }
                Some(answer)
            }
            Err(error) => {
                alarm.raise(&error, now);
                None
            }
        }
    }

    async fn try_to_decide(&self, verb: Verb, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        match verb {
            Verb::Take => self.0.store.take(asks, now).await,
            Verb::Peek => self.0.store.peek(asks, now).await,
        }
    }
}

impl<S: Store + Probe + 'static> SureStore for Guarded<S> {
    async fn decide(&self, verb: Verb, asks: &[Ask<'_>], now: Micros) -> Decision {
        match self.heard(self.try_to_decide(verb, asks, now).await, now) {
            Some(decision) => decision,
            None => self.0.fallback.decide(verb, asks, now),
        }
    }

    async fn decide_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Once {
        match self.heard(self.0.store.take_once(id, asks, now).await, now) {
            Some(once) => once,
            None => Once::Decided { decision: self.0.fallback.decide(Verb::Take, asks, now), at: now },
        }
    }
}

impl<S: Store + Probe + 'static> Store for Guarded<S> {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.decide(Verb::Take, asks, now).await)
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        Ok(self.decide_once(id, asks, now).await)
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.decide(Verb::Peek, asks, now).await)
    }

    /// Nobody settles in the store's place: until it answers, a settlement is an error, to be made again.
    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        self.0.store.settle(id, charges, now).await
    }

    /// Drops what this process counted too. What other instances counted without the store stays with them.
    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        let here = self.0.fallback.forget(id, subject);
        Ok(self.0.store.forget(id, subject).await? || here)
    }
}
