//! The Redis door over the wire.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../common/process.rs"]
mod binary;
#[path = "../common/served.rs"]
mod served;

mod clients;
mod commands;
mod garbage;
mod policies;
mod process;
mod support;
mod throttle;
