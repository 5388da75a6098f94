//! This program's own limiter as a contender.

use std::sync::Arc;

use sluicegate::{
    Limiter, Store,
    core::{Attributes, Costs, Policy},
};

use super::{super::sources, Contender, Failure, Race, RaceError, Racer};
use crate::store::{AnyClock, AnyStore, StoreUrl};

type OurLimiter = Limiter<AnyStore, AnyClock>;

/// One fixed window that outlasts every race.
pub(super) struct Ours {
    limiter: Arc<OurLimiter>,
    store: String,
}

impl Ours {
    pub(super) async fn open(url: &StoreUrl, race: Race) -> Result<Self, Failure> {
        let (store, clock) = sources::open(url).await?;
        let policy = policy(race.limit).map_err(Failure::usage)?;
        let limiter = Arc::new(Limiter::new(policy, store, clock));
        Ok(Self { limiter, store: url.to_string() })
    }
}

fn policy(limit: u32) -> Result<Policy, sluicegate::core::policy::PolicyError> {
    let rule = format!("algorithm: fixed_window, limit: {limit}, per: 1h, align: first_request");
    Policy::parse(&format!("version: 1\ndomain: race\nlimits: [{{ name: race, {rule}, key: [run] }}]\n"))
}

fn attributes(key: &str) -> Attributes {
    [("run", key)].into_iter().collect()
}

impl Contender for Ours {
    type Racer = OurRacer;

    fn name(&self) -> String {
        format!("sluicegate on {}", self.store)
    }

    async fn prepare(&self, key: &str, used: u32) -> Result<(), RaceError> {
        let verdict = self.limiter.take(&attributes(key), &Costs::requests(used.into())).await;
        let verdict = verdict.map_err(|error| RaceError::unanswered("take")(error.into()))?;
        if verdict.allowed { Ok(()) } else { Err(RaceError::DeniedEarly { at: used, used }) }
    }

    async fn racer(&self, key: &str) -> Result<OurRacer, RaceError> {
        Ok(OurRacer { limiter: Arc::clone(&self.limiter), attributes: attributes(key) })
    }

    async fn clear(&self, key: &str) -> Result<(), RaceError> {
        let (attributes, costs) = (attributes(key), Costs::default());
        let matched = self.limiter.policy().apply(&attributes, &costs).unwrap_or_default();
        for ask in matched.limits.into_iter().filter_map(|applied| applied.ask) {
            let forgotten = self.limiter.store().forget(ask.id, &ask.subject).await;
            forgotten.map_err(|error| RaceError::unanswered("forget")(error.into()))?;
        }
        Ok(())
    }
}

/// One take.
pub(super) struct OurRacer {
    limiter: Arc<OurLimiter>,
    attributes: Attributes,
}

impl Racer for OurRacer {
    async fn run(self) -> Result<bool, RaceError> {
        let verdict = self.limiter.take(&self.attributes, &Costs::default()).await;
        verdict.map(|verdict| verdict.allowed).map_err(|error| RaceError::unanswered("take")(error.into()))
    }
}
