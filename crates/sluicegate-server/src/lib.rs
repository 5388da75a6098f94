//! The server of Sluicegate: doors that translate a protocol to asks and decisions back, and the command line.

mod causes;
pub mod cli;
pub mod client;
mod costs;
pub mod descriptors;
pub mod domains;
mod explain;
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
pub mod http;
pub mod import;
pub mod listen;
pub mod metrics;
mod numbers;
mod paced;
pub mod postgres;
pub mod replay;
pub mod resp;
pub mod running;
pub mod schema;
pub mod store;
pub mod tokens;
