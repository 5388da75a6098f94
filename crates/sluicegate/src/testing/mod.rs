//! The testing kit: what judges a limiter from outside, ours or any other.

pub mod history;
mod ill;

pub use ill::Ill;
