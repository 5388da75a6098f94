//! What is legal in a policy and probably not meant: each finding with its place, the reason and what to do.
//!
//! A mistake is an error and keeps a policy from loading. A finding does not: whoever means it writes the lint's code
//! into the limit's `allow`.

use std::fmt;

use super::{
    Limit, Policy, PolicyError, Problem,
    problem::Place,
    tree::{self, Node, Value},
};

mod edges;
mod envelope;
mod keys;
mod money;
mod reach;
mod size;

/// One kind of finding.
#[derive(Clone, Copy)]
pub struct Lint {
    /// What `allow` and reports call it.
    pub code: &'static str,
    /// What it finds, in a sentence.
    pub finds: &'static str,
    /// Why that hurts.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// Limits of which one has this finding, and no other.
    pub example: &'static str,
    find: fn(&Policy, &Limit) -> Option<Found>,
}

/// What a lint says about a limit.
struct Found {
    /// The field that is pointed at.
    field: &'static str,
    what: String,
    hint: String,
}

/// All lints, in the order of their codes.
pub const LINTS: &[Lint] = &[
    size::BURST_ABOVE_WINDOW,
    reach::DENIES_EVERYTHING,
    edges::DOUBLE_AT_THE_EDGE,
    money::FAIL_OPEN_ON_MONEY,
    size::HOT_COUNTER,
    size::LONG_LOG,
    reach::MEETS_NOTHING,
    envelope::NEVER_BINDS,
    edges::RESETS_ALL_AT_ONCE,
    keys::STRANGERS_CHOOSE,
];

impl Lint {
    /// The lint of a code.
    pub fn of_code(code: &str) -> Option<&'static Self> {
        LINTS.iter().find(|lint| lint.code == code)
    }
}

impl fmt::Debug for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lint").field("code", &self.code).finish_non_exhaustive()
    }
}

/// Something in a policy that is probably not meant.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The kind.
    pub lint: &'static Lint,
    /// The limit.
    pub limit: String,
    /// Where, what and what to do; displayed as a mistake is.
    pub problem: Problem,
}

/// A policy and what is probably not meant in it.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The policy.
    pub policy: Policy,
    /// The findings, in the order of the file.
    pub findings: Vec<Finding>,
}

/// Reads a policy file and looks for what is probably not meant.
///
/// ```
/// use sluicegate_core::policy::lint;
/// let checked = lint::check(
///     "version: 1
/// limits:
///   - { name: per-user, algorithm: fixed_window, limit: 100, per: 1m, key: [user] }",
/// )?;
/// assert_eq!(checked.findings[0].lint.code, "double_at_the_edge");
/// # Ok::<(), sluicegate_core::policy::PolicyError>(())
/// ```
///
/// # Errors
/// [`PolicyError`] if the file is no policy.
pub fn check(text: &str) -> Result<Checked, PolicyError> {
    let policy = Policy::parse(text)?;
    let places = Places::of(text);
    let mut findings = Vec::new();
    for (index, limit) in policy.limits().iter().enumerate() {
        let wanted = LINTS.iter().filter(|lint| !limit.allowed.contains(&lint.code));
        findings.extend(wanted.filter_map(|lint| {
            let found = (lint.find)(&policy, limit)?;
            let mut problem = Problem::new(places.of_field(index, found.field), found.what).hint(found.hint);
            problem.quote(text);
            Some(Finding { lint, limit: limit.name.clone(), problem })
        }));
    }
    findings.sort_by_key(|finding| (finding.problem.line(), finding.problem.column()));
    Ok(Checked { policy, findings })
}

/// The limits of a file that was read without a mistake, as they were typed.
struct Places(Vec<Node>);

impl Places {
    fn of(text: &str) -> Self {
        let limits = tree::parse(text).ok().and_then(|root| field(&root, "limits").cloned());
        match limits.map(|node| node.value) {
            Some(Value::List(limits)) => Self(limits),
            _ => Self(Vec::new()),
        }
    }

    /// Where the value of a field stands, or else the limit itself.
    fn of_field(&self, index: usize, name: &str) -> Place {
        let limit = self.0.get(index);
        let node = limit.and_then(|limit| field(limit, name));
        let limit = limit.map(|limit| Place { length: 1, ..limit.place });
        node.map(|node| node.place).or(limit).unwrap_or(Place::START)
    }
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &node.value else { return None };
    let named = |(key, _): &&(Node, Node)| matches!(&key.value, Value::Text(text) if text == name);
    entries.iter().find(named).map(|(_, value)| value)
}

/// Whether each request that this limit counts is counted by the other as well, in the same unit, together with at
/// least the requests that share a counter here.
fn counts_all_of(other: &Limit, limit: &Limit) -> bool {
    use super::IfMissing;
    let wider_key = other.key.iter().all(|name| limit.key.contains(name));
    // A request that lacks an attribute of the other's key must be one that this limit does not count either.
    let same_missing = other.if_missing != IfMissing::Skip || limit.if_missing != IfMissing::Shared;
    other.unit == limit.unit && wider_key && same_missing && other.matcher.covers(&limit.matcher)
}
