//! Names in a policy: of domains, attributes, units, limits, tiers.

use super::{
    file::{Field, describe, quoted_hint, shown},
    problem::{Place, Problem},
    tree::Node,
    tree::Value,
};

/// The longest name of a limit, attribute, unit, tier or domain.
pub const MAX_NAME_LEN: usize = 64;
/// The most attributes that one limit counts by, matches, or slots by: each adds to every key in the store.
pub const MAX_ATTRIBUTES: usize = 8;

/// A field that is one word of the wider alphabet.
pub(super) fn word(field: &Field) -> Result<String, Problem> {
    let text = field.text("a text")?;
    check_word(text, field.name, field.node.place)?;
    Ok(text.to_owned())
}

/// Names of attributes, units, tiers and domains.
pub(super) fn check_word(text: &str, what: &str, place: Place) -> Result<(), Problem> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if (1..=MAX_NAME_LEN).contains(&text.len()) && text.bytes().all(fits) {
        return Ok(());
    }
    let problem = Problem::new(place, format!("`{}` is not a valid `{what}`", shown(text)));
    Err(problem.hint(format!("use 1 to {MAX_NAME_LEN} of the characters `A-Z a-z 0-9 _ . -`")))
}

/// A field that is the name of a limit or an exemption.
pub(super) fn own_name(field: &Field, what: &str) -> Result<String, Problem> {
    let text = field.text("a text")?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=MAX_NAME_LEN).contains(&text.len()) && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    let problem = Problem::new(field.node.place, format!("`{}` is not a valid {what}", shown(text)));
    Err(problem.hint(format!("use 1 to {MAX_NAME_LEN} of the characters `a-z 0-9 -`")))
}

/// A list of attribute names.
pub(super) fn names(field: Field) -> Result<Vec<String>, Problem> {
    let (name, place) = (field.name, field.node.place);
    let nodes = field.into_list()?;
    if nodes.len() > MAX_ATTRIBUTES {
        let what =
            format!("`{name}` has {} attributes, and at most {MAX_ATTRIBUTES} are allowed", nodes.len());
        return Err(Problem::new(place, what));
    }
    let mut names: Vec<String> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let text = attribute(&node, name)?;
        if names.contains(&text) {
            let what = format!("`{name}` names the attribute `{text}` twice");
            return Err(Problem::new(node.place, what).hint("remove one"));
        }
        names.push(text);
    }
    Ok(names)
}

/// The name of an attribute.
pub(super) fn attribute(node: &Node, field: &str) -> Result<String, Problem> {
    let Value::Text(text) = &node.value else {
        let what = format!("`{field}` must hold names of attributes, not {}", describe(&node.value));
        return Err(Problem::new(node.place, what).maybe_hint(quoted_hint(&node.value)));
    };
    check_word(text, "attribute", node.place)?;
    Ok(text.clone())
}
