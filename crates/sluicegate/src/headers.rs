//! Response headers of a decision: `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10, as
//! structured fields of RFC 9651), the older `X-RateLimit-…`, and `Retry-After`.

use std::{fmt, str::FromStr, time::Duration};

use http::{
    HeaderMap, StatusCode,
    header::{HeaderName, HeaderValue, RETRY_AFTER},
};
use sluicegate_core::{Algorithm, Micros, Retry};

use crate::limiter::{LimitVerdict, Verdict};

/// The largest integer of a structured field.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Tells SDKs that retry a 429 by themselves to let it be: an exhausted quota stays so for days.
const X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Which headers a decision is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderStyle {
    /// The families.
    pub families: Families,
    /// What `X-RateLimit-Reset` counts.
    pub reset: Reset,
}

impl Default for HeaderStyle {
    fn default() -> Self {
        Self { families: Families { ietf: true, x_ratelimit: true }, reset: Reset::Epoch }
    }
}

/// Families of headers, each on or off. `Retry-After` is sent with every 429.
///
/// ```
/// use sluicegate::headers::Families;
/// assert_eq!("ietf".parse(), Ok(Families { ietf: true, x_ratelimit: false }));
/// assert_eq!("none".parse(), Ok(Families { ietf: false, x_ratelimit: false }));
/// assert!("iefs".parse::<Families>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// `RateLimit-Policy` and `RateLimit`.
    pub ietf: bool,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    pub x_ratelimit: bool,
}

/// A family of headers that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no family of headers: `ietf`, `x-ratelimit`, both with a comma, or `none`")]
pub struct UnknownFamily(String);

impl FromStr for Families {
    type Err = UnknownFamily;

    fn from_str(text: &str) -> Result<Self, UnknownFamily> {
        let mut families = Self { ietf: false, x_ratelimit: false };
        if text == "none" {
            return Ok(families);
        }
        for name in text.split(',') {
            match name.trim() {
                "ietf" => families.ietf = true,
                "x-ratelimit" => families.x_ratelimit = true,
                other => return Err(UnknownFamily(other.to_owned())),
            }
        }
        Ok(families)
    }
}

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.ietf, self.x_ratelimit) {
            (true, true) => "ietf,x-ratelimit",
            (true, false) => "ietf",
            (false, true) => "x-ratelimit",
            (false, false) => "none",
        })
    }
}

/// What `X-RateLimit-Reset` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Seconds since 1970-01-01T00:00:00Z.
    Epoch,
    /// Seconds from now.
    Delta,
}

/// What a reset cannot count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reset counts from the `epoch`, or is a `delta` from now")]
pub struct UnknownReset;

impl FromStr for Reset {
    type Err = UnknownReset;

    fn from_str(text: &str) -> Result<Self, UnknownReset> {
        match text {
            "epoch" => Ok(Self::Epoch),
            "delta" => Ok(Self::Delta),
            _ => Err(UnknownReset),
        }
    }
}

/// Adds the headers of a decision that is answered with `status`.
pub fn add(headers: &mut HeaderMap, verdict: &Verdict<'_>, status: StatusCode, style: HeaderStyle) {
    if style.families.ietf {
        add_list(headers, RATELIMIT_POLICY, verdict, |limit| limit.decision.limit, push_policy);
        add_list(headers, RATELIMIT, verdict, |limit| limit.decision.remaining, push_service_limit);
    }
    if style.families.x_ratelimit
        && let Some(limit) = verdict.binding_limit()
    {
        add_binding(headers, limit, verdict.decided_at, style.reset);
    }
    if status == StatusCode::TOO_MANY_REQUESTS
        && let Some(Retry::After(wait)) = verdict.retry()
    {
        headers.insert(RETRY_AFTER, HeaderValue::from(retry_s(wait)));
    }
    if !verdict.allowed && verdict.binding_limit().is_some_and(|limit| limit.algorithm == Algorithm::Quota) {
        headers.insert(X_SHOULD_RETRY, HeaderValue::from_static("false"));
    }
}

/// Adds a list with one member for each limit that has a `number` to tell, unless it is empty.
fn add_list(
    headers: &mut HeaderMap,
    name: HeaderName,
    verdict: &Verdict<'_>,
    number: impl Fn(&LimitVerdict<'_>) -> Option<u64>,
    push: impl Fn(&mut Vec<u8>, &LimitVerdict<'_>, u64),
) {
    let mut list = Vec::with_capacity(64);
    for limit in verdict.enforced() {
        let Some(number) = number(limit) else { continue };
        if !list.is_empty() {
            list.extend_from_slice(b", ");
        }
        // Names of limits are `[a-z0-9-]`: nothing in them needs an escape.
        list.push(b'"');
        list.extend_from_slice(limit.name.as_bytes());
        list.push(b'"');
        push(&mut list, limit, number);
    }
    if !list.is_empty()
        && let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(list))
    {
        headers.insert(name, value);
    }
}

/// `;q=100;w=60`; a window that is not whole seconds has no `w`, nor has a calendar period.
fn push_policy(list: &mut Vec<u8>, limit: &LimitVerdict<'_>, amount: u64) {
    push_parameter(list, b";q=", amount);
    if let Some(window) = limit.window.filter(|window| window.subsec_nanos() == 0) {
        push_parameter(list, b";w=", window.as_secs());
    }
}

/// `;r=0;t=2`; a limit that can never admit the cost has no `t`.
fn push_service_limit(list: &mut Vec<u8>, limit: &LimitVerdict<'_>, remaining: u64) {
    push_parameter(list, b";r=", remaining);
    if let Some(more_after) = limit.more_after() {
        let told_s = if limit.decision.allowed { ceil_s(more_after) } else { retry_s(more_after) };
        push_parameter(list, b";t=", told_s);
    }
}

fn push_parameter(list: &mut Vec<u8>, name: &[u8], value: u64) {
    list.extend_from_slice(name);
    list.extend_from_slice(itoa::Buffer::new().format(value.min(MAX_INTEGER)).as_bytes());
}

fn add_binding(headers: &mut HeaderMap, limit: &LimitVerdict<'_>, decided_at: Micros, reset: Reset) {
    // The capacity, so that what remains is never above the limit: a bucket holds its burst.
    let (Some(capacity), Some(remaining)) = (limit.decision.capacity, limit.decision.remaining) else {
        return;
    };
    let reset_s = match reset {
        Reset::Delta => ceil_s(limit.decision.reset_after),
        Reset::Epoch => decided_at.plus(limit.decision.reset_after).as_u64().div_ceil(1_000_000),
    };
    headers.insert(X_LIMIT, HeaderValue::from(capacity));
    headers.insert(X_REMAINING, HeaderValue::from(remaining));
    headers.insert(X_RESET, HeaderValue::from(reset_s));
}

/// Whole seconds to wait, at least 1: a client that is told 0 would come back at once.
fn retry_s(wait: Duration) -> u64 {
    ceil_s(wait).max(1)
}

fn ceil_s(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_fifteen_digits_are_clamped_to_what_the_format_allows() {
        let mut list = Vec::new();
        push_parameter(&mut list, b";q=", MAX_INTEGER);
        push_parameter(&mut list, b";r=", u64::MAX);
        assert_eq!(list, b";q=999999999999999;r=999999999999999");
    }
}
