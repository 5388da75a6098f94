//! A policy file as it was typed: which fields are there, with their places. What they mean is not asked yet.

use std::collections::HashMap;

use super::{
    fields::{AMOUNT_FIELDS, LIMIT_FIELDS, POLICY_FIELDS},
    problem::{Place, Problem, Problems},
    suggest::{closest, did_you_mean},
    tree::{Node, Value},
};

/// Limits of one file: what one request may have to be matched against.
pub const MAX_LIMITS: usize = 10_000;

/// A field: where its name stands, and its value.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) name_place: Place,
    pub(super) node: Node,
}

/// The whole file.
#[derive(Debug)]
pub(super) struct PolicyFile {
    pub(super) version: Option<Field>,
    pub(super) domain: Option<Field>,
    pub(super) slot_by: Option<Field>,
    pub(super) enforcement: Option<Field>,
    pub(super) exempt: Option<Field>,
    pub(super) limits: Option<Vec<LimitFile>>,
    pub(super) tiers: Option<Field>,
    pub(super) overrides: Option<Field>,
}

/// One entry of `limits`.
#[derive(Clone, Debug)]
pub(super) struct LimitFile {
    pub(super) place: Place,
    pub(super) name: Option<Field>,
    pub(super) id: Option<Field>,
    pub(super) algorithm: Option<Field>,
    pub(super) limit: Option<Field>,
    pub(super) per: Option<Field>,
    pub(super) period: Option<Field>,
    pub(super) key: Option<Field>,
    pub(super) matches: Option<Field>,
    pub(super) unit: Option<Field>,
    pub(super) burst: Option<Field>,
    pub(super) align: Option<Field>,
    pub(super) max_delay: Option<Field>,
    pub(super) shards: Option<Field>,
    pub(super) if_missing: Option<Field>,
    pub(super) on_store_failure: Option<Field>,
    pub(super) headroom: Option<Field>,
    pub(super) cache_denials: Option<Field>,
    pub(super) enforcement: Option<Field>,
    pub(super) allow: Option<Field>,
}

/// The fields that a mapping may have, and what to say about others.
pub(super) struct Schema {
    pub(super) owner: &'static str,
    pub(super) known: &'static [&'static str],
    /// Fields of the format that this version cannot enforce: refused, since a limit that is configured and
    /// silently not enforced is worse than none.
    pub(super) later: &'static [&'static str],
    /// Other products' names for a field of ours.
    pub(super) synonyms: &'static [(&'static str, &'static str)],
}

const POLICY: Schema = Schema {
    owner: "a policy",
    known: POLICY_FIELDS,
    later: &["on_store_failure", "headroom"],
    synonyms: &[
        ("rules", "limits"),
        ("policies", "limits"),
        ("rate_limits", "limits"),
        ("namespace", "domain"),
        ("exemptions", "exempt"),
        ("plans", "tiers"),
    ],
};

const AMOUNTS: Schema = Schema {
    owner: "an entry of a tier or an override",
    known: AMOUNT_FIELDS,
    later: LIMIT.later,
    synonyms: LIMIT.synonyms,
};

const LIMIT: Schema = Schema {
    owner: "a limit",
    known: LIMIT_FIELDS,
    later: &["lease", "on_lease_end", "overdraft", "tiers", "overrides"],
    synonyms: &[
        ("window", "per"),
        ("interval", "per"),
        ("duration", "per"),
        ("rate", "limit"),
        ("amount", "limit"),
        ("max", "limit"),
        ("requests", "limit"),
        ("type", "algorithm"),
        ("by", "key"),
        ("when", "match"),
        ("capacity", "burst"),
    ],
};

impl PolicyFile {
    /// Sorts the fields of the document; unknown, repeated and unsupported ones are problems.
    pub(super) fn read(root: Node, problems: &mut Problems) -> Option<Self> {
        if root.value == Value::Null {
            problems.push(Problem::new(Place::START, "the file is empty").hint("begin with `version: 1`"));
            return None;
        }
        let mut fields = Fields::read(root, &POLICY, problems)?;
        let limits = fields.take("limits").and_then(|field| read_limits(field, problems));
        if limits.is_none() && problems.is_empty() {
            problems
                .push(missing(fields.place, &POLICY, "limits").hint("add `limits:` with at least one limit"));
        }
        Some(Self {
            version: fields.take("version"),
            domain: fields.take("domain"),
            slot_by: fields.take("slot_by"),
            enforcement: fields.take("enforcement"),
            exempt: fields.take("exempt"),
            limits,
            tiers: fields.take("tiers"),
            overrides: fields.take("overrides"),
        })
    }
}

fn read_limits(field: Field, problems: &mut Problems) -> Option<Vec<LimitFile>> {
    let place = field.node.place;
    if matches!(field.node.value, Value::Map(_)) {
        problems.push(field.must_be("a list").hint("begin each limit with `- name:`"));
        return None;
    }
    let nodes = problems.note(field.into_list())?;
    if nodes.is_empty() {
        let hint = "add a limit; to let everything pass give one `limit: unlimited`";
        problems.push(Problem::new(place, "`limits` is empty").hint(hint));
        return None;
    }
    if let Some(excess) = nodes.get(MAX_LIMITS) {
        let what = format!("a policy has at most {MAX_LIMITS} limits, and this one {}", nodes.len());
        problems.push(
            Problem::new(excess.place, what)
                .hint("count by attributes in `key` instead of naming each value"),
        );
        return None;
    }
    Some(nodes.into_iter().filter_map(|node| LimitFile::read(node, problems)).collect())
}

impl LimitFile {
    fn read(node: Node, problems: &mut Problems) -> Option<Self> {
        let mut fields = Fields::read(node, &LIMIT, problems)?;
        Some(Self {
            place: fields.place,
            name: fields.take("name"),
            id: fields.take("id"),
            algorithm: fields.take("algorithm"),
            limit: fields.take("limit"),
            per: fields.take("per"),
            period: fields.take("period"),
            key: fields.take("key"),
            matches: fields.take("match"),
            unit: fields.take("unit"),
            burst: fields.take("burst"),
            align: fields.take("align"),
            max_delay: fields.take("max_delay"),
            shards: fields.take("shards"),
            if_missing: fields.take("if_missing"),
            on_store_failure: fields.take("on_store_failure"),
            headroom: fields.take("headroom"),
            cache_denials: fields.take("cache_denials"),
            enforcement: fields.take("enforcement"),
            allow: fields.take("allow"),
        })
    }

    /// The name, if it is a text.
    pub(super) fn typed_name(&self) -> Option<&str> {
        match &self.name.as_ref()?.node.value {
            Value::Text(name) => Some(name),
            _ => None,
        }
    }

    /// Where the name stands, if it is this one.
    pub(super) fn place_of_name(&self, name: &str) -> Option<Place> {
        self.name.as_ref().filter(|_| self.typed_name() == Some(name)).map(|field| field.node.place)
    }

    /// What the id of the limit's state is made of: `id`, or else the name.
    pub(super) fn stable_id(&self) -> Option<&str> {
        match self.id.as_ref().map(|field| &field.node.value) {
            Some(Value::Text(id)) => Some(id),
            _ => self.typed_name(),
        }
    }

    /// A field that a limit cannot do without.
    pub(super) fn require(&self, field: Option<&Field>, name: &str, hint: &str) -> Result<Field, Problem> {
        field.cloned().ok_or_else(|| missing(self.place, &LIMIT, name).hint(hint))
    }
}

/// The limit with the amounts of a tier or an override in the place of its own; what they leave out is the limit's.
pub(super) fn amounts_of(limit: &LimitFile, node: &Node, problems: &mut Problems) -> Option<LimitFile> {
    if !matches!(node.value, Value::Map(_)) {
        let what = format!("what is granted instead must be a mapping, not {}", describe(&node.value));
        let hint = match &node.value {
            Value::Whole(amount) => format!("write `{{ limit: {amount} }}`"),
            _ => "write `{ limit: 1000 }`".to_owned(),
        };
        problems.push(Problem::new(node.place, what).hint(hint));
        return None;
    }
    let mut fields = Fields::read(node.clone(), &AMOUNTS, problems)?;
    if fields.fields.is_empty() && problems.is_empty() {
        let hint = format!("give one of {}, or remove the entry", list(AMOUNT_FIELDS));
        problems.push(Problem::new(node.place, "nothing is granted instead").hint(hint));
    }
    Some(LimitFile {
        limit: fields.take("limit").or_else(|| limit.limit.clone()),
        burst: fields.take("burst").or_else(|| limit.burst.clone()),
        max_delay: fields.take("max_delay").or_else(|| limit.max_delay.clone()),
        ..limit.clone()
    })
}

fn missing(place: Place, schema: &Schema, name: &str) -> Problem {
    Problem::new(Place { length: 1, ..place }, format!("{} needs the field `{name}`", schema.owner))
}

/// The known fields of one mapping.
pub(super) struct Fields {
    place: Place,
    fields: HashMap<&'static str, Field>,
}

impl Fields {
    /// Sorts the fields of a mapping; unknown, repeated and unsupported ones are problems.
    pub(super) fn read(node: Node, schema: &Schema, problems: &mut Problems) -> Option<Self> {
        let place = node.place;
        let Value::Map(entries) = node.value else {
            let what = format!("{} must be a mapping of fields, not {}", schema.owner, describe(&node.value));
            problems.push(Problem::new(place, what));
            return None;
        };
        let mut fields: HashMap<&'static str, Field> = HashMap::new();
        let mut meant: Vec<Field> = Vec::new();
        for (key, node) in entries {
            let name_place = key.place;
            match schema.field(&key) {
                Err(stray) => {
                    problems.push(stray.problem);
                    meant.extend(stray.meant.map(|name| Field { name, name_place, node }));
                }
                Ok(name) => match fields.get(name) {
                    Some(first) => problems.push(repeated(name, name_place, first.name_place)),
                    None => drop(fields.insert(name, Field { name, name_place, node })),
                },
            }
        }
        // A misspelt field stands for the one that was meant, so that nobody is told that it is missing as well.
        for field in meant {
            fields.entry(field.name).or_insert(field);
        }
        Some(Self { place, fields })
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Field> {
        self.fields.remove(name)
    }

    /// A field that the mapping cannot do without.
    pub(super) fn require(&mut self, name: &str, schema: &Schema, hint: &str) -> Result<Field, Problem> {
        self.take(name).ok_or_else(|| missing(self.place, schema, name).hint(hint))
    }
}

pub(super) fn repeated(name: &str, place: Place, first: Place) -> Problem {
    Problem::new(place, format!("`{}` is given twice", shown(name)))
        .hint(format!("remove one; the first is in line {}", first.line))
}

/// A field's name that is none, and the field that was probably meant.
struct Stray {
    problem: Problem,
    meant: Option<&'static str>,
}

impl Schema {
    fn field(&self, key: &Node) -> Result<&'static str, Stray> {
        let stray =
            |what, hint, meant| Stray { problem: Problem::new(key.place, what).maybe_hint(hint), meant };
        let Value::Text(name) = &key.value else {
            let what = format!("a field's name must be a word, not {}", describe(&key.value));
            return Err(stray(what, None, None));
        };
        if let Some(known) = self.known.iter().find(|known| *known == name) {
            return Ok(known);
        }
        if self.later.contains(&name.as_str()) {
            let hint = "remove it: a policy never promises what is not enforced";
            return Err(stray(
                format!("`{name}` is not supported in this version"),
                Some(hint.to_owned()),
                None,
            ));
        }
        let synonym = self.synonyms.iter().find(|(theirs, _)| theirs == name).map(|(_, ours)| *ours);
        let meant = synonym.or_else(|| closest(name, self.known.iter().copied()));
        let hint = meant
            .map_or_else(|| format!("the fields of {} are {}", self.owner, list(self.known)), did_you_mean);
        Err(stray(format!("{} has no field `{}`", self.owner, shown(name)), Some(hint), meant))
    }
}

/// The words in backticks, with commas.
pub(super) fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// A text from the file as a message may show it: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    const MAX_SHOWN: usize = 60;
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", printable(&short))
}

/// The text with its control characters escaped: a message is one line, whatever a file holds.
pub(super) fn printable(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(escape).collect()
}

/// A value in a message: "not a list", "not `true`".
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Whole(value) => format!("`{value}`"),
        Value::Negative => "a negative number".to_owned(),
        Value::Float(_) => "a decimal number".to_owned(),
        Value::Text(text) if text.is_empty() => "an empty text".to_owned(),
        Value::Text(text) => format!("the text `{}`", shown(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
    }
}

impl Field {
    /// A problem with the value: it must be something else.
    pub(super) fn must_be(&self, expected: &str) -> Problem {
        if self.node.value == Value::Null {
            return Problem::new(self.name_place, format!("`{}` has no value", self.name))
                .hint(format!("give {expected}"));
        }
        let what = format!("`{}` must be {expected}, not {}", self.name, describe(&self.node.value));
        Problem::new(self.node.place, what)
    }

    /// Whether the value is a mapping.
    pub(super) fn mapping(&self) -> Result<(), Problem> {
        match &self.node.value {
            Value::Map(_) => Ok(()),
            _ => Err(self.must_be("a mapping")),
        }
    }

    pub(super) fn into_list(self) -> Result<Vec<Node>, Problem> {
        match self.node.value {
            Value::List(nodes) => Ok(nodes),
            Value::Text(ref text) if !text.is_empty() => {
                let hint = format!("write `{}: [{}]`", self.name, shown(text));
                Err(self.must_be("a list").hint(hint))
            }
            Value::Null => Err(self.must_be("a list").hint("give a list; an empty one is `[]`")),
            _ => Err(self.must_be("a list")),
        }
    }

    pub(super) fn text(&self, expected: &str) -> Result<&str, Problem> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            other => Err(self.must_be(expected).maybe_hint(quoted_hint(other))),
        }
    }
}

/// For values that YAML reads as a number or a truth value where a text is wanted.
pub(super) fn quoted_hint(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(format!("put it in quotes: `\"{value}\"`")),
        Value::Whole(value) => Some(format!("put it in quotes: `\"{value}\"`")),
        Value::Negative | Value::Float(_) => Some("put it in quotes".to_owned()),
        _ => None,
    }
}
