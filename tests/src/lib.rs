//! What the suites share: real servers in temporary places, and a model to hold stores against.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a harness that cannot go on must fail the test"
)]

pub mod asker;
pub mod certs;
pub mod checks;
pub mod cluster;
pub mod faketime;
pub mod fixtures;
mod hand_clock;
pub mod load;
pub mod model;
pub mod ports;
pub mod postgres_server;
pub mod proxy;
pub mod redis_server;
pub mod rights;
pub mod sentinel;
pub mod sequence;
pub mod witness;

pub use asker::Asker;
pub use cluster::RedisCluster;
pub use hand_clock::HandClock;
pub use load::{Load, Told};
pub use postgres_server::PostgresServer;
pub use proxy::{Fault, Proxy};
pub use redis_server::RedisServer;
pub use sentinel::Watched;
pub use witness::Witness;

/// The README's Rust, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
