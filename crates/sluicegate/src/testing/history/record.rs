//! What is known of one call on one limit.

use std::fmt;

use sluicegate_core::Micros;

/// One call on one limit and key, as its caller saw it.
///
/// ```
/// use sluicegate::{core::Micros, testing::history::{Outcome, Record}};
/// let record = Record {
///     limit: "per-user".into(),
///     key: "{api:user=alice}".into(),
///     cost: 1,
///     start: Micros::from_secs(10),
///     end: Micros::new(10_000_700),
///     outcome: Outcome::Allowed,
///     ..Record::default()
/// };
/// assert!(record.id.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The idempotency id; empty if the call had none.
    pub id: String,
    /// Who made the decision, for the shares of a fallback; may be empty elsewhere.
    pub instance: String,
    /// The limit's name.
    pub limit: String,
    /// The key: its subject's canonical text if windows are shifted per key, else any text that tells keys apart.
    pub key: String,
    /// The cost in the limit's unit.
    pub cost: u64,
    /// When the call began, by a clock that all callers share but for the clock error of the check.
    pub start: Micros,
    /// When its caller knew the outcome.
    pub end: Micros,
    /// What the caller was told.
    pub outcome: Outcome,
    /// Who decided.
    pub path: Path,
    /// The answer repeats that of an earlier call with the same id: nothing was charged for this one.
    pub replayed: bool,
}

/// What a caller was told about one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request passed, and its cost was counted on this limit.
    Allowed,
    /// This limit refused the request; nothing was counted.
    Denied,
    /// The caller was told nothing, as after a timeout: the cost may have been counted, or may yet be.
    #[default]
    Unknown,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Allowed, Self::Denied, Self::Unknown];

    /// The word in histories.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Path {
    /// The shared store.
    #[default]
    Store,
    /// The instance by itself, since the store did not answer.
    Fallback,
    /// The instance, by a denial of the store's that still held.
    Cache,
}

impl Path {
    /// All paths.
    pub const ALL: [Self; 3] = [Self::Store, Self::Fallback, Self::Cache];

    /// The word in histories.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Fallback => "fallback",
            Self::Cache => "cache",
        }
    }
}
