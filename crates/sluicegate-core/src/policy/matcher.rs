//! What a limit applies to: conditions on attributes, compiled once.

use std::fmt;

use super::{
    Attributes,
    network::{Network, address},
    pattern::{Pattern, PatternError},
};

/// Conditions on attributes; all must hold. A missing attribute has no value: no pattern and no network holds it.
#[derive(Clone, Debug, Default)]
pub struct Matcher(Vec<(String, Condition)>);

/// What must be true of one attribute.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// Its value is one of these.
    Is(Values),
    /// The opposite of [`Condition::Is`], which an attribute that is missing fulfils as well: whoever leaves out an
    /// attribute does not slip past a limit for all but a few of its values.
    Not(Values),
    /// The request has it, be it empty.
    Present,
    /// The request lacks it.
    Absent,
}

/// A set of values.
#[derive(Clone, Debug)]
pub(super) enum Values {
    /// Every value that one of the patterns matches.
    Patterns(Vec<Pattern>),
    /// Every address in one of the networks.
    Networks(Vec<Network>),
}

impl Matcher {
    /// Compiles one pattern per attribute. `*` stands for any run of characters, `/` included,
    /// `?` for one byte (so for one ASCII character), `[a-z]` and `[!a-z]` for one of a set, `{a,b}` for alternatives,
    /// and `\` takes the next character as it is.
    pub fn new<'a>(patterns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, PatternError> {
        let compiled = patterns.into_iter().map(|(name, pattern)| {
            let values = Values::Patterns(vec![Pattern::new(pattern)?]);
            Ok((name.to_owned(), Condition::Is(values)))
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }

    /// A matcher of conditions that were compiled already.
    pub(super) fn of(conditions: Vec<(String, Condition)>) -> Self {
        Self(conditions)
    }

    /// Whether it asks nothing, so that every request matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some request could match both. It may say so of two that never meet, and never the reverse: two
    /// matchers are apart if one attribute has conditions with exact values, beginnings, networks or presence that
    /// exclude each other.
    pub fn may_meet(&self, other: &Self) -> bool {
        let apart = |(name, condition): &(String, Condition)| {
            other.0.iter().any(|(theirs, other)| name == theirs && condition.excludes(other))
        };
        !self.0.iter().any(apart)
    }

    /// Whether every request that the other matches is matched here too. It may deny so of two for which it holds, and
    /// never the reverse.
    pub fn covers(&self, other: &Self) -> bool {
        let covered = |(name, condition): &(String, Condition)| {
            other.0.iter().any(|(theirs, other)| name == theirs && condition.covers(other))
        };
        self.0.iter().all(covered)
    }

    /// Whether all conditions hold.
    pub fn matches(&self, attributes: &Attributes) -> bool {
        self.0.iter().all(|(name, condition)| condition.holds(attributes.value(name)))
    }

    /// The first attribute whose condition does not hold, and what it asks, in words; `None` if the request matches.
    pub fn unmet(&self, attributes: &Attributes) -> Option<(&str, String)> {
        let unmet = self.0.iter().find(|(name, condition)| !condition.holds(attributes.value(name)));
        unmet.map(|(name, condition)| (name.as_str(), condition.to_string()))
    }

    /// The attributes that are looked at.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The patterns of which an attribute must match one.
    pub fn patterns_of(&self, attribute: &str) -> impl Iterator<Item = &str> {
        let own = self.anchors().filter(move |(name, _)| *name == attribute);
        own.flat_map(|(_, patterns)| patterns.iter().map(Pattern::text))
    }

    /// What values that match begin with, by attribute, and whether that is the whole value; of attributes with one pattern.
    pub(crate) fn literal_starts(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.anchors().filter_map(|(name, patterns)| match patterns {
            [pattern] => Some((name, pattern.literal_start(), pattern.exact().is_some())),
            _ => None,
        })
    }

    /// The attributes whose value must match one of a few patterns, with these.
    pub(super) fn anchors(&self) -> impl Iterator<Item = (&str, &[Pattern])> {
        self.0.iter().filter_map(|(name, condition)| match condition {
            Condition::Is(Values::Patterns(patterns)) => Some((name.as_str(), patterns.as_slice())),
            _ => None,
        })
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("every request");
        }
        let all: Vec<_> = self.0.iter().map(|(name, condition)| format!("`{name}` {condition}")).collect();
        write!(f, "requests where {}", all.join(" and "))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(values) => write!(f, "must be {values}"),
            Self::Not(values) => write!(f, "must not be {values}"),
            Self::Present => f.write_str("must be there"),
            Self::Absent => f.write_str("must be missing"),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// More alternatives than this make a message that nobody reads.
        const MAX_SHOWN: usize = 8;
        let mut shown: Vec<String> = match self {
            Self::Patterns(patterns) => {
                patterns.iter().map(|pattern| format!("`{}`", pattern.text())).collect()
            }
            Self::Networks(networks) => networks.iter().map(|network| format!("in `{network}`")).collect(),
        };
        let more = shown.len().saturating_sub(MAX_SHOWN);
        shown.truncate(MAX_SHOWN);
        if more > 0 {
            shown.push(format!("one of {more} more"));
        }
        f.write_str(&shown.join(" or "))
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Is(values) => value.is_some_and(|value| values.contain(value)),
            Self::Not(values) => !value.is_some_and(|value| values.contain(value)),
            Self::Present => value.is_some(),
            Self::Absent => value.is_none(),
        }
    }

    fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Is(one), Self::Is(two)) => one.exclude(two),
            (Self::Is(is), Self::Not(not)) | (Self::Not(not), Self::Is(is)) => not.cover(is),
            (Self::Is(_) | Self::Present, Self::Absent) | (Self::Absent, Self::Is(_) | Self::Present) => true,
            _ => false,
        }
    }

    /// Whether this holds wherever the other does.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Present, Self::Is(_) | Self::Present) | (Self::Absent | Self::Not(_), Self::Absent) => {
                true
            }
            (Self::Is(one), Self::Is(two)) | (Self::Not(two), Self::Not(one)) => one.cover(two),
            (Self::Not(not), Self::Is(is)) => not.exclude(is),
            _ => false,
        }
    }
}

impl Values {
    fn contain(&self, value: &str) -> bool {
        match self {
            Self::Patterns(patterns) => patterns.iter().any(|pattern| pattern.matches(value)),
            Self::Networks(networks) => {
                address(value).is_some_and(|address| networks.iter().any(|network| network.contains(address)))
            }
        }
    }

    fn exclude(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Patterns(ours), Self::Patterns(theirs)) => {
                ours.iter().all(|one| theirs.iter().all(|two| one.excludes(two)))
            }
            (Self::Networks(ours), Self::Networks(theirs)) => {
                ours.iter().all(|one| theirs.iter().all(|two| one.excludes(two)))
            }
            (Self::Patterns(patterns), networks) | (networks, Self::Patterns(patterns)) => {
                patterns.iter().all(|pattern| pattern.exact().is_some_and(|value| !networks.contain(value)))
            }
        }
    }

    /// Whether every value of the other set is in this one. It may miss this, and is never wrong in saying so.
    fn cover(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Patterns(ours), Self::Patterns(theirs)) => {
                theirs.iter().all(|two| ours.iter().any(|one| one.covers(two)))
            }
            (Self::Networks(ours), Self::Networks(theirs)) => {
                theirs.iter().all(|two| ours.iter().any(|one| one.covers(two)))
            }
            (Self::Networks(_), Self::Patterns(theirs)) => {
                theirs.iter().all(|pattern| pattern.exact().is_some_and(|value| self.contain(value)))
            }
            (Self::Patterns(_), Self::Networks(_)) => false,
        }
    }
}
