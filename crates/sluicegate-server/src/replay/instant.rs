//! Times as logs write them, in microseconds since the epoch.

use jiff::{Timestamp, fmt::strtime};
use sluicegate::core::Micros;

/// `30/Nov/2026:13:55:36 +0700`, as web servers write it.
pub(super) fn of_access_log(text: &str) -> Option<Micros> {
    let broken_down = strtime::parse("%d/%b/%Y:%H:%M:%S %z", text).ok()?;
    of_timestamp(broken_down.to_timestamp().ok()?)
}

/// RFC 3339, or a number since the epoch.
pub(super) fn of_text(text: &str) -> Option<Micros> {
    of_number(text).or_else(|| of_timestamp(text.parse().ok()?))
}

/// A number since the epoch, perhaps with decimals. Its size tells the unit: seconds below 10^11 (the year 5138),
/// milliseconds below 10^14, microseconds below 10^17, else nanoseconds.
pub(super) fn of_number(text: &str) -> Option<Micros> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let nanos = match whole {
        ..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let fraction: u128 = format!("{decimals:0<9.9}").parse().ok()?;
    let total_ns = u128::from(whole) * nanos + fraction * nanos / 1_000_000_000;
    u64::try_from(total_ns / 1_000).ok().map(Micros::new)
}

fn of_timestamp(timestamp: Timestamp) -> Option<Micros> {
    u64::try_from(timestamp.as_microsecond()).ok().map(Micros::new)
}

/// The time in RFC 3339, UTC.
pub(super) fn shown(at: Micros) -> String {
    let timestamp = i64::try_from(at.as_u64()).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    timestamp.map_or_else(|| format!("{} µs", at.as_u64()), |timestamp| timestamp.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_time_is_the_same_time() {
        let expected = Some(Micros::new(1_796_040_000_250_000));
        for text in [
            "2026-11-30T12:00:00.25Z",
            "2026-11-30T19:00:00.250+07:00",
            "1796040000.25",
            "1796040000250",
            "1796040000250000",
            "1796040000250000000",
            "1796040000250.0",
        ] {
            assert_eq!(of_text(text), expected, "{text}");
        }
        let second = Some(Micros::new(1_796_040_000_000_000));
        assert_eq!(of_access_log("30/Nov/2026:12:00:00 +0000"), second);
        assert_eq!(of_access_log("30/Nov/2026:05:00:00 -0700"), second);
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in ["", "noon", "-5", "1e9", "1.", ".5", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z"] {
            assert_eq!(of_text(text), None, "{text}");
        }
        assert_eq!(of_access_log("32/Nov/2026:12:00:00 +0000"), None);
    }
}
