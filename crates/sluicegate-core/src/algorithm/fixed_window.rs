//! Fixed window: at most `amount` in each window. Lua twin: `fixed_window.lua`.
//!
//! **Law**: Σcost ≤ `amount` in each window `[start, start + window)`. Around an edge twice the amount may pass
//! within one window's length; where that matters, take a sliding counter.

use super::Machine;
use crate::time::{At, Skew};

/// Where the windows of a key begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Align {
    /// At multiples of the window since the epoch: all keys reset together.
    #[default]
    Epoch,
    /// Shifted by a hash of the key: resets of many keys are spread over the window.
    Hashed,
    /// At the first count, as INCR followed by EXPIRE does.
    FirstRequest,
}

/// The numbers of one fixed-window limit. Times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    pub(crate) align: Align,
}

/// What is stored for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The tick at which the window began.
    pub start: u64,
    /// The cost that was admitted in it.
    pub used: u64,
}

impl FixedWindow {
    /// The start of the window that a first count at `at` opens.
    #[inline]
    pub fn opening(&self, at: At) -> u64 {
        match self.align {
            Align::FirstRequest => at.now,
            Align::Epoch | Align::Hashed => at.window_start(self.window),
        }
    }
}

impl Machine for FixedWindow {
    type State = State;

    #[inline]
    fn fresh(&self, at: At) -> State {
        State { start: self.opening(at), used: 0 }
    }

    #[inline]
    fn roll(&self, state: State, at: At) -> Result<State, Skew> {
        let now = at.not_before(state.start)?;
        // A window in which nothing is used (any more) is no window: the next count opens its own.
        if state.used > 0 && now < state.start.saturating_add(self.window) {
            Ok(state)
        } else {
            Ok(self.fresh(At { now, ..at }))
        }
    }

    fn rebase(&self, state: State, at: At) -> State {
        State { start: self.opening(at), ..state }
    }

    #[inline]
    fn max_cost(&self) -> u64 {
        self.amount
    }

    #[inline]
    fn remaining(&self, state: &State, _now: u64) -> u64 {
        self.amount.saturating_sub(state.used)
    }

    #[inline]
    fn admits(&self, state: &State, _now: u64, cost: u64) -> bool {
        state.used.saturating_add(cost) <= self.amount
    }

    #[inline]
    fn charge(&self, mut state: State, _now: u64, cost: u64) -> State {
        state.used = state.used.saturating_add(cost);
        state
    }

    fn retry_at(&self, state: &State, _now: u64, _cost: u64) -> u64 {
        state.start.saturating_add(self.window)
    }

    #[inline]
    fn reset_at(&self, state: &State) -> Option<u64> {
        (state.used > 0).then(|| state.start.saturating_add(self.window))
    }

    fn charged_at(&self, state: &State, now: u64) -> u64 {
        now.max(state.start)
    }

    fn give_back(&self, mut state: State, back: super::GiveBack) -> State {
        let charged_here =
            back.charged_at >= state.start && back.charged_at < state.start.saturating_add(self.window);
        if charged_here {
            state.used = state.used.saturating_sub(back.unspent());
        }
        state
    }
}
