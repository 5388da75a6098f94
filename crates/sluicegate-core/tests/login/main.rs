//! Guesses as a budget: numbers by simulation on a turned clock, laws over random histories, and failures that others
//! shipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod address;
mod attackers;
mod basic;
mod budget;
mod history;
mod known_failures;
mod names;
mod owner;
mod world;
