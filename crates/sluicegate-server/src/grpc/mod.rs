//! The gRPC door: Envoy's rate limit service, v3. Descriptors to asks, verdicts to statuses, and nothing else.

mod door;
pub mod proto;
mod request;
mod response;
mod server;
mod units;

pub use door::Door;
pub use request::{DescriptorMistake, Mistake};
pub use server::{Config, serve};
