//! What decides while the store does not answer.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_core::{
    Micros,
    login::{
        Account, AccountRules, AddressRules, Attempt, Gauge, HeldName, Leak, Origin, Report, Reported,
        Verdict, Weight,
    },
};

use super::{
    embedded::EmbeddedLogin,
    store::{AccountKey, LoginStore, PlaceKey},
};
use crate::store::StoreError;

/// A store over a network, and a stricter twin in this process for the time in which it does not answer: the unknown lane
/// has its burst divided by the number of instances, at least one guess, and is challenged from the first. Never is
/// everybody let in, never is everybody locked out.
///
/// How long a store may take is the store's own: give it a short timeout.
#[derive(Debug)]
pub struct LocalTwin<S> {
    store: S,
    here: EmbeddedLogin,
    instances: u32,
    decided_here: AtomicU64,
}

/// An address's charge that was held here: no store is to give it back.
const HELD_HERE: u64 = 0;

impl<S: LoginStore> LocalTwin<S> {
    /// A twin for one of so many instances.
    pub fn new(store: S, instances: u32) -> Self {
        Self {
            store,
            here: EmbeddedLogin::new(),
            instances: instances.max(1),
            decided_here: AtomicU64::new(0),
        }
    }

    /// How many calls the twin answered: alert when it moves.
    pub fn decided_here(&self) -> u64 {
        self.decided_here.load(Ordering::Relaxed)
    }

    fn strict(&self, rules: &AccountRules) -> AccountRules {
        let part = |burst: u32| (burst / self.instances).max(1);
        let unknown = match rules.unknown {
            Gauge::Leaks(leaks) => {
                Gauge::Leaks(leaks.map(|leak| leak.map(|leak| Leak { burst: part(leak.burst), ..leak })))
            }
            Gauge::Counter(counter) => {
                Gauge::Counter(sluicegate_core::login::Counter { limit: part(counter.limit), ..counter })
            }
        };
        AccountRules { unknown, ..*rules }
    }

    fn alarmed(&self, error: &StoreError) {
        if self.decided_here.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000) {
            tracing::warn!(%error, "the store of guesses does not answer: a stricter twin decides here");
        }
    }
}

impl<S: LoginStore> LoginStore for LocalTwin<S> {
    async fn hold(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        name: u32,
    ) -> Result<Origin, StoreError> {
        let held = self.store.hold(place, rules, now, name).await;
        Ok(held.unwrap_or_else(|error| {
            self.alarmed(&error);
            match self.here.hold_now(place, rules, now, name) {
                Origin::Held { challenged, .. } => Origin::Held { at: HELD_HERE, challenged },
                refused @ Origin::Refused { .. } => refused,
            }
        }))
    }

    async fn settle(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        (held, weight): (HeldName, Weight),
    ) -> Result<(), StoreError> {
        if held.charged_at == HELD_HERE {
            return Ok(());
        }
        // What a store does not hear stays charged.
        if let Err(error) = self.store.settle(place, rules, now, (held, weight)).await {
            self.alarmed(&error);
        }
        Ok(())
    }

    async fn begin(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        attempt: &Attempt,
    ) -> Result<Verdict, StoreError> {
        match self.store.begin(account, rules, now, attempt).await {
            Ok(verdict) => Ok(verdict),
            Err(error) => {
                self.alarmed(&error);
                let attempt = Attempt { always_challenged: true, ..*attempt };
                Ok(self.here.begin_now(account, &self.strict(rules), now, &attempt))
            }
        }
    }

    /// An attempt is settled where it was counted.
    async fn report(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        report: &Report,
    ) -> Result<Reported, StoreError> {
        match self.here.report_now(account, &self.strict(rules), now, report) {
            Reported::Expired => self.store.report(account, rules, now, report).await,
            settled => Ok(settled),
        }
    }

    async fn read(&self, account: &AccountKey) -> Result<Option<Account>, StoreError> {
        self.store.read(account).await
    }

    async fn unlock(&self, account: &AccountKey) -> Result<bool, StoreError> {
        let here = self.here.unlock(account).await?;
        Ok(self.store.unlock(account).await? || here)
    }
}
