//! Guesses at secrets, counted before they are verified: a guard around whatever verifies a password, a code or a key.

mod attempt;
mod config;
mod cookie;
mod embedded;
mod guard;
mod keyring;
mod place;
mod proof;
mod purpose;
mod request;
mod store;
mod table;
mod text;
mod twin;

pub use config::{LoginConfig, Profile};
pub use cookie::COOKIE_LIFETIME_S;
pub use embedded::EmbeddedLogin;
pub use guard::{Begun, Guarded, LoginGuard, OpenAttempt, Verified};
pub use keyring::{Keyring, KeyringError, MAX_SECRETS, MIN_SECRET_LEN};
pub use proof::{CaptchaVerifier, has_zeros, solve};
pub use purpose::{Purpose, PurposeError};
pub use request::{LoginError, LoginRequest, Proof, Refusal, Settled, Settlement, Who};
pub use store::{AccountKey, LoginStore, PlaceKey};
pub use twin::LocalTwin;
