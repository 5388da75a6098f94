//! What a policy would have done to traffic that was logged: every line is a request at its own time, decided on an
//! embedded store.
//!
//! Files of any size are streamed. What is kept is bounded: the counters of the store, the worst keys of each limit,
//! and a number of moments in time.

use std::io::{self, BufRead};

use serde::Serialize;
use sluicegate::core::{Micros, Policy};

mod engine;
pub mod fields;
mod format;
mod instant;
mod line;
pub mod picture;
mod timeline;
mod worst;

use engine::Engine;
pub use engine::{LimitReport, PolicyReport};
pub use fields::{FieldMap, Mapping};
pub use format::Format;
use line::{Line, Lines};
pub use timeline::{Moment, Timeline};
pub use worst::WorstKey;

/// Bad lines that are named; the others are counted.
const MAX_NAMED: usize = 5;

/// How lines are read.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How they are written.
    pub format: Format,
    /// Which fields become attributes.
    pub map: FieldMap,
}

/// A policy with what to call it.
#[derive(Debug)]
pub struct Named {
    /// Its file.
    pub name: String,
    /// The policy.
    pub policy: Policy,
}

/// What became of a log.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Lines that were read as requests.
    pub requests: u64,
    /// The time of the first and of the last request, in RFC 3339; `None` without requests.
    pub from: Option<String>,
    /// See `from`.
    pub to: Option<String>,
    /// Lines that could not be read.
    pub bad_lines: Bad,
    /// Requests that were logged after later ones.
    pub disorder: Disorder,
    /// What each policy did.
    pub policies: Vec<PolicyReport>,
    /// Requests that the first policy decides differently from the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differences: Option<Differences>,
}

/// Lines that are no requests.
#[derive(Debug, Default, Serialize)]
pub struct Bad {
    /// How many.
    pub count: u64,
    /// The first few.
    pub first: Vec<BadLine>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub struct BadLine {
    /// The number of the line, from 1.
    pub line: u64,
    /// What is wrong.
    pub why: String,
}

/// Requests whose time lies before that of a line above. They are decided at the time of that line: a limiter would
/// have seen them then at the latest.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Disorder {
    /// How many.
    pub count: u64,
    /// The longest that one of them was late, in ms.
    pub longest_ms: u64,
}

/// Requests that two policies decide differently.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Differences {
    /// Pass with the first policy alone.
    pub only_first: u64,
    /// Pass with the second policy alone.
    pub only_second: u64,
}

/// Decides every line of a log by one policy, or by two.
///
/// `progress` hears the number of bytes after each few thousand lines.
///
/// # Errors
/// If the log cannot be read. A line that makes no sense is no error: it is counted and named in the report.
pub fn run(
    input: impl BufRead,
    config: &Config,
    policies: Vec<Named>,
    mut progress: impl FnMut(u64),
) -> io::Result<Report> {
    let mut replay = Replay::new(policies);
    let (mut lines, mut reader) = (Lines::new(input), format::Reader::new(config));
    loop {
        let read = match lines.next_line()? {
            Line::End => break,
            Line::Text(text) if text.trim().is_empty() => continue,
            Line::Text(text) => reader.read(text),
            Line::Bad(why) => Err(why.to_owned()),
        };
        match read {
            Ok(record) => replay.decide(&record),
            Err(why) => replay.note_bad(lines.number(), why),
        }
        if lines.number().is_multiple_of(4_096) {
            progress(lines.bytes());
        }
    }
    progress(lines.bytes());
    Ok(replay.finish())
}

/// One request of a log.
#[derive(Debug)]
struct Record {
    at: Micros,
    attributes: sluicegate::core::Attributes,
}

struct Replay {
    engines: Vec<Engine>,
    report: Report,
    first: Option<Micros>,
    latest: Option<Micros>,
    differences: Differences,
}

impl Replay {
    fn new(policies: Vec<Named>) -> Self {
        let engines = policies.into_iter().map(Engine::new).collect();
        let differences = Differences::default();
        Self { engines, report: Report::default(), first: None, latest: None, differences }
    }

    fn decide(&mut self, record: &Record) {
        let now = self.latest.map_or(record.at, |latest| latest.max(record.at));
        let late_us = now.as_u64().saturating_sub(record.at.as_u64());
        if late_us > 0 {
            let disorder = &mut self.report.disorder;
            disorder.count += 1;
            disorder.longest_ms = disorder.longest_ms.max(late_us.div_ceil(1_000));
        }
        self.first = self.first.or(Some(now));
        self.latest = Some(now);
        self.report.requests += 1;
        let passed: Vec<_> =
            self.engines.iter_mut().map(|engine| engine.decide(&record.attributes, now)).collect();
        match passed.as_slice() {
            [true, false] => self.differences.only_first += 1,
            [false, true] => self.differences.only_second += 1,
            _ => {}
        }
    }

    fn note_bad(&mut self, line: u64, why: String) {
        let bad = &mut self.report.bad_lines;
        bad.count += 1;
        if bad.first.len() < MAX_NAMED {
            bad.first.push(BadLine { line, why });
        }
    }

    fn finish(self) -> Report {
        let two = self.engines.len() == 2;
        Report {
            from: self.first.map(instant::shown),
            to: self.latest.map(instant::shown),
            differences: two.then_some(self.differences),
            policies: self.engines.into_iter().map(Engine::finish).collect(),
            ..self.report
        }
    }
}
