//! Files of assignments: who has which tier, and until when.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use sluicegate_core::{
    Attributes, Micros, Policy,
    policy::{Assignments, MAX_ASSIGNMENTS},
};

fn parse(entries: &str) -> Result<Assignments, String> {
    Assignments::parse(&format!("version: 1\ndomain: api\nassignments:\n{entries}"))
        .map_err(|error| error.to_string())
}

fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().copied().collect()
}

/// 2030-01-01T00:00:00Z.
const NEW_YEAR_S: u64 = 1_893_456_000;

#[test]
fn a_users_tier_beats_its_organisations_and_a_temporary_one_beats_both_until_its_end() {
    let assignments = parse(
        "  - { org: acme, tier: pro }
  - { user: alice, tier: free }
  - { user: bob, tier: big, until: 2030-01-01T00:00:00Z }
  - { org: acme, tier: partner, until: \"2030-01-01T01:00:00+01:00\" }",
    )
    .unwrap();
    let (before, at) = (Micros::new(NEW_YEAR_S * 1_000_000 - 1), Micros::from_secs(NEW_YEAR_S));
    let tier = |pairs: &[(&str, &str)], now| assignments.tier(&attributes(pairs), now).map(str::to_owned);
    assert_eq!(tier(&[("user", "alice"), ("org", "acme")], before).as_deref(), Some("free"));
    assert_eq!(tier(&[("user", "bob"), ("org", "acme")], before).as_deref(), Some("big"));
    assert_eq!(tier(&[("user", "bob"), ("org", "acme")], at).as_deref(), Some("pro"), "it has ended");
    assert_eq!(tier(&[("org", "acme")], before).as_deref(), Some("partner"));
    assert_eq!(tier(&[("user", "eve"), ("org", "other")], at), None);
    assert_eq!(tier(&[], at), None);
}

/// A client that may name its own tier would choose the largest.
#[test]
fn an_assigned_tier_stands_in_the_place_of_the_one_that_was_sent() {
    let assignments = parse("  - { user: alice, tier: free }").unwrap();
    let sent = attributes(&[("user", "alice"), ("tier", "big")]);
    assert_eq!(assignments.over(&sent, Micros::from_secs(1)).value("tier"), Some("free"));
    let stranger = attributes(&[("user", "eve"), ("tier", "big")]);
    assert_eq!(assignments.over(&stranger, Micros::from_secs(1)).value("tier"), Some("big"));
}

#[test]
fn a_tier_that_the_policy_lacks_is_found() {
    let policy = Policy::parse(
        "version: 1
limits: [{ name: a, algorithm: gcra, limit: 1, per: 1s, key: [] }]
tiers: { free: {}, pro: { a: { limit: 5 } } }",
    )
    .unwrap();
    let known = parse("  - { user: alice, tier: free }\n  - { org: acme, tier: pro }").unwrap();
    assert_eq!(known.unknown_tier(&policy), None);
    let unknown = parse("  - { user: alice, tier: prp, until: 2030-01-01T00:00:00Z }").unwrap();
    assert_eq!(unknown.unknown_tier(&policy), Some("prp"));
    assert_eq!(policy.tier_hint("prp").as_deref(), Some("did you mean `pro`?"));
}

#[test]
fn mistakes_are_told_with_their_place() {
    let cases = [
        (
            "  - { user: a, tier: pro }\n  - { user: a, tier: free }",
            "line 5, column 13: the user `a` has two tiers",
        ),
        (
            "  - { user: a, org: b, tier: pro }",
            "line 4, column 5: an assignment is to one user or one organisation",
        ),
        ("  - { tier: pro }", "line 4, column 5: an assignment is to one user or one organisation"),
        ("  - { user: a }", "line 4, column 5: an assignment needs the field `tier`"),
        ("  - { user: 7, tier: pro }", "line 4, column 13: `user` must be a text, not `7`"),
        ("  - { user: a, tier: pro, until: tomorrow }", "line 4, column 34: `tomorrow` is not an instant"),
        (
            "  - { user: a, tier: pro, until: 2030-01-01 }",
            "line 4, column 34: `2030-01-01` is not an instant",
        ),
        ("  - { user: a, tier: pro, expires: x }", "line 4, column 27: an assignment has no field `expires`"),
        ("  - { user: a, tier: \"very pro\" }", "line 4, column 22: `very pro` is not a valid `tier`"),
    ];
    for (entries, message) in cases {
        let error = parse(entries).unwrap_err();
        assert!(error.starts_with(message), "{entries}\nexpected: {message}\ngot: {error}");
    }
    let error = Assignments::parse("version: 2\nassignments: []").unwrap_err();
    assert!(error.to_string().starts_with("line 1, column 10: `version` must be `1`, not `2`"), "{error}");
}

/// The number that is promised fits, whatever else bounds a text.
#[test]
fn as_many_assignments_as_are_allowed_are_read() {
    let row = |user: usize| format!("- {{user: u{user}, tier: pro}}\n");
    let rows: String = (0..MAX_ASSIGNMENTS).map(row).collect();
    let text = format!("version: 1\ndomain: api\nassignments:\n{rows}");
    assert_eq!(Assignments::parse(&text).unwrap().len(), MAX_ASSIGNMENTS);
}
