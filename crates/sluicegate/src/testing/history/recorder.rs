//! Keeps what happens while a test runs.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{History, Limits, Record, Report, Settings};

/// Collects records from any number of threads. Clones share what was recorded.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{
///     core::{Align, Micros, Rule},
///     testing::history::{Limits, Outcome, Record, Recorder},
/// };
/// let recorder = Recorder::default();
/// let (start, end) = (Micros::from_secs(60), Micros::from_secs(61));
/// for _ in 0..3 {
///     let outcome = Outcome::Allowed;
///     recorder.record(Record { limit: "two".into(), cost: 1, start, end, outcome, ..Record::default() });
/// }
/// let limits = Limits::of([("two", Rule::fixed_window(2, Duration::from_secs(60), Align::Epoch)?)]);
/// let report = recorder.check(&limits);
/// assert!(!report.holds(), "3 of 2 in one window:\n{report}");
/// # Ok::<(), sluicegate::core::RuleError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Vec<Record>>>);

impl Recorder {
    /// Adds a record.
    pub fn record(&self, record: Record) {
        self.0.lock().push(record);
    }

    /// All records so far, in the order in which they were added.
    pub fn records(&self) -> Vec<Record> {
        self.0.lock().clone()
    }

    /// Holds all records so far against the laws of their limits.
    ///
    /// # Panics
    /// If a record names no limit, ends before it began, or costs more than a limit can grant: a mistake of the test.
    pub fn check(&self, limits: &Limits) -> Report {
        self.check_with(limits, &Settings::default())
    }

    /// The same, with settings.
    ///
    /// # Panics
    /// As [`Recorder::check`].
    #[expect(clippy::panic, reason = "a test that records nonsense must fail")]
    pub fn check_with(&self, limits: &Limits, settings: &Settings) -> Report {
        let mut history = History::new(limits);
        for record in self.0.lock().iter() {
            if let Err(error) = history.add(record) {
                panic!("{error}: {record:?}");
            }
        }
        history.check(settings)
    }
}
