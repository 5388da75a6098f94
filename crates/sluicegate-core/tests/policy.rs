//! Reading policies, and what follows from one for a request.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{fmt::Write as _, time::Duration};

use proptest::prelude::*;
use sluicegate_core::{
    Algorithm, Align, Attributes, Costs, Limit, Policy,
    policy::{Applied, AskError, IfMissing, MAX_APPLIED, MAX_FILE_LEN, MAX_LIMITS, Matcher, PolicyError},
};

/// A policy of limits written in flow style, one a line.
fn policy(limits: &str) -> Policy {
    parse(limits).unwrap_or_else(|error| panic!("{error}"))
}

fn parse(limits: &str) -> Result<Policy, PolicyError> {
    let mut text = "version: 1\ndomain: api\nlimits:\n".to_owned();
    for limit in limits.lines().map(str::trim).filter(|line| !line.is_empty()) {
        writeln!(text, "  - {limit}").unwrap();
    }
    Policy::parse(&text)
}

fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().copied().collect()
}

fn names<'p>(policy: &'p Policy, pairs: &[(&str, &str)]) -> Vec<&'p str> {
    let applied = policy.apply(&attributes(pairs), &Costs::default()).unwrap().limits;
    applied.into_iter().map(|applied| applied.limit.name.as_str()).collect()
}

fn subject(applied: &Applied<'_>) -> String {
    applied.ask.as_ref().unwrap().subject.to_string()
}

fn bounded(limit: &Limit) -> &sluicegate_core::Rule {
    limit.grant.rule().unwrap_or_else(|| panic!("`{}` is unlimited", limit.name))
}

#[test]
fn what_is_left_out_has_its_default() {
    let text = "version: 1\nlimits: [{ name: a, algorithm: token_bucket, limit: 10, per: 1s, key: [user] }]";
    let policy = Policy::parse(text).unwrap();
    let limit = &policy.limits()[0];
    assert_eq!((policy.domain(), policy.slot_by().len()), ("default", 0));
    assert_eq!((limit.unit.as_str(), limit.if_missing), ("requests", IfMissing::Shared));
    assert_eq!(bounded(limit).max_cost(), 10, "the burst is the limit");
    assert_eq!(limit.matcher.attributes().count(), 0);
}

#[test]
fn every_field_arrives_in_the_rule() {
    let policy = policy(
        "{ name: w, algorithm: fixed_window, limit: 7, per: 2w, key: [], align: hashed }
         { name: f, algorithm: fixed_window, limit: 7, per: 1m, key: [], align: first_request }
         { name: l, algorithm: sliding_log, limit: 1000, per: PT1H, key: [a, b] }
         { name: c, algorithm: sliding_counter, limit: 0, per: 250ms, key: [a], unit: tokens }
         { name: g, algorithm: gcra, limit: 7, per: 3s, burst: 2, key: [a], if_missing: skip }
         { name: q, algorithm: leaky_bucket, limit: 5, per: 1s, max_delay: 2s, key: [a], if_missing: refuse }",
    );
    let rules: Vec<_> = policy.limits().iter().map(bounded).collect();
    let algorithms: Vec<_> = rules.iter().map(|rule| rule.algorithm().name()).collect();
    let expected = ["fixed_window", "fixed_window", "sliding_log", "sliding_counter", "gcra", "leaky_bucket"];
    assert_eq!(algorithms, expected);
    assert_eq!((rules[0].align(), rules[1].align()), (Some(Align::Hashed), Some(Align::FirstRequest)));
    assert_eq!(rules[0].window(), Duration::from_secs(14 * 86_400));
    assert_eq!((rules[2].amount(), rules[2].window()), (1_000, Duration::from_secs(3_600)));
    assert_eq!((rules[3].amount(), rules[3].window()), (0, Duration::from_millis(250)));
    assert_eq!((rules[4].amount(), rules[4].max_cost()), (7, 2));
    assert_eq!(rules[5].horizon(), Duration::from_secs(3), "the longest wait and one window more");
    let missing: Vec<_> = policy.limits().iter().map(|limit| limit.if_missing).collect();
    assert_eq!(missing[3..], [IfMissing::Shared, IfMissing::Skip, IfMissing::Refuse]);
}

#[test]
fn all_problems_of_a_file_are_told_in_its_order() {
    let error = parse(
        "{ name: a, algorithm: gcra, limit: -1, per: 60, key: user }
         { name: B, algorithm: gcrb, limit: 1, per: 1s, key: [] }
         { name: c, algorithm: fixed_window, limit: 1, per: 1s, key: [], burst: 3, tier: x }",
    )
    .unwrap_err();
    let places: Vec<_> = error.problems().iter().map(|p| (p.line(), p.column())).collect();
    assert_eq!(places, [(4, 40), (4, 49), (4, 58), (5, 13), (5, 27), (6, 69), (6, 79)], "{error}");
}

/// Somebody who writes `-1` for "no limit", or a 60 without a unit, must not be left with a limit that does
/// something else, nor with the other limits alone.
#[test]
fn a_mistake_in_one_limit_refuses_the_whole_policy() {
    let sound = "{ name: a, algorithm: gcra, limit: 1, per: 1s, key: [] }";
    assert!(parse(sound).is_ok());
    assert!(parse(&format!("{sound}\n{{ name: b, algorithm: gcra, limit: -1, per: 1s, key: [] }}")).is_err());
}

#[test]
fn yaml_words_for_truth_are_plain_words() {
    let policy =
        policy("{ name: on, algorithm: gcra, limit: 1, per: 1s, key: [yes], unit: off, match: { y: no } }");
    let limit = &policy.limits()[0];
    assert_eq!((limit.name.as_str(), limit.key[0].as_str(), limit.unit.as_str()), ("on", "yes", "off"));
    assert!(limit.matcher.matches(&attributes(&[("y", "no")])));
}

#[test]
fn anchors_and_merges_are_expanded() {
    let policy = Policy::parse(
        "version: 1
limits:
  - &base { name: a, algorithm: gcra, limit: 5, per: 1s, key: &k [user, ip] }
  - { <<: *base, name: b, limit: 9 }
  - { name: c, algorithm: gcra, limit: 1, per: 1s, key: *k }",
    );
    let policy = policy.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((policy.limits()[1].name.as_str(), bounded(&policy.limits()[1]).amount()), ("b", 9));
    assert_eq!(policy.limits()[2].key, ["user", "ip"]);
}

#[test]
fn more_limits_than_the_bound_are_refused_and_as_many_are_read() {
    let many = |count: usize| {
        let rule = "algorithm: gcra, limit: 1, per: 1s, key: []";
        let limit = |n| format!("{{ name: l{n}, {rule}, match: {{ a: v{n} }} }}\n");
        parse(&(0..count).map(limit).collect::<String>())
    };
    assert_eq!(many(MAX_LIMITS).unwrap().limits().len(), MAX_LIMITS);
    let error = many(MAX_LIMITS + 1).unwrap_err();
    assert_eq!(error.problems()[0].what(), "a policy has at most 10000 limits, and this one 10001");
    assert_eq!(error.problems()[0].line(), 10_004);
}

/// Beyond what one step of a store decides, a request on Redis once passed uncounted, while the policy promised limits.
#[test]
fn more_limits_for_one_request_than_are_decided_at_once_are_an_error_and_not_a_promise() {
    let many = |count: usize, more: &str| {
        let limit = |n| format!("{{ name: l{n}, algorithm: gcra, limit: 1, per: 1s, key: [], {more} }}\n");
        parse(&(0..count).map(limit).collect::<String>())
    };
    let request = attributes(&[("a", "v")]);
    let most = many(MAX_APPLIED, "").unwrap();
    assert_eq!(most.apply(&request, &Costs::default()).unwrap().limits.len(), MAX_APPLIED);
    let error = many(MAX_APPLIED + 1, "").unwrap_err();
    assert_eq!(error.problems()[0].what(), "more than 128 limits apply to every request");
    let sometimes = many(MAX_APPLIED + 1, "match: { a: v }").unwrap();
    let error = sometimes.apply(&request, &Costs::default()).unwrap_err();
    assert_eq!(error.to_string(), "more than 128 limits of domain `api` apply to the request");
    assert!(sometimes.apply(&attributes(&[]), &Costs::default()).unwrap().limits.is_empty());
}

#[test]
fn a_file_beyond_the_bound_is_not_read_at_all() {
    let error = Policy::parse(&"#".repeat(MAX_FILE_LEN + 1)).unwrap_err();
    assert_eq!(error.problems()[0].what(), "the file has 4194305 bytes, and a policy at most 4194304");
}

#[test]
fn a_thousand_mistakes_are_told_by_a_hundred_messages() {
    let error = parse(&"{ name: A }\n".repeat(1_000)).unwrap_err();
    assert_eq!(error.problems().len(), 100);
}

#[test]
fn a_message_shows_no_control_characters_of_the_file() {
    let error =
        parse("{ name: \"\\e[31mred\\n\\0\", algorithm: gcra, limit: 1, per: 1s, key: [] }").unwrap_err();
    assert!(error.to_string().chars().all(|c| c == '\n' || !c.is_control()), "{error:?}");
    assert_eq!(error.problems()[0].what(), "`\\u{1b}[31mred\\n\\u{0}` is not a valid name of a limit");
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_harmless() {
    let text =
        "version: 1\nlimits:\n  - name: a\n    algorithm: gcra\n    limit: 1\n    per: 1s\n    key: []\n";
    let text = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(Policy::parse(&text).unwrap().limits()[0].name, "a");
}

#[test]
fn a_limit_without_match_applies_to_every_request_and_others_where_all_patterns_hold() {
    let policy = policy(
        r#"{ name: all, algorithm: gcra, limit: 1, per: 1s, key: [] }
           { name: v1, algorithm: gcra, limit: 1, per: 1s, key: [], match: { endpoint: "/v1/*" } }
           { name: post, algorithm: gcra, limit: 1, per: 1s, key: [], match: { endpoint: "/v1/*", method: POST } }"#,
    );
    assert_eq!(names(&policy, &[]), ["all"]);
    assert_eq!(names(&policy, &[("endpoint", "/v1/chat"), ("method", "POST")]), ["all", "v1", "post"]);
    assert_eq!(names(&policy, &[("endpoint", "/v1/chat"), ("method", "GET")]), ["all", "v1"]);
    assert_eq!(
        names(&policy, &[("endpoint", "/v1/chat")]),
        ["all", "v1"],
        "a missing attribute does not match"
    );
    assert_eq!(names(&policy, &[("endpoint", "/v2/chat"), ("method", "POST")]), ["all"]);
}

#[test]
fn a_pattern_means_what_the_docs_say() {
    let cases = [
        ("/v1/*", "/v1/a/b/c", true),
        ("/v1/*", "/v1/", true),
        ("/v1/*", "/v1", false),
        ("/v1/*", "/V1/a", false),
        ("*", "", true),
        ("", "", true),
        ("", "x", false),
        ("*.example.com", "a.b.example.com", true),
        ("*.example.com", "example.com", false),
        ("gpt-?", "gpt-4", true),
        ("gpt-?", "gpt-40", false),
        ("?", "é", false),
        ("??", "é", true),
        ("n*e", "née", true),
        ("*é", "café", true),
        ("a[0-9]", "a7", true),
        ("a[!0-9]", "a7", false),
        ("{GET,HEAD}", "HEAD", true),
        ("{GET,HEAD}", "POST", false),
        ("\\*", "*", true),
        ("\\*", "x", false),
        ("a*", "a\nb", true),
        ("a.c", "abc", false),
        ("/a/**/b", "/a/b", true),
        ("a*", "a..", true),
    ];
    let wrong: Vec<_> = cases
        .into_iter()
        .filter(|(pattern, value, expected)| {
            Matcher::new([("x", *pattern)]).unwrap().matches(&attributes(&[("x", value)])) != *expected
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn what_a_limit_does_about_a_missing_attribute_is_its_own_choice() {
    let policy = policy(
        "{ name: shared, algorithm: gcra, limit: 1, per: 1s, key: [user] }
         { name: skip, algorithm: gcra, limit: 1, per: 1s, key: [user], if_missing: skip }
         { name: refuse, algorithm: gcra, limit: 1, per: 1s, key: [org], if_missing: refuse, match: { kind: strict } }",
    );
    assert_eq!(names(&policy, &[("user", "alice")]), ["shared", "skip"]);
    assert_eq!(names(&policy, &[]), ["shared"]);
    assert_eq!(names(&policy, &[("user", "")]), ["shared", "skip"], "empty is not missing");
    let refused = policy.apply(&attributes(&[("user", "alice"), ("kind", "strict")]), &Costs::default());
    let expected = AskError::MissingAttribute { limit: "refuse".to_owned(), attribute: "org".to_owned() };
    assert_eq!(refused.unwrap_err(), expected);
}

#[test]
fn requests_without_the_attribute_share_a_counter_that_no_value_can_reach() {
    let policy = policy("{ name: a, algorithm: gcra, limit: 1, per: 1s, key: [user] }");
    let of = |pairs: &[(&str, &str)]| {
        subject(&policy.apply(&attributes(pairs), &Costs::default()).unwrap().limits[0])
    };
    assert_eq!(of(&[]), of(&[("other", "x")]));
    assert_ne!(of(&[]), of(&[("user", "")]));
    assert_ne!(of(&[("user", "")]), of(&[("user", "user")]));
}

#[test]
fn each_limit_counts_in_its_unit() {
    let policy = policy(
        "{ name: r, algorithm: gcra, limit: 10, per: 1s, key: [] }
         { name: t, algorithm: gcra, limit: 10, per: 1s, key: [], unit: tokens }",
    );
    let costs = |costs: Costs| {
        let applied = policy.apply(&Attributes::default(), &costs).unwrap().limits;
        applied.iter().map(|applied| applied.cost).collect::<Vec<_>>()
    };
    assert_eq!(costs(Costs::default()), [1, 0], "a cost that is not named is one request and nothing else");
    assert_eq!(costs(Costs::requests(5)), [5, 0]);
    assert_eq!(costs(Costs::of_units([("tokens", 700)])), [1, 700]);
    assert_eq!(costs(Costs::of_units([("tokens", 700), ("requests", 0)])), [0, 700]);
}

#[test]
fn a_unit_that_nothing_counts_is_refused_even_if_its_cost_is_zero() {
    let policy = policy("{ name: t, algorithm: gcra, limit: 10, per: 1s, key: [], unit: tokens }");
    for cost in [0, 1] {
        let error = policy.apply(&Attributes::default(), &Costs::of_units([("token", cost)])).unwrap_err();
        assert_eq!(error.to_string(), "no limit of domain `api` counts the unit `token`");
    }
    let error = policy.apply(&Attributes::default(), &Costs::requests(1)).unwrap_err();
    assert!(matches!(error, AskError::UnknownUnit { unit, .. } if unit == "requests"));
}

#[test]
fn an_unlimited_limit_is_reported_and_asks_nothing() {
    let policy = policy("{ name: a, algorithm: sliding_log, limit: unlimited, per: 1h, key: [user] }");
    let applied = policy.apply(&attributes(&[("user", "alice")]), &Costs::requests(3)).unwrap().limits;
    assert!(applied[0].ask.is_none());
    assert_eq!(applied[0].cost, 3);
    assert_eq!(applied[0].limit.grant.shape(), (Algorithm::SlidingLog, Some(Duration::from_secs(3_600))));
}

#[test]
fn the_id_of_a_limit_outlives_its_amount_and_nothing_else() {
    let id = |text: &str| policy(text).limits()[0].id;
    let base = id("{ name: a, algorithm: gcra, limit: 5, per: 1m, key: [user] }");
    assert_eq!(id("{ name: a, algorithm: gcra, limit: 6, per: 60s, burst: 9, key: [user] }"), base);
    assert_eq!(id("{ name: a, algorithm: gcra, limit: unlimited, per: PT1M, key: [user] }"), base);
    assert_ne!(id("{ name: b, algorithm: gcra, limit: 5, per: 1m, key: [user] }"), base);
    assert_ne!(id("{ name: a, algorithm: token_bucket, limit: 5, per: 1m, key: [user] }"), base);
    assert_ne!(id("{ name: a, algorithm: gcra, limit: 5, per: 2m, key: [user] }"), base);
}

#[test]
fn limits_of_one_key_share_a_subject_and_limits_of_others_do_not() {
    let policy = policy(
        "{ name: a, algorithm: gcra, limit: 1, per: 1s, key: [user] }
         { name: b, algorithm: gcra, limit: 1, per: 1m, key: [user] }
         { name: c, algorithm: gcra, limit: 1, per: 1s, key: [user, ip] }
         { name: d, algorithm: gcra, limit: 1, per: 1s, key: [] }
         { name: e, algorithm: gcra, limit: unlimited, per: 1s, key: [ip] }
         { name: f, algorithm: gcra, limit: 1, per: 1s, key: [ip] }",
    );
    let applied =
        policy.apply(&attributes(&[("user", "alice"), ("ip", "::1")]), &Costs::default()).unwrap().limits;
    let subjects: Vec<_> = applied.iter().filter(|applied| applied.ask.is_some()).map(subject).collect();
    let expected =
        ["{api:user=alice}", "{api:user=alice}", "{api:user=alice:ip=%3A%3A1}", "{api}", "{api:ip=%3A%3A1}"];
    assert_eq!(subjects, expected);
}

#[test]
fn slot_by_puts_every_counter_of_an_organisation_under_one_tag() {
    let policy = Policy::parse(
        "version: 1
domain: api
slot_by: [org]
limits:
  - { name: a, algorithm: gcra, limit: 1, per: 1s, key: [user] }
  - { name: b, algorithm: gcra, limit: 1, per: 1s, key: [] }
  - { name: c, algorithm: gcra, limit: 1, per: 1s, key: [org] }",
    )
    .unwrap();
    let subjects = |pairs: &[(&str, &str)]| {
        let applied = policy.apply(&attributes(pairs), &Costs::default()).unwrap().limits;
        applied.iter().map(subject).collect::<Vec<_>>()
    };
    let acme = subjects(&[("org", "acme"), ("user", "al")]);
    assert_eq!(acme, ["{api:org=acme}:user=al", "{api:org=acme}", "{api:org=acme}:org=acme"]);
    assert!(subjects(&[("user", "al")]).iter().all(|subject| subject.starts_with("{api:org}")));
}

#[test]
fn leaky_buckets_may_stand_side_by_side_if_no_request_meets_two() {
    let limit = |name: &str, matches: &str| {
        format!(
            "{{ name: {name}, algorithm: leaky_bucket, limit: 1, per: 1s, max_delay: 1s, key: [], match: {matches} }}\n"
        )
    };
    let two = |one: &str, other: &str| parse(&(limit("a", one) + &limit("b", other))).is_ok();
    assert!(two("{ kind: page }", "{ kind: label }"));
    assert!(two("{ kind: page, x: y }", "{ kind: label }"));
    assert!(two("{ path: '/a/*' }", "{ path: '/b/*' }"));
    assert!(two("{ path: '/a/*' }", "{ path: /b }"));
    assert!(!two("{ path: '/a/*' }", "{ path: /a/b }"));
    assert!(!two("{ path: '/a/*' }", "{ path: '/a/b*' }"));
    assert!(!two("{ path: '*a' }", "{ path: '*b' }"), "it may say so of two that never meet");
    assert!(!two("{ kind: page }", "{ color: red }"));
    assert!(!two("{ kind: page }", "{ kind: page }"));
    assert!(!two("{}", "{ kind: page }"));
}

fn matcher() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::vec(("[xy]", "[ab*?]{0,3}|\\{a,b\\}|\\[ab\\]"), 0..3)
}

const SAMPLE: &str = include_str!("../../../policies/right/public-api.yaml");

proptest! {
    #[test]
    fn matchers_that_cannot_meet_share_no_request(
        one in matcher(), other in matcher(), x in "[ab]{0,3}", y in "[ab]{0,3}"
    ) {
        let compile =
            |pairs: &[(String, String)]| Matcher::new(pairs.iter().map(|(n, p)| (n.as_str(), p.as_str())));
        let (one, other) = (compile(&one).unwrap(), compile(&other).unwrap());
        let request = attributes(&[("x", &x), ("y", &y)]);
        if one.matches(&request) && other.matches(&request) {
            prop_assert!(one.may_meet(&other) && other.may_meet(&one));
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}|[\\-:{}\\[\\]&*!|>'\"%@,? \\n\\tva1]{0,200}") {
        let _ = Policy::parse(&text);
    }

    #[test]
    fn no_mutation_of_a_policy_makes_the_reader_panic_or_stray_from_the_file(
        cuts in proptest::collection::vec(
            (0..SAMPLE.len(), 0usize..40, "\\PC{0,8}|[\\-:{}\\[\\]&*!|>'\" \\n\\t]{0,4}"), 1..4)
    ) {
        let mut text: Vec<char> = SAMPLE.chars().collect();
        for (at, length, insert) in cuts {
            let start = at.min(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, insert.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = Policy::parse(&text) {
            let lines = u64::try_from(text.lines().count()).unwrap();
            for problem in error.problems() {
                prop_assert!((1..=lines + 1).contains(&problem.line()), "{}", problem);
                prop_assert!(problem.column() >= 1 && !problem.what().contains('\n'), "{}", problem);
            }
        }
    }

    #[test]
    fn every_amount_is_either_exact_or_refused(amount in any::<u64>(), per_ms in 1u64..400_000_000_000) {
        let text = format!("{{ name: a, algorithm: fixed_window, limit: {amount}, per: {per_ms}ms, key: [] }}");
        if let Ok(policy) = parse(&text) {
            let rule = bounded(&policy.limits()[0]);
            prop_assert_eq!((rule.amount(), rule.window()), (amount, Duration::from_millis(per_ms)));
        }
    }
}
