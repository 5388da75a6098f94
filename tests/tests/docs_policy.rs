//! The pages on policies and algorithms: their snippets load, their fields are all there, their numbers are true.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use sluicegate_core::{
    Align, Micros, Policy, Question, Rule, State,
    policy::{
        MAX_ALTERNATIVES, MAX_APPLIED, MAX_ATTRIBUTES, MAX_EXEMPTIONS, MAX_FILE_LEN, MAX_LIMITS,
        MAX_NAME_LEN, MAX_OVERRIDES, MAX_PATTERN_LEN, MAX_TIERS,
        choose::{NEEDS, Need, Wish},
        fields::{self, Described},
        lint,
    },
};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fenced blocks of a language, each with its line.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == fence {
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            blocks.push((number + 1, body.flat_map(|line| [line, "\n"]).collect()));
        }
    }
    blocks
}

#[test]
fn every_policy_in_the_docs_loads() {
    let pages = [
        ("reference/policy.md", 4),
        ("concepts/algorithms.md", 4),
        ("concepts/choosing.md", 8),
        ("reference/lints.md", 9),
        ("../README.md", 1),
    ];
    for (name, least) in pages {
        let blocks = blocks(&page(name), "yaml");
        assert!(blocks.len() >= least, "{name} has {} snippets", blocks.len());
        for (line, block) in blocks {
            let whole =
                if block.starts_with("version:") { block } else { format!("version: 1\nlimits:\n{block}") };
            if let Err(error) = Policy::parse(&whole) {
                panic!("docs/{name}:{line}:\n{error}");
            }
        }
    }
}

/// What is quoted as an answer to a mistake is the answer to the block before it.
#[test]
fn every_message_in_the_docs_is_what_the_reader_says() {
    let page = page("reference/policy.md");
    let (wrong, messages) = (blocks(&page, "yaml wrong"), blocks(&page, "text"));
    assert!(!wrong.is_empty());
    assert_eq!(wrong.len(), messages.len());
    for ((line, block), (_, message)) in wrong.into_iter().zip(messages) {
        let error = Policy::parse(&block).expect_err("a mistake");
        assert_eq!(format!("{error}\n"), message, "docs/reference/policy.md:{line}");
    }
}

/// The tables of fields are written from the table that the reader goes by. `SLUICEGATE_BLESS=1` writes them anew.
#[test]
fn the_tables_of_fields_are_up_to_date() {
    let old = page("reference/policy.md");
    let new = with_table(&old, "## The policy", fields::POLICY);
    let new = with_table(&new, "## A limit", fields::LIMIT);
    let new = with_table(&new, "A period has these fields:", fields::PERIOD);
    if std::env::var_os("SLUICEGATE_BLESS").is_some() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/policy.md"), &new).unwrap();
    }
    assert!(page("reference/policy.md") == new, "run with SLUICEGATE_BLESS=1");
}

/// The page with the rows of the first table below a heading written anew.
fn with_table(page: &str, heading: &str, fields: &[Described]) -> String {
    const HEAD: &str = "| field | value | default |\n|---|---|---|\n";
    let (before, below) = page.split_once(&format!("{heading}\n\n{HEAD}")).expect("the head of the table");
    let (_, after) = below.split_once("\n\n").expect("the end of the table");
    let row = |field: &Described| format!("| `{}` | {} | {} |\n", field.name, field.value, field.default);
    let rows: String = fields.iter().map(row).collect();
    format!("{before}{heading}\n\n{HEAD}{rows}\n{after}")
}

#[test]
fn every_bound_is_on_the_reference_page() {
    let page = page("reference/policy.md");
    let sizes = [MAX_NAME_LEN, MAX_PATTERN_LEN, MAX_FILE_LEN];
    let numbers = [MAX_LIMITS, MAX_APPLIED, MAX_ATTRIBUTES, MAX_ALTERNATIVES];
    let exceptions = [MAX_EXEMPTIONS, MAX_TIERS, MAX_OVERRIDES];
    for bound in sizes.into_iter().chain(numbers).chain(exceptions) {
        assert!(page.contains(&grouped(u128::try_from(bound).unwrap())), "{bound} is not named");
    }
}

fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// Where the most impatient caller begins: just before a minute ends.
const START_MS: u64 = 1_800_000_000_000 + 59_990;
const STEP_MS: u64 = 10;
const SPAN_MS: u64 = 2 * 3_600_000;

/// When each of one caller's requests passes, in ms, if it asks as often as it can for two hours.
fn passes(rule: &Rule) -> Vec<u64> {
    let mut stored: Option<State> = None;
    let mut passes = Vec::new();
    for at_ms in (START_MS..START_MS + SPAN_MS).step_by(usize::try_from(STEP_MS).unwrap()) {
        let question = Question { rule, key: b"alice", cost: 1, now: Micros::new(at_ms * 1_000) };
        let mut state = question.roll(stored.clone()).unwrap();
        while question.admits(&state) {
            state = question.charge(state);
            let delay = question.report(&state, true).delay;
            passes.push(at_ms + u64::try_from(delay.as_millis()).unwrap());
            stored = Some(state.clone());
        }
    }
    passes
}

/// The most that passes within any interval of this length.
fn most_within(passes: &[u64], length_ms: u64) -> usize {
    let ends = |start: &u64| passes.partition_point(|pass| *pass < start + length_ms);
    passes.iter().enumerate().map(|(index, start)| ends(start) - index).max().unwrap_or_default()
}

/// The table of worst cases is computed again, so that nobody plans with a number that was true once.
#[test]
fn the_worst_cases_on_the_algorithms_page_are_what_happens() {
    let minute = Duration::from_secs(60);
    let rules = [
        ("`fixed_window`", Rule::fixed_window(100, minute, Align::Epoch)),
        ("`sliding_counter`", Rule::sliding_counter(100, minute)),
        ("`sliding_log`", Rule::sliding_log(100, minute)),
        ("`token_bucket`, `gcra`", Rule::token_bucket(100, minute, 100)),
        ("the same, `burst: 10`", Rule::gcra(100, minute, 10)),
        ("`leaky_bucket`", Rule::leaky_bucket(100, minute, Duration::from_secs(10))),
    ];
    let page = page("concepts/algorithms.md");
    for (name, rule) in rules {
        let rule = rule.unwrap();
        let passes = passes(&rule);
        let [second, minute, hour] = [1_000, 60_000, 3_600_000].map(|length| most_within(&passes, length));
        for (length, most) in [(1_000, second), (60_000, minute), (3_600_000, hour)] {
            let law = rule.most_within(Duration::from_millis(length));
            let most = u128::try_from(most).unwrap();
            assert!(most <= law, "{name}: {most} in {length} ms, and the law says {law}");
            assert!(
                law <= most + most / 50 + 1,
                "{name}: the law says {law} in {length} ms, and {most} is the most"
            );
        }
        let row = format!("| {name} | {second} | {minute} | {hour} |");
        assert!(page.contains(&row), "expected the row\n{row}");
    }
}

fn usual(need: &Need) -> String {
    let (limit, per) = need.usual;
    need.limits(&Wish { limit, per, key: &["user".to_owned()], regions: 3 })
}

/// A snippet that one begins with is a policy, is of the algorithm that is named, and has no finding.
#[test]
fn what_a_need_is_met_with_is_a_policy_without_findings() {
    for need in NEEDS {
        let text = format!("version: 1\nlimits:\n{}", usual(need));
        let checked = lint::check(&text).unwrap_or_else(|error| panic!("{}:\n{error}", need.name));
        assert!(checked.findings.is_empty(), "{}: {:#?}", need.name, checked.findings);
        let (algorithm, _) = checked.policy.limits()[0].grant.shape();
        assert_eq!(algorithm, need.algorithm, "{}", need.name);
    }
}

/// The least that the first limit of a snippet lets pass at once, in its window, and in an hour or day.
fn worst_case(need: &Need) -> String {
    let policy = Policy::parse(&format!("version: 1\nlimits:\n{}", usual(need))).unwrap();
    let sluicegate_core::policy::Grant::Bounded(rule) = &policy.limits()[0].grant else {
        panic!("unlimited")
    };
    let per = rule.window();
    let most = [Duration::from_micros(1), per, per * 24].map(|length| grouped(rule.most_within(length)));
    let [at_once, window, many] = most;
    format!("At most {at_once} at once, {window} in any {}, {many} in 24 times that.", need.usual.1)
}

/// `docs/concepts/choosing.md` is written from the table of needs. `SLUICEGATE_BLESS=1` writes it anew.
#[test]
fn the_page_on_choosing_is_up_to_date() {
    let mut text = "# From a requirement to a limit\n\nGenerated from the program. `sluicegate policy choose --need NEED --limit N --per TIME` answers the same with your numbers. What
each algorithm does is told in [Which algorithm?](algorithms.md), its laws in [The laws](laws.md).\n\n| need | |\n|---|---|\n"
        .to_owned();
    for need in NEEDS {
        writeln!(text, "| [`{0}`](#{0}) | {1} |", need.name, need.wanted).unwrap();
    }
    for need in NEEDS {
        let (worst, limits) = (worst_case(need), usual(need));
        let Need { name, wanted, algorithm, why, beware, .. } = need;
        writeln!(
            text,
            "\n## {name}\n\n{wanted}\n\nTake `{algorithm}`. {why} {beware} {worst}\n\n```yaml\n{limits}```"
        )
        .unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/concepts/choosing.md");
    if std::env::var_os("SLUICEGATE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "run with SLUICEGATE_BLESS=1");
}
