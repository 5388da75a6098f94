//! What windows with a fixed beginning do at that beginning.

use std::time::Duration;

use super::{Found, Lint, counts_all_of};
use crate::{
    Algorithm, Align, Rule,
    policy::{Limit, Policy},
};

/// Longer windows are budgets: twice as much around midnight is what their owners expect.
const LONGEST_EDGE: Duration = Duration::from_secs(3_600);
/// Shorter windows return so often that nobody waits for one.
const SHORTEST_RESET: Duration = Duration::from_secs(3_600);

pub(super) const DOUBLE_AT_THE_EDGE: Lint = Lint {
    code: "double_at_the_edge",
    finds: "a `fixed_window` of up to an hour that lets twice its limit pass in a moment.",
    why: "The whole limit may pass at the end of a window, and the whole limit again at the beginning of the next. A \
          backend that bears 100 a minute gets 200 within milliseconds. A limit that counts the same requests by \
          another algorithm, and admits less at once, prevents it.",
    fix: "Take `sliding_counter`, which costs the same and has no edge, or `token_bucket` with the burst that you can bear.",
    example: "  - name: per-user
    algorithm: fixed_window
    limit: 100
    per: 1m
    key: [user]
",
    find: double_at_the_edge,
};

fn fixed(limit: &Limit) -> Option<(&Rule, Align)> {
    let rule = limit.grant.rule()?;
    rule.align().map(|align| (rule, align))
}

fn double_at_the_edge(policy: &Policy, limit: &Limit) -> Option<Found> {
    let (rule, _) = fixed(limit)?;
    let amount = rule.amount();
    let softened = |other: &&Limit| {
        other.grant.rule().is_some_and(|rule| {
            rule.algorithm() != Algorithm::FixedWindow
                && rule.max_cost() <= amount
                && counts_all_of(other, limit)
        })
    };
    if amount < 2 || rule.window() > LONGEST_EDGE || policy.limits().iter().any(|other| softened(&other)) {
        return None;
    }
    let twice = amount.saturating_mul(2);
    Some(Found {
        field: "algorithm",
        what: format!("up to {twice} pass in a moment, around the edge between two windows of {amount}"),
        hint: "take `sliding_counter`, which has no edge, or `token_bucket` with a `burst` of its own"
            .to_owned(),
    })
}

pub(super) const RESETS_ALL_AT_ONCE: Lint = Lint {
    code: "resets_all_at_once",
    finds: "a `fixed_window` of an hour or more with a counter per key, whose windows all begin at the same moment.",
    why: "Everybody who was refused comes back in the same second: at the full hour, or at midnight UTC.",
    fix: "Write `align: hashed`, which shifts each key's windows, or `align: first_request`, or take another algorithm.",
    example: "  - name: per-account
    algorithm: fixed_window
    limit: 1000
    per: 1d
    key: [account]
",
    find: resets_all_at_once,
};

fn resets_all_at_once(_: &Policy, limit: &Limit) -> Option<Found> {
    let (rule, align) = fixed(limit)?;
    let applies = align == Align::Epoch && rule.window() >= SHORTEST_RESET && rule.amount() > 0;
    (applies && !limit.key.is_empty()).then(|| Found {
        field: "per",
        what: format!("all counters by `{}` begin anew at the same moment", limit.key.join("`, `")),
        hint: "write `align: hashed`, so that not everybody returns in the same second".to_owned(),
    })
}
