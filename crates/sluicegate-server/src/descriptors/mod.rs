//! The configuration of Envoy's rate limit service, served as it is: a limit counts the descriptors that lead to it.
//!
//! Each domain becomes a policy, so that metrics, switches and answers know its limits, and a [`Tree`] that finds the one
//! limit of a descriptor. What cannot be served as it stands there is an error, never left out.

mod read;
mod tree;

use std::fmt;

use sluicegate::core::{Policy, policy::PolicyError};

pub use read::read;
pub use tree::{Found, Tree};

use crate::import::{ImportError, Note};

/// One domain of the configuration.
#[derive(Clone, Debug)]
pub struct DescriptorDomain {
    /// Its limits, each under a name of its own.
    pub policy: Policy,
    /// Which of them counts which descriptors.
    pub tree: Tree,
}

/// Configuration that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Unserved {
    /// A file of another kind.
    #[error(transparent)]
    File(#[from] ImportError),
    /// Lines that mean something else here, or nothing.
    #[error("{0}")]
    Lines(Lines),
    /// A domain that no policy can hold.
    #[error("domain `{domain}`: {error}")]
    Policy {
        /// The domain.
        domain: String,
        /// Why.
        error: PolicyError,
    },
}

/// Mistakes, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines(pub Vec<Note>);

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}
