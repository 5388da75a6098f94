//! The table of all metrics: their names, kinds, labels and meanings. The reference page is made of it.

use std::fmt::Write;

/// What the values of a metric are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows while the process lives; its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of observations up to bounds.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name without the `_total` of a counter.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// The labels.
    pub labels: &'static [&'static str],
    /// What it says, without a full stop at the end.
    pub help: &'static str,
}

impl Metric {
    const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, labels, help }
    }

    const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, labels, help }
    }

    const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, labels: &[], help }
    }

    /// The name in queries: of a histogram the name of its bounds.
    pub fn sample_name(&self) -> String {
        let ending = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Histogram => "_bucket",
        };
        format!("{}{ending}", self.name)
    }
}

const OF_A_LIMIT: &[&str] = &["domain", "limit", "endpoint", "tier"];

pub(super) const ALLOWED: Metric = Metric::counter(
    "rate_limit_allowed",
    OF_A_LIMIT,
    "Requests that passed, counted once for each limit that applied to them",
);
pub(super) const DENIED: Metric = Metric::counter(
    "rate_limit_denied",
    OF_A_LIMIT,
    "Requests that were refused, counted once for each limit that refused them",
);
pub(super) const SHADOW_DENIED: Metric = Metric::counter(
    "rate_limit_shadow_denied",
    OF_A_LIMIT,
    "Requests that a limit in shadow would have refused",
);
pub(super) const NEAR_LIMIT: Metric = Metric::counter(
    "rate_limit_near_limit",
    OF_A_LIMIT,
    "Requests that passed and left less than a fifth of the limit",
);
pub(super) const COST: Metric = Metric::counter(
    "rate_limit_cost",
    &["domain", "limit", "unit"],
    "Units that passed, for each limit that counts them",
);
pub(super) const DECISIONS: Metric = Metric::counter(
    "rate_limit_decisions",
    &["domain", "decided_by"],
    "Decisions about requests, by who made them; without a limit that applies, nobody had to",
);
pub(super) const DECISION_LATENCY: Metric = Metric::histogram(
    "rate_limit_decision_latency_seconds",
    "Time from a request that was read to its verdict, the store included",
);
pub(super) const REDIS_LATENCY: Metric = Metric::histogram(
    "rate_limit_redis_latency_seconds",
    "Time that a decision waited for Redis, given up at the deadline or not; nothing on the embedded store",
);
pub(super) const FALLBACK: Metric = Metric::counter(
    "rate_limit_fallback",
    &["reason"],
    "Decisions that the rules for a store that does not answer made, by why it did not: \
     error, deadline, breaker (left alone while it is ill), overload (too many calls wait), or request (it is well, \
     and cannot decide this one)",
);
pub(super) const BREAKER_OPENINGS: Metric =
    Metric::counter("rate_limit_breaker_openings", &[], "Times that the store was taken for ill");
pub(super) const STORE_SHARE: Metric = Metric::gauge(
    "rate_limit_store_share",
    &[],
    "The share of all keys that the store decides about: 0 while the breaker is open, 1 while it is closed",
);
pub(super) const STORE_IN_FLIGHT: Metric = Metric::gauge(
    "rate_limit_store_calls_in_flight",
    &[],
    "Decisions that wait for the store at this moment",
);
pub(super) const CLOCK_OFFSET: Metric = Metric::gauge(
    "rate_limit_clock_offset_seconds",
    &[],
    "How far the clock that decisions are made with is ahead of this machine's",
);
pub(super) const POLICY_VERSION: Metric = Metric::gauge(
    "rate_limit_policy_version",
    &[],
    "The changes of what is in force since the start, from 1",
);
pub(super) const POLICY_REJECTED: Metric = Metric::gauge(
    "rate_limit_policy_rejected",
    &[],
    "1 while what is written is not in force, because it was rejected or cannot be read",
);
pub(super) const POLICY_INFO: Metric = Metric::gauge(
    "rate_limit_policy_info",
    &["domain", "policy"],
    "1 for the policy that is in force in a domain, by the beginning of its SHA-256",
);
pub(super) const RELOADS: Metric = Metric::counter(
    "rate_limit_policy_reloads",
    &["result"],
    "Changes of what is written: put into force (accepted) or not (rejected)",
);
pub(super) const TOP_DENIED: Metric = Metric::gauge(
    "rate_limit_top_denied",
    &["domain", "limit", "key"],
    "Requests refused to the keys that are refused most, and all others as `other`; a key may be counted too high by \
     what the least of the kept ones has",
);
pub(super) const BUILD_INFO: Metric =
    Metric::gauge("rate_limit_build_info", &["version"], "1, with the version of this server");

/// All metrics, in the order of the reference.
pub const ALL: [&Metric; 19] = [
    &ALLOWED,
    &DENIED,
    &SHADOW_DENIED,
    &NEAR_LIMIT,
    &COST,
    &DECISIONS,
    &DECISION_LATENCY,
    &REDIS_LATENCY,
    &FALLBACK,
    &BREAKER_OPENINGS,
    &STORE_SHARE,
    &STORE_IN_FLIGHT,
    &CLOCK_OFFSET,
    &POLICY_VERSION,
    &POLICY_REJECTED,
    &POLICY_INFO,
    &RELOADS,
    &TOP_DENIED,
    &BUILD_INFO,
];

/// The rows of the reference page.
pub fn reference() -> String {
    let mut page = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for metric in ALL {
        let name = match metric.kind {
            Kind::Counter => metric.sample_name(),
            Kind::Gauge | Kind::Histogram => metric.name.to_owned(),
        };
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing to memory does not fail.
        let _ = writeln!(page, "| `{name}` | {kind} | {} | {} |", labels.join(", "), metric.help);
    }
    page
}
