//! Policies: which limits apply to a request, and the asks that follow.

use std::time::Duration;

use crate::{
    ask::{Ask, LimitId, Subject},
    rule::{Algorithm, Rule},
};

pub mod choose;
mod duration;
mod file;
pub mod lint;
mod pattern;
mod problem;
mod resolve;
mod suggest;
pub mod tree;

pub use file::{LIMIT_FIELDS, MAX_LIMITS, POLICY_FIELDS};
pub use pattern::{Matcher, PatternError};
pub use problem::{Place, PolicyError, Problem};
pub use resolve::{MAX_ATTRIBUTES, MAX_FILE_LEN, MAX_NAME_LEN, MAX_PATTERN_LEN};

/// The unit that a plain cost counts.
pub const REQUESTS: &str = "requests";

/// The most limits that may apply to one request: a store decides them all in one short step.
pub const MAX_APPLIED: usize = 128;

/// The limits of one domain. Immutable; a change makes a new one.
#[derive(Clone, Debug)]
pub struct Policy {
    domain: String,
    slot_by: Vec<String>,
    limits: Vec<Limit>,
}

/// A named rule with what it applies to and what it counts by.
#[derive(Clone, Debug)]
pub struct Limit {
    /// `[a-z0-9-]`, unique in its domain.
    pub name: String,
    /// The stable id of its state.
    pub id: LimitId,
    /// The unit that it counts.
    pub unit: String,
    /// The attributes that it counts by; none is one counter for all.
    pub key: Vec<String>,
    /// The requests that it applies to.
    pub matcher: Matcher,
    /// What to do when the request lacks an attribute of the key.
    pub if_missing: IfMissing,
    /// The codes of lints that are not to be told of it.
    pub allowed: Vec<&'static str>,
    /// What it grants.
    pub grant: Grant,
}

/// What a limit grants.
#[derive(Clone, Debug)]
pub enum Grant {
    /// At most what the rule says.
    Bounded(Rule),
    /// Everything: reported and not counted.
    Unlimited {
        /// The algorithm that is named in answers.
        algorithm: Algorithm,
        /// The window that is named in answers.
        window: Duration,
    },
}

impl Grant {
    /// The algorithm and window, for answers.
    pub fn shape(&self) -> (Algorithm, Duration) {
        match self {
            Self::Bounded(rule) => (rule.algorithm(), rule.window()),
            Self::Unlimited { algorithm, window } => (*algorithm, *window),
        }
    }
}

/// What a limit does when its key names an attribute that the request lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfMissing {
    /// All such requests count together.
    #[default]
    Shared,
    /// The request is refused as malformed.
    Refuse,
    /// The limit does not apply.
    Skip,
}

/// What is known of a request: names and values.
///
/// ```
/// use sluicegate_core::Attributes;
/// let attributes: Attributes = [("user", "alice"), ("endpoint", "/v1/chat")].into_iter().collect();
/// assert_eq!(attributes.value("user"), Some("alice"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<(String, String)>);

impl Attributes {
    /// The value of an attribute, if the request has it. Absent is not the same as empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Sets an attribute; returns the value that it had.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) -> Option<String> {
        let (name, value) = (name.into(), value.into());
        if let Some((_, old)) = self.0.iter_mut().find(|(own, _)| *own == name) {
            return Some(std::mem::replace(old, value));
        }
        self.0.push((name, value));
        None
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut attributes = Self::default();
        for (name, value) in pairs {
            attributes.insert(name, value);
        }
        attributes
    }
}

/// What a request costs, per unit. A unit that is not named costs 0, except [`REQUESTS`], which costs 1.
///
/// ```
/// use sluicegate_core::Costs;
/// assert_eq!(Costs::default().of("requests"), 1);
/// assert_eq!(Costs::requests(5).of("requests"), 5);
/// assert_eq!(Costs::of_units([("tokens", 700)]).of("tokens"), 700);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs(Vec<(String, u64)>);

impl Costs {
    /// That many requests.
    pub fn requests(cost: u64) -> Self {
        Self::of_units([(REQUESTS, cost)])
    }

    /// A cost per unit.
    pub fn of_units<N: Into<String>>(units: impl IntoIterator<Item = (N, u64)>) -> Self {
        Self(units.into_iter().map(|(unit, cost)| (unit.into(), cost)).collect())
    }

    /// The cost in a unit.
    pub fn of(&self, unit: &str) -> u64 {
        let named = self.0.iter().find(|(own, _)| own == unit).map(|(_, cost)| *cost);
        named.unwrap_or(u64::from(unit == REQUESTS))
    }

    fn units(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(unit, _)| unit.as_str())
    }
}

/// A request that a policy cannot turn into asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// A cost in a unit that no limit of the domain counts: it would be silently unenforced.
    #[error("no limit of domain `{domain}` counts the unit `{unit}`")]
    UnknownUnit {
        /// The domain.
        domain: String,
        /// The unit.
        unit: String,
    },
    /// A limit with `if_missing: refuse` lacks an attribute of its key.
    #[error("limit `{limit}` needs the attribute `{attribute}`")]
    MissingAttribute {
        /// The limit.
        limit: String,
        /// The attribute.
        attribute: String,
    },
    /// More limits match than are decided at once: some of them would be silently unenforced.
    #[error("more than {MAX_APPLIED} limits of domain `{domain}` apply to the request")]
    TooManyLimits {
        /// The domain.
        domain: String,
    },
}

/// A limit that applies to a request, with what it asks a store; an unlimited one asks nothing.
#[derive(Clone, Debug)]
pub struct Applied<'p> {
    /// The limit.
    pub limit: &'p Limit,
    /// The cost in the limit's unit.
    pub cost: u64,
    /// The ask; `None` if unlimited.
    pub ask: Option<Ask<'p>>,
}

impl Policy {
    /// Reads a policy file.
    ///
    /// ```
    /// use sluicegate_core::Policy;
    /// let policy = Policy::parse(
    ///     "version: 1
    /// limits:
    ///   - { name: per-user, algorithm: sliding_counter, limit: 100, per: 1m, key: [user] }",
    /// )?;
    /// assert_eq!(policy.limits().len(), 1);
    ///
    /// let error = Policy::parse("version: 1\nlimit: []").unwrap_err();
    /// assert!(error.to_string().starts_with("line 2, column 1: a policy has no field `limit`"));
    /// assert_eq!(error.problems()[0].hint_text(), Some("did you mean `limits`?"));
    /// # Ok::<(), sluicegate_core::policy::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// [`PolicyError`] with every problem of the file that can be told apart, each with its place.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        resolve::parse(text)
    }

    /// A policy of limits that were checked already.
    pub(crate) fn new(domain: String, slot_by: Vec<String>, limits: Vec<Limit>) -> Self {
        Self { domain, slot_by, limits }
    }

    /// The domain's name.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The attributes that decide what shares a slot on a Redis Cluster.
    pub fn slot_by(&self) -> &[String] {
        &self.slot_by
    }

    /// All limits, in the order of the file.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The limits that apply to a request, with their asks, in the order of the file.
    ///
    /// # Errors
    /// [`AskError`] if a unit is unknown, an attribute is missing that a limit insists on, or more than
    /// [`MAX_APPLIED`] limits apply.
    pub fn apply(&self, attributes: &Attributes, costs: &Costs) -> Result<Vec<Applied<'_>>, AskError> {
        self.check_units(costs)?;
        let mut applied: Vec<Applied<'_>> = Vec::with_capacity(self.limits.len().min(MAX_APPLIED));
        for limit in self.limits.iter().filter(|limit| limit.matcher.matches(attributes)) {
            match (missing_attribute(limit, attributes), limit.if_missing) {
                (Some(_), IfMissing::Skip) => continue,
                (Some(attribute), IfMissing::Refuse) => {
                    let (limit, attribute) = (limit.name.clone(), attribute.to_owned());
                    return Err(AskError::MissingAttribute { limit, attribute });
                }
                _ => {}
            }
            if applied.len() == MAX_APPLIED {
                return Err(AskError::TooManyLimits { domain: self.domain.clone() });
            }
            let cost = costs.of(&limit.unit);
            let ask = match &limit.grant {
                Grant::Unlimited { .. } => None,
                Grant::Bounded(rule) => {
                    let subject = self.subject(limit, attributes, &applied);
                    Some(Ask { rule, id: limit.id, subject, cost })
                }
            };
            applied.push(Applied { limit, cost, ask });
        }
        Ok(applied)
    }

    fn check_units(&self, costs: &Costs) -> Result<(), AskError> {
        let unknown = costs.units().find(|unit| !self.limits.iter().any(|limit| limit.unit == *unit));
        match unknown {
            None => Ok(()),
            Some(unit) => Err(AskError::UnknownUnit { domain: self.domain.clone(), unit: unit.to_owned() }),
        }
    }

    /// The subject of a limit; limits that count by the same key share one text.
    fn subject(&self, limit: &Limit, attributes: &Attributes, earlier: &[Applied<'_>]) -> Subject {
        let same_key = earlier.iter().find(|other| other.limit.key == limit.key);
        if let Some(ask) = same_key.and_then(|other| other.ask.as_ref()) {
            return ask.subject.clone();
        }
        let (slot_by, key) = (pairs(&self.slot_by, attributes), pairs(&limit.key, attributes));
        Subject::new(&self.domain, &slot_by, &key)
    }
}

fn pairs<'a>(names: &'a [String], attributes: &'a Attributes) -> Vec<(&'a str, Option<&'a str>)> {
    names.iter().map(|name| (name.as_str(), attributes.value(name))).collect()
}

fn missing_attribute<'l>(limit: &'l Limit, attributes: &Attributes) -> Option<&'l str> {
    limit.key.iter().map(String::as_str).find(|name| attributes.value(name).is_none())
}
