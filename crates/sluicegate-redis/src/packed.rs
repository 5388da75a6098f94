//! Asks as the scripts read them: `take_head.lua` says the layout.

use sluicegate::core::{
    Ask, Charge, Micros, Rule, Span, Tick,
    algorithm::{
        GiveBack, Machine,
        bucket::{Bucket, Shape},
        quota::Quota,
    },
    rule::AnyMachine,
};

use crate::{number::to_double, record::Tag};

/// Bytes of one packed ask.
pub(crate) const ASK_LEN: usize = 37;
/// Bytes of the time that stands before the asks.
pub(crate) const NOW_LEN: usize = 8;
/// Room that no level and no count is below: the cost never fits.
const NO_ROOM: f64 = -1.0;

/// Appends the time that the asks after it are made at.
pub(crate) fn push_now(packed: &mut Vec<u8>, now: Micros) {
    packed.extend_from_slice(&to_double(now.as_u64()).to_le_bytes());
}

/// Appends one ask.
pub(crate) fn push_ask(packed: &mut Vec<u8>, ask: &Ask<'_>, now: Micros) {
    let rule = ask.rule;
    let at = rule.at(now, ask.subject.as_str().as_bytes());
    let [machine, id @ ..] = Tag::of(ask.id, rule).to_bytes();
    packed.push(machine + tick_mark(rule.tick()));
    packed.extend_from_slice(&id);
    let cost = to_double(ask.cost);
    let numbers = match rule.machine() {
        AnyMachine::FixedWindow(machine) => {
            [to_double(machine.opening(at)), window(rule), room(machine, ask.cost), cost]
        }
        AnyMachine::SlidingLog(machine) => [window(rule), room(machine, ask.cost), cost, 0.0],
        AnyMachine::SlidingCounter(machine) => {
            [to_double(machine.fresh(at).start), window(rule), to_double(rule.amount()), cost]
        }
        AnyMachine::Bucket(machine) => bucket(machine, rule, ask.cost),
        AnyMachine::Quota(machine) => {
            let period = machine.span(at.now);
            [to_double(period.start), to_double(period.end), room(machine, ask.cost), cost]
        }
    };
    for number in numbers {
        packed.extend_from_slice(&number.to_le_bytes());
    }
}

/// Appends what comes back of an ask's charge: `give_back_head.lua` says the layout.
pub(crate) fn push_give_back(packed: &mut Vec<u8>, ask: &Ask<'_>, back: GiveBack) {
    let unspent = back.unspent();
    let (span, returned) = match ask.rule.machine() {
        // Others may stand behind the place in the queue by now: nothing comes back.
        AnyMachine::Bucket(machine) if matches!(machine.shape(), Shape::Queue { .. }) => return,
        AnyMachine::Bucket(machine) => (machine.amount(), machine.added_by(unspent)),
        AnyMachine::Quota(machine) => (length_of_period(machine, back), unspent),
        _ => (ask.rule.window_ticks(), unspent),
    };
    push_part(packed, ask, [back.charged_at, span, returned, 0]);
}

/// Appends what a charge turned out to cost: a quota counts it in the place of what was held.
pub(crate) fn push_charge(packed: &mut Vec<u8>, charge: &Charge<'_>) {
    let (ask, back) = (&charge.ask, charge.as_give_back());
    match ask.rule.machine() {
        AnyMachine::Quota(machine) => {
            let span = length_of_period(machine, back);
            push_part(packed, ask, [back.charged_at, span, back.held, back.actual]);
        }
        _ => push_give_back(packed, ask, back),
    }
}

fn push_part(packed: &mut Vec<u8>, ask: &Ask<'_>, numbers: [u64; 4]) {
    packed.extend_from_slice(&Tag::of(ask.id, ask.rule).to_bytes());
    for number in numbers {
        packed.extend_from_slice(&to_double(number).to_le_bytes());
    }
}

fn length_of_period(machine: &Quota, back: GiveBack) -> u64 {
    let Span { start, end } = machine.span(back.charged_at);
    end.saturating_sub(start)
}

/// What a tag says about the tick, beside the machine.
pub(crate) fn tick_mark(tick: Tick) -> u8 {
    match tick.as_micros() {
        1 => 0,
        1_000 => 16,
        _ => 32,
    }
}

fn bucket(machine: &Bucket, rule: &Rule, cost: u64) -> [f64; 4] {
    let fits = cost <= machine.max_cost();
    let room = if fits { to_double(machine.room(cost)) } else { NO_ROOM };
    [to_double(rule.amount()), to_double(machine.capacity()), room, to_double(machine.added_by(cost))]
}

/// What may be used already for the cost to pass.
fn room(machine: &impl Machine, cost: u64) -> f64 {
    machine.max_cost().checked_sub(cost).map_or(NO_ROOM, to_double)
}

fn window(rule: &Rule) -> f64 {
    to_double(rule.window_ticks())
}
