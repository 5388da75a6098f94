//! A limit as the tests know it, and the numbers that limits are tried with.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_core::{
    Align, Rule,
    rule::{MAX_PRODUCT, MAX_WINDOW},
};

/// What kind of limit, with the numbers that this kind alone has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fixed(Align),
    Log,
    Counter,
    Bucket { burst: u64 },
    Queue { max_delay_us: u64 },
}

/// A limit in plain numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) amount: u64,
    pub(crate) window_us: u64,
}

pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;

impl Spec {
    pub(crate) fn rule(&self) -> Rule {
        self.try_rule().expect("the tests choose numbers within the bounds")
    }

    pub(crate) fn try_rule(&self) -> Result<Rule, sluicegate_core::RuleError> {
        let (amount, window) = (self.amount, Duration::from_micros(self.window_us));
        match self.kind {
            Kind::Fixed(align) => Rule::fixed_window(amount, window, align),
            Kind::Log => Rule::sliding_log(amount, window),
            Kind::Counter => Rule::sliding_counter(amount, window),
            // One state machine, two ways to write it: both names are tried.
            Kind::Bucket { burst } if burst.is_multiple_of(2) => Rule::gcra(amount, window, burst),
            Kind::Bucket { burst } => Rule::token_bucket(amount, window, burst),
            Kind::Queue { max_delay_us } => {
                Rule::leaky_bucket(amount, window, Duration::from_micros(max_delay_us))
            }
        }
    }

    /// Microseconds per tick, from the text: µs below 10 s, ms below a day, s from there.
    pub(crate) fn tick_us(&self) -> u64 {
        tick_us(self.window_us)
    }

    /// The window in ticks.
    pub(crate) fn window(&self) -> i128 {
        i128::from(self.window_us / self.tick_us())
    }

    pub(crate) fn ticks(&self, us: u64) -> i128 {
        i128::from(us / self.tick_us())
    }

    /// The largest cost that a fresh key admits.
    pub(crate) fn capacity(&self) -> u64 {
        match self.kind {
            Kind::Bucket { burst } if self.amount > 0 => burst,
            _ => self.amount,
        }
    }
}

pub(crate) fn tick_us(window_us: u64) -> u64 {
    if window_us < 10 * SECOND {
        1
    } else if window_us < DAY {
        1_000
    } else {
        SECOND
    }
}

/// From 1 ms to 10 years: common ones, the edges between ticks, and any number of ticks.
pub(crate) fn windows() -> impl Strategy<Value = u64> {
    let longest = u64::try_from(MAX_WINDOW.as_micros()).unwrap();
    prop_oneof![
        prop::sample::select(vec![
            1_000,
            SECOND,
            10 * SECOND - 1,
            10 * SECOND,
            MINUTE,
            HOUR,
            DAY - 1_000,
            DAY,
            30 * DAY,
            longest,
        ]),
        1_000..10 * SECOND,
        (10_000..86_400_000u64).prop_map(|ms| ms * 1_000),
        (86_400..longest / SECOND).prop_map(|s| s * SECOND),
    ]
}

/// Up to `max`: small numbers, numbers of any magnitude, the bound itself, and nothing.
pub(crate) fn amounts(max: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (1..=20u64).prop_map(move |amount| amount.min(max)),
        4 => (0..52u32, any::<u64>())
            .prop_map(move |(bits, low)| ((1 << bits) | (low & ((1 << bits) - 1))).min(max)),
        1 => Just(max),
        1 => Just(0),
    ]
}

pub(crate) fn fixed() -> impl Strategy<Value = Spec> {
    let aligns = prop::sample::select(vec![Align::Epoch, Align::Hashed, Align::FirstRequest]);
    (aligns, windows()).prop_flat_map(|(align, window_us)| of(Kind::Fixed(align), window_us, u64::MAX))
}

pub(crate) fn log() -> impl Strategy<Value = Spec> {
    windows().prop_flat_map(|window_us| of(Kind::Log, window_us, 1_000))
}

pub(crate) fn counter() -> impl Strategy<Value = Spec> {
    windows().prop_flat_map(|window_us| of(Kind::Counter, window_us, u64::MAX))
}

fn of(kind: Kind, window_us: u64, most: u64) -> impl Strategy<Value = Spec> {
    amounts(most.min(MAX_PRODUCT / (window_us / tick_us(window_us)))).prop_map(move |amount| Spec {
        kind,
        amount,
        window_us,
    })
}

pub(crate) fn bucket() -> impl Strategy<Value = Spec> {
    let burst = |spec: Spec| {
        let ticks = spec.window_us / spec.tick_us();
        let longest = u64::try_from(MAX_WINDOW.as_micros()).unwrap() / spec.tick_us();
        let most = MAX_PRODUCT.min(spec.amount.saturating_mul(longest)) / ticks;
        prop_oneof![1 => Just(spec.amount), 2 => amounts(most)]
            .prop_map(move |burst| Spec { kind: Kind::Bucket { burst: burst.max(1) }, ..spec })
    };
    counter().prop_flat_map(burst)
}

pub(crate) fn queue() -> impl Strategy<Value = Spec> {
    let delay = |spec: Spec| {
        let longest = u64::try_from(MAX_WINDOW.as_micros()).unwrap() / spec.tick_us();
        let most = longest.min(MAX_PRODUCT / spec.amount.max(1));
        let shares = (0..5_000u64)
            .prop_map(move |permille| (spec.window_us / spec.tick_us() / 1_000 * permille).min(most));
        prop_oneof![4 => shares, 2 => amounts(most)].prop_map(move |ticks| Spec {
            kind: Kind::Queue { max_delay_us: ticks * spec.tick_us() },
            ..spec
        })
    };
    counter().prop_flat_map(delay)
}

/// A limit of any kind.
pub(crate) fn any_spec() -> impl Strategy<Value = Spec> {
    prop_oneof![fixed(), log(), counter(), bucket(), queue()]
}

/// One of each kind, with a burst of 10 and a delay of 30 s.
pub(crate) fn one_of_each_kind() -> [Kind; 7] {
    [
        Kind::Fixed(Align::Epoch),
        Kind::Fixed(Align::Hashed),
        Kind::Fixed(Align::FirstRequest),
        Kind::Log,
        Kind::Counter,
        Kind::Bucket { burst: 10 },
        Kind::Queue { max_delay_us: 30 * SECOND },
    ]
}
