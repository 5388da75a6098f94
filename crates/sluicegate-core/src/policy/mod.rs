//! Policies: which limits apply to a request, and the asks that follow.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    ask::LimitId,
    rule::{Algorithm, Rule},
    share::OnStoreFailure,
};
use index::Index;

mod apply;
mod assignments;
pub mod choose;
pub mod diff;
mod duration;
mod enforcement;
mod exceptions;
pub mod explain;
mod failure;
pub mod fields;
mod file;
mod index;
pub mod lint;
mod matcher;
mod matching;
mod network;
mod pattern;
mod period;
mod problem;
mod request;
mod resolve;
mod shards;
pub mod suggest;
pub mod tree;
mod words;

pub use apply::{AmountOf, Applied, AskError, Matched};
pub use assignments::{ASSIGNEES, Assignments, MAX_ASSIGNMENTS};
pub use enforcement::Enforcement;
pub use exceptions::{MAX_EXEMPTIONS, MAX_OVERRIDES, MAX_TIERS};
pub use file::MAX_LIMITS;
pub use matcher::Matcher;
pub use matching::{CONDITIONS, MAX_ALTERNATIVES, MAX_PATTERN_LEN};
pub use pattern::PatternError;
pub use problem::{Place, PolicyError, Problem};
pub use request::{Attributes, Costs};
pub use resolve::MAX_FILE_LEN;
pub use shards::{MAX_SHARDS, MIN_SHARDS, Shards};
pub use words::{MAX_ATTRIBUTES, MAX_NAME_LEN};

/// The unit that a plain cost counts.
pub const REQUESTS: &str = "requests";

/// The most limits that may apply to one request: a store decides them all in one short step.
pub const MAX_APPLIED: usize = 128;

/// The attribute that names a request's tier.
pub const TIER: &str = "tier";

/// The limits of one domain. Immutable; a change makes a new one.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Rules,
    units: Vec<String>,
    exempt_index: Index,
    limit_index: Index,
    override_index: Index,
}

/// What a policy holds, checked.
#[derive(Clone, Debug)]
struct Rules {
    domain: String,
    fingerprint: String,
    enforcement: Enforcement,
    slot_by: Vec<String>,
    exempt: Vec<Exemption>,
    limits: Vec<Limit>,
    tiers: BTreeMap<String, Grants>,
    overrides: Vec<Override>,
}

/// Requests that no limit applies to.
#[derive(Clone, Debug)]
pub struct Exemption {
    /// `[a-z0-9-]`, unique among the exemptions of its domain.
    pub name: String,
    /// The requests.
    pub matcher: Matcher,
}

/// Other grants for the requests that match.
#[derive(Clone, Debug)]
struct Override {
    matcher: Matcher,
    grants: Grants,
}

/// What a tier or an override grants instead, by the position of the limit in the policy.
type Grants = BTreeMap<usize, Grant>;

/// A named rule with what it applies to and what it counts by.
#[derive(Clone, Debug)]
pub struct Limit {
    /// `[a-z0-9-]`, unique in its domain.
    pub name: String,
    /// The stable id of its state: of `id` where the file gives one, else of the name.
    pub id: LimitId,
    /// The unit that it counts.
    pub unit: String,
    /// The attributes that it counts by; none is one counter for all.
    pub key: Vec<String>,
    /// How many counters it is split over; 1 if it is not.
    pub shards: u32,
    /// The requests that it applies to.
    pub matcher: Matcher,
    /// What to do when the request lacks an attribute of the key.
    pub if_missing: IfMissing,
    /// Whether it decides, by its own field: that of the domain may take it back.
    pub enforcement: Enforcement,
    /// What to do when the store cannot decide.
    pub on_store_failure: OnStoreFailure,
    /// Whether a denial may be remembered for as long as it cannot change.
    pub cache_denials: bool,
    /// The codes of lints that are not to be told of it.
    pub allowed: Vec<&'static str>,
    /// What it grants where neither a tier nor an override says otherwise.
    pub grant: Grant,
}

impl Limit {
    /// A limit that no policy file spells out: it counts requests by `key`, and all else is as if left out.
    pub fn of_rule(name: &str, rule: Rule, key: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            id: LimitId::of(name, &rule),
            unit: REQUESTS.to_owned(),
            key,
            matcher: Matcher::default(),
            if_missing: IfMissing::default(),
            on_store_failure: OnStoreFailure::default(),
            cache_denials: false,
            enforcement: Enforcement::On,
            shards: 1,
            allowed: Vec::new(),
            grant: Grant::Bounded(rule),
        }
    }
}

/// What a limit grants.
#[derive(Clone, Debug)]
pub enum Grant {
    /// At most what the rule says.
    Bounded(Rule),
    /// The same, split over several counters.
    Sharded(Shards),
    /// Everything: reported and not counted.
    Unlimited {
        /// The algorithm that is named in answers.
        algorithm: Algorithm,
        /// The window that is named in answers.
        window: Duration,
    },
}

impl Grant {
    /// The algorithm and window, for answers; the periods of a quota differ in length.
    pub fn shape(&self) -> (Algorithm, Option<Duration>) {
        let (algorithm, window) = match self {
            Self::Bounded(rule) => (rule.algorithm(), rule.window()),
            Self::Sharded(shards) => (shards.whole().algorithm(), shards.whole().window()),
            Self::Unlimited { algorithm, window } => (*algorithm, *window),
        };
        (algorithm, (algorithm != Algorithm::Quota).then_some(window))
    }

    /// The rule of all that is granted; `None` if that is unlimited.
    pub fn rule(&self) -> Option<&Rule> {
        match self {
            Self::Bounded(rule) => Some(rule),
            Self::Sharded(shards) => Some(shards.whole()),
            Self::Unlimited { .. } => None,
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

    /// A policy of parts that were checked already.
    fn new(rules: Rules) -> Self {
        let mut units: Vec<String> = Vec::new();
        for limit in &rules.limits {
            if !units.contains(&limit.unit) {
                units.push(limit.unit.clone());
            }
        }
        let index = |matchers: &mut dyn Iterator<Item = &Matcher>| Index::new(&matchers.collect::<Vec<_>>());
        Self {
            units,
            exempt_index: index(&mut rules.exempt.iter().map(|exemption| &exemption.matcher)),
            limit_index: index(&mut rules.limits.iter().map(|limit| &limit.matcher)),
            override_index: index(&mut rules.overrides.iter().map(|entry| &entry.matcher)),
            rules,
        }
    }

    /// The domain's name.
    pub fn domain(&self) -> &str {
        &self.rules.domain
    }

    /// The beginning of the SHA-256 of the file, in hexadecimal: which policy this is, for logs and people.
    pub fn fingerprint(&self) -> &str {
        &self.rules.fingerprint
    }

    /// Whether the domain's limits decide at all.
    pub fn enforcement(&self) -> Enforcement {
        self.rules.enforcement
    }

    /// Whether a limit decides: what its own field and the domain's allow, both.
    pub fn enforcement_of(&self, limit: &Limit) -> Enforcement {
        limit.enforcement.min(self.rules.enforcement)
    }

    /// The same policy with another enforcement of one limit, or of the domain. A limit that is not there changes nothing.
    #[must_use]
    pub fn with_enforcement(mut self, limit: Option<&str>, enforcement: Enforcement) -> Self {
        match limit {
            None => self.rules.enforcement = enforcement,
            Some(name) => {
                if let Some(limit) = self.rules.limits.iter_mut().find(|limit| limit.name == name) {
                    limit.enforcement = enforcement;
                }
            }
        }
        self
    }

    /// The attributes that decide what shares a slot on a Redis Cluster.
    pub fn slot_by(&self) -> &[String] {
        &self.rules.slot_by
    }

    /// All limits, in the order of the file.
    pub fn limits(&self) -> &[Limit] {
        &self.rules.limits
    }

    /// All exemptions, in the order of the file.
    pub fn exemptions(&self) -> &[Exemption] {
        &self.rules.exempt
    }

    /// Whether some tier or override grants another amount than the limit of this name.
    pub(crate) fn grants_vary(&self, limit: &str) -> bool {
        let Some(at) = self.limits().iter().position(|own| own.name == limit) else { return false };
        let overrides = self.rules.overrides.iter().map(|entry| &entry.grants);
        self.rules.tiers.values().chain(overrides).any(|grants| grants.contains_key(&at))
    }

    /// The names of the tiers, sorted.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.rules.tiers.keys().map(String::as_str)
    }
}
