//! What a request says of itself: its attributes and its costs.

use super::REQUESTS;

/// What is known of a request: names and values.
///
/// ```
/// use sluicegate_core::Attributes;
/// let attributes: Attributes = [("user", "alice"), ("endpoint", "/v1/chat")].into_iter().collect();
/// assert_eq!(attributes.value("user"), Some("alice"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<(String, String)>);

impl Attributes {
    /// The value of an attribute, if the request has it. Absent is not the same as empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The names, in the order in which they were set first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Sets an attribute; returns the value that it had.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) -> Option<String> {
        let (name, value) = (name.into(), value.into());
        if let Some((_, old)) = self.0.iter_mut().find(|(own, _)| *own == name) {
            return Some(std::mem::replace(old, value));
        }
        self.0.push((name, value));
        None
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut attributes = Self::default();
        for (name, value) in pairs {
            attributes.insert(name, value);
        }
        attributes
    }
}

/// What a request costs, per unit. A unit that is not named costs 0, except [`REQUESTS`], which costs 1.
///
/// ```
/// use sluicegate_core::Costs;
/// assert_eq!(Costs::default().of("requests"), 1);
/// assert_eq!(Costs::requests(5).of("requests"), 5);
/// assert_eq!(Costs::of_units([("tokens", 700)]).of("tokens"), 700);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs(Vec<(String, u64)>);

impl Costs {
    /// That many requests.
    pub fn requests(cost: u64) -> Self {
        Self::of_units([(REQUESTS, cost)])
    }

    /// A cost per unit.
    pub fn of_units<N: Into<String>>(units: impl IntoIterator<Item = (N, u64)>) -> Self {
        Self(units.into_iter().map(|(unit, cost)| (unit.into(), cost)).collect())
    }

    /// The cost in a unit.
    pub fn of(&self, unit: &str) -> u64 {
        let named = self.0.iter().find(|(own, _)| own == unit).map(|(_, cost)| *cost);
        named.unwrap_or(u64::from(unit == REQUESTS))
    }

    /// The units that are named, each once.
    pub fn units(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(unit, _)| unit.as_str())
    }
}
