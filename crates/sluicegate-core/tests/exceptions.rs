//! Exemptions, tiers and overrides: which amount holds for which request.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use sluicegate_core::{
    Attributes, Costs, Policy,
    policy::{AmountOf, AskError},
};

const POLICY: &str = "
version: 1
domain: api
exempt:
  - { name: probes, match: { endpoint: /healthz } }
  - { name: staff, match: { ip: { cidr: 10.0.0.0/8 }, endpoint: /admin } }
limits:
  - { name: edge, algorithm: fixed_window, limit: 10000, per: 1m, key: [] }
  - { name: per-user, algorithm: token_bucket, limit: 100, per: 1m, burst: 30, key: [user] }
  - { name: tokens, algorithm: sliding_counter, limit: 500, per: 1m, key: [org], unit: tokens }
tiers:
  free: {}
  pro: { per-user: { limit: 1000 }, tokens: { limit: unlimited } }
  big: { per-user: { limit: 5000, burst: 200 } }
overrides:
  - match: { user: alice }
    limits: { per-user: { limit: unlimited } }
  - match: { org: \"acme*\" }
    limits: { per-user: { burst: 77 }, tokens: { limit: 9 } }
";

fn policy() -> Policy {
    Policy::parse(POLICY).unwrap_or_else(|error| panic!("{error}"))
}

fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().copied().collect()
}

/// Amount and capacity of each limit that applies, and where they come from.
fn amounts(pairs: &[(&str, &str)]) -> Vec<String> {
    let policy = policy();
    let matched = policy.apply(&attributes(pairs), &Costs::default()).unwrap();
    let line = |applied: &sluicegate_core::policy::Applied<'_>| {
        let rule = applied.ask.as_ref().map(|ask| (ask.rule.amount(), ask.rule.max_cost()));
        let amount = rule.map_or("unlimited".to_owned(), |(amount, burst)| format!("{amount}/{burst}"));
        let from = match applied.amount_of {
            AmountOf::Limit => "limit".to_owned(),
            AmountOf::Tier(name) => name.to_owned(),
            AmountOf::Override(at) => format!("override {at}"),
        };
        format!("{} {amount} {from}", applied.limit.name)
    };
    matched.limits.iter().map(line).collect()
}

#[test]
fn without_a_tier_the_limits_own_amounts_hold() {
    let own = ["edge 10000/10000 limit", "per-user 100/30 limit", "tokens 500/500 limit"];
    assert_eq!(amounts(&[("user", "bob")]), own);
    assert_eq!(amounts(&[("user", "bob"), ("tier", "free")]), own);
}

#[test]
fn a_tier_replaces_what_it_names_and_keeps_the_rest() {
    let pro = ["edge 10000/10000 limit", "per-user 1000/30 pro", "tokens unlimited pro"];
    assert_eq!(amounts(&[("tier", "pro")]), pro);
    let big = ["edge 10000/10000 limit", "per-user 5000/200 big", "tokens 500/500 limit"];
    assert_eq!(amounts(&[("tier", "big")]), big);
}

#[test]
fn an_override_beats_a_tier_and_the_first_that_names_a_limit_holds() {
    let alice = ["edge 10000/10000 limit", "per-user unlimited override 0", "tokens 500/500 limit"];
    assert_eq!(amounts(&[("user", "alice"), ("tier", "big")]), alice);
    let both = ["edge 10000/10000 limit", "per-user unlimited override 0", "tokens 9/9 override 1"];
    assert_eq!(amounts(&[("user", "alice"), ("org", "acme-2"), ("tier", "pro")]), both);
    let org = ["edge 10000/10000 limit", "per-user 100/77 override 1", "tokens 9/9 override 1"];
    assert_eq!(
        amounts(&[("org", "acme")]),
        org,
        "what an override leaves out is the limit's, not the tier's"
    );
}

/// A caller that misspells its tier must not get the amounts of another.
#[test]
fn an_unknown_tier_is_refused_and_the_known_ones_are_named() {
    let error = policy().apply(&attributes(&[("tier", "gold")]), &Costs::default()).unwrap_err();
    assert_eq!(error.to_string(), "domain `api` has no tier `gold`; its tiers are `big`, `free`, `pro`");
    let exempt = attributes(&[("tier", "gold"), ("endpoint", "/healthz")]);
    assert!(matches!(policy().apply(&exempt, &Costs::default()), Err(AskError::UnknownTier { .. })));
}

#[test]
fn in_a_domain_without_tiers_the_attribute_is_one_like_any_other() {
    let text = "version: 1\nlimits: [{ name: a, algorithm: gcra, limit: 1, per: 1s, key: [tier] }]";
    let policy = Policy::parse(text).unwrap();
    let matched = policy.apply(&attributes(&[("tier", "gold")]), &Costs::default()).unwrap();
    assert_eq!(matched.limits[0].ask.as_ref().unwrap().subject.as_str(), "{default:tier=gold}");
}

#[test]
fn an_exempt_request_meets_no_limit_and_is_told_which_exemption_it_is() {
    let exempt = |pairs: &[(&str, &str)]| {
        let policy = policy();
        let matched = policy.apply(&attributes(pairs), &Costs::default()).unwrap();
        assert_eq!(matched.exempt.is_some(), matched.limits.is_empty());
        matched.exempt.map(str::to_owned)
    };
    assert_eq!(exempt(&[("endpoint", "/healthz")]).as_deref(), Some("probes"));
    assert_eq!(exempt(&[("endpoint", "/admin"), ("ip", "10.1.1.1")]).as_deref(), Some("staff"));
    assert_eq!(exempt(&[("endpoint", "/admin"), ("ip", "11.1.1.1")]), None);
    assert_eq!(exempt(&[("endpoint", "/healthz2")]), None);
    let (unknown, policy) = (Costs::of_units([("token", 1)]), policy());
    let refused = policy.apply(&attributes(&[("endpoint", "/healthz")]), &unknown);
    assert!(matches!(refused, Err(AskError::UnknownUnit { .. })));
}

/// A rename that began every counter anew would let everybody pass once more.
#[test]
fn a_limit_that_is_renamed_keeps_its_state_by_its_id() {
    let id = |text: &str| {
        let text = format!("version: 1\nlimits: [{{ algorithm: gcra, limit: 5, per: 1m, key: [], {text} }}]");
        Policy::parse(&text).unwrap().limits()[0].id
    };
    assert_eq!(id("name: new, id: old"), id("name: old"));
    assert_eq!(id("name: old, id: old"), id("name: old"));
    assert_ne!(id("name: new"), id("name: old"));
}

#[test]
fn the_state_of_a_limit_is_one_whatever_tier_or_override_grants() {
    let policy = policy();
    let ids = |pairs: &[(&str, &str)]| {
        let matched = policy.apply(&attributes(pairs), &Costs::default()).unwrap();
        matched.limits.iter().filter_map(|applied| Some(applied.ask.as_ref()?.id)).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[("tier", "big")]), ids(&[]));
    assert_eq!(ids(&[("org", "acme")]), ids(&[]));
}

/// Finding an amount must not depend on how many exceptions there are.
#[test]
fn thousands_of_overrides_are_found_by_their_values() {
    let mut text = POLICY.to_owned();
    for user in 0..5_000 {
        let entry =
            format!("  - match: {{ user: u{user} }}\n    limits: {{ per-user: {{ limit: {user} }} }}\n");
        text.push_str(&entry);
    }
    let policy = Policy::parse(&text).unwrap();
    for user in [0, 1, 4_999] {
        let name = format!("u{user}");
        let matched = policy.apply(&attributes(&[("user", &name)]), &Costs::default()).unwrap();
        assert_eq!(matched.limits[1].ask.as_ref().unwrap().rule.amount(), user);
    }
}
