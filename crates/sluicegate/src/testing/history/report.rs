//! What a history says about the laws, limit by limit.

use std::{collections::BTreeMap, fmt};

use sluicegate_core::Micros;

/// What is known about a law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Every choice of instants within the calls obeys it.
    #[default]
    Proven,
    /// Some choices break it, and no interval shows that all do.
    NotRefuted,
    /// No choice obeys it.
    Refuted,
}

impl Verdict {
    /// The words in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::NotRefuted => "not refuted",
            Self::Refuted => "REFUTED",
        }
    }
}

/// Whose calls a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those that the shared store decided.
    Store,
    /// Those that the fallbacks of all instances decided.
    Fallback,
    /// Those that one instance's fallback decided, held against its share.
    Instance(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.pad("store"),
            Self::Fallback => f.pad("fallback"),
            Self::Instance(name) => f.pad(&format!("share of {name}")),
        }
    }
}

/// Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The first microsecond.
    pub from: Micros,
    /// The last microsecond.
    pub to: Micros,
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.from, self.to)
    }
}

/// An interval with what counted in it and what the law lets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tight {
    /// The interval, in whole ticks of the limit.
    pub during: Interval,
    /// The cost that counted in it.
    pub admitted: u64,
    /// The most that may count in it; at least 0.
    pub bound: u64,
}

impl fmt::Display for Tight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} in {}", self.admitted, self.bound, self.during)
    }
}

/// What was found of one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) admitted: u64,
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) unknown: u64,
    pub(super) certain: Option<Tight>,
    pub(super) possible: Option<Tight>,
    pub(super) false_denials: Vec<Interval>,
    pub(super) charged_twice: Vec<String>,
}

/// What was found of a limit in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Keys with calls.
    pub keys: u64,
    /// Keys that refute the law.
    pub refuted: u64,
    /// Keys that prove it.
    pub proven: u64,
    /// The cost that was admitted.
    pub admitted: u64,
    /// Calls that were allowed.
    pub allowed: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// Calls without an answer.
    pub unknown: u64,
    /// The key and interval where what must have counted leaves least of the bound, or exceeds it most.
    pub certain: Option<(String, Tight)>,
    /// The same for what may have counted.
    pub possible: Option<(String, Tight)>,
    /// Denials although there was room.
    pub false_denials: u64,
    /// The first of them that was found: key and call.
    pub false_denial: Option<(String, Interval)>,
    /// Charges beside the first of an id.
    pub charged_twice: u64,
    /// The id of one of them.
    pub charged_twice_id: Option<String>,
}

impl Row {
    fn add(&mut self, key: &str, finding: Finding) {
        self.keys += 1;
        self.refuted += u64::from(finding.verdict == Verdict::Refuted);
        self.proven += u64::from(finding.verdict == Verdict::Proven);
        self.admitted = self.admitted.saturating_add(finding.admitted);
        self.allowed += finding.allowed;
        self.denied += finding.denied;
        self.unknown += finding.unknown;
        keep_tighter(&mut self.certain, key, finding.certain);
        keep_tighter(&mut self.possible, key, finding.possible);
        self.false_denials += count(&finding.false_denials);
        let denial = finding.false_denials.first().map(|denial| (key.to_owned(), *denial));
        self.false_denial = self.false_denial.take().or(denial);
        self.charged_twice += count(&finding.charged_twice);
        self.charged_twice_id = self.charged_twice_id.take().or(finding.charged_twice.into_iter().next());
    }

    /// What all keys together say.
    pub fn verdict(&self) -> Verdict {
        if self.refuted > 0 || self.charged_twice > 0 {
            Verdict::Refuted
        } else if self.proven == self.keys {
            Verdict::Proven
        } else {
            Verdict::NotRefuted
        }
    }

    /// What a person wants to know beside the numbers.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some((key, tight)) = &self.certain {
            remarks.push(format!("tightest: {tight} for `{key}`"));
        }
        if let (Verdict::NotRefuted, Some((key, tight))) = (self.verdict(), &self.possible) {
            remarks.push(format!("possible: {tight} for `{key}`"));
        }
        if let Some((key, call)) = &self.false_denial {
            remarks.push(format!("false denials: {}, first in {call} for `{key}`", self.false_denials));
        }
        if let Some(id) = &self.charged_twice_id {
            remarks.push(format!("charged twice: {}, such as id `{id}`", self.charged_twice));
        }
        remarks
    }
}

fn count<T>(items: &[T]) -> u64 {
    items.len().try_into().unwrap_or(u64::MAX)
}

fn keep_tighter(kept: &mut Option<(String, Tight)>, key: &str, new: Option<Tight>) {
    let over = |tight: &Tight| i128::from(tight.admitted) - i128::from(tight.bound);
    let Some(new) = new else { return };
    if kept.as_ref().is_none_or(|(_, kept)| over(kept) < over(&new)) {
        *kept = Some((key.to_owned(), new));
    }
}

/// What a history says about the laws.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// A row for each limit and scope with calls.
    pub rows: BTreeMap<(String, Scope), Row>,
}

impl Report {
    pub(super) fn add(&mut self, limit: &str, key: &str, scope: Scope, finding: Finding) {
        self.rows.entry((limit.to_owned(), scope)).or_default().add(key, finding);
    }

    /// What all rows together say.
    pub fn verdict(&self) -> Verdict {
        self.rows.values().map(Row::verdict).max().unwrap_or_default()
    }

    /// Denials although there was room, of all limits.
    pub fn false_denials(&self) -> u64 {
        self.rows.values().map(|row| row.false_denials).sum()
    }

    /// Whether nothing is refuted and no denial is false.
    pub fn holds(&self) -> bool {
        self.verdict() != Verdict::Refuted && self.false_denials() == 0
    }
}

/// A table with a line for each row, and what is to say about it below.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.keys().map(|(limit, _)| limit.len()).max().unwrap_or_default().max(5);
        let scope = |(_, scope): &(String, Scope)| scope.to_string().len();
        let scopes = self.rows.keys().map(scope).max().unwrap_or_default().max(5);
        writeln!(
            f,
            "{:width$}  {:scopes$}  {:>8}  {:>10}  {:>10}  {:>10}  {:>10}  verdict",
            "limit", "scope", "keys", "allowed", "denied", "unknown", "admitted"
        )?;
        for ((limit, scope), row) in &self.rows {
            writeln!(
                f,
                "{limit:width$}  {scope:scopes$}  {:>8}  {:>10}  {:>10}  {:>10}  {:>10}  {}",
                row.keys,
                row.allowed,
                row.denied,
                row.unknown,
                row.admitted,
                row.verdict().name()
            )?;
            for remark in row.remarks() {
                writeln!(f, "{:width$}  {remark}", "")?;
            }
        }
        Ok(())
    }
}
