//! The HTTP door: wire bytes to asks, decisions to wire bytes, and nothing else.

mod answer;
mod door;
mod problem;
mod server;

pub use door::Door;
pub use server::{Config, serve};
