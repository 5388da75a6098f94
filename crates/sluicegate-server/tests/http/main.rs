//! The HTTP door, over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::needless_pass_by_value)]

#[path = "../common/process.rs"]
mod binary;
#[path = "../common/served.rs"]
mod served;

mod bad_input;
mod changes;
mod concurrency;
mod decisions;
mod degraded;
mod doctor;
mod envoy_json;
mod fleet;
mod forward_auth;
mod headers;
mod layers;
mod lifecycle;
mod load;
mod login;
mod metrics;
mod openapi;
mod postgres;
mod process;
mod redis;
mod source;
mod support;
