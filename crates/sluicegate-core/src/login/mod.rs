//! Guesses at a secret as a budget: a guess is held before the secret is verified, settled by the outcome, and stays
//! counted when nobody reports.
//!
//! The field's most repeated fault is to check, verify and then count, so that parallel guesses all pass. Here
//! [`AccountRules::begin`] counts, and [`AccountRules::report`] gives back what was no wrong guess. Everything is a
//! pure function of (rules, state, now, event), in whole milliseconds; a store makes each call one atomic step.
//!
//! The clients of an account have **lanes**: a *device* that proved itself has a budget of its own, and so has a
//! *familiar* address; all others share the *unknown* lane. Thus an attack on an account never refuses its owner's
//! devices, and more addresses bring no more guesses.

mod account;
mod address;
mod alarm;
mod audit;
mod gauge;
mod name;
mod rules;

pub use account::{
    Account, Attempt, Challenge, Client, Code, Device, Familiar, Lane, MAX_CLIENTS, MAX_CODES, MAX_DEVICES,
    MAX_FAMILIAR, MAX_OPEN, MAX_TAGS, Open, Outcome, Report, Reported, Scope, Verdict,
};
pub use address::{Address, HeldName, Network, Origin, Weight};
pub use alarm::Alarm;
pub use audit::{Exposure, KNOWN_POLICIES, KnownPolicy, Pacing, exposure, exposure_of_rule};
pub use gauge::{Counter, Gauge, LEAKS, Leak, Reading};
pub use name::{MAX_NAME_LEN, Name, NameError};
pub use rules::{
    ATTEMPT_MS, AccountRules, AddressRules, CODE_MS, FIRST_DELAY_MS, MAX_DELAY_MS, MAX_NAMES, NAMES_MS,
    REMEMBERED_MS,
};

use crate::time::MAX_SKEW_US;

/// By how much a clock stepped back, if by more than clocks of one fleet differ.
fn stepped_back(stored: u64, now: u64) -> Option<u64> {
    let by = stored.saturating_sub(now);
    (by > MAX_SKEW_US / 1_000).then_some(by)
}
