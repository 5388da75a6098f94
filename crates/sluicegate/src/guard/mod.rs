//! The decision survives a dead store: [`Guarded`] answers within a deadline, whatever the store does.
//!
//! It is made of wrappers that each do one thing: [`Deadline`] lets no call wait longer, [`Breaker`] leaves a store
//! alone that is ill, [`Bounded`] lets only so many calls wait at once, [`DenialCache`] answers for it what cannot have changed, and
//! [`Fallback`] decides when none of that led to a decision. Nothing is retried: a call that was sent may have been counted.

mod alarm;
mod bounded;
mod breaker;
mod circuit;
mod deadline;
mod denials;
mod fallback;
mod guarded;
mod membership;
mod waiting;

pub use bounded::Bounded;
pub use breaker::{Breaker, Probe};
pub use deadline::Deadline;
pub use denials::DenialCache;
pub use fallback::Fallback;
pub use guarded::{GuardConfig, Guarded};
pub use membership::Membership;
