//! One limit over many keys, without a policy: the shortest way to a limiter in this process.

use std::time::Duration;

use sluicegate_core::{AskDecision, LimitId, Micros, Question, Retry, Rule};

use super::{EmbeddedConfig, EmbeddedStore, Keyed, record, table::Numbers};
use crate::clock::{Clock, SystemClock};

/// One rule, counted by any key.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{core::Rule, embedded::KeyedLimiter};
///
/// let limiter = KeyedLimiter::new(Rule::token_bucket(10, Duration::from_secs(1), 2)?);
/// assert!(limiter.check("alice").is_ok());
/// assert!(limiter.check("alice").is_ok());
/// let refused = limiter.check("alice").unwrap_err();
/// assert!(refused.retry_after() <= Some(Duration::from_millis(100)));
/// assert!(limiter.check("bob").is_ok());
/// # Ok::<(), sluicegate::core::RuleError>(())
/// ```
#[derive(Debug)]
pub struct KeyedLimiter<C = SystemClock> {
    rule: Rule,
    id: LimitId,
    store: EmbeddedStore,
    clock: C,
}

/// The key has used up its limit.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the limit is used up")]
pub struct Refused<'r>(Why<'r>);

#[derive(Clone, Debug)]
enum Why<'r> {
    Known(AskDecision),
    OfSlot { rule: &'r Rule, cost: u64, now: Micros, slot: Numbers },
}

impl<'r> Refused<'r> {
    pub(super) fn known(decision: AskDecision) -> Self {
        Self(Why::Known(decision))
    }

    #[inline]
    pub(super) fn by(rule: &'r Rule, cost: u64, now: Micros, slot: Numbers) -> Self {
        Self(Why::OfSlot { rule, cost, now, slot })
    }

    /// The numbers of the refusal.
    pub fn decision(&self) -> AskDecision {
        match &self.0 {
            Why::Known(decision) => *decision,
            Why::OfSlot { rule, cost, now, slot } => {
                // The state is rolled, and only rolling depends on the key.
                let question = Question { rule, key: &[], cost: *cost, now: *now };
                let state = record::unpack(rule, *slot).unwrap_or_else(|| question.fresh());
                question.report(&state, false)
            }
        }
    }

    /// When the same ask is admitted if nothing else happens; `None` if its cost can never fit.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.decision().retry? {
            Retry::After(wait) => Some(wait),
            Retry::Never => None,
        }
    }
}

impl KeyedLimiter {
    /// A limiter with room for a million keys, by the machine's clock.
    pub fn new(rule: Rule) -> Self {
        Self::with(rule, EmbeddedConfig::default(), SystemClock::new())
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// A limiter of that size, by that clock.
    pub fn with(rule: Rule, config: EmbeddedConfig, clock: C) -> Self {
        let id = LimitId::of("keyed", &rule);
        Self { rule, id, store: EmbeddedStore::new(config), clock }
    }

    /// Lets a cost of 1 pass and counts it, or refuses it and counts nothing.
    ///
    /// # Errors
    /// [`Refused`] if the limit is used up.
    #[inline]
    pub fn check(&self, key: impl AsRef<[u8]>) -> Result<(), Refused<'_>> {
        self.check_cost(key, 1)
    }

    /// [`KeyedLimiter::check`] with a cost of its own.
    ///
    /// # Errors
    /// [`Refused`] if the cost does not fit now, or ever.
    #[inline]
    pub fn check_cost(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<(), Refused<'_>> {
        let keyed = Keyed { rule: &self.rule, id: self.id, key: key.as_ref(), cost };
        self.store.check_one(&keyed, self.clock.now())
    }

    /// [`KeyedLimiter::check_cost`] with all numbers in the answer, admitted or not.
    pub fn take(&self, key: impl AsRef<[u8]>, cost: u64) -> AskDecision {
        let keyed = Keyed { rule: &self.rule, id: self.id, key: key.as_ref(), cost };
        self.store.take_one(&keyed, self.clock.now())
    }

    /// The store behind it.
    pub fn store(&self) -> &EmbeddedStore {
        &self.store
    }
}
