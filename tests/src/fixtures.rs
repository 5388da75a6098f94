//! Short ways to asks of one limit and one user.

use std::time::Duration;

use sluicegate::core::{Ask, LimitId, Rule, Subject};

/// One limit of tests about a single limit.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Its numbers.
    pub rule: Rule,
    /// Its id.
    pub id: LimitId,
}

impl Limit {
    /// A limit of that name.
    pub fn new(name: &str, rule: Rule) -> Self {
        Self { id: LimitId::of(name, &rule), rule }
    }

    /// An ask for a user.
    pub fn ask(&self, user: &str, cost: u64) -> Ask<'_> {
        Ask::new(&self.rule, self.id, subject(user), cost)
    }
}

/// What a limit by user counts by.
pub fn subject(user: &str) -> Subject {
    Subject::new("test", &[], &[("user", Some(user))])
}

/// An hour.
pub const HOUR: Duration = Duration::from_secs(3_600);
