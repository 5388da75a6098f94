//! The server of Sluicegate: doors that translate a protocol to asks and decisions back, and the command line.

mod causes;
pub mod cli;
pub mod domains;
pub mod http;
pub mod import;
pub mod store;
