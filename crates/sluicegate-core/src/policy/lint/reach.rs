//! Limits that apply to nothing, or to everything with nothing to give.

use super::{Found, Lint};
use crate::policy::{Limit, Policy};

pub(super) const DENIES_EVERYTHING: Lint = Lint {
    code: "denies_everything",
    finds: "`limit: 0` without a `match`.",
    why: "No request of the domain passes. If that is meant, it is an outage by intention; more often a `match` is missing.",
    fix: "Give it a `match`, or a number.",
    example: "  - name: suspended
    algorithm: gcra
    limit: 0
    per: 1m
    key: [user]
",
    find: denies_everything,
};

fn denies_everything(_: &Policy, limit: &Limit) -> Option<Found> {
    let rule = limit.grant.rule()?;
    let everything = limit.matcher.attributes().next().is_none();
    (rule.amount() == 0 && everything).then(|| Found {
        field: "limit",
        what: "no request of the domain can pass".to_owned(),
        hint: "give the limit a `match`, or a number".to_owned(),
    })
}

pub(super) const MEETS_NOTHING: Lint = Lint {
    code: "meets_nothing",
    finds: "a pattern that no value of its attribute can have: an `endpoint`, `path`, `route`, `url_path` or `uri` that does not begin \
            with `/`, a `method` with small letters, a `host` with capitals.",
    why: "The limit never applies, and nobody notices: a limit that is not enforced looks like one that is never reached.",
    fix: "Write the pattern as the values come: `/v1/*`, `POST`, `api.example.com`.",
    example: "  - name: writes
    algorithm: gcra
    limit: 30
    per: 1m
    key: [user]
    match: { method: post }
",
    find: meets_nothing,
};

/// Attributes that hold paths.
const PATHS: [&str; 5] = ["endpoint", "path", "route", "url_path", "uri"];

fn meets_nothing(_: &Policy, limit: &Limit) -> Option<Found> {
    limit.matcher.literal_starts().find_map(|(attribute, start, whole)| {
        let (what, hint) = strange(attribute, start, whole)?;
        Some(Found {
            field: "match",
            what: format!("no `{attribute}` {what}: the limit never applies"),
            hint,
        })
    })
}

/// What is wrong with a pattern that begins so (`whole`: and ends there).
fn strange(attribute: &str, start: &str, whole: bool) -> Option<(String, String)> {
    let shown = if whole { start.to_owned() } else { format!("{start}…") };
    if PATHS.contains(&attribute) && !start.is_empty() && !start.starts_with('/') && !start.contains("://") {
        return Some((format!("is `{shown}`, since paths begin with `/`"), format!("write `/{shown}`")));
    }
    if attribute == "method" && start.contains(|c: char| c.is_ascii_lowercase()) {
        return Some((format!("is `{shown}`"), format!("write `{}`", shown.to_ascii_uppercase())));
    }
    if attribute == "host" && start.contains(|c: char| c.is_ascii_uppercase()) {
        return Some((format!("is `{shown}`"), format!("write `{}`", shown.to_ascii_lowercase())));
    }
    None
}
