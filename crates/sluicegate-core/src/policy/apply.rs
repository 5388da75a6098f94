//! From a request to its asks: which limits apply, and what each of them grants.

use super::{
    Attributes, Costs, Enforcement, Grant, Grants, IfMissing, Limit, MAX_APPLIED, Policy, Shards, TIER,
};
use crate::{
    ask::{Ask, Subject},
    rule::Rule,
};

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
    /// A tier that the domain does not have: which amounts hold would be a guess.
    #[error("domain `{domain}` has no tier `{tier}`; its tiers are {known}")]
    UnknownTier {
        /// The domain.
        domain: String,
        /// The tier of the request.
        tier: String,
        /// The tiers of the domain, as a list for a person.
        known: String,
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

/// What a policy says to a request.
#[derive(Clone, Debug, Default)]
pub struct Matched<'p> {
    /// The exemption that lets the request pass uncounted; then no limit applies.
    pub exempt: Option<&'p str>,
    /// The limits that apply, in the order of the file.
    pub limits: Vec<Applied<'p>>,
}

/// A limit that applies to a request, with what it asks a store; one that is unlimited or off asks nothing.
#[derive(Clone, Debug)]
pub struct Applied<'p> {
    /// The limit.
    pub limit: &'p Limit,
    /// Whether it decides.
    pub enforcement: Enforcement,
    /// What it grants this request.
    pub grant: &'p Grant,
    /// Where its amount comes from.
    pub amount_of: AmountOf<'p>,
    /// The cost in the limit's unit.
    pub cost: u64,
    /// The ask; `None` if unlimited or off. Where the counter is split it is that of one shard, the first.
    pub ask: Option<Ask<'p>>,
    /// Where the counter is split: its subject before it was.
    unsplit: Option<Subject>,
}

impl<'p> Applied<'p> {
    /// The shards that the counter is split over; `None` if it is not, or if nothing is asked.
    pub fn shards(&self) -> Option<&'p Shards> {
        match self.grant {
            Grant::Sharded(shards) if self.ask.is_some() => Some(shards),
            _ => None,
        }
    }

    /// The ask on the shard of this number, counted round; where the counter is not split it is always the same. A cost
    /// that not every shard could ever admit is asked of the one that grants the least.
    pub fn ask_on(&self, shard: usize) -> Option<Ask<'p>> {
        let (Some(shards), Some(unsplit)) = (self.shards(), &self.unsplit) else { return self.ask.clone() };
        Some(ask_on(self.limit, shards, unsplit, self.cost, shard))
    }
}

/// What a limit asks, on the first shard if it is split, and then the subject that it is split from.
fn ask<'p>(
    limit: &'p Limit,
    grant: &'p Grant,
    cost: u64,
    subject: impl FnOnce() -> Subject,
) -> (Option<Ask<'p>>, Option<Subject>) {
    match grant {
        Grant::Unlimited { .. } => (None, None),
        Grant::Bounded(rule) => (Some(ask_of(limit, rule, subject(), cost)), None),
        Grant::Sharded(shards) => {
            let unsplit = subject();
            (Some(ask_on(limit, shards, &unsplit, cost, 0)), Some(unsplit))
        }
    }
}

fn ask_on<'p>(limit: &'p Limit, shards: &'p Shards, unsplit: &Subject, cost: u64, shard: usize) -> Ask<'p> {
    let (shard, rule) = shards.for_cost(cost, shard);
    ask_of(limit, rule, unsplit.shard(shard), cost)
}

fn ask_of<'p>(limit: &'p Limit, rule: &'p Rule, subject: Subject, cost: u64) -> Ask<'p> {
    let Limit { id, on_store_failure, cache_denials, .. } = *limit;
    Ask { on_store_failure, cache_denials, ..Ask::new(rule, id, subject, cost) }
}

/// Where the amount of a limit comes from, for a request: an override before a tier, a tier before the limit itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountOf<'p> {
    /// The limit's own.
    Limit,
    /// The request's tier, by name.
    Tier(&'p str),
    /// The first override that the request matches and that names the limit, by its position in the file.
    Override(usize),
}

impl Policy {
    /// What the policy says to a request: exempt, or the limits that apply with their asks.
    ///
    /// Nothing that a request sends is ignored because it is exempt: an unknown unit or tier is an error all the same.
    ///
    /// # Errors
    /// [`AskError`] if a unit or the tier is unknown, an attribute is missing that a limit insists on, or more than
    /// [`MAX_APPLIED`] limits apply.
    pub fn apply(&self, attributes: &Attributes, costs: &Costs) -> Result<Matched<'_>, AskError> {
        self.check_units(costs)?;
        let tier = self.tier(attributes)?;
        if let Some(exempt) = self.exemption(attributes) {
            return Ok(Matched { exempt: Some(exempt), limits: Vec::new() });
        }
        let exceptions = Exceptions { tier, overrides: self.overrides(attributes) };
        let mut limits: Vec<Applied<'_>> = Vec::new();
        for at in self.limit_index.candidates(attributes).iter().copied() {
            let Some(limit) = self.rules.limits.get(at).filter(|limit| applies(limit, attributes)) else {
                continue;
            };
            if limits.len() == MAX_APPLIED {
                return Err(AskError::TooManyLimits { domain: self.domain().to_owned() });
            }
            let enforcement = self.enforcement_of(limit);
            match (limit.if_missing, enforcement) {
                (IfMissing::Refuse, Enforcement::On) => check_key(limit, attributes)?,
                // What is not enforced refuses nothing; enforced, it would not have counted such a request either.
                (IfMissing::Refuse, _) if missing_attribute(limit, attributes).is_some() => continue,
                _ => {}
            }
            let (grant, amount_of) = exceptions.grant(at, limit);
            let cost = costs.of(&limit.unit);
            let (ask, unsplit) = match enforcement {
                Enforcement::Off => (None, None),
                _ => ask(limit, grant, cost, || self.subject(limit, attributes, &limits)),
            };
            limits.push(Applied { limit, enforcement, grant, amount_of, cost, ask, unsplit });
        }
        Ok(Matched { exempt: None, limits })
    }

    /// What applies to a request that brings a limit of its own, which takes the place of the policy's: exempt, or that
    /// limit with its ask.
    pub fn apply_own<'p>(&'p self, limit: &'p Limit, attributes: &Attributes, costs: &Costs) -> Matched<'p> {
        if let Some(exempt) = self.exemption(attributes) {
            return Matched { exempt: Some(exempt), limits: Vec::new() };
        }
        let (enforcement, grant, cost) = (self.enforcement_of(limit), &limit.grant, costs.of(&limit.unit));
        let (ask, unsplit) = match enforcement {
            Enforcement::Off => (None, None),
            _ => ask(limit, grant, cost, || self.subject_of(limit, attributes)),
        };
        let own = Applied { limit, enforcement, grant, amount_of: AmountOf::Limit, cost, ask, unsplit };
        Matched { exempt: None, limits: vec![own] }
    }

    fn check_units(&self, costs: &Costs) -> Result<(), AskError> {
        match costs.units().find(|unit| !self.units.iter().any(|known| known == unit)) {
            None => Ok(()),
            Some(unit) => {
                Err(AskError::UnknownUnit { domain: self.domain().to_owned(), unit: unit.to_owned() })
            }
        }
    }

    /// The request's tier. In a domain without tiers the attribute is one like any other.
    fn tier(&self, attributes: &Attributes) -> Result<Option<(&str, &Grants)>, AskError> {
        let Some(tier) = attributes.value(TIER).filter(|_| !self.rules.tiers.is_empty()) else {
            return Ok(None);
        };
        match self.rules.tiers.get_key_value(tier) {
            Some((name, grants)) => Ok(Some((name, grants))),
            None => Err(self.unknown_tier(tier)),
        }
    }

    /// The error of a tier that the domain does not have.
    fn unknown_tier(&self, tier: &str) -> AskError {
        /// More names than this make a message that nobody reads.
        const MAX_NAMED: usize = 10;
        let mut known: Vec<String> = self.tiers().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
        if self.rules.tiers.len() > MAX_NAMED {
            known.push("…".to_owned());
        }
        let (domain, tier) = (self.domain().to_owned(), tier.to_owned());
        AskError::UnknownTier { domain, tier, known: known.join(", ") }
    }

    /// The first exemption that the request matches.
    fn exemption(&self, attributes: &Attributes) -> Option<&str> {
        let candidates = self.exempt_index.candidates(attributes);
        let mut exemptions = candidates.iter().filter_map(|at| self.rules.exempt.get(*at));
        let first = exemptions.find(|exemption| exemption.matcher.matches(attributes));
        first.map(|exemption| exemption.name.as_str())
    }

    /// The overrides that the request matches, in the order of the file.
    fn overrides(&self, attributes: &Attributes) -> Vec<(usize, &Grants)> {
        let candidates = self.override_index.candidates(attributes);
        let entries = candidates.iter().filter_map(|at| Some((*at, self.rules.overrides.get(*at)?)));
        let matching = entries.filter(|(_, entry)| entry.matcher.matches(attributes));
        matching.map(|(at, entry)| (at, &entry.grants)).collect()
    }

    /// The subject of a limit; limits that count by the same key share one text.
    fn subject(&self, limit: &Limit, attributes: &Attributes, earlier: &[Applied<'_>]) -> Subject {
        let mut same_key =
            earlier.iter().filter(|other| other.limit.key == limit.key && other.unsplit.is_none());
        if let Some(ask) = same_key.find_map(|other| other.ask.as_ref()) {
            return ask.subject.clone();
        }
        self.subject_of(limit, attributes)
    }

    /// What a limit may have counted a request by: one subject, or one for each shard.
    pub fn subjects_of(&self, limit: &Limit, attributes: &Attributes) -> Vec<Subject> {
        let unsplit = self.subject_of(limit, attributes);
        let shards = usize::try_from(limit.shards).unwrap_or(1);
        if shards <= 1 { vec![unsplit] } else { (0..shards).map(|shard| unsplit.shard(shard)).collect() }
    }

    fn subject_of(&self, limit: &Limit, attributes: &Attributes) -> Subject {
        let (slot_by, key) = (pairs(self.slot_by(), attributes), pairs(&limit.key, attributes));
        Subject::new(self.domain(), &slot_by, &key)
    }
}

/// What a request gets instead of the limits' own amounts.
struct Exceptions<'p> {
    tier: Option<(&'p str, &'p Grants)>,
    overrides: Vec<(usize, &'p Grants)>,
}

impl<'p> Exceptions<'p> {
    /// What holds for the limit at this position, and why.
    fn grant(&self, at: usize, limit: &'p Limit) -> (&'p Grant, AmountOf<'p>) {
        let overridden = self
            .overrides
            .iter()
            .find_map(|(entry, grants)| grants.get(&at).map(|grant| (grant, AmountOf::Override(*entry))));
        let tiered = || {
            let (name, grants) = self.tier?;
            Some((grants.get(&at)?, AmountOf::Tier(name)))
        };
        overridden.or_else(tiered).unwrap_or((&limit.grant, AmountOf::Limit))
    }
}

fn applies(limit: &Limit, attributes: &Attributes) -> bool {
    let skipped = limit.if_missing == IfMissing::Skip && missing_attribute(limit, attributes).is_some();
    limit.matcher.matches(attributes) && !skipped
}

fn check_key(limit: &Limit, attributes: &Attributes) -> Result<(), AskError> {
    let Some(attribute) = missing_attribute(limit, attributes) else { return Ok(()) };
    let (limit, attribute) = (limit.name.clone(), attribute.to_owned());
    Err(AskError::MissingAttribute { limit, attribute })
}

fn missing_attribute<'l>(limit: &'l Limit, attributes: &Attributes) -> Option<&'l str> {
    limit.key.iter().map(String::as_str).find(|name| attributes.value(name).is_none())
}

fn pairs<'a>(names: &'a [String], attributes: &'a Attributes) -> Vec<(&'a str, Option<&'a str>)> {
    names.iter().map(|name| (name.as_str(), attributes.value(name))).collect()
}
