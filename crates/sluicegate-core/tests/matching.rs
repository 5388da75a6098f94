//! What `match` means, and that finding limits by an index finds what asking each one finds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fmt::Write as _;

use proptest::prelude::*;
use sluicegate_core::{Attributes, Costs, Policy, policy::Matcher};

fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().copied().collect()
}

fn policy(matches: &[String]) -> Policy {
    let mut text = "version: 1\nlimits:\n".to_owned();
    for (at, condition) in matches.iter().enumerate() {
        let rule = "algorithm: gcra, limit: 1, per: 1s, key: []";
        writeln!(text, "  - {{ name: l{at}, {rule}, match: {condition} }}").unwrap();
    }
    Policy::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn matcher(condition: &str) -> Matcher {
    policy(&[condition.to_owned()]).limits()[0].matcher.clone()
}

fn assert_holds(condition: &str, holds: &[&[(&str, &str)]], fails: &[&[(&str, &str)]]) {
    let matcher = matcher(condition);
    for request in holds {
        assert!(matcher.matches(&attributes(request)), "{condition} holds for {request:?}");
    }
    for request in fails {
        assert!(!matcher.matches(&attributes(request)), "{condition} does not hold for {request:?}");
    }
}

#[test]
fn a_list_holds_for_any_of_its_patterns() {
    assert_holds(
        r#"{ endpoint: ["/v1/*", "/v2/*", /status] }"#,
        &[&[("endpoint", "/v1/a")], &[("endpoint", "/v2/")], &[("endpoint", "/status")]],
        &[&[("endpoint", "/v3/a")], &[("endpoint", "/status/")], &[]],
    );
}

#[test]
fn not_is_the_opposite_and_holds_where_the_attribute_is_missing() {
    assert_holds(
        r#"{ plan: { not: [internal, "test-*"] } }"#,
        &[&[("plan", "pro")], &[("plan", "")], &[]],
        &[&[("plan", "internal")], &[("plan", "test-7")]],
    );
}

#[test]
fn conditions_on_one_attribute_all_hold() {
    assert_holds(
        r#"{ endpoint: { is: "/v1/*", not: ["/v1/login", "/v1/events/*"] } }"#,
        &[&[("endpoint", "/v1/chat")]],
        &[&[("endpoint", "/v1/login")], &[("endpoint", "/v1/events/7")], &[("endpoint", "/")], &[]],
    );
    assert_holds(
        "{ plan: { not: internal, present: true } }",
        &[&[("plan", "pro")]],
        &[&[], &[("plan", "internal")]],
    );
}

#[test]
fn presence_and_absence_ask_nothing_of_the_value() {
    assert_holds("{ user: { present: true } }", &[&[("user", "a")], &[("user", "")]], &[&[], &[("ip", "a")]]);
    assert_holds(
        "{ user: { present: false } }",
        &[&[], &[("ip", "a")]],
        &[&[("user", "a")], &[("user", "")]],
    );
}

/// An address in its IPv6 disguise once passed for a stranger to the networks that it lies in (express-rate-limit,
/// CVE-2026-30827).
#[test]
fn a_network_holds_its_addresses_in_every_spelling() {
    assert_holds(
        r#"{ ip: { cidr: [10.0.0.0/8, 192.0.2.7, "2001:db8::/32"] } }"#,
        &[
            &[("ip", "10.255.0.1")],
            &[("ip", "::ffff:10.1.2.3")],
            &[("ip", "::FFFF:0A01:0203")],
            &[("ip", "192.0.2.7")],
            &[("ip", "2001:db8:0:0::1")],
        ],
        &[&[("ip", "11.0.0.1")], &[("ip", "192.0.2.8")], &[("ip", "2001:db9::1")], &[("ip", "10.0.0")], &[]],
    );
    assert_holds(
        r#"{ ip: { cidr: "::ffff:10.0.0.0/104" } }"#,
        &[&[("ip", "10.9.9.9")], &[("ip", "::ffff:10.9.9.9")]],
        &[&[("ip", "::10.9.9.9")], &[("ip", "11.0.0.0")]],
    );
    assert_holds(
        "{ ip: { not: { cidr: [10.0.0.0/8] } } }",
        &[&[("ip", "192.0.2.1")], &[("ip", "no address")], &[]],
        &[&[("ip", "10.0.0.1")], &[("ip", "::ffff:10.0.0.1")]],
    );
}

#[test]
fn matchers_that_cannot_meet_are_known_by_value_network_and_presence() {
    let apart = |one: &str, two: &str| !matcher(one).may_meet(&matcher(two));
    assert!(apart("{ x: [a, b] }", "{ x: [c, \"d*\"] }"));
    assert!(!apart("{ x: [a, b] }", "{ x: [b, c] }"));
    assert!(apart("{ ip: { cidr: 10.0.0.0/8 } }", "{ ip: { cidr: [11.0.0.0/8, \"::/0\"] } }"));
    assert!(!apart("{ ip: { cidr: 10.0.0.0/8 } }", "{ ip: { cidr: 10.1.0.0/16 } }"));
    assert!(apart("{ ip: 192.0.2.1 }", "{ ip: { cidr: 10.0.0.0/8 } }"));
    assert!(apart("{ x: { present: false } }", "{ x: a }"));
    assert!(apart("{ x: { present: false } }", "{ x: { present: true } }"));
    assert!(!apart("{ x: { present: false } }", "{ x: { not: a } }"));
    assert!(apart("{ x: [a, b] }", "{ x: { not: [a, b, c] } }"));
    assert!(!apart("{ x: [a, b] }", "{ x: { not: a } }"));
}

/// A condition as text, and whether it holds by the words of the reference page.
#[derive(Clone, Debug)]
struct Wanted {
    attribute: &'static str,
    text: String,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    /// Equal to one of these, or begins with one that ends in a star.
    OneOf(Vec<String>),
    NoneOf(Vec<String>),
    Present,
    Absent,
}

impl Wanted {
    fn holds(&self, request: &Attributes) -> bool {
        let fits = |value: &str, pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => value.starts_with(start),
            None => value == pattern,
        };
        match (&self.law, request.value(self.attribute)) {
            (Law::OneOf(patterns), Some(value)) => patterns.iter().any(|pattern| fits(value, pattern)),
            (Law::NoneOf(patterns), Some(value)) => !patterns.iter().any(|pattern| fits(value, pattern)),
            (Law::OneOf(_), None) => false,
            (Law::NoneOf(_), None) => true,
            (Law::Present, value) => value.is_some(),
            (Law::Absent, value) => value.is_none(),
        }
    }
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let patterns = proptest::collection::vec("[ab]{0,3}\\*?", 1..3);
    let kind = (0..4u8, patterns, prop_oneof![Just("x"), Just("y")]);
    kind.prop_map(|(kind, patterns, attribute)| {
        let quoted: Vec<String> = patterns.iter().map(|pattern| format!("\"{pattern}\"")).collect();
        let list = quoted.join(", ");
        let (text, law) = match kind {
            0 => (format!("[{list}]"), Law::OneOf(patterns)),
            1 => (format!("{{ not: [{list}] }}"), Law::NoneOf(patterns)),
            2 => ("{ present: true }".to_owned(), Law::Present),
            _ => ("{ present: false }".to_owned(), Law::Absent),
        };
        Wanted { attribute, text, law }
    })
}

/// Up to two conditions, on different attributes.
fn all_wanted() -> impl Strategy<Value = Vec<Wanted>> {
    proptest::collection::vec(wanted(), 0..3).prop_map(|mut all| {
        if all.len() == 2 && all[0].attribute == all[1].attribute {
            all.pop();
        }
        all
    })
}

fn text(all: &[Wanted]) -> String {
    let entries: Vec<_> = all.iter().map(|one| format!("{}: {}", one.attribute, one.text)).collect();
    format!("{{ {} }}", entries.join(", "))
}

fn request() -> impl Strategy<Value = Attributes> {
    let value = || proptest::option::of("[ab]{0,4}");
    (value(), value()).prop_map(|(x, y)| {
        let pairs = [("x", x), ("y", y)].into_iter();
        pairs.filter_map(|(name, value)| Some((name, value?))).collect()
    })
}

proptest! {
    /// Up to 60 limits are found by the index, which once it is wrong would leave a limit silently unenforced.
    #[test]
    fn the_limits_that_apply_are_those_whose_conditions_hold_in_the_order_of_the_file(
        limits in proptest::collection::vec(all_wanted(), 1..60),
        requests in proptest::collection::vec(request(), 1..8),
    ) {
        let policy = policy(&limits.iter().map(|all| text(all)).collect::<Vec<_>>());
        for request in requests {
            let matched = policy.apply(&request, &Costs::default()).unwrap();
            let names: Vec<_> = matched.limits.iter().map(|applied| applied.limit.name.clone()).collect();
            let holding = limits.iter().enumerate().filter(|(_, all)| all.iter().all(|one| one.holds(&request)));
            let expected: Vec<_> = holding.map(|(at, _)| format!("l{at}")).collect();
            prop_assert_eq!(names, expected);
        }
    }

    #[test]
    fn matchers_that_may_not_meet_share_no_request(
        one in all_wanted(), two in all_wanted(), request in request()
    ) {
        let (one, two) = (matcher(&text(&one)), matcher(&text(&two)));
        if one.matches(&request) && two.matches(&request) {
            prop_assert!(one.may_meet(&two) && two.may_meet(&one));
        }
    }
}
