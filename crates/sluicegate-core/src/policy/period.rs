//! The field `period` of a quota: its calendar.

use super::{
    fields::PERIOD_FIELDS,
    file::{Field, Fields, LimitFile, Schema},
    problem::{Problem, Problems},
    resolve::{Choices, choice, whole},
};
use crate::{
    period::{Every, Period, PeriodError, Weekday},
    rule::Algorithm,
};

const PERIOD: Schema = Schema {
    owner: "a period",
    known: PERIOD_FIELDS,
    later: &[],
    synonyms: &[
        ("zone", "timezone"),
        ("tz", "timezone"),
        ("unit", "every"),
        ("per", "every"),
        ("day", "anchor_day"),
        ("week_start", "first_day"),
        ("month", "first_month"),
    ],
};

/// What `every` may say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Length {
    #[default]
    Month,
    Hour,
    Day,
    Week,
    Quarter,
    Year,
}

pub(super) const LENGTHS: Choices<Length> = Choices(&[
    ("hour", Length::Hour),
    ("day", Length::Day),
    ("week", Length::Week),
    ("month", Length::Month),
    ("quarter", Length::Quarter),
    ("year", Length::Year),
]);

#[derive(Clone, Copy)]
pub(super) struct FirstDay(Weekday);

impl Default for FirstDay {
    fn default() -> Self {
        Self(Weekday::Monday)
    }
}

pub(super) const DAYS: Choices<FirstDay> = Choices(&[
    ("monday", FirstDay(Weekday::Monday)),
    ("tuesday", FirstDay(Weekday::Tuesday)),
    ("wednesday", FirstDay(Weekday::Wednesday)),
    ("thursday", FirstDay(Weekday::Thursday)),
    ("friday", FirstDay(Weekday::Friday)),
    ("saturday", FirstDay(Weekday::Saturday)),
    ("sunday", FirstDay(Weekday::Sunday)),
]);

/// What `timezone` says if it is left out.
const DEFAULT_ZONE: &str = "UTC";
const HINT: &str = "say when it begins anew, such as `period: { every: month }`";

/// The period of a quota; of another algorithm it says nothing.
pub(super) fn period(
    file: &LimitFile,
    field: Option<&Field>,
    algorithm: Algorithm,
    problems: &mut Problems,
) -> Option<Period> {
    if algorithm != Algorithm::Quota {
        return Some(Period::default());
    }
    let field = problems.note(file.require(field, "period", HINT))?;
    if let Err(problem) = field.mapping() {
        problems.push(problem.hint("write `period: { every: month }`"));
        return None;
    }
    let mut fields = Fields::read(field.node.clone(), &PERIOD, problems)?;
    let every = problems.note(fields.require("every", &PERIOD, "say how long, such as `every: month`"))?;
    let length = problems.note(choice(Some(&every), &LENGTHS))?;
    let first_day = problems.note(own(fields.take("first_day"), length, &[Length::Week]))?;
    let months = [Length::Month, Length::Quarter, Length::Year];
    let anchor_day = problems.note(own(fields.take("anchor_day"), length, &months))?;
    let first_month =
        problems.note(own(fields.take("first_month"), length, &[Length::Quarter, Length::Year]))?;
    let zone = fields.take("timezone");
    let first_day = problems.note(choice(first_day.as_ref(), &DAYS))?;
    let day = problems.note(anchor_day.map_or(Ok(1), |field| ordinal(&field, 31)))?;
    let month = problems.note(first_month.map_or(Ok(1), |field| ordinal(&field, 12)))?;
    let every = every_of(length, first_day.0, month, day);
    problems.note(in_zone(every, zone.as_ref()))
}

fn every_of(length: Length, first_day: Weekday, first_month: u8, anchor_day: u8) -> Every {
    let months = |count| Every::Months { count, first_month, anchor_day };
    match length {
        Length::Hour => Every::Hour,
        Length::Day => Every::Day,
        Length::Week => Every::Week(first_day),
        Length::Month => months(1),
        Length::Quarter => months(3),
        Length::Year => months(12),
    }
}

fn in_zone(every: Every, zone: Option<&Field>) -> Result<Period, Problem> {
    let name = zone.map_or(Ok(DEFAULT_ZONE), |field| field.text("a text"))?;
    Period::new(every, name).map_err(|error| {
        let place = zone.map_or(super::Place::START, |field| field.node.place);
        let problem = Problem::new(place, error.to_string());
        match error {
            PeriodError::UnknownZone(_) => {
                problem.hint("give a name of the IANA database, such as `Europe/Berlin` or `UTC`")
            }
            _ => problem,
        }
    })
}

/// A field if it says something about a period of this length.
fn own(field: Option<Field>, length: Length, owners: &[Length]) -> Result<Option<Field>, Problem> {
    let Some(stray) = field.as_ref().filter(|_| !owners.contains(&length)) else { return Ok(field) };
    let known = |length: &Length| LENGTHS.0.iter().find(|(_, own)| own == length).map(|(word, _)| *word);
    let word = known(&length).unwrap_or_default();
    let owners: Vec<String> =
        owners.iter().filter_map(known).map(|word| format!("`every: {word}`")).collect();
    let what = format!("`{}` says nothing about a period of `every: {word}`", stray.name);
    Err(Problem::new(stray.name_place, what).hint(format!("remove it; it belongs to {}", owners.join(", "))))
}

/// A whole number from 1 to `last`.
fn ordinal(field: &Field, last: u8) -> Result<u8, Problem> {
    let expected = format!("a whole number from 1 to {last}");
    let number = whole(field, &expected)?;
    u8::try_from(number)
        .ok()
        .filter(|number| (1..=last).contains(number))
        .ok_or_else(|| field.must_be(&expected))
}
