//! Calendar periods: when a quota begins anew, by the calendar of a place.
//!
//! **Law**: boundaries rise strictly and leave no gap: every instant lies in exactly one period, and its period is the same
//! from whichever of its instants one looks. All but the hour begin with a local day, at its first instant: a midnight that
//! clocks skip is the first instant after the gap, one that they repeat is the earlier. Zone data is built in, so that all
//! instances of a fleet count in the same periods whatever is installed where they run.

use std::{fmt, sync::Arc, time::Duration};

pub use jiff::civil::Weekday;
use jiff::{
    Timestamp, ToSpan,
    civil::Date,
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};

use crate::time::Micros;

const HOUR_US: u64 = 3_600_000_000;
const MONTHS_OF_YEAR: i32 = 12;
/// How far the civil calendar's guess of a period may be from the right one: a fold repeats parts of a day, and no zone has
/// skipped more than a day.
const MAX_STEPS: usize = 3;

/// How long a period is, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Sixty minutes, counted from the beginning of each local day. What a day has beyond whole hours counts with its last.
    Hour,
    /// A local day, however long clocks make it.
    Day,
    /// Seven days, from this one on.
    Week(Weekday),
    /// That many calendar months.
    Months {
        /// 1, 3 or 12.
        count: u8,
        /// A month in which a period begins, 1 to 12.
        first_month: u8,
        /// The day of the month on which it begins, 1 to 31; of a shorter month its last. Always counted from this day: 31
        /// January, 28 February, 31 March.
        anchor_day: u8,
    },
}

/// Numbers or names that make no period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeriodError {
    /// The zone is none of the IANA database.
    #[error("there is no time zone `{0}`")]
    UnknownZone(String),
    /// A period of months that is none of 1, 3 and 12.
    #[error("a period has 1, 3 or 12 months, not {0}")]
    Months(u8),
    /// A month that is none.
    #[error("a month is from 1 to 12, not {0}")]
    Month(u8),
    /// A day that no month has.
    #[error("a day of the month is from 1 to 31, not {0}")]
    Day(u8),
}

/// The periods of one calendar. Cheap to clone.
///
/// ```
/// use sluicegate_core::{Every, Micros, Period};
/// let monthly = Every::Months { count: 1, first_month: 1, anchor_day: 31 };
/// let period = Period::new(monthly, "UTC")?;
/// let march_1_2027 = Micros::from_secs(1_803_859_200);
/// let span = period.span(march_1_2027);
/// assert_eq!(span.start, 1_803_772_800_000_000, "28 February");
/// assert_eq!(span.end, 1_806_451_200_000_000, "31 March");
/// # Ok::<(), sluicegate_core::PeriodError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Period(Arc<Calendar>);

#[derive(PartialEq, Eq)]
struct Calendar {
    every: Every,
    zone: TimeZone,
}

/// One period, in microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first instant.
    pub start: u64,
    /// The first instant of the next.
    pub end: u64,
}

/// The calendar month of UTC.
impl Default for Period {
    fn default() -> Self {
        let every = Every::Months { count: 1, first_month: 1, anchor_day: 1 };
        Self(Arc::new(Calendar { every, zone: TimeZone::UTC }))
    }
}

impl Period {
    /// The periods of this length in that time zone of the IANA database.
    ///
    /// # Errors
    /// [`PeriodError`] if the zone is not known or a number is none of the calendar's.
    pub fn new(every: Every, zone_name: &str) -> Result<Self, PeriodError> {
        if let Every::Months { count, first_month, anchor_day } = every {
            check(matches!(count, 1 | 3 | 12), PeriodError::Months(count))?;
            check((1..=12).contains(&first_month), PeriodError::Month(first_month))?;
            check((1..=31).contains(&anchor_day), PeriodError::Day(anchor_day))?;
        }
        let zone = TimeZoneDatabase::bundled().get(zone_name);
        let zone = zone.map_err(|_unknown| PeriodError::UnknownZone(zone_name.to_owned()))?;
        Ok(Self(Arc::new(Calendar { every, zone })))
    }

    /// The length.
    pub fn every(&self) -> Every {
        self.0.every
    }

    /// The zone's name.
    pub fn zone(&self) -> &str {
        self.0.zone.iana_name().unwrap_or("UTC")
    }

    /// The period that contains an instant.
    pub fn span(&self, at: Micros) -> Span {
        let calendar = &*self.0;
        match calendar.every {
            Every::Hour => {
                let day = calendar.span_of_days(at, Every::Day);
                let last = ((day.end - day.start) / HOUR_US).saturating_sub(1);
                let number = (at.as_u64().saturating_sub(day.start) / HOUR_US).min(last);
                let start = day.start + number * HOUR_US;
                Span { start, end: if number == last { day.end } else { start + HOUR_US } }
            }
            every => calendar.span_of_days(at, every),
        }
    }

    /// The number of the period that contains an instant: later periods have larger ones.
    pub fn number(&self, at: Micros) -> i64 {
        match self.0.every {
            Every::Hour => i64::try_from(self.span(at).start / HOUR_US).unwrap_or(i64::MAX),
            every => self.0.number(every, at).into(),
        }
    }

    /// No period is longer: a day that a zone skips belongs to the one before it.
    pub fn longest(&self) -> Duration {
        hours(match self.0.every {
            Every::Hour => 2,
            Every::Day => 2 * 24,
            Every::Week(_) => 8 * 24,
            Every::Months { count, .. } => (u64::from(count) * 31 + 1) * 24,
        })
    }

    /// No period is shorter.
    pub fn shortest(&self) -> Duration {
        hours(match self.0.every {
            Every::Hour => 1,
            // A station in Antarctica has set its clocks by seven hours.
            Every::Day => 12,
            Every::Week(_) => 6 * 24,
            Every::Months { count, .. } => u64::from(count) * 27 * 24,
        })
    }
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3_600)
}

impl Calendar {
    /// The civil calendar names a number of a period, and instants decide: where clocks step back over midnight a date comes
    /// back, and its period does not.
    fn span_of_days(&self, at: Micros, every: Every) -> Span {
        let number = self.number(every, at);
        Span { start: self.start(every, number), end: self.start(every, number + 1) }
    }

    /// The number of the period that contains an instant.
    fn number(&self, every: Every, at: Micros) -> i32 {
        let mut number = self.number_at(every, at);
        for _ in 0..MAX_STEPS {
            if self.start(every, number) > at.as_u64() {
                number -= 1;
            } else if self.start(every, number + 1) <= at.as_u64() {
                number += 1;
            }
        }
        number
    }

    /// The number of the period in which the local date of an instant lies.
    fn number_at(&self, every: Every, at: Micros) -> i32 {
        let instant = i64::try_from(at.as_u64()).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
        let date = self.zone.to_datetime(instant.unwrap_or(Timestamp::UNIX_EPOCH)).date();
        match every {
            Every::Hour | Every::Day => days(date),
            Every::Week(first) => (days(date) - days_to(first)).div_euclid(7),
            Every::Months { count, first_month, anchor_day } => {
                let month = months(date) - i32::from(first_month) + 1;
                let begun =
                    i32::from(date.day()) >= i32::from(anchor_day).min(i32::from(date.days_in_month()));
                (month - i32::from(!begun)).div_euclid(i32::from(count))
            }
        }
    }

    /// The first instant of the period of this number, in microseconds; before the epoch it is 0.
    fn start(&self, every: Every, number: i32) -> u64 {
        let date = match every {
            Every::Hour | Every::Day => date_of(number),
            Every::Week(first) => date_of(number * 7 + days_to(first)),
            Every::Months { count, first_month, anchor_day } => {
                let month = number * i32::from(count) + i32::from(first_month) - 1;
                date_in_month(month, anchor_day)
            }
        };
        let start = self.first_instant(date).map_or(0, Timestamp::as_microsecond);
        u64::try_from(start).unwrap_or(0)
    }

    /// The first instant of a local day.
    fn first_instant(&self, date: Date) -> Option<Timestamp> {
        let midnight = self.zone.to_ambiguous_timestamp(date.at(0, 0, 0, 0));
        let is_skipped = matches!(midnight.offset(), AmbiguousOffset::Gap { .. });
        let instant = midnight.compatible().ok()?;
        if !is_skipped {
            return Some(instant);
        }
        // Clocks were set over midnight just before.
        let at_or_before = self.zone.preceding(instant.saturating_add(1.microsecond()).ok()?).next();
        at_or_before.map(|change| change.timestamp())
    }
}

fn check(holds: bool, error: PeriodError) -> Result<(), PeriodError> {
    if holds { Ok(()) } else { Err(error) }
}

/// Days since 1970-01-01, a Thursday.
fn days(date: Date) -> i32 {
    (date - Date::constant(1970, 1, 1)).get_days()
}

/// The first such weekday since 1970-01-01, in days.
fn days_to(weekday: Weekday) -> i32 {
    i32::from(Weekday::Thursday.until(weekday))
}

fn date_of(days: i32) -> Date {
    Date::constant(1970, 1, 1).saturating_add(days.days())
}

/// Months since January 1970.
fn months(date: Date) -> i32 {
    (i32::from(date.year()) - 1970) * MONTHS_OF_YEAR + i32::from(date.month()) - 1
}

/// That day of the month of this number since January 1970, or its last.
fn date_in_month(number: i32, day: u8) -> Date {
    let first = Date::constant(1970, 1, 1).saturating_add(number.months());
    let day = i8::try_from(day).unwrap_or(1).min(first.days_in_month());
    first.with().day(day).build().unwrap_or(first)
}

impl fmt::Display for Period {
    /// What tells one calendar from another: state is counted by it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.every {
            Every::Hour => f.write_str("hour")?,
            Every::Day => f.write_str("day")?,
            Every::Week(first) => write!(f, "week from {first:?}")?,
            Every::Months { count, first_month, anchor_day } => {
                write!(f, "{count} months from month {first_month} day {anchor_day}")?;
            }
        }
        write!(f, " in {}", self.zone())
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Period({self})")
    }
}
