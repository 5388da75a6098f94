//! One limit over many keys, without a policy: the shortest way to a limiter in this process.

use sluicegate_core::{AskDecision, LimitId, Rule};

use super::{EmbeddedConfig, EmbeddedStore, Keyed};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit is used up")]
pub struct Refused {
    /// The numbers.
    pub decision: AskDecision,
}

impl Refused {
    /// When the same ask is admitted if nothing else happens; `None` if its cost can never fit.
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        match self.decision.retry? {
            sluicegate_core::Retry::After(wait) => Some(wait),
            sluicegate_core::Retry::Never => None,
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
    pub fn check(&self, key: impl AsRef<[u8]>) -> Result<(), Refused> {
        self.check_cost(key, 1)
    }

    /// [`KeyedLimiter::check`] with a cost of its own.
    ///
    /// # Errors
    /// [`Refused`] if the cost does not fit now, or ever.
    #[inline]
    pub fn check_cost(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<(), Refused> {
        let decided = self.store.check_one(&self.keyed(key.as_ref(), cost), self.clock.now());
        decided.map_err(|decision| Refused { decision })
    }

    /// [`KeyedLimiter::check_cost`] with all numbers in the answer, admitted or not.
    pub fn take(&self, key: impl AsRef<[u8]>, cost: u64) -> AskDecision {
        self.store.take_one(&self.keyed(key.as_ref(), cost), self.clock.now())
    }

    /// The store behind it.
    pub fn store(&self) -> &EmbeddedStore {
        &self.store
    }

    fn keyed<'a>(&'a self, key: &'a [u8], cost: u64) -> Keyed<'a> {
        Keyed { rule: &self.rule, id: self.id, key, cost }
    }
}
