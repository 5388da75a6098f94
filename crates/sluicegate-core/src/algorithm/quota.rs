//! Quota: at most `amount` in each calendar period. Lua twin: `quota.lua`.
//!
//! **Law**: after each admitted cost Σcost ≤ `amount` in each [`Period`]; only what is settled or debited may exceed it.
//! No job resets anything: state of an earlier period counts as none.

use super::{GiveBack, Machine};
use crate::{
    period::{Period, Span},
    time::{At, Micros, Skew},
};

/// The largest amount: sums of two are still exact doubles. Of money in billionths of a dollar it is 2.2 million dollars.
pub const MAX_AMOUNT: u64 = 1 << 51;
/// What is used is counted up to here, far above any amount: the last exact double.
const MAX_USED: u64 = 1 << 53;

/// The numbers of one quota. Its tick is the microsecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub(crate) amount: u64,
    pub(crate) period: Period,
}

/// What is stored for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The first instant of the period.
    pub start: u64,
    /// The cost that was admitted in it.
    pub used: u64,
}

impl Quota {
    /// The calendar.
    pub fn period(&self) -> &Period {
        &self.period
    }

    /// The period that contains an instant.
    pub fn span(&self, instant: u64) -> Span {
        self.period.span(Micros::new(instant))
    }
}

impl Quota {
    /// The stored state (not rolled) after a charge turned out to cost something else. It is never refused, and counts in
    /// the charge's own period: one that is over by `now` holds nobody up, and a later one is not touched. Where the charge is
    /// not known any more, all that it cost is counted.
    #[must_use]
    pub fn settle(&self, stored: Option<State>, charge: GiveBack, now: u64) -> Option<State> {
        let GiveBack { charged_at, held, actual } = charge;
        let is_over = self.span(charged_at).end <= now;
        match stored {
            Some(State { start, used }) if start == charged_at => {
                let used = used.saturating_sub(held).saturating_add(actual).min(MAX_USED);
                Some(State { start, used })
            }
            Some(state) if state.start > charged_at => Some(state),
            stored if is_over || actual == 0 => stored,
            _ => Some(State { start: charged_at, used: actual.min(MAX_USED) }),
        }
    }
}

impl Machine for Quota {
    type State = State;

    fn fresh(&self, at: At) -> State {
        State { start: self.span(at.now).start, used: 0 }
    }

    fn roll(&self, state: State, at: At) -> Result<State, Skew> {
        let start = self.span(at.not_before(state.start)?).start;
        Ok(if start > state.start { State { start, used: 0 } } else { state })
    }

    fn rebase(&self, state: State, at: At) -> State {
        State { start: self.span(at.now).start, ..state }
    }

    fn max_cost(&self) -> u64 {
        self.amount
    }

    fn remaining(&self, state: &State, _now: u64) -> u64 {
        self.amount.saturating_sub(state.used)
    }

    fn admits(&self, state: &State, _now: u64, cost: u64) -> bool {
        state.used.saturating_add(cost) <= self.amount
    }

    fn charge(&self, mut state: State, _now: u64, cost: u64) -> State {
        state.used = state.used.saturating_add(cost);
        state
    }

    fn retry_at(&self, state: &State, _now: u64, _cost: u64) -> u64 {
        self.span(state.start).end
    }

    fn reset_at(&self, state: &State) -> Option<u64> {
        (state.used > 0).then(|| self.span(state.start).end)
    }

    /// The period's first instant: whatever is counted in it is counted there.
    fn charged_at(&self, state: &State, _now: u64) -> u64 {
        state.start
    }

    fn give_back(&self, mut state: State, back: GiveBack) -> State {
        if back.charged_at == state.start {
            state.used = state.used.saturating_sub(back.unspent());
        }
        state
    }
}
