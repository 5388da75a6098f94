//! The tree that leads from a descriptor's entries to its limit.

use std::collections::HashMap;

use sluicegate::core::Attributes;

/// The levels of one domain.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(super) root: Level,
}

/// Nodes of which one is taken for an entry: the one of just its key and value, else the first whose value ends with a
/// `*` and begins as its value does, else the one of its key alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    exact: HashMap<String, HashMap<String, Node>>,
    prefixes: Vec<(String, String, Node)>,
    bare: HashMap<String, Node>,
}

/// What entries lead to.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The attribute by which the entry is counted.
    pub(super) attribute: String,
    /// What all its values are counted as together; otherwise each is counted for itself.
    pub(super) shared: Option<String>,
    pub(super) rate: Option<Rate>,
    pub(super) below: Level,
}

/// A limit at a node.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// Its place among the limits of the domain's policy.
    pub(super) limit: usize,
    /// The name that it was given.
    pub(super) name: Option<String>,
    /// The names of limits that do not apply to a request to which this one does.
    pub(super) replaces: Vec<String>,
}

/// The limit of a descriptor.
#[derive(Clone, Debug)]
pub struct Found<'t> {
    rate: &'t Rate,
    /// By what it is counted.
    pub attributes: Attributes,
}

impl Found<'_> {
    /// The place of the limit among those of the domain's policy.
    pub fn limit(&self) -> usize {
        self.rate.limit
    }

    /// Whether another limit of the same request keeps this one from applying.
    pub fn is_replaced_by(&self, other: &Found<'_>) -> bool {
        self.rate.name.as_ref().is_some_and(|name| other.rate.replaces.contains(name))
    }
}

impl Tree {
    /// The limit to which entries of keys and values lead: the one at the last of them, and none on the way.
    pub fn find<'e>(&self, entries: impl IntoIterator<Item = (&'e str, &'e str)>) -> Option<Found<'_>> {
        let (mut level, mut last, mut attributes) = (&self.root, None, Attributes::default());
        for (key, value) in entries {
            let node = level.of(key, value)?;
            attributes
                .insert(node.attribute.clone(), node.shared.clone().unwrap_or_else(|| value.to_owned()));
            (level, last) = (&node.below, Some(node));
        }
        Some(Found { rate: last?.rate.as_ref()?, attributes })
    }
}

impl Level {
    fn of(&self, key: &str, value: &str) -> Option<&Node> {
        let exact = self.exact.get(key).and_then(|values| values.get(value));
        let prefixed = || {
            let fits =
                |(own, prefix, _): &&(String, String, Node)| own == key && value.starts_with(prefix.as_str());
            self.prefixes.iter().find(fits).map(|(_, _, node)| node)
        };
        exact.or_else(prefixed).or_else(|| self.bare.get(key))
    }

    /// Adds a node; `false` if there is one of the same key and value already.
    pub(super) fn add(&mut self, key: String, value: Option<String>, node: Node) -> bool {
        let Some(value) = value else { return self.bare.insert(key, node).is_none() };
        match value.strip_suffix('*') {
            None => self.exact.entry(key).or_default().insert(value, node).is_none(),
            Some(prefix) => {
                let is_new = !self.prefixes.iter().any(|(own, known, _)| *own == key && known == prefix);
                self.prefixes.push((key, prefix.to_owned(), node));
                is_new
            }
        }
    }
}
