//! From `match` as it was typed to a matcher.

use std::collections::HashMap;

use super::{
    file::{Field, describe, list, quoted_hint, repeated, shown},
    matcher::{Condition, Matcher, Values},
    network::{Network, NetworkError},
    pattern::Pattern,
    problem::{Place, Problem},
    suggest::{closest, did_you_mean},
    tree::{Node, Value},
    words::{MAX_ATTRIBUTES, attribute},
};

/// The longest pattern of `match`, in bytes.
pub const MAX_PATTERN_LEN: usize = 512;
/// The most alternatives of one condition: they are tried one after the other.
pub const MAX_ALTERNATIVES: usize = 256;
/// The conditions that an attribute may have, beyond a pattern or a list of patterns.
pub const CONDITIONS: &[&str] = &["is", "not", "cidr", "present"];

/// The matcher of a field `match`; without one, everything matches.
pub(super) fn matcher(field: Option<&Field>) -> Result<Matcher, Problem> {
    let Some(field) = field else { return Ok(Matcher::default()) };
    let Value::Map(entries) = &field.node.value else {
        let problem = field.must_be("a mapping of attributes to patterns");
        return Err(problem.hint("write `match: { endpoint: \"/v1/*\" }`"));
    };
    if entries.len() > MAX_ATTRIBUTES {
        let what =
            format!("`match` has {} attributes, and at most {MAX_ATTRIBUTES} are allowed", entries.len());
        return Err(Problem::new(field.node.place, what));
    }
    let mut seen: HashMap<String, Place> = HashMap::new();
    let mut all = Vec::with_capacity(entries.len());
    for (name, node) in entries {
        let attribute = attribute(name, "match")?;
        all.extend(conditions(&attribute, node)?.into_iter().map(|own| (attribute.clone(), own)));
        if let Some(first) = seen.insert(attribute.clone(), name.place) {
            return Err(repeated(&attribute, name.place, first));
        }
    }
    Ok(Matcher::of(all))
}

/// A pattern, a list of patterns, or a mapping of conditions that must all hold.
fn conditions(attribute: &str, node: &Node) -> Result<Vec<Condition>, Problem> {
    let Value::Map(entries) = &node.value else {
        return Ok(vec![Condition::Is(patterns(attribute, node)?)]);
    };
    if entries.is_empty() {
        let problem = Problem::new(node.place, format!("the condition on `{attribute}` is empty"));
        return Err(problem.hint(format!("give one of {}", list(CONDITIONS))));
    }
    let mut seen: HashMap<&str, Place> = HashMap::new();
    let mut all = Vec::with_capacity(entries.len());
    for (name, value) in entries {
        let word = condition_name(attribute, name)?;
        if let Some(first) = seen.insert(word, name.place) {
            return Err(repeated(word, name.place, first));
        }
        all.push(condition(attribute, word, value)?);
    }
    Ok(all)
}

fn condition_name(attribute: &str, name: &Node) -> Result<&'static str, Problem> {
    let text = match &name.value {
        Value::Text(text) => text.as_str(),
        _ => "",
    };
    CONDITIONS.iter().find(|word| **word == text).copied().ok_or_else(|| {
        let typed = if text.is_empty() { describe(&name.value) } else { format!("`{}`", shown(text)) };
        let problem = Problem::new(name.place, format!("`match` has no condition {typed} for `{attribute}`"));
        let meant = closest(text, CONDITIONS.iter().copied()).map(did_you_mean);
        problem.hint(format!("the conditions are {}", list(CONDITIONS))).maybe_hint(meant)
    })
}

fn condition(attribute: &str, word: &str, node: &Node) -> Result<Condition, Problem> {
    match word {
        "is" => patterns(attribute, node).map(Condition::Is),
        "cidr" => networks(attribute, node).map(Condition::Is),
        "not" => excluded(attribute, node).map(Condition::Not),
        _ => presence(attribute, node),
    }
}

/// What `not` names: patterns, or the networks of a mapping with the one condition `cidr`.
fn excluded(attribute: &str, node: &Node) -> Result<Values, Problem> {
    let Value::Map(entries) = &node.value else { return patterns(attribute, node) };
    match entries.as_slice() {
        [(name, networks_of)] if name.value == Value::Text("cidr".to_owned()) => {
            networks(attribute, networks_of)
        }
        _ => {
            let what = format!("`not` of `{attribute}` must be patterns or networks");
            Err(Problem::new(node.place, what).hint("write `not: [a, b]` or `not: { cidr: [10.0.0.0/8] }`"))
        }
    }
}

fn presence(attribute: &str, node: &Node) -> Result<Condition, Problem> {
    match &node.value {
        Value::Bool(true) => Ok(Condition::Present),
        Value::Bool(false) => Ok(Condition::Absent),
        other => {
            let what =
                format!("`present` of `{attribute}` must be `true` or `false`, not {}", describe(other));
            Err(Problem::new(node.place, what))
        }
    }
}

/// One text, or a list of texts of which one must hold.
fn alternatives<'n>(attribute: &str, node: &'n Node) -> Result<Vec<&'n Node>, Problem> {
    let Value::List(nodes) = &node.value else { return Ok(vec![node]) };
    if nodes.is_empty() {
        let problem = Problem::new(node.place, format!("the list of `{attribute}` is empty"));
        return Err(problem.hint("an empty list would match nothing; name at least one value"));
    }
    if let Some(excess) = nodes.get(MAX_ALTERNATIVES) {
        let what = format!(
            "the list of `{attribute}` has {} alternatives, and at most {MAX_ALTERNATIVES} are allowed",
            nodes.len()
        );
        return Err(Problem::new(excess.place, what));
    }
    Ok(nodes.iter().collect())
}

fn patterns(attribute: &str, node: &Node) -> Result<Values, Problem> {
    let compile = |node: &Node| {
        let pattern = Pattern::new(text_of("pattern", attribute, node)?);
        pattern.map_err(|error| Problem::new(node.place, error.to_string()))
    };
    let nodes = alternatives(attribute, node)?;
    nodes.into_iter().map(compile).collect::<Result<_, _>>().map(Values::Patterns)
}

fn networks(attribute: &str, node: &Node) -> Result<Values, Problem> {
    let parse = |node: &Node| network(text_of("network", attribute, node)?, node.place);
    let nodes = alternatives(attribute, node)?;
    nodes.into_iter().map(parse).collect::<Result<_, _>>().map(Values::Networks)
}

fn network(text: &str, place: Place) -> Result<Network, Problem> {
    Network::parse(text).map_err(|error| match error {
        NetworkError::Syntax => Problem::new(place, format!("`{}` is not a network", shown(text)))
            .hint("write an address and a prefix length, such as `10.0.0.0/8` or `2001:db8::/32`"),
        NetworkError::StrayBits(network) => {
            Problem::new(place, format!("`{text}` has bits of the address beyond its prefix"))
                .hint(format!("write `{network}`, or the address without a prefix"))
        }
    })
}

fn text_of<'n>(what: &str, attribute: &str, node: &'n Node) -> Result<&'n str, Problem> {
    let Value::Text(text) = &node.value else {
        let what = format!("the {what} of `{attribute}` must be a text, not {}", describe(&node.value));
        return Err(Problem::new(node.place, what).maybe_hint(quoted_hint(&node.value)));
    };
    if text.len() > MAX_PATTERN_LEN {
        let what = format!(
            "the {what} of `{attribute}` has {} bytes, and at most {MAX_PATTERN_LEN} are allowed",
            text.len()
        );
        return Err(Problem::new(node.place, what));
    }
    Ok(text)
}
