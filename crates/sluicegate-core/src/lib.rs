//! The arithmetic of Sluicegate: what a limit is, what is stored for a key, and what follows from both.
//!
//! Everything here is a pure function of (limit, state, now, cost). There is no clock, no I/O and no store, so that
//! the embedded store, the scripts in Redis and the property tests decide by the same laws. Integers only; see
//! [`rule`] for the bounds that keep every intermediate an exact double.

pub mod algorithm;
pub mod ask;
mod decision;
pub mod login;
mod once;
mod period;
pub mod policy;
pub mod rule;
mod share;
mod state;
mod time;

pub use ask::{Ask, Charge, LimitId, Subject};
pub use decision::{AskDecision, DecidedBy, Decision, Retry};
pub use once::{Payload, RequestId, RequestIdError};
pub use period::{Every, Period, PeriodError, Span, Weekday};
pub use policy::{Attributes, Costs, Limit, Policy};
pub use rule::{Algorithm, Align, Rule, RuleError};
pub use share::{Headroom, OnStoreFailure, Share};
pub use state::{Question, State};
pub use time::{At, MAX_SKEW_US, Micros, Skew, Tick};
