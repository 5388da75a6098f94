//! Bodies of decisions: a verdict to JSON.

use std::{fmt, time::Duration};

use hyper::StatusCode;
use serde::{Serialize, Serializer};
use sluicegate::{
    LimitVerdict, Verdict,
    core::{DecidedBy, Retry, policy::Enforcement},
};

/// The problem type of a refusal, of draft-ietf-httpapi-ratelimit-headers-10, section 5.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The status of a decision: 200 passes, 429 passes later, 403 never passes.
pub(super) fn status(verdict: &Verdict<'_>) -> StatusCode {
    match (verdict.allowed, verdict.retry()) {
        (true, _) => StatusCode::OK,
        (false, Some(Retry::Never)) => StatusCode::FORBIDDEN,
        (false, _) => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// The body of a decision, for others than this door.
pub(crate) fn json(verdict: &Verdict<'_>) -> Vec<u8> {
    let mut json = Vec::with_capacity(512);
    write(&mut json, verdict, status(verdict));
    json
}

/// The body of a refusal that another door answers with `status`.
pub(crate) fn denial_json(verdict: &Verdict<'_>, status: StatusCode) -> Vec<u8> {
    let mut json = Vec::with_capacity(512);
    write(&mut json, verdict, status);
    json
}

/// What the body of an admitted decision says, for others than this door: no status is told beside it.
pub(crate) fn value(verdict: &Verdict<'_>) -> serde_json::Value {
    // Every field serialises.
    serde_json::to_value(Body::new(verdict, StatusCode::OK)).unwrap_or_default()
}

/// Appends a decision that is answered with `status`. One that is not 200 is also a problem (RFC 9457).
pub(super) fn write(json: &mut Vec<u8>, verdict: &Verdict<'_>, status: StatusCode) {
    // A vector takes all that is written, and every field serialises.
    let _ = serde_json::to_writer(json, &Body::new(verdict, status));
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Detail<'a>>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    violated_policies: Option<Violated<'a>>,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt: Option<&'a str>,
    binding: Option<&'a str>,
    retry_after_ms: RetryMs,
    delay_ms: u64,
    degraded: bool,
    decided_by: &'static str,
    limits: Limits<'a>,
}

impl<'a> Body<'a> {
    fn new(verdict: &'a Verdict<'a>, status: StatusCode) -> Self {
        let decided_by = verdict.decided_by();
        let refused = status != StatusCode::OK;
        Self {
            r#type: refused.then_some(QUOTA_EXCEEDED),
            title: refused.then(|| title(status)),
            status: refused.then_some(status.as_u16()),
            detail: refused.then_some(Detail(verdict)),
            violated_policies: refused.then_some(Violated(verdict)),
            allowed: verdict.allowed,
            exempt: verdict.exempt,
            binding: verdict.binding_limit().map(|limit| limit.name),
            retry_after_ms: RetryMs(verdict.retry()),
            delay_ms: ceil_ms(verdict.delay()),
            degraded: decided_by == DecidedBy::Fallback,
            decided_by: decided_by.name(),
            limits: Limits(verdict),
        }
    }
}

#[derive(Serialize)]
struct LimitBody<'a> {
    name: &'a str,
    algorithm: &'static str,
    unit: &'a str,
    cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    enforcement: Option<&'static str>,
    allowed: bool,
    decided_by: &'static str,
    limit: Amount,
    remaining: Option<u64>,
    window_ms: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: RetryMs,
}

impl<'a> LimitBody<'a> {
    fn new(limit: &'a LimitVerdict<'a>) -> Self {
        let decision = &limit.decision;
        // Where nothing was counted nobody knows what was used, so nothing is claimed about it.
        let known = decision.remaining.is_some() || decision.limit.is_none();
        Self {
            name: limit.name,
            algorithm: limit.algorithm.name(),
            unit: limit.unit,
            cost: limit.cost,
            enforcement: (limit.enforcement != Enforcement::On).then_some(limit.enforcement.name()),
            allowed: decision.allowed,
            decided_by: decision.decided_by.name(),
            limit: Amount(decision.limit),
            remaining: decision.remaining,
            window_ms: limit.window.map(ceil_ms),
            reset_after_ms: known.then(|| ceil_ms(decision.reset_after)),
            retry_after_ms: RetryMs(decision.retry),
        }
    }
}

/// The list of limits, written without being collected first.
struct Limits<'a>(&'a Verdict<'a>);

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.limits.iter().map(LimitBody::new))
    }
}

/// The names of the limits that refuse.
struct Violated<'a>(&'a Verdict<'a>);

impl Serialize for Violated<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refusing = self.0.enforced().filter(|limit| !limit.decision.allowed);
        serializer.collect_seq(refusing.map(|limit| limit.name))
    }
}

/// An amount, or `"unlimited"`.
struct Amount(Option<u64>);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(amount) => serializer.serialize_u64(amount),
            None => serializer.serialize_str("unlimited"),
        }
    }
}

/// Milliseconds, `null` or `"never"`.
struct RetryMs(Option<Retry>);

impl Serialize for RetryMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(Retry::After(wait)) => serializer.serialize_u64(ceil_ms(wait)),
            Some(Retry::Never) => serializer.serialize_str("never"),
            None => serializer.serialize_none(),
        }
    }
}

/// What a person is told about a refusal.
struct Detail<'a>(&'a Verdict<'a>);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(limit) = self.0.binding_limit() else { return Ok(()) };
        let LimitVerdict { name, cost, unit, .. } = limit;
        match self.0.retry() {
            Some(Retry::After(wait)) => {
                write!(f, "limit `{name}` has no room for {cost} {unit}; retry in {} ms", ceil_ms(wait))
            }
            _ => write!(f, "limit `{name}` can never admit {cost} {unit} at once"),
        }
    }
}

impl Serialize for Detail<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn title(status: StatusCode) -> &'static str {
    if status == StatusCode::FORBIDDEN { "request can never pass" } else { "limit reached" }
}

/// Whole milliseconds, rounded up.
fn ceil_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
