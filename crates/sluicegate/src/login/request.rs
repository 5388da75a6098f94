//! What a guard is asked, and what it answers.

use std::{net::IpAddr, time::Duration};

use sluicegate_core::login::{Lane, NameError, Scope};

use super::purpose::Purpose;
use crate::store::StoreError;

/// Whose secret is guessed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// An account that exists, by what never changes of it: several names of one account then share its budget.
    Resolved(&'a str),
    /// A name as it was presented, whether or not it exists.
    Presented(&'a str),
}

/// What shows that a challenge was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof<'a> {
    /// Work: the nonce that was given, a colon, and the counter that was found.
    Work(&'a str),
    /// A token of the captcha's provider.
    Captcha(&'a str),
}

/// One attempt at a secret.
#[derive(Clone, Copy, Debug)]
pub struct LoginRequest<'a> {
    /// What is guessed at.
    pub purpose: Purpose<'a>,
    /// Whose it is.
    pub who: Who<'a>,
    /// Where the client is, as a trusted proxy or the connection says; who is not known shares one place, and is always
    /// challenged.
    pub address: Option<IpAddr>,
    /// The device's cookie.
    pub cookie: Option<&'a str>,
    /// The account's epoch: raise it to revoke the cookies of all its devices.
    pub epoch: u32,
    /// What shows that a challenge was met.
    pub proof: Option<Proof<'a>>,
    /// Whether another factor was shown already.
    pub stepped_up: bool,
}

impl<'a> LoginRequest<'a> {
    /// An attempt with nothing but a name and an address.
    pub fn new(purpose: Purpose<'a>, who: Who<'a>, address: Option<IpAddr>) -> Self {
        Self { purpose, who, address, cookie: None, epoch: 0, proof: None, stepped_up: false }
    }
}

/// Why nothing is verified now. It is the same for names that exist and names that do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A challenge is to be met first.
    Challenge {
        /// What work is done for: see [`Proof::Work`].
        nonce: String,
        /// How many leading zero bits the proof's SHA-256 must have.
        bits: u8,
        /// Whether a captcha's token serves as well.
        captcha: bool,
    },
    /// The next guess is taken after that long.
    Delay {
        /// How long.
        after: Duration,
    },
    /// There is no room.
    Deny {
        /// Where there is none.
        scope: Scope,
        /// After how long there is some.
        after: Duration,
    },
    /// Other guesses are under way; after that long there is room for certain.
    Busy {
        /// How long.
        after: Duration,
    },
    /// Another factor is to be shown first.
    StepUp,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement<'a> {
    /// The secret was right.
    Right,
    /// The secret was wrong, or nobody has that name: both are one, so that no answer tells which it was.
    Wrong {
        /// The secret, so that its repetition costs nothing. 16 bits of it are kept, under the account's own key.
        secret: Option<&'a [u8]>,
        /// Whether the secret is one that many have: it costs the address five times.
        popular: bool,
    },
    /// Nothing was verified, through no fault of the client's.
    Undecided,
}

impl Settlement<'_> {
    /// A wrong secret of which nothing is said.
    pub const WRONG: Self = Self::Wrong { secret: None, popular: false };
}

/// What a report answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The attempt is settled.
    Done {
        /// The lane that it was counted in.
        lane: Lane,
        /// A cookie for the device that proved itself, if it has none.
        cookie: Option<String>,
    },
    /// It was settled before. Nobody is to be let in on account of this report.
    Already,
    /// It took too long, or is not known. It stays counted, and nobody is to be let in on account of it.
    Expired,
}

/// Why a guard could not say.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The store did not answer.
    #[error("the store of guesses did not answer")]
    Store(#[from] StoreError),
    /// The name is none.
    #[error(transparent)]
    Name(#[from] NameError),
}
