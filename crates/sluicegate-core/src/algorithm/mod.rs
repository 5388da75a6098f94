//! The algorithms: one file each, beside its law. Every one is a [`Machine`]: pure functions of stored state, time
//! and cost. A store rolls the state to now, asks whether the cost is admitted, and if so stores the charged state.

pub mod bucket;
pub mod fixed_window;
pub mod quota;
pub mod sliding_counter;
pub mod sliding_log;

use crate::time::{At, Skew};

/// The state machine of one limit. All times are ticks; all functions are pure.
pub trait Machine {
    /// What a store keeps for one key.
    type State: Clone + PartialEq + std::fmt::Debug;

    /// The state of a key that was never used.
    fn fresh(&self, at: At) -> Self::State;

    /// The state as it is now: windows turned, levels drained. What was used stays used when the amount changes,
    /// but a level is clamped to a lowered capacity, since it would lock the key for longer than it takes to drain.
    ///
    /// # Errors
    /// [`Skew`] if the state lies too far ahead of the given time.
    fn roll(&self, state: Self::State, at: At) -> Result<Self::State, Skew>;

    /// The state moved back to now with everything that was used, after a clock that stepped back.
    fn rebase(&self, state: Self::State, at: At) -> Self::State;

    /// The largest cost that can ever be admitted.
    fn max_cost(&self) -> u64;

    /// The largest cost that would be admitted now.
    fn remaining(&self, state: &Self::State, now: u64) -> u64;

    /// Whether a cost of at least 1, at most [`Machine::max_cost`], is admitted.
    fn admits(&self, state: &Self::State, now: u64, cost: u64) -> bool;

    /// The state after the cost was admitted.
    fn charge(&self, state: Self::State, now: u64, cost: u64) -> Self::State;

    /// The first tick at which a refused cost is admitted if nothing else happens.
    fn retry_at(&self, state: &Self::State, now: u64, cost: u64) -> u64;

    /// The first tick at which the key is as if never used; `None` if it is so already.
    fn reset_at(&self, state: &Self::State) -> Option<u64>;

    /// The tick at which an admitted cost, already in `state`, is to be released; 0 for "at once".
    fn release_at(&self, _state: &Self::State, _cost: u64) -> u64 {
        0
    }

    /// The tick under which the cost just charged to `state` is counted: `now`, or later if the state is ahead.
    fn charged_at(&self, state: &Self::State, now: u64) -> u64;

    /// The stored state after a part of an earlier charge is given back: only the window or entry that was charged.
    /// No clock is needed, and the key's time stays. A charge that cannot be placed (its window is over, or a rebase
    /// moved it) gives nothing back.
    fn give_back(&self, state: Self::State, back: GiveBack) -> Self::State;
}

/// A cost that was charged provisionally and turned out smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// The tick of the charge, as [`Machine::charged_at`] told it then.
    pub charged_at: u64,
    /// What was charged.
    pub held: u64,
    /// What it really cost; at or above `held` nothing comes back.
    pub actual: u64,
}

impl GiveBack {
    /// The cost to return.
    pub fn unspent(self) -> u64 {
        self.held.saturating_sub(self.actual)
    }
}
