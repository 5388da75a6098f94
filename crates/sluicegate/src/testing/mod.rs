//! The testing kit: what judges a limiter from outside, ours or any other.

pub mod history;
