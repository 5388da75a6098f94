//! The limits file of Limitador: a list of limits with conditions and variables.
//!
//! A limit applies there if all its conditions hold and all its variables are there, its windows begin with their first
//! request, and every limit that applies must have room: all of it is the same here.

use sluicegate::core::{
    Align,
    policy::{Place, tree::Node, tree::Value},
};

use super::{
    Import, ImportError, Notes, Source,
    draft::{Draft, DraftLimit, Test, Words},
    source::{self, Fields, text},
};

mod condition;

use condition::{Condition, Unreadable};

/// What a reader of the policy should know of all of its limits.
const READING: [&str; 1] = ["Windows begin with their first request, as they do there."];

/// Makes policies of a limits file, one per namespace.
///
/// # Errors
/// [`ImportError`] if the file is of another kind, or nothing of it could be carried over.
pub fn import(source: Source<'_>) -> Result<Import, ImportError> {
    let mut notes = Notes::new(source);
    let root = source::read(source)?;
    let Value::List(items) = root.value else {
        let (file, line) = (source.name.to_owned(), root.place.line);
        return Err(ImportError::Shape { file, line, what: "expected a list of limits" });
    };
    let (mut draft, mut reader) = (Draft::default(), Reader::default());
    for node in items {
        if let Some((namespace, limit)) = reader.limit(node, &mut notes) {
            draft.add(&namespace, limit, &mut notes);
        }
    }
    draft.note(notes);
    draft.finish(&format!("Limitador: {}", source.name), &READING)
}

/// The words of a file, and what became of them.
#[derive(Default)]
struct Reader {
    namespaces: Words,
    attributes: Words,
}

impl Reader {
    fn limit(&mut self, node: Node, notes: &mut Notes<'_>) -> Option<(String, DraftLimit)> {
        let mut fields = Fields::of(node, "a limit", notes)?;
        let place = fields.place;
        let namespace = fields.text("namespace", notes);
        let (amount, window_s) = (fields.whole("max_value", notes), fields.whole("seconds", notes));
        let name = fields.text("name", notes).or_else(|| fields.text("id", notes));
        let conditions = fields.list("conditions", notes);
        let variables = fields.list("variables", notes);
        fields.finish(notes);
        let (Some((namespace, namespace_place)), Some(amount), Some(window_s)) =
            (namespace, amount, window_s)
        else {
            notes.add(place, "the limit is left out: it needs `namespace`, `max_value` and `seconds`");
            return None;
        };
        let matches = self.conditions(place, conditions, notes)?;
        let key = self.variables(place, variables, notes)?;
        let name = name.map_or_else(|| usual_name(&key, &matches), |(name, _)| name);
        let (amount, align) = (Some(amount), Align::FirstRequest);
        let skip_if_missing = !key.is_empty();
        let namespace = self.namespaces.fit(&namespace, namespace_place, notes);
        let limit =
            DraftLimit { place, name, amount, window_s, align, key, matches, skip_if_missing, shadow: false };
        Some((namespace, limit))
    }

    /// The patterns that conditions mean; `None`, with a note, if one of them cannot be expressed.
    fn conditions(&mut self, limit: Place, items: Vec<Node>, notes: &mut Notes<'_>) -> Option<Vec<Test>> {
        let mut matches: Vec<Test> = Vec::new();
        for node in items {
            let typed = text(&node.value).unwrap_or_default();
            let read = condition::all_of(&typed).map_err(|Unreadable(why)| why.to_owned());
            for Condition { attribute, pattern, negated } in note(read, limit, node.place, &typed, notes)? {
                let attribute = self.attributes.fit(&attribute, node.place, notes);
                let known = matches.iter().position(|test| test.attribute == attribute);
                let at = known.unwrap_or(matches.len());
                if known.is_none() {
                    matches.push(Test { attribute: attribute.clone(), ..Test::default() });
                }
                let Some(test) = matches.get_mut(at) else { continue };
                if negated {
                    test.not.push(pattern);
                } else if test.is.is_none() {
                    test.is = Some(pattern);
                } else {
                    let why = format!("`{attribute}` has two conditions, and `match` takes one");
                    note(Err::<(), _>(why), limit, node.place, &typed, notes)?;
                }
            }
        }
        Some(matches)
    }

    /// The attributes that variables mean.
    fn variables(&mut self, limit: Place, items: Vec<Node>, notes: &mut Notes<'_>) -> Option<Vec<String>> {
        let mut key: Vec<String> = Vec::new();
        for node in items {
            let typed = text(&node.value).unwrap_or_default();
            let read = condition::variable(&typed).map_err(|Unreadable(why)| why.to_owned());
            let variable = note(read, limit, node.place, &typed, notes)?;
            let attribute = self.attributes.fit(&variable, node.place, notes);
            if !key.contains(&attribute) {
                key.push(attribute);
            }
        }
        Some(key)
    }
}

/// What was read, or the reason why the whole limit is left out: without one of its conditions it would count others.
fn note<T>(
    read: Result<T, String>,
    limit: Place,
    place: Place,
    typed: &str,
    notes: &mut Notes<'_>,
) -> Option<T> {
    read.map_err(|why| {
        notes.add(place, format!("`{typed}`: {why}; the limit in line {} is left out", limit.line));
    })
    .ok()
}

fn usual_name(key: &[String], matches: &[Test]) -> String {
    let fixed = matches.iter().map(|Test { attribute, is, not }| {
        let not: Vec<_> = not.iter().map(|pattern| format!("-not-{pattern}")).collect();
        format!("{attribute}-{}{}", is.as_deref().unwrap_or_default(), not.concat())
    });
    let parts: Vec<_> = key.iter().map(|name| format!("per-{name}")).chain(fixed).collect();
    if parts.is_empty() { "all".to_owned() } else { parts.join("-") }
}
