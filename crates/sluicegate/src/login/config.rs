//! What a guard is made with.

use sluicegate_core::login::{AccountRules, AddressRules};

use super::keyring::Keyring;

/// The numbers that are known by a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Lanes and leaks: 52 guesses on the first day, 12 on each later one.
    #[default]
    Strong,
    /// A counter and a lockout, as is often required; some 860 guesses a day.
    Basic,
}

impl Profile {
    /// The numbers of an account.
    pub const fn account(self) -> AccountRules {
        match self {
            Self::Strong => AccountRules::strong(),
            Self::Basic => AccountRules::basic(),
        }
    }

    /// The numbers of an address.
    pub const fn address(self) -> AddressRules {
        match self {
            Self::Strong => AddressRules::strong(),
            Self::Basic => AddressRules::basic(),
        }
    }
}

/// What a guard is made with.
#[derive(Clone, Debug)]
pub struct LoginConfig {
    /// Whose accounts: the same name in two domains is two accounts.
    pub domain: String,
    /// The numbers.
    pub profile: Profile,
    /// The secrets; all instances need the same.
    pub keys: Keyring,
}
