//! The HTTP door: wire bytes to asks, decisions to wire bytes, and nothing else.

mod admin;
mod answer;
mod body;
mod decision;
mod door;
mod envoy_json;
mod forward_auth;
mod linger;
mod login;
mod path;
mod problem;
mod request;
mod server;

pub use admin::{Admin, Reload};
pub use answer::Answer;
pub(crate) use answer::PROBLEM_JSON;
pub(crate) use decision::{denial_json, json as decision_json, value as decision_value};
pub use door::{Door, DoorConfig};
pub use forward_auth::{Declared, ForwardAuth, NoSource};
pub use login::LoginAnswers;
pub(crate) use problem::shortened;
pub(crate) use request::{Ask, Batch, MAX_COST, MAX_NAME_LEN, MAX_PAIRS};
pub use server::{Config, Service, serve};

/// The description of this door (`OpenAPI` 3.1), which the tests hold against it.
pub const OPENAPI: &str = include_str!("openapi.json");
