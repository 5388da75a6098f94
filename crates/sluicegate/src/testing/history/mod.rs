//! The history checker: proves or refutes the laws of limits from what callers saw.
//!
//! A caller knows when its call began and when it ended, not when the store counted. So the checker asks for every
//! limit and key: is there a choice of instants, one within each call, that obeys the law? It says
//!
//! - **refuted** if more lies wholly within some interval than the law lets count there: no choice obeys it;
//! - **proven** if all that can lie within any interval is within the law: every choice obeys it;
//! - **not refuted** else, with what is left in the tightest interval.
//!
//! Refuted and proven are certain. For costs above 1, or where windows overlap, some histories that no choice obeys are
//! only "not refuted": deciding those is a packing problem. A call without an answer counts only where more counts
//! against a proof, and may count at any time after it began.
//!
//! A denial is **false** if it is refused although the cost had room beside all that may have counted before.
//!
//! A history must hold every call that counted on its keys, and the keys must be unused when it begins. What a fallback
//! admitted is held against the same laws, for the fleet and for each instance's share.
//!
//! The price is n·log n time, and some 50 bytes of memory per call beside the names of keys and ids.

use std::{collections::BTreeMap, time::Duration};

use sluicegate_core::{Headroom, OnStoreFailure, Policy, Rule, policy};

mod counter;
mod first_request;
mod group;
mod law;
mod line;
mod log;
mod record;
mod recorder;
mod report;
mod span;
mod windows;

pub use record::{Outcome, Path, Record};
pub use recorder::Recorder;
pub use report::{Interval, Report, Row, Scope, Tight, Verdict};

use group::Group;

/// The largest cost of a record: above it no limit can be exact.
pub const MAX_COST: u64 = 1 << 53;

/// The limits that a history is held against, by name.
#[derive(Clone, Debug, Default)]
pub struct Limits(BTreeMap<String, Limit>);

/// What is known of one limit.
#[derive(Clone, Debug)]
struct Limit {
    /// `None` if it is unlimited.
    rule: Option<Rule>,
    /// What the fleet may grant of it in fallback; `None` if it then lets everything pass.
    headroom: Option<Headroom>,
}

impl Limits {
    /// Of names and rules.
    pub fn of<N: Into<String>>(limits: impl IntoIterator<Item = (N, Rule)>) -> Self {
        let known = |rule| Limit { rule: Some(rule), headroom: Some(Headroom::ONE) };
        Self(limits.into_iter().map(|(name, rule)| (name.into(), known(rule))).collect())
    }

    /// The same, where all of them grant this multiple in fallback.
    #[must_use]
    pub fn with_headroom(mut self, headroom: Headroom) -> Self {
        for limit in self.0.values_mut() {
            limit.headroom = Some(headroom);
        }
        self
    }
}

impl From<&Policy> for Limits {
    fn from(policy: &Policy) -> Self {
        let named = |limit: &policy::Limit| {
            let headroom = match limit.on_store_failure {
                OnStoreFailure::Local { headroom } => Some(headroom),
                OnStoreFailure::Deny => Some(Headroom::ONE),
                OnStoreFailure::Allow => None,
            };
            (limit.name.clone(), Limit { rule: limit.grant.rule().cloned(), headroom })
        };
        Self(policy.limits().iter().map(named).collect())
    }
}

/// What is known beside the records.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How far callers' clocks, or theirs and the store's, may be apart: each call may have counted that much before it
    /// began or after it ended.
    pub clock_error: Duration,
    /// How many instances share a limit in fallback. Without it only the fleet is held against the law.
    pub instances: Option<u32>,
}

/// A record that cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No limit has the name.
    #[error("no limit is named `{0}`")]
    UnknownLimit(String),
    /// It ends before it begins.
    #[error("the call ends before it begins")]
    Backwards,
    /// The cost is above [`MAX_COST`].
    #[error("the cost is above {MAX_COST}")]
    Cost,
}

/// Records by limit and key.
#[derive(Debug)]
pub struct History<'l> {
    limits: &'l Limits,
    groups: BTreeMap<&'l str, BTreeMap<Box<str>, Group>>,
}

impl<'l> History<'l> {
    /// An empty history.
    pub fn new(limits: &'l Limits) -> Self {
        Self { limits, groups: BTreeMap::new() }
    }

    /// Adds a record; the order does not matter.
    ///
    /// # Errors
    /// [`RecordError`] if it cannot be judged.
    pub fn add(&mut self, record: &Record) -> Result<(), RecordError> {
        let Some((name, _)) = self.limits.0.get_key_value(&record.limit) else {
            return Err(RecordError::UnknownLimit(record.limit.clone()));
        };
        if record.end < record.start {
            return Err(RecordError::Backwards);
        }
        if record.cost > MAX_COST {
            return Err(RecordError::Cost);
        }
        let keys = self.groups.entry(name).or_default();
        if let Some(group) = keys.get_mut(record.key.as_str()) {
            group.add(record);
        } else {
            keys.entry(record.key.as_str().into()).or_default().add(record);
        }
        Ok(())
    }

    /// Holds every key against the law of its limit.
    pub fn check(&self, settings: &Settings) -> Report {
        let mut report = Report::default();
        for (name, keys) in &self.groups {
            let Some(limit) = self.limits.0.get(*name) else { continue };
            for (key, group) in keys {
                group.check(limit, key, settings, |scope, finding| report.add(name, key, scope, finding));
            }
        }
        report
    }
}
