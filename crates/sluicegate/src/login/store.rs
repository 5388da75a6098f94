//! What a store of guesses can do, and nothing else.

use std::sync::Arc;

use sluicegate_core::{
    Micros,
    login::{
        Account, AccountRules, AddressRules, Attempt, HeldName, Origin, Report, Reported, Verdict, Weight,
    },
};

use crate::store::StoreError;

/// An account as a store knows it: 128 bits under a key, so that no store holds names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccountKey(pub [u8; 16]);

/// An address and the network around it, as a store knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlaceKey {
    /// The network.
    pub network: [u8; 16],
    /// The address.
    pub address: [u8; 16],
}

/// Keeps guesses, each call in one atomic step. A refusal is an answer and changes nothing.
pub trait LoginStore: Send + Sync {
    /// [`AddressRules::hold`].
    fn hold(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        name: u32,
    ) -> impl Future<Output = Result<Origin, StoreError>> + Send;

    /// [`AddressRules::settle`]. Not idempotent: called once, by who settled the account.
    fn settle(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        settled: (HeldName, Weight),
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// [`AccountRules::begin`].
    fn begin(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send;

    /// [`AccountRules::report`].
    fn report(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        report: &Report,
    ) -> impl Future<Output = Result<Reported, StoreError>> + Send;

    /// What is stored of an account.
    fn read(&self, account: &AccountKey) -> impl Future<Output = Result<Option<Account>, StoreError>> + Send;

    /// Drops what is stored of an account: its lanes are as if never used. Answers whether there was anything.
    fn unlock(&self, account: &AccountKey) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

impl<S: LoginStore> LoginStore for Arc<S> {
    fn hold(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        name: u32,
    ) -> impl Future<Output = Result<Origin, StoreError>> + Send {
        (**self).hold(place, rules, now, name)
    }

    fn settle(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        settled: (HeldName, Weight),
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).settle(place, rules, now, settled)
    }

    fn begin(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        attempt: &Attempt,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
        (**self).begin(account, rules, now, attempt)
    }

    fn report(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        report: &Report,
    ) -> impl Future<Output = Result<Reported, StoreError>> + Send {
        (**self).report(account, rules, now, report)
    }

    fn read(&self, account: &AccountKey) -> impl Future<Output = Result<Option<Account>, StoreError>> + Send {
        (**self).read(account)
    }

    fn unlock(&self, account: &AccountKey) -> impl Future<Output = Result<bool, StoreError>> + Send {
        (**self).unlock(account)
    }
}
