//! One policy on a store of its own, driven by the log's time.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::FutureExt;
use serde::Serialize;
use sluicegate::{
    Clock, LimitVerdict, Limiter,
    core::{Attributes, Costs, Micros},
    embedded::EmbeddedStore,
};

use super::{
    Named,
    timeline::{Moment, Timeline},
    worst::{Worst, WorstKey},
};

/// Reasons that are told when requests do not fit the policy.
const MAX_REASONS: usize = 5;
/// The longest key that a report names, in characters.
const MAX_KEY_LEN: usize = 80;

/// The time of the line that is decided.
#[derive(Debug, Default)]
struct LogClock(AtomicU64);

impl Clock for LogClock {
    fn now(&self) -> Micros {
        Micros::new(self.0.load(Ordering::Relaxed))
    }
}

/// What a policy did.
#[derive(Debug, Serialize)]
pub struct PolicyReport {
    /// Its file.
    pub policy: String,
    /// Requests that passed.
    pub passed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Requests that do not fit the policy: a server would answer 400.
    pub malformed: u64,
    /// The first reasons for that.
    pub malformed_because: Vec<String>,
    /// What each limit did, in the order of the policy.
    pub limits: Vec<LimitReport>,
    /// All requests over time.
    #[serde(skip)]
    pub timeline: Timeline,
}

/// What a limit did.
#[derive(Debug, Serialize)]
pub struct LimitReport {
    /// Its name.
    pub name: String,
    /// Requests that it applied to.
    pub matched: u64,
    /// Of those, the requests that passed: no limit denied them.
    pub passed: u64,
    /// Of those, the requests that this limit denied.
    pub denied: u64,
    /// The keys that it denied most.
    pub worst: Vec<WorstKey>,
    /// Its requests over time.
    #[serde(skip)]
    pub timeline: Timeline,
    /// What it grants a second, if it is one counter for all: then all its requests are one demand.
    #[serde(skip)]
    pub per_second: Option<Rate>,
}

/// An amount per microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The amount.
    pub amount: u64,
    /// The window in microseconds.
    pub window_us: u128,
}

/// What is known of a limit so far.
struct Tally {
    name: String,
    key: Vec<String>,
    matched: u64,
    passed: u64,
    denied: u64,
    worst: Worst,
    timeline: Timeline,
    per_second: Option<Rate>,
}

pub(super) struct Engine {
    name: String,
    limiter: Limiter<EmbeddedStore, Arc<LogClock>>,
    clock: Arc<LogClock>,
    by_name: HashMap<String, usize>,
    tallies: Vec<Tally>,
    passed: u64,
    denied: u64,
    malformed: u64,
    reasons: Vec<String>,
    timeline: Timeline,
}

impl Engine {
    pub(super) fn new(named: Named) -> Self {
        let Named { name, policy } = named;
        let tallies: Vec<_> = policy.limits().iter().map(Tally::of).collect();
        let by_name = tallies.iter().enumerate().map(|(at, tally)| (tally.name.clone(), at)).collect();
        let clock = Arc::<LogClock>::default();
        Self {
            name,
            limiter: Limiter::new(policy, EmbeddedStore::default(), Arc::clone(&clock)),
            clock,
            by_name,
            tallies,
            passed: 0,
            denied: 0,
            malformed: 0,
            reasons: Vec::new(),
            timeline: Timeline::default(),
        }
    }

    /// Decides one request; answers whether it passed.
    pub(super) fn decide(&mut self, attributes: &Attributes, now: Micros) -> bool {
        self.clock.0.store(now.as_u64(), Ordering::Relaxed);
        let costs = Costs::default();
        // The embedded store answers without waiting for anything.
        let verdict = match self.limiter.take(attributes, &costs).now_or_never() {
            Some(Ok(verdict)) => verdict,
            other => {
                let reason = other.and_then(Result::err).map(|error| error.to_string()).unwrap_or_default();
                self.malformed += 1;
                if self.reasons.len() < MAX_REASONS && !self.reasons.contains(&reason) {
                    self.reasons.push(reason);
                }
                return false;
            }
        };
        for limit in &verdict.limits {
            let tally = self.by_name.get(limit.name).and_then(|at| self.tallies.get_mut(*at));
            if let Some(tally) = tally {
                tally.count(limit, verdict.allowed, attributes, now);
            }
        }
        let (passed, denied) = (u64::from(verdict.allowed), u64::from(!verdict.allowed));
        let fullest = verdict.limits.iter().map(fullness).max().unwrap_or_default();
        self.passed += passed;
        self.denied += denied;
        self.timeline.add(now, Moment { passed, denied, fullest });
        verdict.allowed
    }

    pub(super) fn finish(self) -> PolicyReport {
        PolicyReport {
            policy: self.name,
            passed: self.passed,
            denied: self.denied,
            malformed: self.malformed,
            malformed_because: self.reasons,
            limits: self.tallies.into_iter().map(Tally::finish).collect(),
            timeline: self.timeline,
        }
    }
}

/// How full a key is after a request, in percent; where it was denied, 100.
fn fullness(limit: &LimitVerdict<'_>) -> u64 {
    let decision = &limit.decision;
    match (decision.capacity, decision.remaining) {
        _ if !decision.allowed => 100,
        (Some(capacity), Some(left)) if capacity > 0 => {
            let used = u128::from(capacity.saturating_sub(left));
            u64::try_from(used * 100 / u128::from(capacity)).unwrap_or(100)
        }
        _ => 0,
    }
}

impl Tally {
    fn of(limit: &sluicegate::core::Limit) -> Self {
        let rate = limit.grant.rule();
        let rate = rate.map(|rule| Rate { amount: rule.amount(), window_us: rule.window().as_micros() });
        Self {
            name: limit.name.clone(),
            key: limit.key.clone(),
            matched: 0,
            passed: 0,
            denied: 0,
            worst: Worst::default(),
            timeline: Timeline::default(),
            per_second: rate.filter(|_| limit.key.is_empty()),
        }
    }

    fn count(&mut self, limit: &LimitVerdict<'_>, passed: bool, attributes: &Attributes, now: Micros) {
        let denies = !limit.decision.allowed;
        self.matched += 1;
        self.passed += u64::from(passed);
        self.denied += u64::from(denies);
        if denies {
            self.worst.count(&key(&self.key, attributes));
        }
        let moment =
            Moment { passed: u64::from(!denies), denied: u64::from(denies), fullest: fullness(limit) };
        self.timeline.add(now, moment);
    }

    fn finish(self) -> LimitReport {
        let Self { name, matched, passed, denied, worst, timeline, per_second, .. } = self;
        LimitReport { name, matched, passed, denied, worst: worst.finish(), timeline, per_second }
    }
}

/// The attributes that a limit counts by, as a report names them.
fn key(names: &[String], attributes: &Attributes) -> String {
    if names.is_empty() {
        return "everybody together".to_owned();
    }
    let pair = |name: &String| match attributes.value(name) {
        Some(value) => format!("{name}={value}"),
        None => format!("{name} missing"),
    };
    let whole = names.iter().map(pair).collect::<Vec<_>>().join(" ");
    let shown = whole.chars().map(|c| if c.is_control() { '?' } else { c });
    shown.take(MAX_KEY_LEN).collect()
}
