//! What a limit applies to: attribute patterns, compiled once.

use globset::{Glob, GlobBuilder, GlobMatcher};

use super::Attributes;

/// Patterns by attribute; all must hold. A missing attribute does not match.
#[derive(Clone, Debug, Default)]
pub struct Matcher(Vec<(String, Pattern)>);

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
    /// Compiles one pattern per attribute. `*` stands for any run of characters, `/` included, `?` for one.
    pub fn new<'a>(patterns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, PatternError> {
        let compiled =
            patterns.into_iter().map(|(name, pattern)| Ok((name.to_owned(), Pattern::new(pattern)?)));
        compiled.collect::<Result<_, _>>().map(Self)
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
        if !text.contains(['*', '?', '[', '{', '\\']) {
            return Ok(Self::Exact(text.to_owned()));
        }
        let glob: Result<Glob, _> = GlobBuilder::new(text).literal_separator(false).build();
        match glob {
            Ok(glob) => Ok(Self::Glob(Box::new(glob.compile_matcher()))),
            Err(error) => Err(PatternError { pattern: text.to_owned(), reason: error.kind().to_string() }),
        }
    }

    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(own) => own == value,
            Self::Glob(glob) => glob.is_match(value),
        }
    }
}
