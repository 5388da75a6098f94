//! What a server decides by now, and how that changes while it runs: all of it at once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use serde::Serialize;
use sluicegate::{
    Clock, Limiter, Store,
    core::{
        Policy,
        policy::{Assignments, Enforcement},
    },
};

use crate::{
    descriptors::Tree,
    domains::{Domains, DuplicateDomain},
    metrics::Meters,
};

/// The domains that are in force. Each request takes them once, so none is decided by a mix of two policies.
#[derive(Debug)]
pub struct Running<S, C>(ArcSwap<Domains<S, C>>);

impl<S, C> Running<S, C> {
    /// The domains in force at this moment; what holds them decides by them to the end.
    pub fn now(&self) -> Arc<Domains<S, C>> {
        self.0.load_full()
    }
}

impl<S, C> From<Domains<S, C>> for Arc<Running<S, C>> {
    fn from(domains: Domains<S, C>) -> Self {
        Self::new(Running(ArcSwap::from_pointee(domains)))
    }
}

/// What an operator wrote: the policies, and who has which tier.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The policies, each of a domain of its own.
    pub policies: Vec<Policy>,
    /// The assignments of one of the domains.
    pub assignments: Option<Assignments>,
    /// The trees of those domains whose limits count the descriptors that lead to them.
    pub trees: HashMap<String, Tree>,
}

/// Policies and assignments that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// Two policies of one domain.
    #[error(transparent)]
    Domain(#[from] DuplicateDomain),
    /// Assignments of a domain without a policy.
    #[error("the assignments are for the domain `{0}`, which no policy has")]
    NoDomain(String),
    /// An assigned tier that is none of the domain's.
    #[error("the assignments give a tier `{tier}`, which the domain `{domain}` does not have{hint}")]
    UnknownTier {
        /// The tier.
        tier: String,
        /// The domain.
        domain: String,
        /// What was probably meant, in parentheses.
        hint: String,
    },
}

/// Why what was written is not in force; what was in force before stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(pub String);

/// What a switch is of: a limit of a domain, or without one the domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Switch {
    /// The domain.
    pub domain: String,
    /// The limit.
    pub limit: Option<String>,
}

/// A switch of something that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSwitch {
    /// No policy has the domain.
    #[error("no policy has the domain `{0}`")]
    Domain(String),
    /// The domain has no such limit.
    #[error("the domain `{domain}` has no limit `{limit}`")]
    Limit {
        /// The domain.
        domain: String,
        /// The limit.
        limit: String,
    },
}

/// Changes what is in force, one change at a time: what was written, and the switches that were turned since.
///
/// The store is not touched: counters belong to limits, and outlive every change.
#[derive(Debug)]
pub struct Control<S, C> {
    running: Arc<Running<S, C>>,
    meters: Arc<Meters>,
    store: S,
    clock: C,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    written: Written,
    switches: BTreeMap<Switch, Enforcement>,
    version: u64,
    rejected: Option<Rejected>,
    unread: Option<String>,
}

/// What is in force, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Counts the changes since the start, from 1.
    pub version: u64,
    /// The domains, sorted.
    pub domains: Vec<DomainStatus>,
    /// Why the last change that was tried is not in force; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// Why what is written could not be read when it was looked at last; absent if it could.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// What is in force in one domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DomainStatus {
    /// The domain.
    pub domain: String,
    /// The beginning of the SHA-256 of the policy's file.
    pub policy: String,
    /// Whether its limits decide at all.
    pub enforcement: &'static str,
    /// Whether each limit decides, the domain's own enforcement included.
    pub limits: BTreeMap<String, &'static str>,
    /// The switches that were turned since the start, instead of what the file says; `""` is the domain's own.
    pub switched: Vec<String>,
    /// How many users and organisations have a tier.
    pub assignments: usize,
}

impl<S: Store + Clone, C: Clock + Clone> Control<S, C> {
    /// Puts the first policies into force.
    ///
    /// # Errors
    /// [`Misfit`] if they do not fit together.
    pub fn new(written: Written, store: S, clock: C) -> Result<Self, Misfit> {
        let meters = Arc::new(Meters::default());
        let domains = domains(&written, &BTreeMap::new(), &store, &clock)?.metered(&meters);
        let state = State { written, switches: BTreeMap::new(), version: 1, rejected: None, unread: None };
        Ok(Self { running: domains.into(), meters, store, clock, state: Mutex::new(state) })
    }

    /// What doors decide by.
    pub fn running(&self) -> &Arc<Running<S, C>> {
        &self.running
    }

    /// What is counted of decisions and of changes.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Puts other policies and assignments into force, or leaves everything as it is. Switches stay turned; those of
    /// limits that are gone are forgotten. Answers the new version.
    ///
    /// # Errors
    /// [`Misfit`] if they do not fit together.
    pub fn replace(&self, written: Written) -> Result<u64, Misfit> {
        let mut state = self.state();
        let mut switches = state.switches.clone();
        switches.retain(|switch, _| check(&written, switch).is_ok());
        let domains = domains(&written, &switches, &self.store, &self.clock)?;
        self.running.0.store(Arc::new(domains.metered(&self.meters)));
        self.meters.reloaded(true);
        (state.written, state.switches, state.rejected) = (written, switches, None);
        state.version += 1;
        Ok(state.version)
    }

    /// Notes why a change is not in force; answers whether that is news.
    pub fn reject(&self, why: &Rejected) -> bool {
        self.meters.reloaded(false);
        let mut state = self.state();
        let is_news = state.rejected.as_ref() != Some(why);
        state.rejected = Some(why.clone());
        is_news
    }

    /// Notes why what is written cannot be read, or that it can be; answers whether that has changed.
    pub fn unread(&self, why: Option<String>) -> bool {
        let mut state = self.state();
        let is_news = state.unread.is_some() != why.is_some();
        state.unread = why;
        is_news
    }

    /// Turns a switch, for every request from here on; `None` turns it back to what the file says.
    ///
    /// # Errors
    /// [`NoSwitch`] if there is no such domain or limit.
    pub fn switch(&self, switch: Switch, to: Option<Enforcement>) -> Result<u64, NoSwitch> {
        let mut state = self.state();
        check(&state.written, &switch)?;
        let domain = switch.domain.clone();
        match to {
            Some(to) => state.switches.insert(switch, to),
            None => state.switches.remove(&switch),
        };
        // What was in force fits together with every switch.
        let domains = domains(&state.written, &state.switches, &self.store, &self.clock);
        let domains = domains.map_err(|_| NoSwitch::Domain(domain))?;
        self.running.0.store(Arc::new(domains.metered(&self.meters)));
        state.version += 1;
        Ok(state.version)
    }

    /// What is in force.
    pub fn status(&self) -> Status {
        let state = self.state();
        let domains = self.running.now();
        let mut all: Vec<DomainStatus> =
            domains.limiters().map(|limiter| status_of(limiter, &state)).collect();
        all.sort_by(|a, b| a.domain.cmp(&b.domain));
        Status {
            version: state.version,
            domains: all,
            rejected: state.rejected.as_ref().map(ToString::to_string),
            unread: state.unread.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn status_of<S: Store, C: Clock>(limiter: &Limiter<S, C>, state: &State) -> DomainStatus {
    let policy = limiter.policy();
    let own = |switch: &&Switch| switch.domain == policy.domain();
    let assignments = state.written.assignments.as_ref().filter(|all| all.domain() == policy.domain());
    let word = |limit: &sluicegate::core::Limit| policy.enforcement_of(limit).name();
    DomainStatus {
        domain: policy.domain().to_owned(),
        policy: policy.fingerprint().to_owned(),
        enforcement: policy.enforcement().name(),
        limits: policy.limits().iter().map(|limit| (limit.name.clone(), word(limit))).collect(),
        switched: state
            .switches
            .keys()
            .filter(own)
            .map(|own| own.limit.clone().unwrap_or_default())
            .collect(),
        assignments: assignments.map_or(0, Assignments::len),
    }
}

fn check(written: &Written, switch: &Switch) -> Result<(), NoSwitch> {
    let policy = written.policies.iter().find(|policy| policy.domain() == switch.domain);
    let policy = policy.ok_or_else(|| NoSwitch::Domain(switch.domain.clone()))?;
    match &switch.limit {
        Some(limit) if !policy.limits().iter().any(|own| own.name == *limit) => {
            Err(NoSwitch::Limit { domain: switch.domain.clone(), limit: limit.clone() })
        }
        _ => Ok(()),
    }
}

/// The domains of what was written, with the switches turned.
fn domains<S: Store + Clone, C: Clock + Clone>(
    written: &Written,
    switches: &BTreeMap<Switch, Enforcement>,
    store: &S,
    clock: &C,
) -> Result<Domains<S, C>, Misfit> {
    let policies = written.policies.iter().map(|policy| switched(policy.clone(), switches));
    let domains = Domains::new(policies, store, clock)?.with_trees(written.trees.clone());
    let Some(assignments) = &written.assignments else { return Ok(domains) };
    let domain = assignments.domain();
    let limiter = domains.limiter(domain).ok_or_else(|| Misfit::NoDomain(domain.to_owned()))?;
    if let Some(tier) = assignments.unknown_tier(limiter.policy()) {
        let hint = limiter.policy().tier_hint(tier).map(|hint| format!(" ({hint})")).unwrap_or_default();
        return Err(Misfit::UnknownTier { tier: tier.to_owned(), domain: domain.to_owned(), hint });
    }
    Ok(domains.with_assignments(assignments.clone()))
}

fn switched(policy: Policy, switches: &BTreeMap<Switch, Enforcement>) -> Policy {
    let own = switches.iter().filter(|(switch, _)| switch.domain == policy.domain());
    let own: Vec<_> = own.map(|(switch, to)| (switch.limit.clone(), *to)).collect();
    own.into_iter().fold(policy, |policy, (limit, to)| policy.with_enforcement(limit.as_deref(), to))
}
