//! Short ways to records.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate::{
    core::{Align, Micros, Rule},
    testing::history::{History, Limits, Outcome, Record, Report, Row, Scope, Settings},
};

pub(crate) const LIMIT: &str = "limit";
pub(crate) const KEY: &str = "{test:user=alice}";

/// One call in microseconds since [`BEGIN`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
    pub(crate) cost: u64,
    pub(crate) outcome: Outcome,
}

/// A begin of windows of 10 s and all that divide them; far from the epoch, before which no window begins.
pub(crate) const BEGIN: u64 = 1_790_000_000_000_000;

impl Call {
    pub(crate) fn at(at_us: u64, cost: u64, outcome: Outcome) -> Self {
        Self { start_us: at_us, end_us: at_us, cost, outcome }
    }

    pub(crate) fn record(&self) -> Record {
        Record {
            limit: LIMIT.into(),
            key: KEY.into(),
            cost: self.cost,
            start: Micros::new(BEGIN + self.start_us),
            end: Micros::new(BEGIN + self.end_us),
            outcome: self.outcome,
            ..Record::default()
        }
    }
}

pub(crate) fn check_records(rule: &Rule, records: &[Record], settings: &Settings) -> Report {
    let limits = Limits::of([(LIMIT, rule.clone())]);
    let mut history = History::new(&limits);
    for record in records {
        history.add(record).unwrap();
    }
    history.check(settings)
}

pub(crate) fn check(rule: &Rule, calls: &[Call]) -> Report {
    let records: Vec<Record> = calls.iter().map(Call::record).collect();
    check_records(rule, &records, &Settings::default())
}

/// The row of the calls on the store.
pub(crate) fn store_row(report: &Report) -> &Row {
    &report.rows[&(LIMIT.to_owned(), Scope::Store)]
}

/// Rules of every kind whose windows are a few milliseconds long.
pub(crate) fn rules() -> impl Strategy<Value = Rule> {
    let window = (1..=4u64).prop_map(Duration::from_millis);
    (0..8usize, 1..=4u64, window, 1..=5u64).prop_map(|(kind, amount, window, burst)| match kind {
        0 => Rule::fixed_window(amount, window, Align::Epoch).unwrap(),
        1 => Rule::fixed_window(amount, window, Align::Hashed).unwrap(),
        2 => Rule::fixed_window(amount, window, Align::FirstRequest).unwrap(),
        3 => Rule::sliding_log(amount, window).unwrap(),
        4 => Rule::sliding_counter(amount, window).unwrap(),
        5 => Rule::token_bucket(amount, window, burst).unwrap(),
        6 => Rule::gcra(amount, window, amount).unwrap(),
        _ => Rule::leaky_bucket(amount, window, window * 2).unwrap(),
    })
}
