//! The leaking level behind `token_bucket`, `gcra` and `leaky_bucket`. Lua twin: `bucket.lua`.
//!
//! `level` counts what is owed, in units of 1/window token: a cost adds `cost·window`, each tick drains `amount`.
//! So a rate such as 7 per 3 s is exact. A token bucket's tokens are what the level leaves free, and GCRA's
//! theoretical arrival time is `time + level/amount` (ATM Forum, "Traffic Management Specification 4.1", §4.4.2,
//! shows the two to be one machine).
//!
//! **Law** of `token_bucket` and `gcra`: Σcost ≤ burst + d·amount/window in every interval of length d.
//! **Law** of `leaky_bucket`: each admitted ask is given a delay ≤ `max_delay`; releases of cost 1 that are k apart
//! span at least k·window/amount − 1 tick.

use super::Machine;
use crate::{
    rule::longest,
    time::{At, Skew, Tick},
};

/// What the level is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Admit while the level stays within `burst` tokens.
    Burst {
        /// The most that passes at one instant.
        burst: u64,
    },
    /// Admit while the backlog drains within `max_delay`; the answer is the delay.
    Queue {
        /// The longest delay that is answered, in ticks.
        max_delay: u64,
    },
}

/// The numbers of one bucket. Times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    pub(crate) shape: Shape,
}

/// What is stored for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The tick at which `level` was true.
    pub time: u64,
    /// What is owed, in units of 1/window token.
    pub level: u64,
}

impl Bucket {
    /// What drains per tick.
    #[inline]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// What the level is measured against.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The highest level that an ask of `cost` may find.
    #[inline]
    pub fn room(&self, cost: u64) -> u64 {
        match self.shape {
            Shape::Burst { burst } => burst.saturating_sub(cost).saturating_mul(self.window),
            Shape::Queue { max_delay } => max_delay.saturating_mul(self.amount),
        }
    }

    /// The highest level that can be owed; a lowered amount clamps to it.
    #[inline]
    pub fn capacity(&self) -> u64 {
        match self.shape {
            Shape::Burst { burst } => burst.saturating_mul(self.window),
            Shape::Queue { max_delay } => max_delay.saturating_add(self.window).saturating_mul(self.amount),
        }
    }

    /// What a cost adds to the level.
    #[inline]
    pub fn added_by(&self, cost: u64) -> u64 {
        cost.saturating_mul(self.window)
    }

    /// The bucket with `part` of its burst. A part that would refill for longer than any window may last is cut to one
    /// that does not: rounding can leave little of the amount beside much of the burst. `None` if no burst is left.
    pub(crate) fn scaled(self, part: impl Fn(u64) -> u64, tick: Tick) -> Option<Self> {
        let Shape::Burst { burst } = self.shape else { return Some(self) };
        let refillable = self.amount.saturating_mul(longest(tick)) / self.window;
        let burst = part(burst).min(refillable);
        (burst > 0).then_some(Self { shape: Shape::Burst { burst }, ..self })
    }

    #[inline]
    fn ticks_to_drain(&self, level: u64) -> u64 {
        if self.amount == 0 { 0 } else { level.div_ceil(self.amount) }
    }
}

impl Machine for Bucket {
    type State = State;

    #[inline]
    fn fresh(&self, at: At) -> State {
        State { time: at.now, level: 0 }
    }

    #[inline]
    fn roll(&self, state: State, at: At) -> Result<State, Skew> {
        let now = at.not_before(state.time)?;
        let drained = self.amount.saturating_mul(now.saturating_sub(state.time));
        let level = state.level.min(self.capacity()).saturating_sub(drained);
        Ok(State { time: now, level })
    }

    fn rebase(&self, state: State, at: At) -> State {
        State { time: at.now, ..state }
    }

    #[inline]
    fn max_cost(&self) -> u64 {
        match self.shape {
            Shape::Burst { burst } => burst,
            Shape::Queue { .. } => self.amount,
        }
    }

    #[inline]
    fn remaining(&self, state: &State, _now: u64) -> u64 {
        match self.shape {
            Shape::Burst { .. } => self.capacity().saturating_sub(state.level) / self.window,
            Shape::Queue { .. } if state.level <= self.room(0) => self.amount,
            Shape::Queue { .. } => 0,
        }
    }

    #[inline]
    fn admits(&self, state: &State, _now: u64, cost: u64) -> bool {
        state.level <= self.room(cost)
    }

    #[inline]
    fn charge(&self, mut state: State, _now: u64, cost: u64) -> State {
        state.level = state.level.saturating_add(self.added_by(cost));
        state
    }

    fn retry_at(&self, state: &State, _now: u64, cost: u64) -> u64 {
        let excess = state.level.saturating_sub(self.room(cost));
        state.time.saturating_add(self.ticks_to_drain(excess))
    }

    #[inline]
    fn reset_at(&self, state: &State) -> Option<u64> {
        (state.level > 0).then(|| state.time.saturating_add(self.ticks_to_drain(state.level)))
    }

    fn release_at(&self, state: &State, cost: u64) -> u64 {
        match self.shape {
            Shape::Burst { .. } => 0,
            Shape::Queue { .. } => {
                let backlog = state.level.saturating_sub(self.added_by(cost));
                state.time.saturating_add(self.ticks_to_drain(backlog))
            }
        }
    }

    fn charged_at(&self, state: &State, _now: u64) -> u64 {
        state.time
    }

    /// The part of what was held that may have drained by `state.time` is gone: a plain refund would let it pass
    /// twice. What drains after that drains from less. A queue gives nothing back: others may stand behind the slot
    /// by now, and theirs must not be given away again.
    fn give_back(&self, mut state: State, back: super::GiveBack) -> State {
        let held_for = state.time.checked_sub(back.charged_at);
        if let (Shape::Burst { .. }, Some(held_for)) = (self.shape, held_for) {
            let drained = self.amount.saturating_mul(held_for);
            let returned = self.added_by(back.unspent()).saturating_sub(drained);
            state.level = state.level.saturating_sub(returned);
        }
        state
    }
}
