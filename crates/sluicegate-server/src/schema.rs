//! The JSON Schema of policy files, for editors: made of the table of fields that the reader goes by.
//!
//! It says less than the reader: a schema cannot compare two numbers, nor see a name again.

use serde_json::{Map, Value, json};
use sluicegate::core::{
    Algorithm,
    algorithm::sliding_log,
    policy::{
        CONDITIONS, MAX_ALTERNATIVES, MAX_ATTRIBUTES, MAX_NAME_LEN, MAX_PATTERN_LEN, MAX_TIERS,
        fields::{AMOUNT_FIELDS, Described, LIMIT, POLICY, Shape},
        lint::LINTS,
    },
    rule::MAX_PRODUCT,
};

/// Where the schema of this version is published.
pub const URL: &str =
    "https://raw.githubusercontent.com/sluicegate/sluicegate/main/docs/reference/policy.schema.json";
/// The first line of a policy file, by which editors find the schema.
pub fn editor_line() -> String {
    format!("# yaml-language-server: $schema={URL}\n")
}

/// The schema.
pub fn policy() -> Value {
    let mut schema = mapping(POLICY);
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": URL,
        "title": "A policy of Sluicegate",
        "$defs": {
            "word": { "type": "string", "pattern": format!("^[A-Za-z0-9_.-]{{1,{MAX_NAME_LEN}}}$") },
            "name": { "type": "string", "pattern": format!("^[a-z0-9-]{{1,{MAX_NAME_LEN}}}$") },
            "length": length(),
            "conditions": conditions(),
            "amounts": amounts(),
        },
    });
    merge(&mut schema, head);
    schema
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// A mapping that has these fields and no others.
fn mapping(fields: &[Described]) -> Value {
    let everywhere = |field: &&Described| field.is_needed && field.owners.is_none();
    let needed: Vec<_> = fields.iter().filter(everywhere).map(|field| field.name).collect();
    let properties: Map<_, _> = fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let mut schema = json!({
        "type": "object", "properties": properties, "required": needed, "additionalProperties": false
    });
    let rules: Vec<_> = fields.iter().flat_map(owned).collect();
    if !rules.is_empty() {
        let rules = [rules, relations()].concat();
        merge(&mut schema, json!({ "allOf": rules }));
    }
    schema
}

/// What only some algorithms have, and which of them cannot do without.
fn owned(field: &Described) -> Vec<Value> {
    let Some(owners) = field.owners else { return Vec::new() };
    let name = field.name;
    let names: Vec<_> = owners.iter().map(|owner| owner.name()).collect();
    let of_owner = json!({ "required": ["algorithm"], "properties": { "algorithm": { "enum": names } } });
    let mut rules = vec![json!({ "if": { "required": [name] }, "then": of_owner.clone() })];
    if field.is_needed {
        rules.push(json!({ "if": of_owner, "then": { "required": [name] } }));
    }
    rules
}

/// What two fields of a limit say about each other.
fn relations() -> Vec<Value> {
    let log = Algorithm::SlidingLog.name();
    vec![
        json!({ "if": { "required": ["shards"] }, "then": { "properties": { "key": { "maxItems": 0 } } } }),
        json!({
            "if": { "required": ["headroom"] },
            "then": { "properties": { "on_store_failure": { "const": "local" } } },
        }),
        json!({
            "if": { "required": ["algorithm"], "properties": { "algorithm": { "const": log } } },
            "then": { "properties": { "limit": { "maximum": sliding_log::MAX_AMOUNT } } },
        }),
    ]
}

fn property(field: &Described) -> Value {
    let mut schema = shape(field.shape);
    merge(
        &mut schema,
        json!({ "description": format!("{} Without it: {}.", sentence(field.value), plain(field.default)) }),
    );
    schema
}

fn sentence(text: &str) -> String {
    let text = plain(text);
    if text.ends_with('.') { text } else { format!("{text}.") }
}

/// Markdown without its links, which lead nowhere in an editor.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((words, (_, after))) =
            link.split_once("](").and_then(|(words, target)| Some((words, target.split_once(')')?)))
        else {
            break;
        };
        plain = format!("{plain}{before}{words}");
        rest = after;
    }
    plain + rest
}

fn shape(shape: Shape) -> Value {
    match shape {
        Shape::Version => json!({ "const": 1 }),
        Shape::Word => json!({ "$ref": "#/$defs/word" }),
        Shape::Name => json!({ "$ref": "#/$defs/name" }),
        Shape::Attributes { most } => json!({
            "type": "array", "items": { "$ref": "#/$defs/word" }, "maxItems": most, "uniqueItems": true
        }),
        Shape::Algorithm => json!({ "enum": Algorithm::ALL.map(Algorithm::name) }),
        Shape::Amount => {
            json!({ "anyOf": [{ "const": "unlimited" }, { "type": "integer", "minimum": 0, "maximum": MAX_PRODUCT }] })
        }
        Shape::Whole { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most.map_or(MAX_PRODUCT, u64::from) })
        }
        Shape::Headroom => json!({ "type": "number", "minimum": 0.01, "maximum": 100 }),
        Shape::Length => json!({ "$ref": "#/$defs/length" }),
        Shape::Text => json!({ "type": "string", "minLength": 1 }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Choice(words) => json!({ "enum": words() }),
        Shape::Conditions { is_narrow } => {
            json!({ "$ref": "#/$defs/conditions", "minProperties": u8::from(is_narrow) })
        }
        Shape::Lints => {
            json!({ "type": "array", "items": { "enum": LINTS.iter().map(|lint| lint.code).collect::<Vec<_>>() } })
        }
        Shape::Entries { fields, least, most } => {
            json!({ "type": "array", "items": mapping(fields), "minItems": least, "maxItems": most })
        }
        Shape::Fields(fields) => mapping(fields),
        Shape::Amounts => json!({ "$ref": "#/$defs/amounts", "minProperties": 1 }),
        Shape::Tiers => json!({
            "type": "object",
            "propertyNames": { "$ref": "#/$defs/word" },
            "additionalProperties": { "$ref": "#/$defs/amounts" },
            "maxProperties": MAX_TIERS,
        }),
    }
}

/// A length of time that is not nothing: a number and a unit, or ISO 8601.
fn length() -> Value {
    let short = "0*[1-9][0-9]*(ms|s|m|h|d|w)";
    let time = "T([0-9]+H)?([0-9]+M)?([0-9]+([.,][0-9]{1,3})?S)?";
    let iso = format!("[Pp](([0-9]+[Ww])?([0-9]+[Dd])?({time}|{})?)", time.to_ascii_lowercase());
    json!({ "type": "string", "pattern": format!("^({short}|{iso})$") })
}

/// Attributes, each with a pattern, a list of patterns, or conditions that must all hold.
fn conditions() -> Value {
    let text = json!({ "type": "string", "maxLength": MAX_PATTERN_LEN });
    let list = json!({ "type": "array", "items": text, "minItems": 1, "maxItems": MAX_ALTERNATIVES });
    let patterns = json!({ "anyOf": [text, list] });
    let cidr = json!({
        "type": "object", "properties": { "cidr": patterns }, "required": ["cidr"], "additionalProperties": false
    });
    let of = |condition: &str| match condition {
        "present" => json!({ "type": "boolean" }),
        "not" => json!({ "anyOf": [patterns, cidr] }),
        _ => patterns.clone(),
    };
    let all: Map<_, _> = CONDITIONS.iter().map(|word| ((*word).to_owned(), of(word))).collect();
    let several = json!({
        "type": "object", "properties": all, "minProperties": 1, "additionalProperties": false
    });
    json!({
        "type": "object",
        "propertyNames": { "$ref": "#/$defs/word" },
        "additionalProperties": { "anyOf": [patterns, several] },
        "maxProperties": MAX_ATTRIBUTES,
    })
}

/// Limits by their names, each with the amounts that take the place of its own.
fn amounts() -> Value {
    let own = LIMIT.iter().filter(|field| AMOUNT_FIELDS.contains(&field.name));
    let properties: Map<_, _> = own.map(|field| (field.name.to_owned(), shape(field.shape))).collect();
    json!({
        "type": "object",
        "propertyNames": { "$ref": "#/$defs/name" },
        "additionalProperties": {
            "type": "object", "properties": properties, "minProperties": 1, "additionalProperties": false
        },
    })
}
