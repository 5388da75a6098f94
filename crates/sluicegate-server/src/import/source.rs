//! Fields of another product's YAML: each is taken by name, and what nobody took is said.

use sluicegate::core::policy::{
    Place,
    tree::{self, Node, Value},
};

use super::{ImportError, Notes, Source};

/// The YAML document of a file.
pub(crate) fn read(source: Source<'_>) -> Result<Node, ImportError> {
    tree::parse(source.text).map_err(|problem| ImportError::Yaml { file: source.name.to_owned(), problem })
}

/// The fields of one mapping.
pub(crate) struct Fields {
    pub(crate) place: Place,
    /// What messages call the mapping.
    owner: &'static str,
    entries: Vec<(Node, Node)>,
}

impl Fields {
    /// The mapping's fields; anything but a mapping is said and left out.
    pub(crate) fn of(node: Node, owner: &'static str, notes: &mut Notes<'_>) -> Option<Self> {
        let Value::Map(entries) = node.value else {
            notes.add(node.place, format!("{owner} is not a mapping and is left out"));
            return None;
        };
        Some(Self { place: node.place, owner, entries })
    }

    /// A field, once.
    pub(crate) fn take(&mut self, name: &str) -> Option<Node> {
        let index = self.entries.iter().position(|(key, _)| text(&key.value).as_deref() == Some(name))?;
        Some(self.entries.remove(index).1)
    }

    /// A field that is a text or reads as one; an empty one is none.
    pub(crate) fn text(&mut self, name: &str, notes: &mut Notes<'_>) -> Option<(String, Place)> {
        let node = self.take(name)?;
        match text(&node.value) {
            Some(text) => Some((text, node.place)).filter(|(text, _)| !text.is_empty()),
            None if node.value == Value::Null => None,
            None => {
                notes.add(node.place, format!("`{name}` is no text and is left out"));
                None
            }
        }
    }

    /// A field that is `true` or `false`, by default `false`, with its place.
    pub(crate) fn flag(&mut self, name: &str, notes: &mut Notes<'_>) -> Option<Place> {
        let node = self.take(name)?;
        if let Value::Bool(set) = node.value {
            return set.then_some(node.place);
        }
        notes.add(node.place, format!("`{name}` is neither `true` nor `false` and is left out"));
        None
    }

    /// A field that is a whole number, not negative.
    pub(crate) fn whole(&mut self, name: &str, notes: &mut Notes<'_>) -> Option<u64> {
        let node = self.take(name)?;
        if let Value::Whole(number) = node.value {
            return Some(number);
        }
        notes.add(node.place, format!("`{name}` is no whole number"));
        None
    }

    /// A field that is a list; without it an empty one.
    pub(crate) fn list(&mut self, name: &str, notes: &mut Notes<'_>) -> Vec<Node> {
        match self.take(name).map(|node| (node.place, node.value)) {
            None | Some((_, Value::Null)) => Vec::new(),
            Some((_, Value::List(items))) => items,
            Some((place, _)) => {
                notes.add(place, format!("`{name}` is no list and is left out"));
                Vec::new()
            }
        }
    }

    /// Says what nobody took.
    pub(crate) fn finish(self, notes: &mut Notes<'_>) {
        for (name, _) in self.entries {
            let what = text(&name.value).unwrap_or_else(|| "…".to_owned());
            notes.add(
                name.place,
                format!("{} has the field `{what}`, which is not known and left out", self.owner),
            );
        }
    }
}

/// A scalar as the text that a reader of texts makes of it.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Whole(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Null | Value::Negative | Value::List(_) | Value::Map(_) => None,
    }
}
