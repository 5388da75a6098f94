//! The law of periods: boundaries rise strictly and leave no gap, for a hundred years, in every zone, from every anchor.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::collections::HashSet;

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, date},
    tz::{TimeZone, TimeZoneDatabase},
};
use sluicegate_core::{Every, Micros, Period, PeriodError, Span, Weekday};

const HOUR_US: u64 = 3_600_000_000;
const DAY_US: u64 = 24 * HOUR_US;
const SECOND_US: u64 = 1_000_000;
const LAST_YEAR: i16 = 2070;

/// Zones with what is rare: a skipped day, midnights that are skipped or come twice, shifts of half an hour or of a minute
/// past midnight.
const AWKWARD: [&str; 9] = [
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "America/Havana",
    "Australia/Lord_Howe",
    "America/Scoresbysund",
    "Africa/Casablanca",
    "Asia/Gaza",
    "America/St_Johns",
];

const MONTH: Every = months(1, 1, 1);

const fn months(count: u8, first_month: u8, anchor_day: u8) -> Every {
    Every::Months { count, first_month, anchor_day }
}

fn period(every: Every, zone: &str) -> Period {
    Period::new(every, zone).unwrap()
}

fn span(period: &Period, at_us: u64) -> Span {
    period.span(Micros::new(at_us))
}

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn local(zone: &TimeZone, at_us: u64) -> Date {
    let at = Timestamp::from_microsecond(i64::try_from(at_us).unwrap()).unwrap();
    zone.to_datetime(at).date()
}

fn micros(at: Timestamp) -> u64 {
    u64::try_from(at.as_microsecond()).unwrap()
}

fn at(year: i16, month: i8, day: i8, hour: i8, name: &str) -> u64 {
    micros(date(year, month, day).at(hour, 0, 0, 0).to_zoned(zone(name)).unwrap().timestamp())
}

/// The instants of a hundred years at which clocks of the zone are set.
fn transitions(zone: &TimeZone) -> Vec<u64> {
    let (from, to) = (Timestamp::UNIX_EPOCH, date(LAST_YEAR, 1, 1).at(0, 0, 0, 0));
    let to = to.to_zoned(TimeZone::UTC).unwrap().timestamp();
    zone.following(from)
        .map(|transition| transition.timestamp())
        .take_while(|at| *at < to)
        .map(micros)
        .collect()
}

/// Walks from period to period, and checks that each is told from whichever of its instants one looks.
fn walk(period: &Period, from_us: u64, to_us: u64, mut each: impl FnMut(Span)) {
    let mut current = span(period, from_us);
    while current.start < to_us {
        let Span { start, end } = current;
        assert!(start < end, "{period}: {start} to {end}");
        let length = u128::from(end - start);
        // The epoch cuts the first one.
        let whole = start == 0 || length >= period.shortest().as_micros();
        assert!(whole && length <= period.longest().as_micros(), "{period}: {start} to {end}");
        for inside in [start, start + (end - start) / 2, end - 1] {
            assert_eq!(span(period, inside), current, "{period} at {inside}");
        }
        let next = span(period, end);
        assert_eq!(next.start, end, "{period}");
        let number = |at| period.number(Micros::new(at));
        assert!(number(start) < number(end), "{period} at {end}");
        each(current);
        current = next;
    }
}

#[test]
fn periods_leave_no_gap_around_any_change_of_clocks_in_any_zone() {
    let mut seen = HashSet::new();
    for name in TimeZoneDatabase::bundled().available() {
        let changes = transitions(&zone(name.as_str()));
        // Many names are links to another zone.
        if !seen.insert(changes.clone()) {
            continue;
        }
        let [hours, days] = [Every::Hour, Every::Day].map(|every| period(every, name.as_str()));
        for (at, change) in changes.iter().enumerate() {
            walk(&days, change.saturating_sub(DAY_US), change + 2 * DAY_US, |_day| {});
            // Hours depend on nothing but the day.
            if at % 8 == 0 {
                walk(&hours, change.saturating_sub(2 * HOUR_US), change + 2 * HOUR_US, |_hour| {});
            }
        }
    }
    assert!(seen.len() > 200, "only {} zones", seen.len());
}

/// A day begins at the first instant whose local date nobody has had before.
#[test]
fn a_day_begins_when_its_date_is_seen_first() {
    const MINUTE_US: u64 = 60 * SECOND_US;
    for name in AWKWARD {
        let (zone, days) = (zone(name), period(Every::Day, name));
        for change in transitions(&zone).into_iter().take(40) {
            let from = (change - 26 * HOUR_US) / MINUTE_US * MINUTE_US;
            let mut latest = local(&zone, from);
            for at in (from + MINUTE_US..change + 26 * HOUR_US).step_by(usize::try_from(MINUTE_US).unwrap()) {
                let begins = local(&zone, at) > latest;
                latest = latest.max(local(&zone, at));
                // A change of clocks within the minute, if any, is at its beginning in these zones since 1970.
                let told = span(&days, at).start == at;
                assert_eq!(told, begins, "{name} at {at}");
            }
        }
    }
}

#[test]
fn a_month_begins_on_its_anchor_or_its_last_day_for_a_hundred_years() {
    for name in ["UTC", "America/St_Johns", "Pacific/Apia"] {
        let zone = zone(name);
        for anchor_day in 1..=31 {
            for (count, first_month) in [(1, 1), (3, 2), (12, 4)] {
                let period = period(months(count, first_month, anchor_day), name);
                let mut begun = 0;
                walk(&period, 400 * DAY_US, 36_500 * DAY_US, |Span { start, .. }| {
                    begun += 1;
                    let begins = local(&zone, start);
                    let day = i8::try_from(anchor_day).unwrap().min(begins.days_in_month());
                    // Samoa had no 30 December 2011.
                    let skipped = name == "Pacific/Apia" && begins == date(2011, 12, 31);
                    assert!(begins.day() == day || skipped, "{period}: {begins}");
                    let month = (begins.month() - i8::try_from(first_month).unwrap()).rem_euclid(12);
                    assert_eq!(month % i8::try_from(count).unwrap(), 0, "{period}: {begins}");
                });
                let all = 1_186 / usize::from(count);
                assert!((all - 1..=all + 2).contains(&begun), "{period}: {begun}");
            }
        }
    }
}

#[test]
fn a_week_begins_on_its_day() {
    for first in Weekday::Monday.cycle_forward().take(7) {
        for name in ["UTC", "America/Sao_Paulo"] {
            let zone = zone(name);
            let period = period(Every::Week(first), name);
            walk(&period, 30 * DAY_US, 7_000 * DAY_US, |Span { start, .. }| {
                assert_eq!(local(&zone, start).weekday(), first, "{period}");
            });
        }
    }
}

/// Lago PR#1840 and dust#28757 stepped from the clamped day: 31 January, 28 February, 28 March.
#[test]
fn the_thirty_first_comes_back_after_february() {
    let monthly = period(months(1, 1, 31), "UTC");
    let mut begins = Vec::new();
    walk(&monthly, at(2027, 1, 31, 0, "UTC"), at(2027, 5, 1, 0, "UTC"), |span| {
        begins.push(local(&TimeZone::UTC, span.start).to_string());
    });
    assert_eq!(begins, ["2027-01-31", "2027-02-28", "2027-03-31", "2027-04-30"]);
}

/// Kill Bill#743, #445: a day was 24 hours, so that after a change of clocks it ended at 23:00 or 01:00.
#[test]
fn days_of_23_and_25_hours_end_at_midnight() {
    let days = period(Every::Day, "Europe/Berlin");
    let length = |year, month, day| {
        let Span { start, end } = span(&days, at(year, month, day, 12, "Europe/Berlin"));
        (end - start) / HOUR_US
    };
    assert_eq!((length(2026, 3, 29), length(2026, 10, 25), length(2026, 7, 1)), (23, 25, 24));
}

/// A midnight that clocks skip is the first instant after the gap; one that they repeat is the earlier.
#[test]
fn midnights_that_are_skipped_or_come_twice_begin_one_day() {
    let days = period(Every::Day, "America/Sao_Paulo");
    let noon = at(2018, 11, 4, 12, "America/Sao_Paulo");
    assert_eq!(
        noon - span(&days, noon).start,
        11 * HOUR_US,
        "the day begins at 01:00, an hour later by the clock"
    );
    let days = period(Every::Day, "America/Havana");
    let noon = at(2020, 11, 1, 12, "America/Havana");
    assert_eq!(noon - span(&days, noon).start, 13 * HOUR_US, "00:00 to 01:00 came twice");
}

/// LiteLLM#34896: a budget began anew late by the offset of the zone.
#[test]
fn a_period_follows_its_zone() {
    let hanoi = period(MONTH, "Asia/Ho_Chi_Minh");
    let start = span(&hanoi, at(2026, 12, 15, 0, "UTC")).start;
    assert_eq!(
        Timestamp::UNIX_EPOCH + i64::try_from(start).unwrap().microseconds(),
        "2026-11-30T17:00:00Z".parse().unwrap()
    );
}

#[test]
fn numbers_and_names_that_make_no_period_are_refused() {
    let refused = |every, zone| Period::new(every, zone).unwrap_err();
    assert_eq!(refused(MONTH, "Mars/Base"), PeriodError::UnknownZone("Mars/Base".to_owned()));
    assert_eq!(refused(months(2, 1, 1), "UTC"), PeriodError::Months(2));
    assert_eq!(refused(months(1, 13, 1), "UTC"), PeriodError::Month(13));
    for day in [0, 32] {
        assert_eq!(refused(months(1, 1, day), "UTC"), PeriodError::Day(day));
    }
}
