//! Limits that guard money, and let it go when their store is away.

use super::{Found, Lint};
use crate::{
    policy::{Limit, Policy},
    share::OnStoreFailure,
};

pub(super) const FAIL_OPEN_ON_MONEY: Lint = Lint {
    code: "fail_open_on_money",
    finds: "`on_store_failure: allow` in a limit whose `unit` is money: a currency code or `money`, `cents`, `credits` or `cost` \
            between its `_`, `-` and `.`, such as `usd_cents`.",
    why: "Without the store everything passes and nothing is counted: an outage of minutes can spend a month's budget, and \
          nobody can say afterwards who spent it.",
    fix: "Write `on_store_failure: deny`, or leave it out: each instance then goes on with its share of the limit.",
    example: "  - name: spending
    algorithm: token_bucket
    unit: usd_cents
    limit: 5000
    per: 1h
    burst: 1000
    key: [org]
    on_store_failure: allow
",
    find: fail_open_on_money,
};

/// Codes of ISO 4217 that services are paid in, and words for money of one's own.
const MONEY: [&str; 29] = [
    "aud", "brl", "cad", "cent", "cents", "chf", "cny", "cost", "credit", "credits", "czk", "dkk", "eur",
    "gbp", "hkd", "idr", "inr", "jpy", "krw", "money", "mxn", "nok", "nzd", "pln", "sek", "sgd", "try",
    "usd", "vnd",
];

fn fail_open_on_money(_: &Policy, limit: &Limit) -> Option<Found> {
    let unit = limit.unit.to_ascii_lowercase();
    let is_money = unit.split(['_', '-', '.']).any(|part| MONEY.contains(&part));
    (is_money && limit.on_store_failure == OnStoreFailure::Allow).then(|| Found {
        field: "on_store_failure",
        what: format!("without the store any amount of `{}` passes, and is not counted", limit.unit),
        hint: "write `on_store_failure: deny`, or `local` for this instance's share of the limit".to_owned(),
    })
}
