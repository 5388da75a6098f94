//! What changes, and for whom, when one policy takes the place of another.

use std::{collections::BTreeSet, time::Duration};

use super::{Grant, Grants, Limit, Policy};
use crate::share::OnStoreFailure;

/// One change, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The limit, if the change is about one.
    pub limit: Option<String>,
    /// The kind: `added`, `removed`, `renamed`, `raised`, `lowered`, `restarted`, `match`, `other`.
    pub kind: &'static str,
    /// For whom: `everybody`, `tier …`, `override …`.
    pub whom: String,
    /// What changes.
    pub what: String,
}

const EVERYBODY: &str = "everybody";
const KEPT: &str = "what was used is kept";

impl Change {
    fn new(limit: &str, kind: &'static str, whom: &str, what: String) -> Self {
        Self { limit: Some(limit.to_owned()), kind, whom: whom.to_owned(), what }
    }

    fn of_policy(kind: &'static str, what: String) -> Self {
        Self { limit: None, kind, whom: EVERYBODY.to_owned(), what }
    }
}

/// What changes from the old policy to the new one.
#[must_use]
pub fn diff(old: &Policy, new: &Policy) -> Vec<Change> {
    let mut changes = frame(old, new);
    for limit in new.limits() {
        match before(old, limit) {
            None => changes.push(Change::new(&limit.name, "added", EVERYBODY, describe(limit))),
            Some(earlier) => changes.extend(of_limit(earlier, limit)),
        }
    }
    let kept =
        |limit: &&Limit| new.limits().iter().any(|later| later.name == limit.name || later.id == limit.id);
    for limit in old.limits().iter().filter(|limit| !kept(limit)) {
        changes.push(Change::new(&limit.name, "removed", EVERYBODY, describe(limit)));
    }
    changes.extend(tiers(old, new));
    changes.extend(overrides(old, new));
    changes
}

/// The limit that a new one takes the place of: by its id, which keeps the counters, else by its name.
fn before<'p>(old: &'p Policy, limit: &Limit) -> Option<&'p Limit> {
    let by_id = old.limits().iter().find(|earlier| earlier.id == limit.id);
    by_id.or_else(|| old.limits().iter().find(|earlier| earlier.name == limit.name))
}

fn frame(old: &Policy, new: &Policy) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.domain() != new.domain() {
        let what = format!(
            "the domain is `{}` instead of `{}`: every counter begins anew",
            new.domain(),
            old.domain()
        );
        changes.push(Change::of_policy("restarted", what));
    }
    if old.slot_by() != new.slot_by() {
        changes.push(Change::of_policy(
            "restarted",
            "`slot_by` is another: every counter begins anew".to_owned(),
        ));
    }
    if old.enforcement() != new.enforcement() {
        let (was, is) = (old.enforcement().name(), new.enforcement().name());
        changes.push(Change::of_policy(
            "other",
            format!(
                "the domain is `{is}` instead of `{was}`, and so is every limit that was not less already"
            ),
        ));
    }
    let exemptions = |policy: &Policy| -> BTreeSet<String> {
        policy.exemptions().iter().map(|one| format!("`{}` ({})", one.name, one.matcher)).collect()
    };
    let (earlier, later) = (exemptions(old), exemptions(new));
    let gone = earlier.difference(&later).map(|one| format!("no longer exempt: {one}"));
    let come = later.difference(&earlier).map(|one| format!("exempt: {one}"));
    changes.extend(gone.chain(come).map(|what| Change::of_policy("match", what)));
    changes
}

fn of_limit(old: &Limit, new: &Limit) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut note = |kind, what: String| changes.push(Change::new(&new.name, kind, EVERYBODY, what));
    if old.name != new.name {
        note("renamed", format!("was `{}`; {KEPT}", old.name));
    }
    if old.id != new.id || old.key != new.key || old.shards != new.shards {
        let (was, is) = (describe(old), describe(new));
        note("restarted", format!("{is}, instead of {was}: its counters begin anew"));
    } else if let Some((kind, what)) = of_grant(&old.grant, &new.grant) {
        note(kind, what);
    }
    if old.unit != new.unit {
        note("other", format!("counts `{}` instead of `{}`", new.unit, old.unit));
    }
    if old.enforcement != new.enforcement {
        note("other", format!("is `{}` instead of `{}`", new.enforcement.name(), old.enforcement.name()));
    }
    if old.on_store_failure != new.on_store_failure {
        let (was, is) = (without_store(old.on_store_failure), without_store(new.on_store_failure));
        note("other", format!("when the store does not answer, {is}, instead of {was}"));
    }
    if old.cache_denials != new.cache_denials {
        let verb = if new.cache_denials { "may remember" } else { "does not remember" };
        note("other", format!("{verb} denials for as long as they cannot change"));
    }
    if old.if_missing != new.if_missing {
        note(
            "other",
            format!("`if_missing` is {:?} instead of {:?}", new.if_missing, old.if_missing).to_lowercase(),
        );
    }
    let (was, is) = (old.matcher.to_string(), new.matcher.to_string());
    if was != is {
        let word = match (new.matcher.covers(&old.matcher), old.matcher.covers(&new.matcher)) {
            (true, false) => "matches more requests",
            (false, true) => "matches fewer requests",
            _ => "matches other requests",
        };
        note("match", format!("{word}: {is}, instead of {was}"));
    }
    changes
}

/// What a limit does without its store.
fn without_store(what: OnStoreFailure) -> String {
    match what {
        OnStoreFailure::Local { headroom } => format!("the fleet grants {headroom} times the limit"),
        OnStoreFailure::Allow => "everything passes".to_owned(),
        OnStoreFailure::Deny => "nothing passes".to_owned(),
    }
}

/// What a grant's change means for the requests that it holds for; the algorithm and window are the same.
fn of_grant(old: &Grant, new: &Grant) -> Option<(&'static str, String)> {
    let numbers = |grant: &Grant| match grant.rule() {
        Some(rule) => (rule.amount(), rule.max_cost(), rule.horizon()),
        None => (u64::MAX, u64::MAX, Duration::ZERO),
    };
    let (was, is) = (numbers(old), numbers(new));
    let words = format!("{} instead of {}; {KEPT}", amount(new), amount(old));
    match (is.0, is.1).cmp(&(was.0, was.1)) {
        _ if was == is => None,
        std::cmp::Ordering::Greater if is.1 >= was.1 => Some(("raised", words)),
        std::cmp::Ordering::Less if is.1 <= was.1 => Some(("lowered", words)),
        _ => Some(("other", words)),
    }
}

fn amount(grant: &Grant) -> String {
    let Some(rule) = grant.rule() else { return "unlimited".to_owned() };
    let amount = match rule.period() {
        Some(period) => format!("{} per {period}", rule.amount()),
        None => format!("{} per {:?}", rule.amount(), rule.window()),
    };
    if rule.max_cost() == rule.amount() {
        return amount;
    }
    format!("{amount} with bursts of {}", rule.max_cost())
}

fn describe(limit: &Limit) -> String {
    let (algorithm, _) = limit.grant.shape();
    let key = match limit.shards {
        _ if !limit.key.is_empty() => format!("by {}", limit.key.join(", ")),
        1 => "all together".to_owned(),
        shards => format!("all together over {shards} shards"),
    };
    format!("{algorithm} of {} {key}, for {}", amount(&limit.grant), limit.matcher)
}

/// The names of the limits that tiers and overrides of a policy grant something else.
fn named<'p>(policy: &'p Policy, grants: &'p Grants) -> impl Iterator<Item = (&'p str, &'p Grant)> {
    let name = |at: &usize| policy.limits().get(*at).map(|limit| limit.name.as_str());
    grants.iter().filter_map(move |(at, grant)| Some((name(at)?, grant)))
}

fn tiers(old: &Policy, new: &Policy) -> Vec<Change> {
    let names: BTreeSet<&str> = old.tiers().chain(new.tiers()).collect();
    let mut changes = Vec::new();
    for tier in names {
        let whom = format!("tier `{tier}`");
        match (old.rules.tiers.get(tier), new.rules.tiers.get(tier)) {
            (Some(was), Some(is)) => changes.extend(grants((old, was), (new, is), &whom)),
            (None, Some(_)) => {
                let what = "the tier is new".to_owned();
                changes.push(Change { whom, ..Change::of_policy("added", what) });
            }
            (Some(_), None) => {
                let what = "the tier is gone: requests that name it are malformed".to_owned();
                changes.push(Change { whom, ..Change::of_policy("removed", what) });
            }
            (None, None) => {}
        }
    }
    changes
}

/// Overrides are told apart by what they match.
fn overrides(old: &Policy, new: &Policy) -> Vec<Change> {
    let find = |policy: &'_ Policy, words: &str| {
        policy
            .rules
            .overrides
            .iter()
            .find(|entry| entry.matcher.to_string() == words)
            .map(|entry| entry.grants.clone())
    };
    let words = |policy: &Policy| {
        policy.rules.overrides.iter().map(|entry| entry.matcher.to_string()).collect::<Vec<_>>()
    };
    let names: BTreeSet<String> = words(old).into_iter().chain(words(new)).collect();
    let mut changes = Vec::new();
    for name in names {
        let whom = format!("override for {name}");
        let (was, is) = (find(old, &name).unwrap_or_default(), find(new, &name).unwrap_or_default());
        changes.extend(grants((old, &was), (new, &is), &whom));
    }
    changes
}

/// What a tier or an override grants otherwise than before; where it says nothing, the limit's own amount holds.
fn grants(old: (&Policy, &Grants), new: (&Policy, &Grants), whom: &str) -> Vec<Change> {
    let names: BTreeSet<&str> =
        named(old.0, old.1).chain(named(new.0, new.1)).map(|(name, _)| name).collect();
    let effective = |(policy, grants): (&'_ Policy, &'_ Grants), name: &str| {
        let at = policy.limits().iter().position(|limit| limit.name == name)?;
        grants.get(&at).or_else(|| policy.limits().get(at).map(|limit| &limit.grant)).cloned()
    };
    let change = |name: &str| {
        let (kind, what) = of_grant(&effective(old, name)?, &effective(new, name)?)?;
        Some(Change::new(name, kind, whom, what))
    };
    names.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rest: &str) -> Policy {
        Policy::parse(&format!("version: 1\n{rest}")).unwrap_or_else(|error| panic!("{error}\n{rest}"))
    }

    fn told(old: &str, new: &str) -> Vec<String> {
        let line = |change: Change| {
            format!(
                "{} {} for {}: {}",
                change.limit.unwrap_or_default(),
                change.kind,
                change.whom,
                change.what
            )
        };
        diff(&policy(old), &policy(new)).into_iter().map(line).collect()
    }

    const OLD: &str = "limits:
  - { name: a, algorithm: gcra, limit: 10, per: 1s, burst: 20, key: [user] }
  - { name: b, algorithm: fixed_window, limit: 5, per: 1m, key: [ip], match: { method: POST } }
tiers:
  pro: { a: { limit: 100 } }
overrides:
  - { match: { user: alice }, limits: { a: { limit: unlimited } } }
";

    #[test]
    fn the_same_policy_changes_nothing() {
        assert_eq!(told(OLD, OLD), Vec::<String>::new());
        let reordered = "limits:
  - { name: b, algorithm: fixed_window, limit: 5, per: 1m, key: [ip], match: { method: POST } }
  - { name: a, algorithm: gcra, limit: 10, per: 1s, burst: 20, key: [user] }
tiers:
  pro: { a: { limit: 100 } }
overrides:
  - { match: { user: alice }, limits: { a: { limit: unlimited } } }
";
        assert_eq!(told(OLD, reordered), Vec::<String>::new());
    }

    #[test]
    fn amounts_are_told_for_whom_they_change_and_keep_what_was_used() {
        let new = OLD.replace("limit: 5,", "limit: 7,").replace("a: { limit: 100 }", "a: { limit: 50 }");
        let expected = [
            "b raised for everybody: 7 per 60s instead of 5 per 60s; what was used is kept",
            "a lowered for tier `pro`: 50 per 1s with bursts of 20 instead of 100 per 1s with bursts of 20; what was used is kept",
        ];
        assert_eq!(told(OLD, &new), expected);
    }

    #[test]
    fn what_decides_and_what_happens_without_the_store_are_told_with_both_values() {
        let limit = |more: &str| OLD.replace("burst: 20,", &format!("burst: 20, {more},"));
        assert_eq!(
            told(OLD, &limit("enforcement: shadow")),
            ["a other for everybody: is `shadow` instead of `on`"]
        );
        let whole = told(OLD, &format!("enforcement: off\n{OLD}"));
        let expected = " other for everybody: the domain is `off` instead of `on`, and so is every limit that was not less already";
        assert_eq!(whole, [expected]);
        let failure = |old: &str, new: &str| told(&limit(old), &limit(new));
        assert_eq!(
            failure("headroom: 1.5", "headroom: 0.25"),
            [
                "a other for everybody: when the store does not answer, the fleet grants 0.25 times the limit, instead of the \
              fleet grants 1.5 times the limit"
            ]
        );
        assert_eq!(
            failure("on_store_failure: deny", "on_store_failure: allow"),
            [
                "a other for everybody: when the store does not answer, everything passes, instead of nothing passes"
            ]
        );
    }

    #[test]
    fn what_begins_anew_is_said() {
        let key = told(OLD, &OLD.replace("key: [ip]", "key: [ip, user]"));
        assert!(
            key[0].starts_with("b restarted for everybody: ") && key[0].ends_with("its counters begin anew")
        );
        let window = told(OLD, &OLD.replace("limit: 5, per: 1m", "limit: 5, per: 1h"));
        assert!(
            window[0].starts_with("b restarted for everybody: fixed_window of 5 per 3600s by ip"),
            "{window:?}"
        );
        let domain = told(OLD, &format!("domain: other\n{OLD}"));
        assert_eq!(
            domain,
            [
                " restarted for everybody: the domain is `other` instead of `default`: every counter begins anew"
            ]
        );
    }

    #[test]
    fn a_match_becomes_wider_narrower_or_another() {
        let of = |condition: &str| told(OLD, &OLD.replace("method: POST", condition));
        assert!(of("method: [POST, PUT]")[0].contains("b match for everybody: matches more requests: "));
        assert!(of("method: POST, path: /a")[0].contains("matches fewer requests"));
        assert!(
            of("method: PUT")[0].contains("matches other requests: requests where `method` must be `PUT`")
        );
    }

    #[test]
    fn limits_tiers_and_overrides_come_go_and_are_renamed() {
        let renamed = OLD.replace("name: b,", "name: c, id: b,");
        assert_eq!(told(OLD, &renamed), ["c renamed for everybody: was `b`; what was used is kept"]);
        let one = "limits:\n  - { name: a, algorithm: gcra, limit: 10, per: 1s, burst: 20, key: [user] }\n";
        let told = told(OLD, one);
        assert!(told[0].starts_with("b removed for everybody: fixed_window of 5 per 60s by ip"), "{told:?}");
        assert_eq!(told[1], " removed for tier `pro`: the tier is gone: requests that name it are malformed");
        assert!(
            told[2]
                .starts_with("a lowered for override for requests where `user` must be `alice`: 10 per 1s"),
            "{told:?}"
        );
        assert_eq!(told.len(), 3);
    }
}
