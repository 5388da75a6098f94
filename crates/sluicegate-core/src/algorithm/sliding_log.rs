//! Sliding log: every admitted cost with its time. Lua twin: `sliding_log.lua`.
//!
//! **Law**: Σcost ≤ `amount` in every half-open window `[t, t + window)`, exactly. The price is one entry per
//! distinct time, so that amounts above [`MAX_AMOUNT`] are refused: a script must stay short.

use super::Machine;
use crate::time::{At, Skew};

/// The largest amount of a sliding log, and so the largest number of its entries.
pub const MAX_AMOUNT: u64 = 1_000;

/// The numbers of one sliding-log limit. Times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    pub(crate) amount: u64,
    pub(crate) window: u64,
}

/// A cost that was admitted at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The tick of admission.
    pub time: u64,
    /// The cost; 0 only in the newest entry, if it was given back: the log's time does not run backwards.
    pub cost: u64,
}

/// What is stored for one key: entries with strictly rising times, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The sum of all entries' costs.
    pub sum: u64,
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
}

impl SlidingLog {
    fn leaves_at(&self, entry: &Entry) -> u64 {
        entry.time.saturating_add(self.window)
    }
}

impl Machine for SlidingLog {
    type State = State;

    fn fresh(&self, _at: At) -> State {
        State::default()
    }

    fn roll(&self, mut state: State, at: At) -> Result<State, Skew> {
        let newest = state.entries.last().map_or(0, |entry| entry.time);
        let now = at.not_before(newest)?;
        let expired = state.entries.iter().take_while(|entry| self.leaves_at(entry) <= now).count();
        for entry in state.entries.drain(..expired) {
            state.sum = state.sum.saturating_sub(entry.cost);
        }
        state.entries.pop_if(|newest| newest.cost == 0 && newest.time <= at.now);
        Ok(state)
    }

    fn rebase(&self, mut state: State, at: At) -> State {
        let newest = state.entries.last().map_or(at.now, |entry| entry.time);
        let back = newest.saturating_sub(at.now);
        let mut moved: Vec<Entry> = Vec::with_capacity(state.entries.len());
        for entry in state.entries {
            let time = entry.time.saturating_sub(back);
            match moved.last_mut() {
                Some(last) if last.time == time => last.cost = last.cost.saturating_add(entry.cost),
                _ => moved.push(Entry { time, ..entry }),
            }
        }
        state.entries = moved;
        state
    }

    fn max_cost(&self) -> u64 {
        self.amount
    }

    fn remaining(&self, state: &State, _now: u64) -> u64 {
        self.amount.saturating_sub(state.sum)
    }

    fn admits(&self, state: &State, _now: u64, cost: u64) -> bool {
        state.sum.saturating_add(cost) <= self.amount
    }

    fn charge(&self, mut state: State, now: u64, cost: u64) -> State {
        state.sum = state.sum.saturating_add(cost);
        match state.entries.last_mut() {
            Some(newest) if newest.time >= now => newest.cost = newest.cost.saturating_add(cost),
            _ => state.entries.push(Entry { time: now, cost }),
        }
        state
    }

    fn retry_at(&self, state: &State, now: u64, cost: u64) -> u64 {
        let mut left = state.sum;
        for entry in &state.entries {
            left = left.saturating_sub(entry.cost);
            if left.saturating_add(cost) <= self.amount {
                return self.leaves_at(entry);
            }
        }
        now
    }

    fn reset_at(&self, state: &State) -> Option<u64> {
        state.entries.iter().rev().find(|entry| entry.cost > 0).map(|newest| self.leaves_at(newest))
    }

    fn charged_at(&self, state: &State, now: u64) -> u64 {
        state.entries.last().map_or(now, |newest| newest.time.max(now))
    }

    fn give_back(&self, mut state: State, back: super::GiveBack) -> State {
        let Some(at) = state.entries.iter().position(|entry| entry.time == back.charged_at) else {
            return state;
        };
        let Some(entry) = state.entries.get_mut(at) else { return state };
        let returned = back.unspent().min(entry.cost);
        entry.cost -= returned;
        state.sum = state.sum.saturating_sub(returned);
        if entry.cost == 0 && at + 1 < state.entries.len() {
            state.entries.remove(at);
        }
        state
    }
}
