//! Clocks that jump. The law holds in the key's own time, which never runs backwards; over 5 s of disagreement the
//! key's past is moved to the clock, so that nothing is forgotten and nobody is locked for longer than without.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_core::{MAX_SKEW_US, Micros, Question, Skew, Tick};

use crate::{
    history::{Watch, cost, jumpy_steps, play, steps, stories},
    key::{Key, NAME},
    spec::{HOUR, Kind, MINUTE, SECOND, Spec, any_spec, one_of_each_kind},
};

/// The longest that a key can be kept from being as new, from the text of the laws, in µs.
fn longest_lock_us(spec: &Spec) -> u64 {
    let (amount, window, tick) = (i128::from(spec.amount.max(1)), spec.window(), i128::from(spec.tick_us()));
    let ticks = match spec.kind {
        Kind::Fixed(_) | Kind::Log => window,
        Kind::Counter => 2 * window,
        Kind::Bucket { burst } => (i128::from(burst) * window + amount - 1) / amount,
        Kind::Queue { max_delay_us } => spec.ticks(max_delay_us) + window,
    };
    u64::try_from(ticks * tick).unwrap()
}

proptest! {
    #[test]
    fn the_laws_hold_in_the_keys_own_time_however_clocks_jump(
        (spec, start, steps) in stories(any_spec(), jumpy_steps())
    ) {
        play(&spec, start, &steps);
    }

    #[test]
    fn no_jump_locks_a_key_for_longer_than_its_law(
        (spec, start, steps) in stories(any_spec(), jumpy_steps()), last in 0..=Micros::MAX.as_u64()
    ) {
        let rule = spec.rule();
        let mut key = Key::new(&rule);
        let mut watch = Watch::new(start);
        for (by, pay) in steps {
            watch.turn(&spec, by);
            watch.saw(key.take(watch.now_us, cost(&spec, &key, watch.now_us, pay)));
        }
        let rebases = key.rebases;
        let answer = key.take(last, 1);
        let behind = if key.rebases > rebases { 0 } else { MAX_SKEW_US + spec.tick_us() };
        let longest = Duration::from_micros(longest_lock_us(&spec) + behind);
        prop_assert!(answer.reset_after <= longest, "{:?} of {longest:?}", answer.reset_after);
        prop_assert!(rule.horizon() == Duration::from_micros(longest_lock_us(&spec)) || spec.amount == 0);
    }

    /// By a clock that nobody doubts: one step back gives at most one amount more than the law, and a bucket or a
    /// log nothing; one step forward gives what the time that was skipped would have given.
    #[test]
    fn one_jump_gives_at_most_one_amount_more(
        (spec, start, steps) in stories(any_spec(), steps()),
        jump_at in 0..40usize,
        far in any::<bool>(),
        size in -3_000..3_000i64,
    ) {
        prop_assume!(!matches!(spec.kind, Kind::Queue { .. }));
        let tick = i64::try_from(spec.tick_us()).unwrap();
        let unit = if far { i64::try_from(spec.window_us).unwrap() / tick / 1_000 } else { 1 };
        let jump = (size * unit.max(1)).clamp(-(1 << 45), 1 << 45) * tick;
        let rule = spec.rule();
        let mut key = Key::new(&rule);
        let mut watch = Watch::new(start.clamp(1 << 51, 1 << 52) / spec.tick_us() * spec.tick_us());
        let mut events: Vec<(i128, i128)> = Vec::new();
        for (index, (by, pay)) in steps.iter().enumerate() {
            watch.turn(&spec, *by);
            watch.now_us = watch.now_us / spec.tick_us() * spec.tick_us();
            let seen_us = watch.now_us.saturating_add_signed(if index >= jump_at { jump } else { 0 });
            prop_assume!(seen_us > 0 && seen_us < Micros::MAX.as_u64());
            let cost = cost(&spec, &key, seen_us, *pay);
            let answer = key.take(seen_us, cost);
            if answer.allowed {
                events.push((spec.ticks(watch.now_us), i128::from(cost)));
            }
            watch.saw(answer);
        }
        for (first, (from, _)) in events.iter().enumerate() {
            let mut sum = 0;
            for (to, cost) in &events[first..] {
                sum += cost;
                let most = most_with_a_jump(&spec, to - from, jump);
                prop_assert!(sum * spec.window() <= most, "{sum} in {} ticks", to - from);
            }
        }
    }
}

/// The largest sum, times the window, in `d` ticks of undoubted time with one jump of the clock in them.
fn most_with_a_jump(spec: &Spec, d: i128, jump: i64) -> i128 {
    let (window, amount) = (spec.window(), i128::from(spec.amount));
    let forward = i128::from(jump > 0);
    match spec.kind {
        // A jump forward opens a window, and the next edge may be near.
        Kind::Fixed(_) => amount * window * (d / window + 2 + 1 + forward),
        Kind::Log => amount * window * (d / window + 1 + forward),
        Kind::Counter => amount * (window + d) + amount * window,
        Kind::Bucket { burst } => {
            let burst = if spec.amount == 0 { 0 } else { i128::from(burst) };
            burst * window * (1 + forward) + d * amount
        }
        Kind::Queue { .. } => unreachable!(),
    }
}

/// Five seconds are believed, one tick more is not, for each tick size.
#[test]
fn a_state_is_doubted_when_it_is_more_than_5_s_ahead() {
    for window_us in [SECOND, MINUTE, 48 * HOUR] {
        for kind in one_of_each_kind() {
            let spec = Spec { kind, amount: 5, window_us };
            let rule = spec.rule();
            let mut key = Key::new(&rule);
            let begin = 10_000 * 48 * HOUR;
            key.take(begin, 1);
            let state = key.stored.clone();
            let start = match kind {
                Kind::Fixed(_) | Kind::Counter => {
                    // What is compared is the window's start.
                    let reset = u64::try_from(key.peek(begin, 1).reset_after.as_micros()).unwrap();
                    begin + reset - if kind == Kind::Counter { 2 * window_us } else { window_us }
                }
                _ => begin,
            };
            let ask = |now_us| Question { rule: &rule, key: NAME, cost: 1, now: Micros::new(now_us) };
            assert!(ask(start - 5 * SECOND).roll(state.clone()).is_ok(), "{spec:?}");
            let beyond = ask(start - 5 * SECOND - 1);
            assert_eq!(beyond.roll(state.clone()), Err(Skew), "{spec:?}");
            let moved = beyond.rebase(state.clone().unwrap());
            let left = beyond.report(&beyond.roll(Some(moved)).unwrap(), false).remaining;
            assert_eq!(left, key.peek(begin, 1).remaining, "what was used stays used: {spec:?}");
            assert_eq!(ask(start).rebase(state.clone().unwrap()), state.unwrap(), "nothing to move");
        }
    }
}

#[test]
fn the_skew_is_5_s_in_every_tick() {
    for window_us in [SECOND, MINUTE, 48 * HOUR] {
        let tick = Tick::for_window_us(window_us);
        assert_eq!(tick.max_skew() * tick.as_micros(), 5 * SECOND);
    }
}
