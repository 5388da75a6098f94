//! Conditions: the few shapes of expressions that `match` can say as well.

use crate::import::draft::literal;

/// One attribute and the pattern that it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) attribute: String,
    pub(super) pattern: String,
    /// Whether it must not match.
    pub(super) negated: bool,
}

/// An expression that cannot be carried over, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) &'static str);

const UNKNOWN: Unreadable =
    Unreadable("only `==`, `!=`, `in`, `startsWith`, `endsWith` and `contains` on one variable are known");

/// The conditions that are joined by `&&`.
pub(super) fn all_of(expression: &str) -> Result<Vec<Condition>, Unreadable> {
    parts(expression, "&&").into_iter().map(condition).collect()
}

/// `descriptors[0].user`, `descriptors[0]['user']` or a bare name, as an attribute.
pub(super) fn variable(expression: &str) -> Result<String, Unreadable> {
    let expression = expression.trim();
    let inner = match expression.strip_prefix("descriptors[0]") {
        None => Some(expression),
        Some(rest) => match rest.strip_prefix('.') {
            Some(field) => Some(field),
            None => {
                return rest
                    .strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'))
                    .and_then(string)
                    .ok_or(UNKNOWN);
            }
        },
    };
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    // `limit.id` and `limit.name` are the limit's own there, and no entry of a request.
    inner.filter(|name| is_name(name) && !name.starts_with("limit.")).map(str::to_owned).ok_or(UNKNOWN)
}

fn condition(expression: &str) -> Result<Condition, Unreadable> {
    let expression = expression.trim();
    if parts(expression, "||").len() > 1 {
        return Err(Unreadable("`||` would need two limits"));
    }
    if let [left, right] = parts(expression, "!=").as_slice() {
        return Ok(Condition { negated: true, ..equality(left.trim(), right.trim())? });
    }
    if let [left, right] = parts(expression, "==").as_slice() {
        return equality(left.trim(), right.trim());
    }
    if let [left, right] = parts(expression, " in ").as_slice() {
        return membership(left, right.trim());
    }
    method(expression)
}

/// `user == 'x'` and `'x' == user`; without quotes the right side is the value.
fn equality(left: &str, right: &str) -> Result<Condition, Unreadable> {
    let (name, value) = match (string(left), string(right)) {
        (None, Some(value)) => (left, value),
        (Some(value), None) => (right, value),
        (None, None) if !right.contains('[') && variable(right).is_ok() => (left, right.to_owned()),
        _ => return Err(UNKNOWN),
    };
    Ok(Condition { attribute: variable(name)?, pattern: literal(&value), negated: false })
}

/// `method in ['GET', 'HEAD']`
fn membership(left: &str, right: &str) -> Result<Condition, Unreadable> {
    let inner = right.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or(UNKNOWN)?;
    let values: Option<Vec<String>> = parts(inner, ",").into_iter().map(|part| string(part.trim())).collect();
    let values = values.filter(|values| !values.is_empty()).ok_or(UNKNOWN)?;
    if values.iter().any(|value| value.contains([',', '}'])) {
        return Err(Unreadable("alternatives cannot hold `,` or `}`"));
    }
    let literals: Vec<_> = values.iter().map(|value| literal(value)).collect();
    let pattern = format!("{{{}}}", literals.join(","));
    Ok(Condition { attribute: variable(left)?, pattern, negated: false })
}

/// `path.startsWith('/v1/')`
fn method(expression: &str) -> Result<Condition, Unreadable> {
    for (name, before, after) in
        [(".startsWith(", "", "*"), (".endsWith(", "*", ""), (".contains(", "*", "*")]
    {
        if let [left, right] = parts(expression, name).as_slice() {
            let argument =
                right.trim().strip_suffix(')').and_then(|text| string(text.trim())).ok_or(UNKNOWN)?;
            let pattern = format!("{before}{}{after}", literal(&argument));
            return Ok(Condition { attribute: variable(left)?, pattern, negated: false });
        }
    }
    Err(UNKNOWN)
}

/// What a quoted string holds; `None` if it is none, or has escapes, whose meaning is not ours to guess.
fn string(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|quote| ['\'', '"'].contains(quote))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\'])).then(|| inner.to_owned())
}

/// Splits at a separator that is not inside quotes.
fn parts<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let (mut start, mut quote) = (0, None);
    for (index, c) in text.char_indices() {
        let separated = index >= start && text.get(index..).is_some_and(|rest| rest.starts_with(separator));
        if quote.is_some() {
            quote = quote.filter(|open| *open != c);
        } else if ['\'', '"'].contains(&c) {
            quote = Some(c);
        } else if separated {
            parts.extend(text.get(start..index));
            start = index + separator.len();
        }
    }
    parts.extend(text.get(start..));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(expression: &str) -> Result<Vec<(String, String)>, Unreadable> {
        all_of(expression).map(|all| all.into_iter().map(|one| (one.attribute, one.pattern)).collect())
    }

    #[test]
    fn the_shapes_that_match_can_say_are_read() {
        let cases = [
            ("descriptors[0]['req.method'] == 'GET'", ("req.method", "GET")),
            ("descriptors[0].user == \"a b\"", ("user", "a b")),
            ("req.method == GET", ("req.method", "GET")),
            ("'GET' == descriptors[0].method", ("method", "GET")),
            ("descriptors[0].path.startsWith('/v1/*')", ("path", "/v1/\\**")),
            ("descriptors[0].path.endsWith('.png')", ("path", "*.png")),
            ("descriptors[0].path.contains('?')", ("path", "*\\?*")),
            ("descriptors[0].method in ['GET', 'HEAD']", ("method", "{GET,HEAD}")),
            ("descriptors[0].q == 'a && b == c'", ("q", "a && b == c")),
        ];
        for (expression, (attribute, pattern)) in cases {
            let expected = vec![(attribute.to_owned(), pattern.to_owned())];
            assert_eq!(read(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn conditions_that_are_joined_are_all_kept() {
        let both = read("descriptors[0].a == '1' && descriptors[0].b == '2'");
        assert_eq!(both, Ok(vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]));
    }

    #[test]
    fn what_match_cannot_say_is_refused_and_not_approximated() {
        for expression in [
            "",
            "descriptors[0].a == '1' || descriptors[0].b == '2'",
            "int(descriptors[0].n) > 3",
            "descriptors[1].a == '1'",
            "descriptors[0].a == descriptors[0].b",
            "descriptors[0].a.matches('^x')",
            "descriptors[0].a == 'it\\'s'",
            "limit.name == 'x' && size(descriptors) == 1",
        ] {
            assert!(read(expression).is_err(), "{expression}: {:?}", read(expression));
        }
    }
}
