//! What is wrong with a policy file, told to the person who wrote it.

use std::fmt;

/// Problems beyond this many are not listed: whoever repairs a hundred will ask again.
const MAX_PROBLEMS: usize = 100;
/// Problems kept while a file is read, so that a file of nothing but mistakes stays small in memory.
const MAX_KEPT: usize = 1_000;
/// The longest excerpt of a line, in characters, so that a message fits a terminal.
const MAX_EXCERPT: usize = 110;

/// A place in a file: line and column count characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
    /// Characters to underline.
    pub length: u64,
}

impl Place {
    pub(super) const START: Self = Self { line: 1, column: 1, length: 0 };
}

/// One mistake in a policy file.
///
/// It displays as line and column, what is wrong, the line itself, and a hint where there is something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    place: Place,
    what: String,
    hint: Option<String>,
    excerpt: String,
}

impl Problem {
    /// A mistake at a place: what is wrong in one line, lower case, the offending thing in backticks.
    pub fn new(place: Place, what: impl Into<String>) -> Self {
        Self { place, what: what.into(), hint: None, excerpt: String::new() }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// The line, from 1.
    pub fn line(&self) -> u64 {
        self.place.line
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> u64 {
        self.place.column
    }

    /// What is wrong: one line, lower case.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do about it, if that is known.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Copies the line at fault out of the file; a line too long for a terminal shows its place alone.
    pub(super) fn quote(&mut self, text: &str) {
        let index = usize::try_from(self.place.line - 1).unwrap_or(usize::MAX);
        let line = text.lines().nth(index).unwrap_or_default();
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        self.excerpt = line.chars().map(clean).take(MAX_EXCERPT).collect();
    }

    fn write_excerpt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.place.line.to_string();
        let width = self.excerpt.chars().count();
        let before = usize::try_from(self.place.column - 1).unwrap_or(usize::MAX);
        if self.excerpt.trim().is_empty() || before >= width {
            return Ok(());
        }
        let length = usize::try_from(self.place.length).unwrap_or(1);
        let carets = "^".repeat(length.clamp(1, width - before));
        let margin = " ".repeat(line.len());
        write!(f, "\n  {line} | {}\n  {margin} | {}{carets}", self.excerpt.trim_end(), " ".repeat(before))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.place.line, self.place.column, self.what)?;
        self.write_excerpt(f)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// A policy file, or another that is read as strictly, that cannot be used: every problem that was found, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    problems: Vec<Problem>,
}

impl PolicyError {
    /// For a reading that failed without a reason: a defect that must not pass for a policy.
    pub(super) fn unknown(text: &str) -> Self {
        let mut problem = Problem::new(Place::START, "the policy could not be read");
        problem.quote(text);
        Self { problems: vec![problem] }
    }

    /// Fails with the problems of a text, if there are any.
    ///
    /// # Errors
    /// The problems.
    pub fn check(text: &str, problems: Vec<Problem>) -> Result<(), Self> {
        Problems(problems).into_result(text)
    }

    /// The problems, at least one, at most 100.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}

/// Gathers the problems of one file.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        if self.0.len() < MAX_KEPT {
            self.0.push(problem);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, or its problem noted.
    pub(super) fn note<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.push(problem)).ok()
    }

    /// Ends the reading: no problem, or an error that quotes the file.
    pub(super) fn into_result(mut self, text: &str) -> Result<(), PolicyError> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort_by_key(|problem| problem.place);
        self.0.truncate(MAX_PROBLEMS);
        self.0.iter_mut().for_each(|problem| problem.quote(text));
        Err(PolicyError { problems: self.0 })
    }
}
