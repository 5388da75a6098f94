//! The tools around a policy, as functions: what they make of their input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod import;
mod replay;
mod schema;
mod traffic;
