//! The history checker: what it refutes is wrong in every way to read it, what it proves is right in every one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod brute;
mod good;
mod known_bad;
mod scopes;
mod support;
