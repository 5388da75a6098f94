//! Lengths of time as people write them: `250ms`, `10s`, `5m`, `1h`, `1d`, `2w`, and ISO 8601 (`PT1M`, `P1D`).

use std::time::Duration;

/// A text that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It is written in no way that is known.
    #[error("`{0}` is not a length of time")]
    Malformed(String),
    /// It is a bare number.
    #[error("`{0}` has no unit")]
    NoUnit(String),
    /// Months and years differ in length.
    #[error("`{0}` has no fixed length")]
    Calendar(String),
    /// It does not fit 64 bits of milliseconds.
    #[error("`{0}` is too long")]
    TooLong(String),
}

impl DurationError {
    /// What to write instead.
    pub fn hint(&self) -> String {
        match self {
            Self::Malformed(text) => guess(text).map_or_else(
                || "write a whole number and a unit: `250ms`, `10s`, `5m`, `1h`, `1d`, `2w`, or `PT1M`".to_owned(),
                |guess| format!("write `{guess}`"),
            ),
            Self::NoUnit(text) => format!("write `{text}s` for seconds, or `ms`, `m`, `h`, `d`, `w`"),
            Self::Calendar(_) => {
                "months and years differ in length: write days, such as `30d`, or take `quota` with a `period`"
                    .to_owned()
            }
            Self::TooLong(_) => "the longest window is 3660d".to_owned(),
        }
    }
}

const MILLI_MS: u64 = 1;
const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 86_400_000;
const WEEK_MS: u64 = 7 * DAY_MS;

/// Reads a length of time.
pub(super) fn parse(text: &str) -> Result<Duration, DurationError> {
    let millis = if text.starts_with(['P', 'p']) { parse_iso(text)? } else { parse_short(text)? };
    Ok(Duration::from_millis(millis))
}

fn parse_short(text: &str) -> Result<u64, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(malformed)?;
    let unit_ms = match unit {
        "ms" => MILLI_MS,
        "s" => SECOND_MS,
        "m" => MINUTE_MS,
        "h" => HOUR_MS,
        "d" => DAY_MS,
        "w" => WEEK_MS,
        "" if !number.is_empty() => return Err(DurationError::NoUnit(text.to_owned())),
        other if is_calendar(other) => return Err(DurationError::Calendar(text.to_owned())),
        _ => return Err(malformed()),
    };
    if number.is_empty() {
        return Err(malformed());
    }
    product(number, unit_ms).ok_or_else(|| DurationError::TooLong(text.to_owned()))
}

fn is_calendar(unit: &str) -> bool {
    let unit = unit.trim().to_ascii_lowercase();
    ["mo", "mon", "month", "months", "y", "yr", "year", "years"].contains(&unit.as_str())
}

fn product(number: &str, unit_ms: u64) -> Option<u64> {
    number.parse::<u64>().ok()?.checked_mul(unit_ms)
}

/// `P[nW][nD][T[nH][nM][nS]]`, at least one part, each unit once and in this order; seconds may have up to three
/// decimals. ISO 8601-2 allows weeks beside other parts.
fn parse_iso(text: &str) -> Result<u64, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let upper = text.to_ascii_uppercase();
    let body = upper.strip_prefix('P').ok_or_else(malformed)?;
    let (date, time) = body.split_once('T').map_or((body, None), |(date, time)| (date, Some(time)));
    if date.contains(['Y', 'M']) {
        return Err(DurationError::Calendar(text.to_owned()));
    }
    if time.is_some_and(str::is_empty) || (date.is_empty() && time.is_none()) {
        return Err(malformed());
    }
    let days = iso_parts(date, &[('W', WEEK_MS), ('D', DAY_MS)]);
    let clock = iso_parts(time.unwrap_or_default(), &[('H', HOUR_MS), ('M', MINUTE_MS), ('S', SECOND_MS)]);
    let (days, clock) = (days.ok_or_else(malformed)?, clock.ok_or_else(malformed)?);
    days.checked_add(clock).ok_or_else(|| DurationError::TooLong(text.to_owned()))
}

fn iso_parts(mut text: &str, units: &[(char, u64)]) -> Option<u64> {
    let mut total: u64 = 0;
    for (letter, unit_ms) in units {
        let Some((number, rest)) = text.split_once(*letter) else { continue };
        total = total.saturating_add(iso_number(number, *unit_ms)?);
        text = rest;
    }
    text.is_empty().then_some(total)
}

/// A number of one unit in milliseconds; only seconds may have decimals. Too large saturates, and is refused later
/// as too long a window.
fn iso_number(number: &str, unit_ms: u64) -> Option<u64> {
    let (whole, decimals) = number.split_once(['.', ',']).map_or((number, None), |(w, d)| (w, Some(d)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) {
        return None;
    }
    let whole_ms = product(whole, unit_ms).unwrap_or(u64::MAX);
    let Some(decimals) = decimals else { return Some(whole_ms) };
    if unit_ms != SECOND_MS || !is_number(decimals) || decimals.len() > 3 {
        return None;
    }
    let millis = format!("{decimals:0<3}").parse::<u64>().ok()?;
    Some(whole_ms.saturating_add(millis))
}

/// The right spelling of a common wrong one: `10 s`, `5min`, `1 hour`, `day`, `1S`.
fn guess(text: &str) -> Option<String> {
    if text.ends_with('M') {
        return None; // A minute or a month: not ours to guess.
    }
    let text = text.trim().to_ascii_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = match unit.trim() {
        "ms" | "msec" | "millis" | "millisecond" | "milliseconds" => "ms",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "d" | "day" | "days" => "d",
        "w" | "week" | "weeks" => "w",
        _ => return None,
    };
    Some(format!("{}{unit}", if number.is_empty() { "1" } else { number }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Result<u128, DurationError> {
        parse(text).map(|duration| duration.as_millis())
    }

    #[test]
    fn every_unit_has_its_length() {
        let expected =
            [("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("1d", 86_400_000)];
        for (text, ms) in expected {
            assert_eq!(millis(text), Ok(ms), "{text}");
        }
        assert_eq!(millis("2w"), Ok(14 * 86_400_000));
    }

    #[test]
    fn iso_durations_add_their_parts() {
        let expected = [
            ("PT1M", 60_000),
            ("P1D", 86_400_000),
            ("P1W", 604_800_000),
            ("PT1H30M", 5_400_000),
            ("P1DT1H", 90_000_000),
            ("PT0.5S", 500),
            ("PT1,25S", 1_250),
            ("pt10s", 10_000),
        ];
        for (text, ms) in expected {
            assert_eq!(millis(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn calendar_lengths_are_refused_in_every_spelling() {
        for text in ["P1M", "P1Y", "1month", "1 month", "month", "2y", "1mo", "P1Y2M", "P1MT1H"] {
            assert_eq!(millis(text), Err(DurationError::Calendar(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn malformed_lengths_are_refused() {
        let wrong = [
            "",
            "s",
            "ms",
            "-5s",
            "+5s",
            "1.5s",
            "5 s",
            " 5s",
            "5s ",
            "1h30m",
            "P",
            "PT",
            "P1",
            "P1DT",
            "PT1",
            "PT1M1H",
            "PT-1S",
            "PT1.5M",
            "PT0.0001S",
            "PT.5S",
            "P1H",
            "PT1D",
            "1µs",
            "٣s",
            "0x5s",
            "PT1S1S",
        ];
        for text in wrong {
            assert_eq!(millis(text), Err(DurationError::Malformed(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_length_beyond_64_bits_is_too_long_and_not_wrapped() {
        for text in ["18446744073709551616ms", "99999999999999999999w", "18446744073709551615s"] {
            assert_eq!(millis(text), Err(DurationError::TooLong(text.to_owned())), "{text}");
        }
        assert_eq!(millis("PT18446744073709551615S"), Ok(u128::from(u64::MAX)));
    }

    #[test]
    fn a_near_miss_is_answered_with_the_right_spelling() {
        let pairs = [
            ("10 s", "10s"),
            ("5min", "5m"),
            ("1 Hour", "1h"),
            ("day", "1d"),
            ("1S", "1s"),
            ("3 weeks", "3w"),
        ];
        for (typed, meant) in pairs {
            assert_eq!(parse(typed).unwrap_err().hint(), format!("write `{meant}`"), "{typed}");
        }
    }
}
