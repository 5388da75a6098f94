//! What is guessed at.

use sluicegate_core::login::AccountRules;

use super::config::Profile;

/// What an attempt is for. Each class of secrets has a budget of its own per account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// A password, to log in.
    Login,
    /// The same password, asked for again.
    Reauth,
    /// A key of a program.
    ApiKey,
    /// A code that was sent or shown, by the id that the server gave it.
    Otp {
        /// The code's id; never the code.
        code: &'a str,
    },
    /// A code of a password reset, by its id.
    ResetVerify {
        /// The code's id; never the code.
        code: &'a str,
    },
    /// Sending a password reset.
    ResetRequest,
    /// Making an account.
    Register,
}

/// A purpose that is none: a mistake in a program, which must not become an attempt that nobody counts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurposeError {
    /// Nothing has this name.
    #[error("there is no purpose `{0}`; the purposes are {names}", names = Purpose::NAMES.map(|name| format!("`{name}`")).join(", "))]
    Unknown(String),
    /// It is about a code, and none is named.
    #[error("the purpose `{0}` needs the id of a code")]
    NeedsCode(&'static str),
}

impl<'a> Purpose<'a> {
    /// The names of all purposes.
    pub const NAMES: [&'static str; 7] =
        ["login", "reauth", "api_key", "otp", "reset_verify", "reset_request", "register"];

    /// The purpose with this name.
    ///
    /// # Errors
    /// [`PurposeError`] if there is none, or it is about a code and none is named.
    pub fn named(name: &str, code: Option<&'a str>) -> Result<Self, PurposeError> {
        let code = |of| code.ok_or(PurposeError::NeedsCode(of));
        match name {
            "login" => Ok(Self::Login),
            "reauth" => Ok(Self::Reauth),
            "api_key" => Ok(Self::ApiKey),
            "otp" => Ok(Self::Otp { code: code("otp")? }),
            "reset_verify" => Ok(Self::ResetVerify { code: code("reset_verify")? }),
            "reset_request" => Ok(Self::ResetRequest),
            "register" => Ok(Self::Register),
            _ => Err(PurposeError::Unknown(name.to_owned())),
        }
    }

    pub(super) fn class(self) -> Class {
        match self {
            Self::Login | Self::Reauth => Class::Password,
            Self::ApiKey => Class::Key,
            Self::Otp { .. } => Class::Otp,
            Self::ResetVerify { .. } => Class::Reset,
            Self::ResetRequest => Class::ResetRequest,
            Self::Register => Class::Register,
        }
    }

    pub(super) fn code(self) -> Option<&'a str> {
        match self {
            Self::Otp { code } | Self::ResetVerify { code } => Some(code),
            _ => None,
        }
    }
}

/// Secrets that are guessed at together: what the budgets of one account are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Password,
    Key,
    Otp,
    Reset,
    ResetRequest,
    Register,
}

impl Class {
    const ALL: [Self; 6] =
        [Self::Password, Self::Key, Self::Otp, Self::Reset, Self::ResetRequest, Self::Register];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Key => "key",
            Self::Otp => "otp",
            Self::Reset => "reset",
            Self::ResetRequest => "reset-request",
            Self::Register => "register",
        }
    }

    pub(super) fn number(self) -> u8 {
        Self::ALL.iter().position(|class| *class == self).and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
    }

    pub(super) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The numbers that count for it.
    pub(super) fn rules(self, profile: Profile) -> AccountRules {
        match self {
            Self::Password | Self::Key => profile.account(),
            Self::Otp | Self::Reset => AccountRules::codes(),
            Self::ResetRequest | Self::Register => AccountRules::issue(),
        }
    }

    /// Whether a success is worth a device's cookie.
    pub(super) fn knows_devices(self) -> bool {
        self == Self::Password
    }
}
