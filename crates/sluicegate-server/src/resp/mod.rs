//! The Redis door: `CL.THROTTLE` for limits that a command spells out, `SG.TAKE` and `SG.PEEK` for policies. Any Redis
//! client is a client of it.

mod command;
mod door;
mod encode;
mod parse;
mod server;
mod session;
mod take;
mod throttle;

pub use door::Door;
pub(crate) use parse::parse;
pub use server::{Config, serve};
