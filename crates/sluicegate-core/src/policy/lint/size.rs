//! Numbers that are larger than they look.

use std::time::Duration;

use super::{Found, Lint};
use crate::{
    Algorithm,
    policy::{Limit, Policy},
};

/// A burst that is back within this time is one: a longer one is a second limit.
const SHORT_REFILL: Duration = Duration::from_secs(60);
/// The largest log that is still cheap to read at each decision.
const SHORT_LOG: u64 = 200;
/// Requests a second from which on one counter is what a store spends its time on.
const HOT_PER_SECOND: u128 = 5_000;

pub(super) const BURST_ABOVE_WINDOW: Lint = Lint {
    code: "burst_above_window",
    finds: "a bucket whose burst is more than a window's worth, and takes more than a minute to refill.",
    why: "`limit: 100` and `per: 1m` read as 100 a minute; with `burst: 500` it is 600 in the first one.",
    fix: "Lower `burst` to what may pass at once, or raise `limit` to what is meant.",
    example: "  - name: per-user
    algorithm: token_bucket
    limit: 100
    per: 1m
    burst: 500
    key: [user]
",
    find: burst_above_window,
};

fn burst_above_window(_: &Policy, limit: &Limit) -> Option<Found> {
    let rule = limit.grant.rule()?;
    let bucket = matches!(rule.algorithm(), Algorithm::TokenBucket | Algorithm::Gcra);
    let (amount, burst) = (rule.amount(), rule.max_cost());
    let applies = bucket && burst > amount && rule.horizon() > SHORT_REFILL;
    applies.then(|| Found {
        field: "burst",
        what: format!(
            "{burst} at once is more than {amount} per {:?}: the first window lets {} pass",
            rule.window(),
            burst.saturating_add(amount)
        ),
        hint: format!("write `burst: {amount}` or less, or raise `limit`"),
    })
}

pub(super) const LONG_LOG: Lint = Lint {
    code: "long_log",
    finds: "a `sliding_log` of more than 200.",
    why: "A log keeps an entry per request and is read at each decision: up to 16 bytes times the limit for every key.",
    fix: "Take `sliding_counter`, which keeps two numbers, unless the limit is a contract that must be exact.",
    example: "  - name: contract
    algorithm: sliding_log
    limit: 500
    per: 1h
    key: [org]
",
    find: long_log,
};

fn long_log(_: &Policy, limit: &Limit) -> Option<Found> {
    let rule = limit.grant.rule()?;
    let applies = rule.algorithm() == Algorithm::SlidingLog && rule.amount() > SHORT_LOG;
    applies.then(|| Found {
        field: "limit",
        what: format!("each key keeps up to {} entries, which are read at each decision", rule.amount()),
        hint: "take `sliding_counter`, which keeps two numbers per key".to_owned(),
    })
}

pub(super) const HOT_COUNTER: Lint = Lint {
    code: "hot_counter",
    finds: "one counter for all requests of the domain, at 5,000 a second and more, that is not split by `shards`.",
    why: "Every request waits for the same key, on the one server that holds it, however many servers there are.",
    fix: "Split the counter by `shards`, or count by something that splits the traffic, such as the region or the \
          organisation, with a share of the limit each.",
    example: "  - name: edge
    algorithm: sliding_counter
    limit: 600000
    per: 1m
    key: []
",
    find: hot_counter,
};

fn hot_counter(_: &Policy, limit: &Limit) -> Option<Found> {
    let rule = limit.grant.rule()?;
    let everything = limit.key.is_empty() && limit.shards == 1 && limit.matcher.attributes().next().is_none();
    let per_second = u128::from(rule.amount()) * 1_000_000 / rule.window().as_micros().max(1);
    let applies = everything && limit.unit == crate::policy::REQUESTS && per_second >= HOT_PER_SECOND;
    applies.then(|| Found {
        field: "key",
        what: format!("one counter takes all requests of the domain, up to {per_second} a second"),
        hint: "split it, such as by `shards: 8`, or count by something that splits the traffic, such as `key: [region]`"
            .to_owned(),
    })
}
