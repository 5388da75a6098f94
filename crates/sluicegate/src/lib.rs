//! Rate limits as one atomic decision.

mod acquire;
mod asks;
pub mod clock;
pub mod embedded;
pub mod guard;
#[cfg(feature = "http")]
pub mod headers;
mod hold;
#[cfg(feature = "tower")]
mod layer;
mod limiter;
pub mod login;
mod shadow;
mod shards;
mod store;
pub mod testing;
mod together;

pub use asks::Merged;
pub use clock::{Clock, CoarseClock, SystemClock};
pub use hold::Hold;
#[cfg(feature = "tower")]
pub use layer::{RateLimitLayer, RateLimited};
pub use limiter::{LimitVerdict, Limiter, LimiterError, Verb, Verdict};
pub use sluicegate_core as core;
pub use store::{Counted, Once, Reason, Settled, Store, StoreError, SureStore};
pub use together::Part;
