//! The policies: what is legal and probably not meant, and what is not enforced.

use std::time::Duration;

use sluicegate::core::{
    Limit, OnStoreFailure, Policy, Rule,
    policy::{
        Enforcement,
        lint::{Checked, Finding},
    },
};

use super::Item;

pub(super) fn items(checked: &[Checked]) -> Vec<Item> {
    let policies: Vec<&Policy> = checked.iter().map(|checked| &checked.policy).collect();
    vec![lints(checked), keyed(&policies), enforced(&policies), open(&policies), longest(&policies)]
}

/// The limits of all policies that are meant, named with their domains.
fn named(policies: &[&Policy], meant: impl Fn(&Policy, &Limit) -> bool) -> Vec<String> {
    let all = policies.iter().flat_map(|policy| policy.limits().iter().map(move |limit| (policy, limit)));
    let meant = all.filter(|(policy, limit)| meant(policy, limit));
    meant.map(|(policy, limit)| format!("`{}` of `{}`", limit.name, policy.domain())).collect()
}

fn lints(checked: &[Checked]) -> Item {
    let what = "the policies mean what they say";
    let told = |checked: &Checked| {
        let domain = checked.policy.domain().to_owned();
        let tell = |found: &Finding| format!("{} (`{}` of `{domain}`)", found.lint.code, found.limit);
        checked.findings.iter().map(tell).collect::<Vec<_>>()
    };
    let all: Vec<String> = checked.iter().flat_map(told).collect();
    if all.is_empty() {
        Item::pass("lint", what, "`policy check` has no warning")
    } else {
        Item::to_do("lint", what, all.join(", "), "`sluicegate policy check` says why, and what to do")
    }
}

fn keyed(policies: &[&Policy]) -> Item {
    let what = "limits count by user, not all together";
    let without = |policy: &&&Policy| policy.limits().iter().all(|limit| limit.key.is_empty());
    let all: Vec<String> =
        policies.iter().filter(without).map(|policy| format!("`{}`", policy.domain())).collect();
    if all.is_empty() {
        Item::pass("keyed", what, "every domain has a limit with a `key`")
    } else {
        let seen = format!("no limit of {} has a `key`", all.join(", "));
        Item::to_do(
            "keyed",
            what,
            seen,
            "one client can use up what is there for all: give a limit `key: [user]`",
        )
    }
}

fn enforced(policies: &[&Policy]) -> Item {
    let what = "what is written is enforced";
    let all = named(policies, |policy, limit| policy.enforcement_of(limit) != Enforcement::On);
    if all.is_empty() {
        Item::pass("enforced", what, "no limit is in shadow or off")
    } else {
        Item::to_do(
            "enforced",
            what,
            format!("not: {}", all.join(", ")),
            "set `enforcement: on` when you have seen enough",
        )
    }
}

fn open(policies: &[&Policy]) -> Item {
    let what = "without the store every limit still holds";
    let all = named(policies, |_, limit| limit.on_store_failure == OnStoreFailure::Allow);
    if all.is_empty() {
        Item::pass("fail-open", what, "no limit has `on_store_failure: allow`")
    } else {
        let seen = format!("{} let everything pass then", all.join(", "));
        Item::to_do("fail-open", what, seen, "leave `on_store_failure` out: `local` counts in each instance")
    }
}

/// The longest that anybody can be kept out: every refusal ends with its window.
fn longest(policies: &[&Policy]) -> Item {
    let rules = policies.iter().flat_map(|policy| policy.limits()).filter_map(|limit| limit.grant.rule());
    let longest = rules.map(Rule::window).max().unwrap_or(Duration::ZERO);
    let seen = format!("the longest window is {} s", longest.as_secs_f64());
    Item::pass("lockouts", "no refusal lasts for ever", seen)
}
