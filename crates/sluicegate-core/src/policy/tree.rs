//! YAML as it was typed: values with their places, before anybody asks what they mean.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{
    Budget, Location, MessageFormatter, Options, Spanned,
    options::{AliasLimits, DuplicateKeyPolicy, NonFiniteFloatPolicy},
};

use super::{
    MAX_FILE_LEN,
    file::printable,
    problem::{Place, Problem},
};

/// Nesting beyond this is refused, so that no file can exhaust the stack. A policy needs five levels.
const MAX_DEPTH: usize = 32;
/// What aliases may expand to in total, in parser events: an alias bomb is refused long before it weighs anything.
const MAX_ALIAS_EVENTS: usize = 100_000;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it begins.
    pub place: Place,
    /// What was typed.
    pub value: Value,
}

/// A YAML value by its type under the YAML 1.2 core schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, not negative.
    Whole(u64),
    /// A negative whole number: no field of ours takes one.
    Negative,
    /// A number with decimals or an exponent.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file; names may repeat.
    Map(Vec<(Node, Node)>),
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { place: place(spanned.referenced), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or(Value::Negative, Value::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}

/// Reads one YAML document, within bounds on its depth and on what its aliases expand to.
///
/// # Errors
/// The [`Problem`] that keeps it from being YAML, with its place.
pub fn parse(text: &str) -> Result<Node, Problem> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| explain(&error))
}

fn options() -> Options {
    let mut budget = Budget::default();
    budget.max_depth = MAX_DEPTH;
    // The length of the text bounds them: there is none without a byte of its own.
    (budget.max_nodes, budget.max_events) = (MAX_FILE_LEN, MAX_FILE_LEN);
    let mut alias_limits = AliasLimits::default();
    alias_limits.max_total_replayed_events = MAX_ALIAS_EVENTS;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.alias_limits = alias_limits;
    // Repeated keys are reported by the reader, all of them and with the place of the first.
    options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
    options.non_finite_float_policy = NonFiniteFloatPolicy::PassThrough;
    options.strict_booleans = true;
    options.leading_zero_numbers_as_strings = true;
    options.underscored_numbers_as_strings = true;
    options.reject_unsupported_tags = true;
    options.with_snippet = false;
    options
}

fn explain(error: &serde_saphyr::Error) -> Problem {
    use serde_saphyr::Error;
    let place = error.location().map_or(Place::START, place);
    let mut cause = error.without_snippet();
    while let Error::AliasError { error, .. } = cause {
        cause = error;
    }
    match cause {
        Error::MultipleDocuments { .. } => Problem::new(place, "a policy file is one YAML document")
            .hint("remove the `---`, or put each domain into a file of its own"),
        Error::Eof { .. } => Problem::new(Place::START, "the file is empty").hint("begin with `version: 1`"),
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => {
            Problem::new(place, "the YAML is larger, deeper or more tangled than a policy can be")
                .hint("use fewer aliases, and nest less deeply")
        }
        other => not_yaml(place, &serde_saphyr::DefaultMessageFormatter.format_message(other)),
    }
}

fn not_yaml(place: Place, reason: &str) -> Problem {
    let problem = Problem::new(place, format!("not valid YAML: {}", printable(reason)));
    problem.maybe_hint(reason.contains("tabs").then(|| "indent with spaces".to_owned()))
}

fn place(location: Location) -> Place {
    Place { line: location.line().max(1), column: location.column().max(1), length: location.span().len() }
}
