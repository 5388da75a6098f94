//! What is refused at load, so that no later number leaves the exact ones.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_core::{Align, Micros, Rule, RuleError, rule::MAX_PRODUCT};

use crate::{
    key::Key,
    spec::{DAY, HOUR, MINUTE, SECOND, Spec, any_spec, tick_us},
};

const YEAR_10: Duration = Duration::from_secs(3_660 * 86_400);

proptest! {
    /// The last instant, a full key and the longest wait: everything that follows is still below 2^53 µs.
    #[test]
    fn every_instant_that_follows_from_a_limit_is_an_exact_double(spec in any_spec()) {
        let rule = spec.rule();
        let last = Micros::MAX.as_u64();
        let mut key = Key::new(&rule);
        for _ in 0..100 {
            key.take(last, spec.capacity().max(1));
        }
        let answer = key.peek(last, spec.capacity());
        let reset_us = u64::try_from(answer.reset_after.as_micros()).unwrap();
        prop_assert!(last + reset_us < 1 << 53, "{reset_us}");
        prop_assert!(answer.reset_after <= rule.horizon(), "{:?} of {:?}", answer.reset_after, rule.horizon());
        prop_assert!(rule.horizon() <= 2 * YEAR_10);
    }
}

#[test]
fn the_largest_amount_of_each_window_loads_and_one_more_is_refused() {
    for window_us in [1_000, SECOND, 10 * SECOND, MINUTE, HOUR, DAY, 30 * DAY, 3_660 * DAY] {
        let window = Duration::from_micros(window_us);
        let most = MAX_PRODUCT / (window_us / tick_us(window_us));
        assert!(Rule::fixed_window(most, window, Align::Epoch).is_ok());
        let refused = Rule::sliding_counter(most + 1, window);
        assert_eq!(refused, Err(RuleError::TooLarge { field: "limit", value: most + 1, window, max: most }));
        assert!(Rule::token_bucket(most, window, most).is_ok());
        assert!(Rule::token_bucket(most, window, most + 1).is_err());
    }
}

/// The table of `docs/concepts/laws.md`.
#[test]
fn the_documented_maximum_amounts_are_right() {
    let page = include_str!("../../../../docs/concepts/laws.md");
    for (name, window_us) in [
        ("1 ms", 1_000),
        ("1 s", SECOND),
        ("10 s", 10 * SECOND),
        ("1 min", MINUTE),
        ("1 h", HOUR),
        ("12 h", 12 * HOUR),
        ("1 d", DAY),
        ("30 d", 30 * DAY),
        ("366 d", 366 * DAY),
        ("10 years", 3_660 * DAY),
    ] {
        let tick = match tick_us(window_us) {
            1 => "1 µs",
            1_000 => "1 ms",
            _ => "1 s",
        };
        let row =
            format!("| {name} | {tick} | {} |", grouped(MAX_PRODUCT / (window_us / tick_us(window_us))));
        assert!(page.contains(&row), "missing in docs/concepts/laws.md: {row}");
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn windows_outside_1_ms_to_10_years_are_refused() {
    for window in
        [Duration::ZERO, Duration::from_micros(999), YEAR_10 + Duration::from_secs(1), Duration::MAX]
    {
        assert_eq!(Rule::gcra(1, window, 1), Err(RuleError::Window(window)));
        assert_eq!(Rule::leaky_bucket(1, window, Duration::ZERO), Err(RuleError::Window(window)));
    }
}

#[test]
fn a_window_of_half_a_tick_is_refused() {
    for (window, unit) in [
        (Duration::from_nanos(1_000_500), "microseconds"),
        (Duration::from_micros(10_000_500), "milliseconds"),
        (Duration::from_millis(86_400_500), "seconds"),
    ] {
        let refused = Rule::fixed_window(1, window, Align::Epoch);
        assert_eq!(refused, Err(RuleError::PartialTick { window, unit }));
    }
}

/// At 1 per 10 years a burst of 1,000 would refill in the year 12000: no such instant can be told.
#[test]
fn a_burst_that_takes_longer_than_10_years_to_refill_is_refused() {
    assert!(Rule::token_bucket(1, YEAR_10, 1).is_ok());
    let refused = Rule::token_bucket(1, YEAR_10, 2);
    assert_eq!(refused, Err(RuleError::TooLarge { field: "burst", value: 2, window: YEAR_10, max: 1 }));
    let day = Duration::from_secs(86_400);
    assert!(Rule::token_bucket(1, day, 3_660).is_ok());
    assert!(Rule::token_bucket(1, day, 3_661).is_err());
}

#[test]
fn a_queue_longer_than_10_years_or_beyond_exact_numbers_is_refused() {
    let second = Duration::from_secs(1);
    assert!(Rule::leaky_bucket(1, second, YEAR_10).is_ok());
    let long = YEAR_10 + Duration::from_micros(1);
    assert!(matches!(Rule::leaky_bucket(1, second, long), Err(RuleError::DelayTooLong { max: YEAR_10, .. })));
    assert!(Rule::leaky_bucket(0, second, Duration::MAX).is_err());
    let full = Duration::from_micros(MAX_PRODUCT / 1_000_000);
    assert!(Rule::leaky_bucket(1_000_000, second, full).is_ok());
    assert!(Rule::leaky_bucket(1_000_000, second, full + Duration::from_micros(1)).is_err());
}

#[test]
fn an_amount_of_0_denies_everything_but_a_cost_of_0() {
    let window_us = MINUTE;
    for kind in crate::spec::one_of_each_kind() {
        let spec = Spec { kind, amount: 0, window_us };
        let rule = spec.rule();
        let mut key = Key::new(&rule);
        let answer = key.take(SECOND, 1);
        assert!(!answer.allowed, "{kind:?}");
        assert_eq!(answer.retry, Some(sluicegate_core::Retry::Never));
        assert_eq!((answer.limit, answer.remaining), (Some(0), Some(0)));
        assert!(key.take(SECOND, 0).allowed);
        assert_eq!(key.stored, None);
    }
}

#[test]
fn a_log_of_more_than_1000_and_a_burst_of_0_are_refused() {
    let minute = Duration::from_secs(60);
    assert_eq!(Rule::sliding_log(1_001, minute), Err(RuleError::LogTooLarge(1_001)));
    assert_eq!(Rule::gcra(5, minute, 0), Err(RuleError::ZeroBurst));
}
