//! The laws of the algorithms, over random histories, against oracles that are written from the text of the laws
//! and know nothing of the code: they keep every admitted cost and add up.
//!
//! `docs/concepts/laws.md` states what is tested here. A failure prints the shrunk history and the seed.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod binding;
mod bucket;
mod clocks;
mod counter;
mod doubles;
mod fleet;
mod give_back;
mod golden;
mod history;
mod key;
mod known_bad;
mod known_failures;
mod live_change;
mod load;
mod log;
mod oracle;
mod quota;
mod spec;
mod window;
