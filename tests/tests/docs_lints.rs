//! The page on lints is written from their table, and each lint finds what its example shows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{fmt::Write as _, fs, path::Path};

use sluicegate_core::policy::lint::{self, Checked, LINTS};

fn check(limits: &str) -> Checked {
    let text = format!("version: 1\nlimits:\n{limits}");
    lint::check(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn codes(limits: &str) -> Vec<&'static str> {
    check(limits).findings.iter().map(|finding| finding.lint.code).collect()
}

#[test]
fn each_example_has_the_finding_that_it_shows_and_no_other() {
    for lint in LINTS {
        assert_eq!(codes(lint.example), [lint.code], "{}", lint.example);
    }
}

#[test]
fn a_finding_that_is_allowed_is_not_told() {
    for lint in LINTS {
        let last = format!("{}    allow: [{}]\n", lint.example, lint.code);
        assert!(codes(&last).is_empty(), "{last}");
    }
}

#[test]
fn codes_are_in_order_and_unlike() {
    let codes: Vec<_> = LINTS.iter().map(|lint| lint.code).collect();
    assert!(codes.is_sorted_by(|one, two| one < two), "{codes:?}");
}

#[test]
fn a_finding_points_at_the_field() {
    let checked = check(lint::Lint::of_code("burst_above_window").unwrap().example);
    let shown = checked.findings[0].problem.to_string();
    let expected = "line 7, column 12: 500 at once is more than 100 per 60s: the first window lets 600 pass
  7 |     burst: 500
    |            ^^^
  hint: write `burst: 100` or less, or raise `limit`";
    assert_eq!(shown, expected);
}

/// Limits that look like an example and are as they should be.
#[test]
fn what_is_meant_is_not_found() {
    let sound = [
        // The edge is softened by a limit that admits no more at once.
        "  - { name: a, algorithm: fixed_window, limit: 100, per: 1m, key: [user] }
  - { name: b, algorithm: token_bucket, limit: 10, per: 1s, burst: 20, key: [user] }",
        // Whoever invents paths is held by the limit per user.
        "  - { name: a, algorithm: gcra, limit: 10, per: 1s, key: [user, path] }
  - { name: b, algorithm: sliding_counter, limit: 100, per: 1m, key: [user] }",
        // A burst of a few seconds' worth.
        "  - { name: a, algorithm: token_bucket, limit: 5, per: 1s, burst: 20, key: [user] }",
        // Ten a day binds, since a hundred a minute admits more of it.
        "  - { name: a, algorithm: sliding_counter, limit: 100, per: 1m, key: [user] }
  - { name: b, algorithm: sliding_counter, limit: 1000, per: 1d, key: [user] }",
        // Each counts other requests.
        "  - { name: a, algorithm: gcra, limit: 10, per: 1m, key: [user], match: { method: GET } }
  - { name: b, algorithm: gcra, limit: 100, per: 1m, key: [user], match: { method: POST } }",
        // Each counts in a unit of its own.
        "  - { name: a, algorithm: gcra, limit: 10, per: 1m, key: [user] }
  - { name: b, algorithm: gcra, limit: 100, per: 1m, key: [user], unit: tokens }",
        // The stricter one does not apply to requests without a user.
        "  - { name: a, algorithm: gcra, limit: 10, per: 1m, key: [user], if_missing: skip }
  - { name: b, algorithm: gcra, limit: 100, per: 1m, key: [user] }",
        // Money that is denied without the store, and a unit that only looks like money.
        "  - { name: a, algorithm: gcra, limit: 10, per: 1m, key: [user], unit: eur, on_store_failure: deny }
  - { name: b, algorithm: gcra, limit: 10, per: 1m, key: [user], unit: costumes, on_store_failure: allow }",
        "  - { name: a, algorithm: gcra, limit: 10, per: 1m, key: [user], match: { endpoint: \"{/a,/b}\" } }",
    ];
    for limits in sound {
        assert_eq!(codes(limits), Vec::<&str>::new(), "{limits}");
    }
}

#[test]
fn of_two_equal_limits_the_second_is_superfluous() {
    let limits = "  - { name: a, algorithm: gcra, limit: 10, per: 1m, key: [user] }
  - { name: b, algorithm: gcra, limit: 10, per: 1m, key: [user] }";
    let findings = check(limits).findings;
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].limit, "b");
}

/// `docs/reference/lints.md` is written from the table. `SLUICEGATE_BLESS=1` writes it anew.
#[test]
fn the_page_on_lints_is_up_to_date() {
    let mut page = "# Lints

Generated from the program. `sluicegate policy check` tells what is legal in a policy and probably not meant. It is a warning: the
exit code stays 0, unless `--strict` makes it 1; a file with mistakes ends with 2. `--output json` and `--output github`
are for machines. Whoever means it says so in the limit, with `allow`:

```yaml
  - name: edge
    algorithm: fixed_window
    limit: 10000
    per: 1m
    key: []
    allow: [double_at_the_edge]  # the backend bears twice as much for a moment
```
"
    .to_owned();
    for lint in LINTS {
        let finding = &check(lint.example).findings[0];
        write!(
            page,
            "\n## {}\n\nFinds {}\n\n{}\n\n{}\n\n```yaml\n{}```\n\n```text\n{}\n```\n",
            lint.code, lint.finds, lint.why, lint.fix, lint.example, finding.problem
        )
        .unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/lints.md");
    if std::env::var_os("SLUICEGATE_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), page, "run with SLUICEGATE_BLESS=1");
}
