//! The gRPC door, over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../common/process.rs"]
mod binary;
#[path = "../common/served.rs"]
mod served;

mod answers;
mod concurrency;
mod configured;
mod decisions;
mod hits;
mod mistakes;
mod process;
mod service;
mod support;
