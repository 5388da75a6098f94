//! Units of time as Envoy's rate limit service counts them: a month is 30 days and a year 365.

use std::time::Duration;

use super::proto::envoy::{
    service::ratelimit::v3::rate_limit_response::rate_limit::Unit, r#type::v3::RateLimitUnit,
};

/// A day in seconds.
const DAY_S: u64 = 86_400;
/// The units with their lengths in seconds.
const UNITS: [(Unit, u64); 7] = [
    (Unit::Second, 1),
    (Unit::Minute, 60),
    (Unit::Hour, 3_600),
    (Unit::Day, DAY_S),
    (Unit::Week, 7 * DAY_S),
    (Unit::Month, 30 * DAY_S),
    (Unit::Year, 365 * DAY_S),
];

/// The length of a unit; `None` of the unknown one.
pub(super) fn length(unit: RateLimitUnit) -> Option<Duration> {
    let unit = Unit::from_str_name(unit.as_str_name())?;
    UNITS.iter().find(|(known, _)| *known == unit).map(|(_, length_s)| Duration::from_secs(*length_s))
}

/// The unit whose length differs from a window's by the least factor.
pub(super) fn nearest(window: Duration) -> Unit {
    let longer = UNITS.iter().skip_while(|(_, length_s)| Duration::from_secs(*length_s) < window);
    let shorter = UNITS.iter().rev().skip_while(|(_, length_s)| Duration::from_secs(*length_s) > window);
    match (shorter.copied().next(), longer.copied().next()) {
        (Some((shorter, short_s)), Some((longer, long_s))) => {
            // Of window/short and long/window the lesser, without a fraction: window² against short·long.
            let square = window.as_micros().saturating_mul(window.as_micros());
            let product = micros(short_s).saturating_mul(micros(long_s));
            if square < product { shorter } else { longer }
        }
        (Some((only, _)), None) | (None, Some((only, _))) => only,
        (None, None) => Unit::Unknown,
    }
}

fn micros(seconds: u64) -> u128 {
    u128::from(seconds).saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_told_in_the_unit_that_is_least_far_from_it() {
        let cases = [
            (Duration::from_millis(1), Unit::Second),
            (Duration::from_secs(1), Unit::Second),
            (Duration::from_secs(7), Unit::Second),
            (Duration::from_secs(8), Unit::Minute),
            (Duration::from_secs(60), Unit::Minute),
            (Duration::from_secs(15 * 60), Unit::Hour),
            (Duration::from_secs(3_600), Unit::Hour),
            (Duration::from_secs(12 * 3_600), Unit::Day),
            (Duration::from_secs(6 * DAY_S), Unit::Week),
            (Duration::from_secs(30 * DAY_S), Unit::Month),
            (Duration::from_secs(364 * DAY_S), Unit::Year),
            (Duration::from_secs(3_660 * DAY_S), Unit::Year),
        ];
        for (window, unit) in cases {
            assert_eq!(nearest(window), unit, "{window:?}");
        }
    }

    #[test]
    fn every_unit_of_an_override_has_a_length_except_the_unknown_one() {
        assert_eq!(length(RateLimitUnit::Unknown), None);
        for number in 1..=7 {
            let unit = RateLimitUnit::try_from(number).unwrap_or_default();
            let named = length(unit).map(nearest).map(|unit| unit.as_str_name());
            assert_eq!(named, Some(unit.as_str_name()));
        }
    }
}
