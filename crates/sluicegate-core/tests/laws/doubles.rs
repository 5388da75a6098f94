//! Scripts in Redis compute with doubles. This twin does the same arithmetic in `f64`, as Lua does, looks at every
//! intermediate, and must agree with the integers, at the bounds above all.
#![allow(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "the twin of a script computes in doubles, which is the point"
)]

use std::cell::Cell;

use proptest::prelude::*;
use sluicegate_core::{
    Micros, State,
    algorithm::{bucket, fixed_window, sliding_counter},
};

use crate::{
    key::Key,
    spec::{Kind, Spec, bucket as buckets, counter, queue},
};

const EXACT: f64 = 9_007_199_254_740_992.0;

thread_local! {
    /// The largest intermediate that was seen.
    static LARGEST: Cell<f64> = const { Cell::new(0.0) };
}

/// An intermediate: a whole number that a double holds exactly.
fn exact(value: f64) -> f64 {
    assert!(value.fract() == 0.0 && value.abs() <= EXACT, "{value} is not exact");
    LARGEST.set(LARGEST.get().max(value.abs()));
    value
}

fn double(number: u64) -> f64 {
    assert!(number <= 1 << 53, "{number} is not exact");
    exact(number as f64)
}

fn ceil_div(a: f64, b: f64) -> f64 {
    exact((exact(a) / exact(b)).ceil())
}

fn floor_div(a: f64, b: f64) -> f64 {
    exact((exact(a) / exact(b)).floor())
}

/// What an answer consists of, in ticks.
#[derive(Debug, PartialEq)]
struct Answer {
    allowed: bool,
    remaining: f64,
    retry_at: Option<f64>,
    reset_at: Option<f64>,
    release_at: f64,
}

struct Bucket {
    amount: f64,
    window: f64,
    burst: Option<f64>,
    max_delay: f64,
}

impl Bucket {
    fn of(spec: &Spec) -> Self {
        let (burst, max_delay) = match spec.kind {
            Kind::Bucket { burst } => (Some(double(if spec.amount == 0 { 0 } else { burst })), 0.0),
            Kind::Queue { max_delay_us } => (None, double(max_delay_us / spec.tick_us())),
            _ => unreachable!(),
        };
        Self { amount: double(spec.amount), window: spec.window() as f64, burst, max_delay }
    }

    fn room(&self, cost: f64) -> f64 {
        match self.burst {
            Some(burst) => exact(exact((burst - cost).max(0.0)) * self.window),
            None => exact(self.max_delay * self.amount),
        }
    }

    fn capacity(&self) -> f64 {
        match self.burst {
            Some(burst) => exact(burst * self.window),
            None => exact(exact(self.max_delay + self.window) * self.amount),
        }
    }

    fn rolled(&self, time: f64, level: f64, now: f64) -> (f64, f64) {
        let now = now.max(time);
        // The one product that may be inexact: it then exceeds 2^53, hence every level, and the result is 0 anyway.
        let drained = exact(now - time) * self.amount;
        (now, exact((level.min(self.capacity()) - drained).max(0.0)))
    }

    fn drain(&self, level: f64) -> f64 {
        if self.amount == 0.0 { 0.0 } else { ceil_div(level, self.amount) }
    }

    fn ask(&self, (time, level): (f64, f64), now: f64, cost: f64) -> Answer {
        let (time, level) = self.rolled(time, level, now);
        let most = self.burst.unwrap_or(self.amount);
        let allowed = cost <= most && level <= self.room(cost);
        let backlog = level;
        let level = if allowed { exact(level + exact(cost * self.window)) } else { level };
        let remaining = match self.burst {
            Some(_) => floor_div((self.capacity() - level).max(0.0), self.window),
            None if level <= self.room(0.0) => self.amount,
            None => 0.0,
        };
        let retry = exact(time + self.drain((level - self.room(cost)).max(0.0)));
        Answer {
            allowed,
            remaining,
            retry_at: (!allowed && cost <= most).then_some(retry),
            reset_at: (level > 0.0).then(|| exact(time + self.drain(level))),
            release_at: if allowed && self.burst.is_none() { exact(time + self.drain(backlog)) } else { 0.0 },
        }
    }
}

/// `sliding_counter`; a window's tick is where `now` lies in it.
fn ask_counter(spec: &Spec, (start, previous, current): (f64, f64, f64), now: f64, cost: f64) -> Answer {
    let (amount, window) = (double(spec.amount), spec.window() as f64);
    let opening = exact(now - now % window);
    let (start, previous, current) = if opening <= start {
        (start, previous, current)
    } else if opening - start == window {
        (opening, current, 0.0)
    } else {
        (opening, 0.0, 0.0)
    };
    let left = exact((window - exact((now - start).max(0.0))).max(0.0));
    let faded = exact(previous * left);
    let whole = exact(amount * window);
    let allowed = cost <= amount && exact(faded + exact(exact(current + cost) * window)) <= whole;
    let current = if allowed { current + cost } else { current };
    let elapsed_for = |previous: f64, room: f64| match previous {
        0.0 => 0.0,
        previous => (window - floor_div(exact(room * window), previous)).max(0.0),
    };
    let spare = amount - exact(current + cost);
    let retry = if spare >= 0.0 {
        start + elapsed_for(previous, spare)
    } else {
        exact(start + window) + elapsed_for(current, (amount - cost).max(0.0))
    };
    let windows = if current > 0.0 { 2.0 } else { 1.0 };
    Answer {
        allowed,
        remaining: (floor_div((whole - faded).max(0.0), window) - current).max(0.0),
        retry_at: (!allowed && cost <= amount).then_some(exact(retry)),
        reset_at: (previous + current > 0.0).then(|| exact(start + exact(window * windows))),
        release_at: 0.0,
    }
}

/// What the integers say, in ticks.
fn integers(spec: &Spec, stored: State, now_us: u64, cost: u64) -> Answer {
    let rule = spec.rule();
    let mut key = Key { rule: &rule, stored: Some(stored), rebases: 0 };
    let answer = key.take(now_us, cost);
    let tick = |wait: std::time::Duration| {
        let at_us = now_us + u64::try_from(wait.as_micros()).unwrap();
        assert!(at_us < 1 << 53, "an instant must be an exact double in µs too");
        double(at_us.div_ceil(spec.tick_us()))
    };
    Answer {
        allowed: answer.allowed,
        remaining: double(answer.remaining.unwrap()),
        retry_at: answer.retry.and_then(|retry| match retry {
            sluicegate_core::Retry::After(wait) => Some(tick(wait)),
            sluicegate_core::Retry::Never => None,
        }),
        reset_at: (!answer.reset_after.is_zero()).then(|| tick(answer.reset_after)),
        release_at: if answer.delay.is_zero() { 0.0 } else { tick(answer.delay) },
    }
}

/// A share of a whole, its edges included.
fn shares() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1_000), 0..=1_000u64]
}

fn scaled(permille: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(permille) * u128::from(whole) / 1_000).unwrap()
}

/// A limit, how full its key is (two numbers), how long ago that was in windows, when, and for how much one asks.
fn extremes(specs: impl Strategy<Value = Spec>) -> impl Strategy<Value = (Spec, [u64; 5])> {
    let now = prop_oneof![Just(Micros::MAX.as_u64()), (1 << 50)..Micros::MAX.as_u64()];
    (specs, shares(), shares(), prop_oneof![shares(), 0..5_000u64], now, shares()).prop_map(
        |(spec, a, b, ago, now, cost)| {
            let now = now / spec.tick_us() * spec.tick_us();
            (spec, [a, b, ago, now, scaled(cost, spec.capacity())])
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn doubles_agree_on_every_bucket((spec, [full, jitter, ago, now_us, cost]) in extremes(prop_oneof![buckets(), queue()])) {
        prop_assume!(cost > 0);
        let twin = Bucket::of(&spec);
        let now = now_us / spec.tick_us();
        let level = scaled(full, twin.capacity() as u64).saturating_sub(jitter % 3);
        let time = now - scaled(ago, spec.window_us / spec.tick_us()).min(now);
        let stored = bucket::State { time, level };
        let expected = integers(&spec, stored.into(), now_us, cost);
        let mut answer = twin.ask((double(time), double(level)), double(now), double(cost));
        if expected.release_at == 0.0 && answer.release_at <= double(now) {
            answer.release_at = 0.0;
        }
        prop_assert_eq!(answer, expected);
    }

    #[test]
    fn doubles_agree_on_every_sliding_counter((spec, [previous, current, ago, now_us, cost]) in extremes(counter())) {
        prop_assume!(cost > 0);
        let now = now_us / spec.tick_us();
        let window = spec.window_us / spec.tick_us();
        let then = now - scaled(ago, window).min(now);
        let start = then - then % window;
        let (previous, current) = (scaled(previous, spec.amount), scaled(current, spec.amount));
        let stored = sliding_counter::State { start, previous, current };
        let expected = integers(&spec, stored.into(), now_us, cost);
        let counts = (double(start), double(previous), double(current));
        prop_assert_eq!(ask_counter(&spec, counts, double(now), double(cost)), expected);
    }
}

/// The tracking itself: at the largest numbers the intermediates reach 2^52, and never pass 2^53.
#[test]
fn the_largest_numbers_come_close_to_the_bound_and_stay_below() {
    let most = Spec { kind: Kind::Counter, amount: (1 << 51) / 1_000, window_us: 1_000 };
    // Early, so that no instant outshines the products.
    let now_us = 1_000_000;
    let stored = sliding_counter::State { start: now_us, previous: most.amount, current: most.amount };
    let counts = (double(now_us), double(most.amount), double(most.amount));
    LARGEST.set(0.0);
    let answer = ask_counter(&most, counts, double(now_us), double(most.amount));
    assert_eq!(answer, integers(&most, stored.into(), now_us, most.amount));
    assert!(LARGEST.get() > 1.49 * 2f64.powi(52), "{}", LARGEST.get());

    let queue = Spec { kind: Kind::Queue { max_delay_us: 1_000 }, ..most };
    let twin = Bucket::of(&queue);
    let level = double((1 << 51) / 1_000 * 1_000);
    LARGEST.set(0.0);
    let answer = twin.ask((double(now_us), level), double(now_us), double(queue.amount));
    let stored = bucket::State { time: now_us, level: level as u64 };
    assert_eq!(answer, integers(&queue, stored.into(), now_us, queue.amount));
    assert!(answer.allowed);
    assert!((2f64.powi(52) * 0.99..=2f64.powi(52)).contains(&LARGEST.get()));
}

/// A fixed window only adds: used + cost ≤ 2·amount, start + window below 2^53.
#[test]
fn a_fixed_window_at_the_end_of_time_is_exact() {
    let spec = Spec {
        kind: Kind::Fixed(sluicegate_core::Align::Epoch),
        amount: (1 << 51) / 1_000,
        window_us: 1_000,
    };
    let now_us = Micros::MAX.as_u64() / 1_000 * 1_000;
    let stored = fixed_window::State { start: now_us, used: spec.amount - 1 };
    let answer = integers(&spec, stored.into(), now_us, 2);
    let end = double(now_us + 1_000);
    let expected =
        Answer { allowed: false, remaining: 1.0, retry_at: Some(end), reset_at: Some(end), release_at: 0.0 };
    assert_eq!(answer, expected);
}
