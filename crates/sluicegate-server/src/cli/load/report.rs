//! What came of a run.

use std::{fmt, time::Duration};

use hdrhistogram::Histogram;
use hyper::StatusCode;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// The longest time that is told apart, in microseconds: a minute.
const LONGEST_US: u64 = 60_000_000;
/// The digits of a time that count.
const DIGITS: u8 = 3;
/// The parts of all requests whose times are told.
const PARTS: [(&str, f64); 4] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Counts and times.
#[derive(Debug)]
pub(super) struct Report {
    allowed: u64,
    denied: u64,
    /// Answers that are neither.
    other: u64,
    /// Requests without an answer.
    failed: u64,
    /// In microseconds, from when a request was due.
    times: Option<Histogram<u64>>,
    took: Duration,
    expected: Option<Expected>,
}

#[derive(Clone, Copy, Debug)]
struct Expected {
    denied: u64,
    /// In hundredths of all.
    tolerance: f64,
}

impl Default for Report {
    fn default() -> Self {
        let times = Histogram::new_with_max(LONGEST_US, DIGITS).ok();
        Self { allowed: 0, denied: 0, other: 0, failed: 0, times, took: Duration::ZERO, expected: None }
    }
}

impl Report {
    pub(super) fn answered(&mut self, status: StatusCode, after: Duration) {
        match status {
            StatusCode::OK => self.allowed += 1,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN => self.denied += 1,
            _ => self.other += 1,
        }
        self.note(after);
    }

    /// A request without an answer has waited as long as anybody listened.
    pub(super) fn failed(&mut self, after: Duration) {
        self.failed += 1;
        self.note(after);
    }

    /// Requests that were never sent, since nobody answered those before.
    pub(super) fn unsent(&mut self, requests: u64) {
        self.failed += requests;
    }

    fn note(&mut self, after: Duration) {
        if let Some(times) = &mut self.times {
            times.saturating_record(u64::try_from(after.as_micros()).unwrap_or(LONGEST_US));
        }
    }

    /// Adds what another connection saw.
    pub(super) fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.other += other.other;
        self.failed += other.failed;
        if let (Some(times), Some(others)) = (&mut self.times, &other.times) {
            // Both have the same bounds, so that this cannot fail.
            let _ = times.add(others);
        }
    }

    pub(super) fn took(&mut self, took: Duration) {
        self.took = took;
    }

    pub(super) fn expect(&mut self, denied: u64, tolerance: f64) {
        self.expected = Some(Expected { denied, tolerance });
    }

    /// Whether nobody answered.
    pub(super) fn unanswered(&self) -> bool {
        self.allowed + self.denied + self.other == 0
    }

    fn all(&self) -> u64 {
        self.allowed + self.denied + self.other + self.failed
    }

    /// A part of all requests, in hundredths.
    fn share(&self, part: u64) -> f64 {
        percent(part, self.all())
    }

    /// Whether every request was decided, and the share of refusals is the policy's, if one was given.
    pub(super) fn is_as_expected(&self) -> bool {
        let decided = self.other == 0 && self.failed == 0;
        let near = |expected: Expected| {
            (self.share(self.denied) - self.share(expected.denied)).abs() <= expected.tolerance
        };
        decided && self.expected.is_none_or(near)
    }

    fn rate(&self) -> f64 {
        float(self.all()) / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn ms(&self, part: f64) -> f64 {
        self.times.as_ref().map_or(0.0, |times| float(times.value_at_percentile(part)) / 1_000.0)
    }
}

/// Counts of requests are far below 2^53.
fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { float(part) / float(all) * 100.0 }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "requests  {} in {:.1} s, {:.1} a second",
            self.all(),
            self.took.as_secs_f64(),
            self.rate()
        )?;
        writeln!(f, "allowed   {}", self.allowed)?;
        writeln!(f, "denied    {} ({:.1} %)", self.denied, self.share(self.denied))?;
        writeln!(f, "errors    {} other answers, {} without one", self.other, self.failed)?;
        let times: Vec<_> =
            PARTS.iter().map(|(name, part)| format!("{name} {:.2}", self.ms(*part))).collect();
        writeln!(f, "ms        {}, longest {:.2}", times.join(", "), self.ms(100.0))?;
        let Some(expected) = self.expected else { return Ok(()) };
        let verdict = if self.is_as_expected() { "as the policy says" } else { "NOT AS THE POLICY SAYS" };
        writeln!(f, "expected  {} denied ({:.1} %)", expected.denied, self.share(expected.denied))?;
        writeln!(f, "verdict   {verdict}")
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut told = serializer.serialize_struct("Report", 9)?;
        told.serialize_field("requests", &self.all())?;
        told.serialize_field("seconds", &self.took.as_secs_f64())?;
        told.serialize_field("allowed", &self.allowed)?;
        told.serialize_field("denied", &self.denied)?;
        told.serialize_field("other", &self.other)?;
        told.serialize_field("failed", &self.failed)?;
        let times: serde_json::Map<_, _> =
            PARTS.iter().map(|(name, part)| ((*name).to_owned(), self.ms(*part).into())).collect();
        told.serialize_field("latency_ms", &times)?;
        told.serialize_field("expected_denied", &self.expected.map(|expected| expected.denied))?;
        told.serialize_field("as_expected", &self.is_as_expected())?;
        told.end()
    }
}
