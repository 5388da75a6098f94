//! The JSON Schema of policy files, by a validator that knows nothing of us.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Number, Value, json};
use sluicegate::core::policy::tree::{self, Node};
use sluicegate_server::schema;

use crate::import::{from_envoy, from_limitador};

/// Mistakes that a schema cannot say, each with the reason.
const BEYOND_A_SCHEMA: [(&str, &[&str]); 7] = [
    (
        "the schema is asked about what YAML means, and this is not YAML",
        &[
            "alias-bomb",
            "bad-indentation",
            "nested-too-deeply",
            "tab-for-indentation",
            "two-documents",
            "unclosed-bracket",
            "unclosed-quote",
            "unknown-alias",
            "unknown-tag",
        ],
    ),
    (
        "in JSON a field given twice is given once",
        &[
            "field-twice",
            "match-condition-twice",
            "match-twice-the-same",
            "tier-names-a-limit-twice",
            "tier-twice",
            "top-field-twice",
        ],
    ),
    (
        "it compares two numbers of the file, or a number with a length of time",
        &[
            "burst-too-large",
            "burst-zero",
            "default-burst-too-large",
            "headroom-too-large-for-a-log",
            "max-delay-below-the-tick",
            "max-delay-too-long",
            "override-too-large",
            "per-beyond-64-bits",
            "per-eleven-years",
            "per-split-second",
            "shards-above-burst",
            "shards-above-limit",
            "tier-below-shards",
            "tier-burst-zero",
            "tier-too-large",
        ],
    ),
    (
        "it speaks of another place of the file",
        &[
            "exempt-name-twice",
            "id-of-another",
            "id-twice",
            "ids-equal-by-chance",
            "name-twice",
            "override-of-unknown-limit",
            "tier-max-delay-on-token-bucket",
            "tier-of-log-too-large",
            "tier-of-unknown-limit",
            "too-many-limits-for-every-request",
            "two-leaky-buckets",
        ],
    ),
    (
        "a pattern or a network has a grammar of its own",
        &[
            "match-bad-glob",
            "match-cidr-not-a-network",
            "match-cidr-prefix-too-long",
            "match-cidr-stray-bits",
        ],
    ),
    (
        "it is about the calendar: a name of the zone database, or a field that not every length of period has",
        &["period-anchor-on-week", "period-zone-unknown"],
    ),
    ("JSON has one kind of number", &["limit-whole-decimal", "limit-exponent", "headroom-too-fine"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names and texts of a folder of samples.
fn samples(folder: &str) -> Vec<(String, String)> {
    let entries =
        fs::read_dir(root().join("policies").join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|ext| ext == "yaml"));
    let mut all: Vec<_> = files
        .map(|path| {
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

/// What an editor hands to its validator.
fn to_json(node: Node) -> Value {
    match node.value {
        tree::Value::Null => Value::Null,
        tree::Value::Bool(truth) => json!(truth),
        tree::Value::Whole(number) => json!(number),
        tree::Value::Negative => json!(-1),
        tree::Value::Float(number) => Number::from_f64(number).map_or(json!("not a number"), Value::Number),
        tree::Value::Text(text) => json!(text),
        tree::Value::List(nodes) => nodes.into_iter().map(to_json).collect(),
        tree::Value::Map(pairs) => {
            pairs.into_iter().map(|(name, node)| (name_of(name), to_json(node))).collect()
        }
    }
}

fn name_of(node: Node) -> String {
    match node.value {
        tree::Value::Text(text) => text,
        other => format!("{other:?}"),
    }
}

fn validator() -> jsonschema::Validator {
    let schema = schema::policy();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn every_right_policy_fits_the_schema_and_names_it() {
    let validator = validator();
    for (name, text) in samples("right") {
        let policy = to_json(tree::parse(&text).unwrap());
        let told: Vec<_> = validator.iter_errors(&policy).map(|error| error.to_string()).collect();
        assert!(told.is_empty(), "{name}: {told:#?}");
        assert!(text.starts_with(&schema::editor_line()), "{name} does not begin with the line for editors");
    }
}

#[test]
fn every_imported_policy_fits_the_schema_and_names_it() {
    let validator = validator();
    for policy in from_envoy().policies.iter().chain(&from_limitador().policies) {
        let told: Vec<_> = validator
            .iter_errors(&to_json(tree::parse(&policy.text).unwrap()))
            .map(|error| error.to_string())
            .collect();
        assert!(told.is_empty(), "{}: {told:#?}", policy.domain);
        assert!(policy.text.starts_with(&schema::editor_line()), "{}", policy.text);
    }
}

/// Each is refused, or stands with its reason on the list of those that a schema cannot refuse; none does both.
#[test]
fn every_wrong_policy_is_refused_unless_a_schema_cannot_say_why() {
    let validator = validator();
    let mut wrong = Vec::new();
    let all = samples("wrong");
    for (name, text) in &all {
        let is_refused = tree::parse(text).is_ok_and(|node| !validator.is_valid(&to_json(node)));
        let is_beyond = BEYOND_A_SCHEMA.iter().any(|(_, names)| names.contains(&name.as_str()));
        if is_refused == is_beyond {
            wrong.push(format!("{name}: refused {is_refused}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let listed = BEYOND_A_SCHEMA.iter().flat_map(|(_, names)| *names);
    let strays: Vec<_> = listed.filter(|name| all.iter().all(|(own, _)| own != *name)).collect();
    assert!(strays.is_empty(), "{strays:?}");
}

/// `docs/reference/policy.schema.json` is what `policy schema` prints. `SLUICEGATE_BLESS=1` writes it anew.
#[test]
fn the_published_schema_is_up_to_date() {
    let path = root().join("docs/reference/policy.schema.json");
    let schema = format!("{:#}\n", schema::policy());
    if std::env::var_os("SLUICEGATE_BLESS").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == schema, "run with SLUICEGATE_BLESS=1");
}
