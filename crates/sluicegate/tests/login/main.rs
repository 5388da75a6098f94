//! The guard over the embedded store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod concurrency;
mod cookies;
mod known_failures;
mod memory;
mod proofs;
mod reports;
mod support;
