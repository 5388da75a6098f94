//! What is counted of each decision.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use sluicegate::{
    LimitVerdict, Verdict,
    core::{
        Attributes, DecidedBy, Limit, Policy,
        policy::{Enforcement, TIER},
    },
};

use super::{
    TopKeys,
    latency::{Timing, latencies},
    register,
    table::{ALLOWED, COST, DECISION_LATENCY, DECISIONS, DENIED, NEAR_LIMIT, RELOADS, SHADOW_DENIED},
    top::Subject,
};

/// The attribute whose patterns in the matches of limits are the classes of endpoints.
const ENDPOINT: &str = "endpoint";
/// A request that leaves less than this part of a limit is near it.
const NEAR_PART: u64 = 5;

/// Labels with their values. Every value stands in a policy or in this program, never in a request.
type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;

/// The counters of a server; they outlive every change of what is in force.
#[derive(Debug)]
pub struct Meters {
    allowed: Counters,
    denied: Counters,
    shadow_denied: Counters,
    near_limit: Counters,
    cost: Counters,
    decisions: Counters,
    reloads: Counters,
    latency: Histogram,
    top: TopKeys,
    /// The label sets in use, so that those of limits that are gone can be dropped.
    in_use: Mutex<HashSet<Labels>>,
}

impl Default for Meters {
    fn default() -> Self {
        let reloads = Counters::default();
        for result in ["accepted", "rejected"] {
            drop(reloads.get_or_create(&vec![("result", result.to_owned())]));
        }
        Self {
            reloads,
            latency: latencies(),
            allowed: Counters::default(),
            denied: Counters::default(),
            shadow_denied: Counters::default(),
            near_limit: Counters::default(),
            cost: Counters::default(),
            decisions: Counters::default(),
            top: TopKeys::default(),
            in_use: Mutex::default(),
        }
    }
}

impl Meters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let counters = [
            (&ALLOWED, &self.allowed),
            (&DENIED, &self.denied),
            (&SHADOW_DENIED, &self.shadow_denied),
            (&NEAR_LIMIT, &self.near_limit),
            (&COST, &self.cost),
            (&DECISIONS, &self.decisions),
            (&RELOADS, &self.reloads),
        ];
        for (metric, counters) in counters {
            register(registry, metric, counters.clone());
        }
        register(registry, &DECISION_LATENCY, self.latency.clone());
    }

    pub(super) fn top(&self) -> &TopKeys {
        &self.top
    }

    /// Counts a change of what is written.
    pub(crate) fn reloaded(&self, accepted: bool) {
        let result = if accepted { "accepted" } else { "rejected" };
        self.reloads.get_or_create(&vec![("result", result.to_owned())]).inc();
    }

    /// Times a decision until the answer is dropped.
    pub(crate) fn time(&self) -> Timing<'_> {
        Timing::begin(&self.latency)
    }

    /// The counters of the domains that come into force, from zero on where they are new. Those of limits that no policy
    /// has any more are dropped.
    pub(crate) fn domains<'p>(
        &self,
        policies: impl Iterator<Item = &'p Policy>,
    ) -> HashMap<String, DomainMeter> {
        let mut labels = HashSet::new();
        let domains =
            policies.map(|policy| (policy.domain().to_owned(), self.domain(policy, &mut labels))).collect();
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in in_use.difference(&labels) {
            for counters in [
                &self.allowed,
                &self.denied,
                &self.shadow_denied,
                &self.near_limit,
                &self.cost,
                &self.decisions,
            ] {
                counters.remove(gone);
            }
        }
        *in_use = labels;
        domains
    }

    fn domain(&self, policy: &Policy, in_use: &mut HashSet<Labels>) -> DomainMeter {
        let domain = policy.domain().to_owned();
        let mut counter = |counters: &Counters, labels: Labels| {
            let counter = counters.get_or_create_owned(&labels);
            in_use.insert(labels);
            counter
        };
        let decided_by =
            |who: DecidedBy| vec![("domain", domain.clone()), ("decided_by", who.name().to_owned())];
        let decisions = DecidedBy::ALL.map(|who| counter(&self.decisions, decided_by(who)));
        let tiers: Vec<&str> = std::iter::once("").chain(policy.tiers()).collect();
        let limits = policy.limits().iter().map(|limit| {
            let labels = |tier: &str| {
                let endpoint = endpoint_of(limit);
                let [domain, limit, tier] = [&domain, &limit.name, tier].map(str::to_owned);
                vec![("domain", domain), ("limit", limit), ("endpoint", endpoint), ("tier", tier)]
            };
            let of_tier = |tier: &&str| {
                let mut counter = |counters: &Counters| counter(counters, labels(tier));
                let counts = Counts {
                    allowed: counter(&self.allowed),
                    denied: counter(&self.denied),
                    shadow_denied: counter(&self.shadow_denied),
                    near_limit: counter(&self.near_limit),
                };
                ((*tier).to_owned(), counts)
            };
            let tiers = tiers.iter().map(of_tier).collect();
            let [name, unit] = [&limit.name, &limit.unit].map(ToString::to_string);
            let unit = vec![("domain", domain.clone()), ("limit", name.clone()), ("unit", unit)];
            let meter = LimitMeter { tiers, cost: counter(&self.cost, unit), key: limit.key.clone() };
            (name, meter)
        });
        let limits = limits.collect();
        DomainMeter { limits, decisions, domain: domain.clone() }
    }

    /// Counts a verdict. `passed` is whether the whole request did: a verdict may be about a part of one.
    pub(crate) fn count(
        &self,
        meter: &DomainMeter,
        attributes: &Attributes,
        verdict: &Verdict<'_>,
        passed: bool,
    ) {
        if verdict.enforced().next().is_some() {
            meter.decided(verdict.decided_by());
        }
        let tier = attributes.value(TIER).unwrap_or_default();
        for limit in &verdict.limits {
            let Some(own) = meter.limits.get(limit.name) else { continue };
            let Some(counts) = own.tiers.get(tier).or_else(|| own.tiers.get("")) else { continue };
            match (limit.enforcement, limit.decision.allowed) {
                (Enforcement::On, true) if passed => {
                    counts.allowed.inc();
                    own.cost.inc_by(limit.cost);
                    if is_near(limit) {
                        counts.near_limit.inc();
                    }
                }
                (Enforcement::On, false) => {
                    counts.denied.inc();
                    self.top.count(meter.subject_of(limit.name, own, attributes));
                }
                (Enforcement::Shadow, false) => {
                    counts.shadow_denied.inc();
                }
                _ => {}
            }
        }
    }
}

/// The class of endpoints that a limit is for: its own patterns of them.
fn endpoint_of(limit: &Limit) -> String {
    let patterns: Vec<&str> = limit.matcher.patterns_of(ENDPOINT).collect();
    if patterns.is_empty() { "*".to_owned() } else { patterns.join("|") }
}

fn is_near(limit: &LimitVerdict<'_>) -> bool {
    let (Some(capacity), Some(remaining)) = (limit.decision.capacity, limit.decision.remaining) else {
        return false;
    };
    remaining < capacity.div_ceil(NEAR_PART)
}

/// The counters of one domain.
#[derive(Debug)]
pub(crate) struct DomainMeter {
    domain: String,
    limits: HashMap<String, LimitMeter>,
    decisions: [Counter; DecidedBy::ALL.len()],
}

#[derive(Debug)]
struct LimitMeter {
    /// By tier; `""` is that of requests without one.
    tiers: HashMap<String, Counts>,
    cost: Counter,
    key: Vec<String>,
}

#[derive(Debug)]
struct Counts {
    allowed: Counter,
    denied: Counter,
    shadow_denied: Counter,
    near_limit: Counter,
}

impl DomainMeter {
    fn decided(&self, by: DecidedBy) {
        let at = DecidedBy::ALL.into_iter().position(|who| who == by);
        if let Some(decisions) = at.and_then(|at| self.decisions.get(at)) {
            decisions.inc();
        }
    }

    fn subject_of(&self, limit: &str, own: &LimitMeter, attributes: &Attributes) -> Subject {
        let value = |name: &String| format!("{name}={}", attributes.value(name).unwrap_or_default());
        let key = own.key.iter().map(value).collect::<Vec<_>>().join(",");
        Subject { domain: self.domain.clone(), limit: limit.to_owned(), key }
    }
}
