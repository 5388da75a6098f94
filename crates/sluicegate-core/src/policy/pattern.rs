//! What a limit applies to: attribute patterns, compiled once.

use globset::{Glob, GlobBuilder, GlobMatcher};

use super::Attributes;

/// Patterns by attribute; all must hold. A missing attribute does not match.
#[derive(Clone, Debug, Default)]
pub struct Matcher(Vec<(String, Pattern)>);

/// The characters that make a pattern a glob.
const SPECIAL: [char; 5] = ['*', '?', '[', '{', '\\'];

#[derive(Clone, Debug)]
enum Pattern {
    Exact(String),
    Glob(Box<GlobMatcher>),
}

/// A pattern that is no glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a valid pattern: {reason}")]
pub struct PatternError {
    /// The pattern as written.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Matcher {
    /// Compiles one pattern per attribute. `*` stands for any run of characters, `/` included,
    /// `?` for one byte (so for one ASCII character), `[a-z]` and `[!a-z]` for one of a set, `{a,b}` for alternatives,
    /// and `\` takes the next character as it is.
    pub fn new<'a>(patterns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, PatternError> {
        let compiled =
            patterns.into_iter().map(|(name, pattern)| Ok((name.to_owned(), Pattern::new(pattern)?)));
        compiled.collect::<Result<_, _>>().map(Self)
    }

    /// One matcher that holds where all of these hold.
    pub(crate) fn all_of(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().flat_map(|part| part.0).collect())
    }

    /// Whether some request could match both. It may say so of two that never meet, and never the reverse: two
    /// matchers are apart if one attribute has patterns with exact values or beginnings that exclude each other.
    pub fn may_meet(&self, other: &Self) -> bool {
        let apart = |(name, pattern): &(String, Pattern)| {
            other.0.iter().any(|(theirs, other)| name == theirs && pattern.excludes(other))
        };
        !self.0.iter().any(apart)
    }

    /// Whether every request that the other matches is matched here too. It may deny so of two for which it holds, and
    /// never the reverse.
    pub fn covers(&self, other: &Self) -> bool {
        let covered = |(name, pattern): &(String, Pattern)| {
            other.0.iter().any(|(theirs, other)| name == theirs && pattern.covers(other))
        };
        self.0.iter().all(covered)
    }

    /// What values that match begin with, by attribute, and whether that is the whole value.
    pub(crate) fn literal_starts(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.0.iter().map(|(name, pattern)| match pattern {
            Pattern::Exact(value) => (name.as_str(), value.as_str(), true),
            Pattern::Glob(glob) => (name.as_str(), literal_start(glob), false),
        })
    }

    /// Whether all patterns hold.
    pub fn matches(&self, attributes: &Attributes) -> bool {
        self.0
            .iter()
            .all(|(name, pattern)| attributes.value(name).is_some_and(|value| pattern.matches(value)))
    }

    /// The attributes that are looked at.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl Pattern {
    fn new(text: &str) -> Result<Self, PatternError> {
        if !text.contains(SPECIAL) {
            return Ok(Self::Exact(text.to_owned()));
        }
        let glob: Result<Glob, _> = GlobBuilder::new(text).literal_separator(false).build();
        match glob {
            Ok(glob) => Ok(Self::Glob(Box::new(glob.compile_matcher()))),
            Err(error) => Err(PatternError { pattern: text.to_owned(), reason: error.kind().to_string() }),
        }
    }

    fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(two)) => one != two,
            (Self::Exact(value), glob) | (glob, Self::Exact(value)) => !glob.matches(value),
            (Self::Glob(one), Self::Glob(two)) => {
                let (one, two) = (literal_start(one), literal_start(two));
                !one.starts_with(two) && !two.starts_with(one)
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(two)) => one == two,
            (Self::Exact(_), Self::Glob(_)) => false,
            (Self::Glob(glob), Self::Exact(value)) => glob.is_match(value),
            (Self::Glob(one), Self::Glob(two)) => {
                let (one, two) = (one.glob().glob(), two.glob().glob());
                one == "*" || one == two
            }
        }
    }

    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(own) => own == value,
            Self::Glob(glob) => glob.is_match(value),
        }
    }
}

/// What every match of a glob begins with.
fn literal_start(glob: &GlobMatcher) -> &str {
    glob.glob().glob().split(SPECIAL).next().unwrap_or_default()
}
