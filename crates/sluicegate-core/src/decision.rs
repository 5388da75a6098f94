//! What a store answers: for each ask the numbers, for the request the verdict.

use std::time::Duration;

/// When a refused ask is worth another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// If nothing else happens, the same ask made exactly this much later is admitted, and not earlier.
    After(Duration),
    /// The cost can never fit.
    Never,
}

/// Who made a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The store.
    #[default]
    Store,
    /// A denial of the store's that was remembered, and cannot have changed since.
    Cache,
    /// The limit's own rule for the time in which the store cannot decide.
    Fallback,
}

impl DecidedBy {
    /// All of them, the store first.
    pub const ALL: [Self; 3] = [Self::Store, Self::Cache, Self::Fallback];

    /// The name in answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Cache => "cache",
            Self::Fallback => "fallback",
        }
    }
}

/// The answer to one ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskDecision {
    /// Whether this limit lets the cost pass. A request passes only if all of its asks do.
    pub allowed: bool,
    /// The amount per window; `None` for unlimited.
    pub limit: Option<u64>,
    /// The largest cost that is ever admitted: the burst of a bucket, else the amount; `None` for unlimited.
    pub capacity: Option<u64>,
    /// The largest cost that would be admitted now, at most `capacity`; `None` for unlimited.
    pub remaining: Option<u64>,
    /// The time until the key is as if never used.
    pub reset_after: Duration,
    /// When to try again; `None` if allowed.
    pub retry: Option<Retry>,
    /// How long an admitted ask must wait before it proceeds (`leaky_bucket`), else zero.
    pub delay: Duration,
    /// Who decided.
    pub decided_by: DecidedBy,
}

impl AskDecision {
    /// The answer of a limit whose amount is unlimited.
    pub const UNLIMITED: Self = Self {
        allowed: true,
        limit: None,
        capacity: None,
        remaining: None,
        reset_after: Duration::ZERO,
        retry: None,
        delay: Duration::ZERO,
        decided_by: DecidedBy::Store,
    };

    /// Sort key of the binding ask: denials by the longest retry, then the least remaining share.
    fn bindingness(&self) -> (u8, Duration, u128) {
        // A share of the whole in 2^64ths, upside down: the least remaining share sorts last.
        let scarcity = match (self.capacity, self.remaining) {
            (Some(whole), Some(left)) => {
                let share = (u128::from(left) << 64) / u128::from(whole.max(1));
                u128::MAX - share
            }
            _ => 0,
        };
        match self.retry {
            Some(Retry::Never) => (2, Duration::MAX, scarcity),
            Some(Retry::After(wait)) => (1, wait, scarcity),
            None => (0, Duration::ZERO, scarcity),
        }
    }
}

/// The answer to one request: all of its asks, decided in one atomic step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request passes: every ask is allowed, and then all are counted. Otherwise none is.
    pub allowed: bool,
    /// One answer per ask, in the order of the asks.
    pub asks: Vec<AskDecision>,
}

impl Decision {
    /// Of the answers to the asks of one request.
    pub fn of(asks: Vec<AskDecision>) -> Self {
        Self { allowed: asks.iter().all(|ask| ask.allowed), asks }
    }

    /// The ask that binds: the denying one with the longest retry, else the one with the least remaining share.
    pub fn binding(&self) -> Option<usize> {
        let finite = self.asks.iter().enumerate().filter(|(_, ask)| ask.limit.is_some());
        // The first of equals binds, hence the reversal: `max_by_key` keeps the last.
        finite.rev().max_by_key(|(_, ask)| ask.bindingness()).map(|(index, _)| index)
    }

    /// Who decided: the fallback if it did for any of the asks.
    pub fn decided_by(&self) -> DecidedBy {
        self.asks.iter().map(|ask| ask.decided_by).max().unwrap_or_default()
    }

    /// When the whole request is worth another try; `None` if allowed.
    pub fn retry(&self) -> Option<Retry> {
        self.asks.get(self.binding()?)?.retry
    }

    /// How long an admitted request must wait: the longest delay of its asks.
    pub fn delay(&self) -> Duration {
        self.asks.iter().map(|ask| ask.delay).max().unwrap_or_default()
    }
}
