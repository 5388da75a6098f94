//! Keys that whoever is limited can choose.

use super::{Found, Lint, counts_all_of};
use crate::policy::{Limit, Policy};

/// Attributes that a caller can set to a new value with every request.
const FREE: [&str; 22] = [
    "accept_language",
    "body_hash",
    "cookie",
    "correlation_id",
    "device_id",
    "endpoint",
    "fingerprint",
    "forwarded",
    "nonce",
    "origin",
    "path",
    "query",
    "referer",
    "referrer",
    "request_id",
    "trace_id",
    "uri",
    "url",
    "user_agent",
    "x_forwarded_for",
    "x_real_ip",
    "x_request_id",
];

pub(super) const STRANGERS_CHOOSE: Lint = Lint {
    code: "strangers_choose",
    finds: "a key with an attribute that callers choose freely, and no other limit that counts the same requests without \
            it: `accept_language`, `body_hash`, `cookie`, `correlation_id`, `device_id`, `endpoint`, `fingerprint`, `forwarded`, \
            `nonce`, `origin`, `path`, `query`, `referer`, `referrer`, `request_id`, `trace_id`, `uri`, `url`, `user_agent`, \
            `x_forwarded_for`, `x_real_ip`, `x_request_id` (also with `-`, and in any case).",
    why: "Each new value is a new counter with a full allowance. Who sends another user agent with every request is never \
          limited, and fills the store with keys.",
    fix: "Count by what the caller cannot change, such as the user or the address that connected, or stand a second limit \
          beside this one that does. If the attribute is normalised before it gets here (a route instead of a path), allow it.",
    example: "  - name: per-agent
    algorithm: sliding_counter
    limit: 100
    per: 1m
    key: [user_agent]
",
    find: strangers_choose,
};

fn is_free(attribute: &str) -> bool {
    let normal = attribute.to_ascii_lowercase().replace('-', "_");
    FREE.contains(&normal.as_str())
}

fn strangers_choose(policy: &Policy, limit: &Limit) -> Option<Found> {
    let free = limit.key.iter().find(|attribute| is_free(attribute))?;
    let held = |other: &Limit| {
        other.grant.rule().is_some()
            && !other.key.iter().any(|attribute| is_free(attribute))
            && counts_all_of(other, limit)
    };
    if limit.grant.rule().is_none() || policy.limits().iter().any(held) {
        return None;
    }
    Some(Found {
        field: "key",
        what: format!("callers choose `{free}` freely, and each new value has a full allowance"),
        hint: "count by what a caller cannot change, or add a limit that does, such as `key: [ip]`"
            .to_owned(),
    })
}
