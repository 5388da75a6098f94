//! Sliding counter: the previous window's count fades out linearly. Lua twin: `sliding_counter.lua`.
//!
//! **Law**: admits iff `previous·(window − elapsed) + (current + cost)·window ≤ amount·window`, so
//! Σcost ≤ `amount`·(1 + d/window) in every interval of length d. Two numbers per key, whatever the amount.
//!
//! The estimate is the one that Cloudflare describes in "How we built rate limiting capable of scaling to millions
//! of domains", written in integers.

use super::Machine;
use crate::time::{At, Skew};

/// The numbers of one sliding-counter limit. Times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    pub(crate) amount: u64,
    pub(crate) window: u64,
}

/// What is stored for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The tick at which the current window began.
    pub start: u64,
    /// The cost admitted in the window before.
    pub previous: u64,
    /// The cost admitted in the current window.
    pub current: u64,
}

impl SlidingCounter {
    /// The window, in ticks.
    #[inline]
    pub fn window(&self) -> u64 {
        self.window
    }

    #[inline]
    fn left_of_window(&self, state: &State, now: u64) -> u64 {
        self.window.saturating_sub(now.saturating_sub(state.start))
    }

    /// Ticks into a window at which `previous` has faded enough to leave `room`: the least `e` with
    /// `previous·(window − e) ≤ room·window`.
    fn faded_after(&self, previous: u64, room: u64) -> u64 {
        if previous == 0 {
            return 0;
        }
        self.window.saturating_sub(room.saturating_mul(self.window) / previous)
    }
}

impl Machine for SlidingCounter {
    type State = State;

    #[inline]
    fn fresh(&self, at: At) -> State {
        State { start: at.window_start(self.window), previous: 0, current: 0 }
    }

    #[inline]
    fn roll(&self, state: State, at: At) -> Result<State, Skew> {
        at.not_before(state.start)?;
        let opening = at.window_start(self.window);
        let previous = if opening <= state.start {
            return Ok(state);
        } else if opening - state.start == self.window {
            state.current
        } else {
            0
        };
        Ok(State { start: opening, previous, current: 0 })
    }

    fn rebase(&self, state: State, at: At) -> State {
        State { start: at.window_start(self.window), ..state }
    }

    #[inline]
    fn max_cost(&self) -> u64 {
        self.amount
    }

    #[inline]
    fn remaining(&self, state: &State, now: u64) -> u64 {
        let faded = state.previous.saturating_mul(self.left_of_window(state, now));
        let room = self.amount.saturating_mul(self.window).saturating_sub(faded) / self.window;
        room.saturating_sub(state.current)
    }

    #[inline]
    fn admits(&self, state: &State, now: u64, cost: u64) -> bool {
        let faded = state.previous.saturating_mul(self.left_of_window(state, now));
        let counted = state.current.saturating_add(cost).saturating_mul(self.window);
        faded.saturating_add(counted) <= self.amount.saturating_mul(self.window)
    }

    #[inline]
    fn charge(&self, mut state: State, _now: u64, cost: u64) -> State {
        state.current = state.current.saturating_add(cost);
        state
    }

    fn retry_at(&self, state: &State, _now: u64, cost: u64) -> u64 {
        match self.amount.checked_sub(state.current.saturating_add(cost)) {
            Some(room) => state.start.saturating_add(self.faded_after(state.previous, room)),
            None => state
                .start
                .saturating_add(self.window)
                .saturating_add(self.faded_after(state.current, self.amount.saturating_sub(cost))),
        }
    }

    #[inline]
    fn reset_at(&self, state: &State) -> Option<u64> {
        let windows = match (state.previous, state.current) {
            (0, 0) => return None,
            (_, 0) => 1,
            _ => 2,
        };
        Some(state.start.saturating_add(self.window.saturating_mul(windows)))
    }

    fn charged_at(&self, state: &State, now: u64) -> u64 {
        now.max(state.start)
    }

    fn give_back(&self, mut state: State, back: super::GiveBack) -> State {
        let end = state.start.saturating_add(self.window);
        if back.charged_at >= state.start && back.charged_at < end {
            state.current = state.current.saturating_sub(back.unspent());
        } else if back.charged_at < state.start && state.start - back.charged_at <= self.window {
            state.previous = state.previous.saturating_sub(back.unspent());
        }
        state
    }
}
