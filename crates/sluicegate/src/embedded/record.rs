//! How the state of a limit lies in the three words of a slot.

use sluicegate_core::{
    Question, Rule, State, Tick,
    algorithm::{
        Machine,
        bucket::{self, Bucket},
        fixed_window::{self, FixedWindow},
        sliding_counter::{self, SlidingCounter},
    },
    rule::AnyMachine,
};

use super::{logs::Logs, table::Words};

/// Stands in the last word where the state is a log elsewhere; no count reaches it.
const LOG: u64 = u64::MAX;

/// A machine whose state fits a slot.
pub(super) trait Slotted: Machine<State: Copy + Into<State>> {
    fn unpack(&self, tick: Tick, words: Words) -> Self::State;
    fn pack(&self, tick: Tick, state: &Self::State) -> Words;
}

impl Slotted for FixedWindow {
    #[inline]
    fn unpack(&self, _tick: Tick, words: Words) -> Self::State {
        fixed_window::State { start: words.a, used: words.b }
    }

    #[inline]
    fn pack(&self, tick: Tick, state: &Self::State) -> Words {
        Words { reset_us: reset_us(self, tick, state), a: state.start, b: state.used }
    }
}

impl Slotted for Bucket {
    #[inline]
    fn unpack(&self, _tick: Tick, words: Words) -> Self::State {
        bucket::State { time: words.a, level: words.b }
    }

    /// The reset is up to twice as far away as due: a shift costs less than a division, and it frees memory alone.
    #[inline]
    fn pack(&self, tick: Tick, state: &Self::State) -> Words {
        let ticks = (state.level >> self.amount().max(1).ilog2()).saturating_add(1);
        let reset_us = tick.start_us(state.time.saturating_add(ticks));
        Words { reset_us, a: state.time, b: state.level }
    }
}

impl Slotted for SlidingCounter {
    #[inline]
    fn unpack(&self, tick: Tick, words: Words) -> Self::State {
        let start = tick.ticks_in(words.reset_us).saturating_sub(self.window().saturating_mul(2));
        sliding_counter::State { start, previous: words.a, current: words.b }
    }

    /// The reset is always the end of the second window, since the start is read back from it.
    #[inline]
    fn pack(&self, tick: Tick, state: &Self::State) -> Words {
        let end = state.start.saturating_add(self.window().saturating_mul(2));
        Words { reset_us: tick.start_us(end), a: state.previous, b: state.current }
    }
}

#[inline]
fn reset_us<M: Machine>(machine: &M, tick: Tick, state: &M::State) -> u64 {
    machine.reset_at(state).map_or(0, |at| tick.start_us(at))
}

/// The state of any machine.
pub(super) fn read(rule: &Rule, words: Words, logs: &Logs) -> Option<State> {
    let tick = rule.tick();
    match rule.machine() {
        AnyMachine::FixedWindow(machine) => Some(machine.unpack(tick, words).into()),
        AnyMachine::SlidingCounter(machine) => Some(machine.unpack(tick, words).into()),
        AnyMachine::Bucket(machine) => Some(machine.unpack(tick, words).into()),
        AnyMachine::SlidingLog(_) => logs.read(words.a).map(State::SlidingLog),
    }
}

/// The words of any machine's state; a log keeps the place that it had in `old`.
pub(super) fn write(question: &Question<'_>, state: State, old: Option<Words>, logs: &Logs) -> Words {
    let (tick, machine) = (question.rule.tick(), question.rule.machine());
    match (machine, state) {
        (AnyMachine::FixedWindow(machine), State::FixedWindow(state)) => machine.pack(tick, &state),
        (AnyMachine::SlidingCounter(machine), State::SlidingCounter(state)) => machine.pack(tick, &state),
        (AnyMachine::Bucket(machine), State::Bucket(state)) => machine.pack(tick, &state),
        (AnyMachine::SlidingLog(machine), State::SlidingLog(log)) => {
            let place = old.and_then(|words| (words.b == LOG).then_some(words.a));
            let reset_us = reset_us(machine, tick, &log);
            Words { reset_us, a: logs.write(place, log), b: LOG }
        }
        // A question's machine makes its states: there is nothing to keep of another's.
        _ => old.unwrap_or(Words { reset_us: 0, a: 0, b: 0 }),
    }
}

/// Drops what the words hold elsewhere.
pub(super) fn drop_log(words: Words, logs: &Logs) {
    if words.b == LOG {
        logs.remove(words.a);
    }
}
