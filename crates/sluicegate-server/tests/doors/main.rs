//! What holds at every door: who may connect, how, and how long he may take.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../common/process.rs"]
mod binary;
mod certificates;
mod conformance;
mod proxy_protocol;
mod slow;
mod supervised;
mod support;
mod tokens;
