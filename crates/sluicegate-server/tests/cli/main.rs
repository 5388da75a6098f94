//! The command line as a person meets it: words in, words and exit codes out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod config;
mod decide;
mod generate;
mod login;
mod policy;
mod race;
mod redis;
mod replay;
mod support;
mod verify;
