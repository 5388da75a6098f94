//! Answers: verdicts to statuses, headers, a body and metadata.

use std::time::Duration;

use hyper::{HeaderMap, StatusCode};
use prost_types::{ListValue, Struct, Value, value::Kind};
use sluicegate::{
    LimitVerdict, Verdict,
    headers::{self, Families, HeaderStyle, Reset},
};

use super::{
    proto::envoy::{
        config::core::v3::HeaderValue,
        service::ratelimit::v3::{
            RateLimitResponse,
            rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit::Unit},
        },
    },
    units,
};
use crate::http::{self, PROBLEM_JSON};

/// The answer to a request.
pub(super) fn respond(each: &[Verdict<'_>], families: Families) -> RateLimitResponse {
    let all = &Verdict::of_all(each);
    RateLimitResponse {
        overall_code: code(all.allowed).into(),
        statuses: each.iter().map(status).collect(),
        response_headers_to_add: headers(all, families),
        request_headers_to_add: Vec::new(),
        // Envoy answers a refusal with one status, whatever the reason: the body says the same.
        raw_body: if all.allowed {
            Vec::new()
        } else {
            http::denial_json(all, StatusCode::TOO_MANY_REQUESTS)
        },
        dynamic_metadata: Some(metadata(all)),
    }
}

fn code(allowed: bool) -> Code {
    if allowed { Code::Ok } else { Code::OverLimit }
}

/// The status of one descriptor: the numbers are those of the limit that binds it.
fn status(verdict: &Verdict<'_>) -> DescriptorStatus {
    let code = code(verdict.allowed).into();
    let Some(limit) = verdict.binding_limit() else {
        // Without a limit nothing remains of anything; all that apply are unlimited, or were not asked.
        let limit_remaining = if verdict.limits.is_empty() { 0 } else { u32::MAX };
        return DescriptorStatus { code, limit_remaining, ..DescriptorStatus::default() };
    };
    DescriptorStatus {
        code,
        current_limit: Some(current_limit(limit)),
        limit_remaining: limit.decision.remaining.map_or(0, clamped),
        duration_until_reset: Some(whole_seconds(limit.decision.reset_after)),
    }
}

fn current_limit(limit: &LimitVerdict<'_>) -> RateLimit {
    RateLimit {
        name: limit.name.to_owned(),
        requests_per_unit: limit.decision.limit.map_or(u32::MAX, clamped),
        unit: limit.window.map_or(Unit::Unknown, units::nearest).into(),
    }
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Rounded up, since Envoy tells its clients whole seconds and drops the rest.
fn whole_seconds(duration: Duration) -> prost_types::Duration {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

fn headers(verdict: &Verdict<'_>, families: Families) -> Vec<HeaderValue> {
    let status = if verdict.allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let mut told = HeaderMap::new();
    if status != StatusCode::OK {
        told.insert(hyper::header::CONTENT_TYPE, PROBLEM_JSON);
    }
    // Envoy's own `x-ratelimit-reset` counts from now.
    headers::add(&mut told, verdict, status, HeaderStyle { families, reset: Reset::Delta });
    let field = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| HeaderValue {
        key: name.as_str().to_owned(),
        value: value.to_str().unwrap_or_default().to_owned(),
        raw_value: Vec::new(),
    };
    told.iter().map(field).collect()
}

/// What the next filters and the access log may want to know: who decided, which limits applied, which one binds, or
/// which exemption let it pass.
fn metadata(verdict: &Verdict<'_>) -> Struct {
    let names = verdict.limits.iter().map(|limit| text(limit.name)).collect();
    let mut fields = vec![
        ("decided_by", text(verdict.decided_by().name())),
        ("limits", value(Kind::ListValue(ListValue { values: names }))),
    ];
    if let Some(limit) = verdict.binding_limit() {
        fields.push(("binding", text(limit.name)));
    }
    if let Some(exemption) = verdict.exempt {
        fields.push(("exempt", text(exemption)));
    }
    let delay_ms = u32::try_from(verdict.delay().as_millis()).unwrap_or(u32::MAX);
    if delay_ms > 0 {
        fields.push(("delay_ms", value(Kind::NumberValue(delay_ms.into()))));
    }
    Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

fn text(text: &str) -> Value {
    value(Kind::StringValue(text.to_owned()))
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}
