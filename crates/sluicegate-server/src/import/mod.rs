//! Policies from other products' configuration, as pure functions of its text.
//!
//! What a product expresses and a policy does not is never dropped silently: each such line becomes a [`Note`], and a
//! limit that would count other requests than it does there is left out rather than approximated.

use std::fmt;

use sluicegate::core::policy::{Place, Problem};

pub(crate) mod draft;
pub mod envoy;
pub mod limitador;
pub(crate) mod source;

/// One file of another product.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What messages call it.
    pub name: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// What became of the files.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// One policy file per domain, in the order of the files.
    pub policies: Vec<Imported>,
    /// What the policies do not express, in the order of the files.
    pub notes: Vec<Note>,
}

/// A policy file that was made.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The domain.
    pub domain: String,
    /// The file.
    pub text: String,
}

/// A line that could not be carried over as it is, and what that means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// What is not expressed: one line, lower case.
    pub what: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A file that cannot be read as what it is said to be.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is no YAML.
    #[error("{file}: {problem}")]
    Yaml {
        /// The file.
        file: String,
        /// What is wrong.
        problem: Problem,
    },
    /// It is YAML of another shape.
    #[error("{file}:{line}: {what}")]
    Shape {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// What was expected.
        what: &'static str,
    },
    /// No limit of it could be carried over.
    #[error("no limit could be imported")]
    Nothing(Vec<Note>),
}

/// Gathers the notes of one file.
#[derive(Debug)]
pub(crate) struct Notes<'a> {
    file: &'a str,
    pub(crate) notes: Vec<Note>,
}

impl<'a> Notes<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        Self { file: source.name, notes: Vec::new() }
    }

    pub(crate) fn add(&mut self, place: Place, what: impl Into<String>) {
        self.notes.push(Note { file: self.file.to_owned(), line: place.line, what: what.into() });
    }
}
