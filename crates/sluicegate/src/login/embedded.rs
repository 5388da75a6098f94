//! Guesses kept in this process: exact under any number of threads, in bounded memory.

use sluicegate_core::{
    Micros,
    login::{
        Account, AccountRules, Address, AddressRules, Attempt, HeldName, Network, Origin, Report, Reported,
        Verdict, Weight,
    },
};

use super::{
    store::{AccountKey, LoginStore, PlaceKey},
    table::Table,
};
use crate::store::StoreError;

/// Accounts that have a place of their own by default, some 500 bytes each while they count.
const ACCOUNTS: usize = 100_000;

/// Keeps guesses in this process.
///
/// Beyond the named number of accounts or addresses, new ones share records by their hash, and are refused too early
/// rather than too late. Nothing that counts is ever dropped to make room: who floods the store with names cannot wash
/// an account's failures away.
#[derive(Debug)]
pub struct EmbeddedLogin {
    accounts: Table<Account>,
    addresses: Table<Address>,
    networks: Table<Network>,
}

impl EmbeddedLogin {
    /// A store of the default size.
    pub fn new() -> Self {
        Self::with_capacity(ACCOUNTS)
    }

    /// A store that keeps that many accounts apart, and as many addresses.
    pub fn with_capacity(accounts: usize) -> Self {
        Self {
            accounts: Table::with_capacity(accounts),
            addresses: Table::with_capacity(accounts),
            networks: Table::with_capacity(accounts),
        }
    }

    /// [`AddressRules::hold`], at once.
    pub fn hold_now(&self, place: &PlaceKey, rules: &AddressRules, now: Micros, name: u32) -> Origin {
        self.of_place(place, rules, now, |address, network, now| rules.hold(address, network, now, name))
    }

    /// [`AddressRules::settle`], at once.
    pub fn settle_now(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        (held, weight): (HeldName, Weight),
    ) {
        self.of_place(place, rules, now, |address, network, now| {
            rules.settle(address, network, now, held, weight);
        });
    }

    /// [`AccountRules::begin`], at once.
    pub fn begin_now(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        attempt: &Attempt,
    ) -> Verdict {
        let now = in_ms(now);
        let verdict = |account: &mut Account| rules.begin(account, now, attempt);
        self.accounts.with(&account.0, now, verdict, |account| rules.reset_at(account))
    }

    /// [`AccountRules::report`], at once.
    pub fn report_now(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        report: &Report,
    ) -> Reported {
        let now = in_ms(now);
        let reported = |account: &mut Account| rules.report(account, now, report);
        self.accounts.with(&account.0, now, reported, |account| rules.reset_at(account))
    }

    /// An address is locked before its network, by everybody.
    fn of_place<R>(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        change: impl FnOnce(&mut Address, &mut Network, u64) -> R,
    ) -> R {
        let now = in_ms(now);
        let both = |address: &mut Address| {
            let change = |network: &mut Network| change(address, network, now);
            self.networks
                .with(&place.network, now, change, |network| rules.network.reset_at(&network.reading))
        };
        let reset_at = |address: &Address| rules.address.reset_at(&address.reading).max(address.names_until);
        self.addresses.with(&place.address, now, both, reset_at)
    }
}

impl Default for EmbeddedLogin {
    fn default() -> Self {
        Self::new()
    }
}

fn in_ms(now: Micros) -> u64 {
    now.as_u64() / 1_000
}

impl LoginStore for EmbeddedLogin {
    async fn hold(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        name: u32,
    ) -> Result<Origin, StoreError> {
        Ok(self.hold_now(place, rules, now, name))
    }

    async fn settle(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        settled: (HeldName, Weight),
    ) -> Result<(), StoreError> {
        self.settle_now(place, rules, now, settled);
        Ok(())
    }

    async fn begin(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        attempt: &Attempt,
    ) -> Result<Verdict, StoreError> {
        Ok(self.begin_now(account, rules, now, attempt))
    }

    async fn report(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        report: &Report,
    ) -> Result<Reported, StoreError> {
        Ok(self.report_now(account, rules, now, report))
    }

    async fn read(&self, account: &AccountKey) -> Result<Option<Account>, StoreError> {
        Ok(self.accounts.read(&account.0))
    }

    async fn unlock(&self, account: &AccountKey) -> Result<bool, StoreError> {
        Ok(self.accounts.drop_one(&account.0))
    }
}
