//! How the state of a limit lies in the three words of a slot.

use sluicegate_core::{
    Question, Rule, State, Tick,
    algorithm::{
        Machine,
        bucket::{self, Bucket},
        fixed_window::{self, FixedWindow},
        quota::{self, Quota},
        sliding_counter::{self, SlidingCounter},
    },
    rule::AnyMachine,
};

use super::{
    logs::Logs,
    table::{Numbers, Words},
};

/// Stands in the last word where the state is a log elsewhere; no count reaches it.
const LOG: u64 = u64::MAX;

/// A machine whose state fits the two numbers of a slot.
pub(super) trait Slotted: Machine<State: Copy + Into<State>> {
    fn unpack(&self, numbers: Numbers) -> Self::State;
    fn pack(&self, state: &Self::State) -> Numbers;

    /// When the state has reset, or later: it frees memory alone.
    #[inline]
    fn reset_us(&self, tick: Tick, state: &Self::State) -> u64 {
        reset_us(self, tick, state)
    }

    #[inline]
    fn words(&self, tick: Tick, state: &Self::State) -> Words {
        Words { reset_us: self.reset_us(tick, state), numbers: self.pack(state) }
    }
}

#[inline]
fn reset_us<M: Machine + ?Sized>(machine: &M, tick: Tick, state: &M::State) -> u64 {
    machine.reset_at(state).map_or(0, |at| tick.start_us(at))
}

impl Slotted for FixedWindow {
    #[inline]
    fn unpack(&self, Numbers { a, b }: Numbers) -> Self::State {
        fixed_window::State { start: a, used: b }
    }

    #[inline]
    fn pack(&self, state: &Self::State) -> Numbers {
        Numbers { a: state.start, b: state.used }
    }
}

impl Slotted for Quota {
    fn unpack(&self, Numbers { a, b }: Numbers) -> Self::State {
        quota::State { start: a, used: b }
    }

    fn pack(&self, state: &Self::State) -> Numbers {
        Numbers { a: state.start, b: state.used }
    }
}

impl Slotted for Bucket {
    #[inline]
    fn unpack(&self, Numbers { a, b }: Numbers) -> Self::State {
        bucket::State { time: a, level: b }
    }

    #[inline]
    fn pack(&self, state: &Self::State) -> Numbers {
        Numbers { a: state.time, b: state.level }
    }

    /// Up to twice as far away as due: a shift costs less than a division.
    #[inline]
    fn reset_us(&self, tick: Tick, state: &Self::State) -> u64 {
        let ticks = (state.level >> self.amount().max(1).ilog2()).saturating_add(1);
        tick.start_us(state.time.saturating_add(ticks))
    }
}

/// A window has at least 1,000 ticks and amount times window stays below 2^51, so that a count has 42 bits at most, and
/// the number of a window since the epoch 44.
const COUNT_BITS: u32 = 42;
const MAX_COUNT: u64 = (1 << COUNT_BITS) - 1;

/// Three numbers in two: windows begin at multiples of their length.
impl Slotted for SlidingCounter {
    #[inline]
    fn unpack(&self, Numbers { a, b }: Numbers) -> Self::State {
        let all = u128::from(a) << 64 | u128::from(b);
        sliding_counter::State {
            start: low_half(all >> (2 * COUNT_BITS)).saturating_mul(self.window()),
            previous: low_half(all >> COUNT_BITS) & MAX_COUNT,
            current: low_half(all) & MAX_COUNT,
        }
    }

    #[inline]
    fn pack(&self, state: &Self::State) -> Numbers {
        let window_number = u128::from(state.start / self.window().max(1));
        let [previous, current] =
            [state.previous, state.current].map(|count| u128::from(count.min(MAX_COUNT)));
        let all = window_number << (2 * COUNT_BITS) | previous << COUNT_BITS | current;
        Numbers { a: low_half(all >> 64), b: low_half(all) }
    }
}

#[inline]
fn low_half(bits: u128) -> u64 {
    u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0)
}

/// The state of any machine.
pub(super) fn read(rule: &Rule, numbers: Numbers, logs: &Logs) -> Option<State> {
    match rule.machine() {
        AnyMachine::SlidingLog(_) => logs.read(numbers.a).map(State::SlidingLog),
        _ => unpack(rule, numbers),
    }
}

/// The state of any machine but a log.
pub(super) fn unpack(rule: &Rule, numbers: Numbers) -> Option<State> {
    match rule.machine() {
        AnyMachine::FixedWindow(machine) => Some(machine.unpack(numbers).into()),
        AnyMachine::SlidingCounter(machine) => Some(machine.unpack(numbers).into()),
        AnyMachine::Bucket(machine) => Some(machine.unpack(numbers).into()),
        AnyMachine::Quota(machine) => Some(machine.unpack(numbers).into()),
        AnyMachine::SlidingLog(_) => None,
    }
}

/// The words of any machine's state; a log keeps the place that it had in `old`.
pub(super) fn write(question: &Question<'_>, state: State, old: Option<Numbers>, logs: &Logs) -> Words {
    let (tick, machine) = (question.rule.tick(), question.rule.machine());
    match (machine, state) {
        (AnyMachine::FixedWindow(machine), State::FixedWindow(state)) => machine.words(tick, &state),
        (AnyMachine::SlidingCounter(machine), State::SlidingCounter(state)) => machine.words(tick, &state),
        (AnyMachine::Bucket(machine), State::Bucket(state)) => machine.words(tick, &state),
        (AnyMachine::Quota(machine), State::Quota(state)) => machine.words(tick, &state),
        (AnyMachine::SlidingLog(machine), State::SlidingLog(log)) => {
            let place = old.and_then(|numbers| (numbers.b == LOG).then_some(numbers.a));
            let reset_us = reset_us(machine, tick, &log);
            Words { reset_us, numbers: Numbers { a: logs.write(place, log), b: LOG } }
        }
        // A question's machine makes its states: there is nothing to keep of another's.
        _ => Words { reset_us: 0, numbers: old.unwrap_or(Numbers { a: 0, b: 0 }) },
    }
}

/// Drops what the numbers hold elsewhere.
pub(super) fn drop_log(numbers: Numbers, logs: &Logs) {
    if numbers.b == LOG {
        logs.remove(numbers.a);
    }
}
