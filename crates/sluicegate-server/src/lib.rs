//! The server of Sluicegate: doors that translate a protocol to asks and decisions back, and the command line.

pub mod cli;
pub mod http;
