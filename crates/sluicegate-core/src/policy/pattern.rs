//! Patterns: exact values and globs, compiled once.

use globset::{Glob, GlobBuilder, GlobMatcher};

/// The characters that make a pattern a glob.
const SPECIAL: [char; 5] = ['*', '?', '[', '{', '\\'];

/// What a value may look like.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// This value alone.
    Exact(String),
    /// Every value that the glob matches as a whole.
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

impl Pattern {
    /// Compiles a pattern: without any of the special characters it is an exact value.
    pub(super) fn new(text: &str) -> Result<Self, PatternError> {
        if !text.contains(SPECIAL) {
            return Ok(Self::Exact(text.to_owned()));
        }
        let glob: Result<Glob, _> = GlobBuilder::new(text).literal_separator(false).build();
        match glob {
            Ok(glob) => Ok(Self::Glob(Box::new(glob.compile_matcher()))),
            Err(error) => Err(PatternError { pattern: text.to_owned(), reason: error.kind().to_string() }),
        }
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(own) => own == value,
            Self::Glob(glob) => glob.is_match(value),
        }
    }

    /// Whether no value can match both. It may miss this of two globs, and is never wrong in saying so.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(two)) => one != two,
            (Self::Exact(value), glob) | (glob, Self::Exact(value)) => !glob.matches(value),
            (Self::Glob(_), Self::Glob(_)) => {
                let (one, two) = (self.literal_start(), other.literal_start());
                !one.starts_with(two) && !two.starts_with(one)
            }
        }
    }

    /// Whether every value that the other matches is matched here too. It may miss this of a glob, and is never wrong in
    /// saying so.
    pub(super) fn covers(&self, other: &Self) -> bool {
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

    /// The pattern as it was written.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Exact(value) => value,
            Self::Glob(glob) => glob.glob().glob(),
        }
    }

    /// The one value that matches, if there is just one.
    pub(super) fn exact(&self) -> Option<&str> {
        match self {
            Self::Exact(value) => Some(value),
            Self::Glob(_) => None,
        }
    }

    /// What every match begins with.
    pub(super) fn literal_start(&self) -> &str {
        match self {
            Self::Exact(value) => value,
            Self::Glob(glob) => glob.glob().glob().split(SPECIAL).next().unwrap_or_default(),
        }
    }
}
