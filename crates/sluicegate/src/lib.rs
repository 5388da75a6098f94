//! Rate limits as one atomic decision.

pub mod clock;
mod limiter;
mod store;

pub use clock::{Clock, SystemClock};
pub use limiter::{LimitVerdict, Limiter, LimiterError, Verb, Verdict};
pub use sluicegate_core as core;
pub use store::{Counted, Store, StoreError};
