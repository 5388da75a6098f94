//! Which of many matchers a request may match, without asking each.

use std::{borrow::Cow, collections::HashMap};

use super::{Attributes, matcher::Matcher, pattern::Pattern};

/// So few matchers are asked one by one: faster than looking anything up.
const FEW: usize = 16;

/// Finds the matchers that a request may match by the exact values and the literal beginnings that they insist on.
///
/// Each matcher stands under one attribute: the one whose values the fewest other matchers insist on too. Matchers that
/// insist on no value are asked about every request.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    anchored: Vec<(String, Anchored)>,
    rest: Vec<usize>,
}

/// The matchers that stand under one attribute, by what its value is or begins with.
#[derive(Clone, Debug, Default)]
struct Anchored {
    exact: HashMap<String, Vec<usize>>,
    starts: HashMap<String, Vec<usize>>,
    /// The lengths of the beginnings in bytes, each once.
    lengths: Vec<usize>,
}

/// A value that a matcher insists on: whole, or only its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Anchor<'m> {
    Exact(&'m str),
    Start(&'m str),
}

impl Index {
    pub(super) fn new(matchers: &[&Matcher]) -> Self {
        let mut index = Self::default();
        if matchers.len() <= FEW {
            index.rest = (0..matchers.len()).collect();
            return index;
        }
        let crowds = crowds(matchers);
        for (at, matcher) in matchers.iter().enumerate() {
            let crowd = |(attribute, anchors): &(&str, Vec<Anchor<'_>>)| -> usize {
                anchors.iter().filter_map(|anchor| crowds.get(&(*attribute, *anchor))).sum()
            };
            match usable(matcher).min_by_key(crowd) {
                Some((attribute, anchors)) => index.insert(attribute, &anchors, at),
                None => index.rest.push(at),
            }
        }
        index
    }

    fn insert(&mut self, attribute: &str, anchors: &[Anchor<'_>], at: usize) {
        let known = self.anchored.iter().position(|(name, _)| name == attribute);
        let place = known.unwrap_or_else(|| {
            self.anchored.push((attribute.to_owned(), Anchored::default()));
            self.anchored.len() - 1
        });
        if let Some((_, anchored)) = self.anchored.get_mut(place) {
            for anchor in anchors {
                anchored.insert(*anchor, at);
            }
        }
    }

    /// The matchers that a request may match, in rising order: all that it matches, and some more.
    pub(super) fn candidates(&self, attributes: &Attributes) -> Cow<'_, [usize]> {
        if self.anchored.is_empty() {
            return Cow::Borrowed(&self.rest);
        }
        let mut found = self.rest.clone();
        for (name, anchored) in &self.anchored {
            if let Some(value) = attributes.value(name) {
                anchored.find(value, &mut found);
            }
        }
        found.sort_unstable();
        found.dedup();
        Cow::Owned(found)
    }
}

impl Anchored {
    fn insert(&mut self, anchor: Anchor<'_>, at: usize) {
        match anchor {
            Anchor::Exact(value) => self.exact.entry(value.to_owned()).or_default().push(at),
            Anchor::Start(start) => {
                self.starts.entry(start.to_owned()).or_default().push(at);
                if !self.lengths.contains(&start.len()) {
                    self.lengths.push(start.len());
                }
            }
        }
    }

    fn find(&self, value: &str, found: &mut Vec<usize>) {
        found.extend(self.exact.get(value).into_iter().flatten());
        for start in self.lengths.iter().filter_map(|length| value.get(..*length)) {
            found.extend(self.starts.get(start).into_iter().flatten());
        }
    }
}

impl<'m> Anchor<'m> {
    /// A glob that begins with a wildcard insists on nothing.
    fn of(pattern: &'m Pattern) -> Option<Self> {
        match pattern.exact() {
            Some(value) => Some(Self::Exact(value)),
            None => Some(pattern.literal_start()).filter(|start| !start.is_empty()).map(Self::Start),
        }
    }
}

/// The attributes that a matcher can be found by: those of which every alternative insists on something.
fn usable(matcher: &Matcher) -> impl Iterator<Item = (&str, Vec<Anchor<'_>>)> {
    matcher.anchors().filter_map(|(attribute, patterns)| {
        let anchors: Option<Vec<_>> = patterns.iter().map(Anchor::of).collect();
        anchors.map(|anchors| (attribute, anchors))
    })
}

/// How many matchers insist on each value.
fn crowds<'m>(matchers: &[&'m Matcher]) -> HashMap<(&'m str, Anchor<'m>), usize> {
    let mut crowds = HashMap::new();
    for (attribute, anchors) in matchers.iter().flat_map(|matcher| usable(matcher)) {
        for anchor in anchors {
            *crowds.entry((attribute, anchor)).or_default() += 1;
        }
    }
    crowds
}
