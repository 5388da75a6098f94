//! How the state of a limit lies in the three words of a slot.

use sluicegate_core::{
    Question, Rule, State,
    algorithm::{bucket, fixed_window, sliding_counter},
    rule::AnyMachine,
};

use super::{logs::Logs, table::Words};

/// Stands in the last word where the state is a log elsewhere; no count reaches it.
const LOG: u64 = u64::MAX;

/// The state of a small machine; `None` for a log.
#[inline]
pub(super) fn small(rule: &Rule, words: Words) -> Option<State> {
    let Words { reset_us, a, b } = words;
    match rule.machine() {
        AnyMachine::FixedWindow(_) => Some(State::FixedWindow(fixed_window::State { start: a, used: b })),
        AnyMachine::Bucket(_) => Some(State::Bucket(bucket::State { time: a, level: b })),
        AnyMachine::SlidingCounter(machine) => {
            let start = rule.tick().ticks_in(reset_us).saturating_sub(machine.window().saturating_mul(2));
            Some(State::SlidingCounter(sliding_counter::State { start, previous: a, current: b }))
        }
        AnyMachine::SlidingLog(_) => None,
    }
}

/// The words of a small machine's state; `None` for a log.
#[inline]
pub(super) fn small_words(question: &Question<'_>, state: &State) -> Option<Words> {
    let reset_us = question.reset_at_us(state).unwrap_or(0);
    match (state, question.rule.machine()) {
        (State::FixedWindow(state), _) => Some(Words { reset_us, a: state.start, b: state.used }),
        (State::Bucket(state), _) => Some(Words { reset_us, a: state.time, b: state.level }),
        (State::SlidingCounter(state), AnyMachine::SlidingCounter(machine)) => {
            // Always the end of the second window: the start is read back from it.
            let end = state.start.saturating_add(machine.window().saturating_mul(2));
            let reset_us = question.rule.tick().start_us(end);
            Some(Words { reset_us, a: state.previous, b: state.current })
        }
        _ => None,
    }
}

/// The state of any machine.
pub(super) fn read(rule: &Rule, words: Words, logs: &Logs) -> Option<State> {
    match words {
        Words { a, b: LOG, .. } => logs.read(a).map(State::SlidingLog),
        words => small(rule, words),
    }
}

/// The words of any machine's state; a log keeps the place that it had in `old`.
pub(super) fn write(question: &Question<'_>, state: State, old: Option<Words>, logs: &Logs) -> Words {
    if let Some(words) = small_words(question, &state) {
        return words;
    }
    let reset_us = question.reset_at_us(&state).unwrap_or(0);
    let place = old.and_then(|words| (words.b == LOG).then_some(words.a));
    let State::SlidingLog(log) = state else { return Words { reset_us, a: 0, b: 0 } };
    Words { reset_us, a: logs.write(place, log), b: LOG }
}

/// Drops what the words hold elsewhere.
pub(super) fn drop_log(words: Words, logs: &Logs) {
    if words.b == LOG {
        logs.remove(words.a);
    }
}
