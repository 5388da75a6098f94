//! What stands between a server and a store that does not answer.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use sluicegate::{
    core::Share,
    guard::{GuardConfig, Membership},
};
use sluicegate_redis::Fleet;

use super::Failure;
use crate::{
    causes::with_causes,
    store::{AnyClock, AnyStore, ServedStore, StoreUrl},
};

/// Flags about a store over a network that does not answer.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct GuardArgs {
    /// How long a decision may wait for a store over a network, in ms; then each limit's `on_store_failure` decides.
    #[arg(
        long,
        env = "SLUICEGATE_STORE_DEADLINE_MS",
        default_value = "20",
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(1..=10_000)
    )]
    store_deadline_ms: u64,
    /// How many instances share the limits, instead of learning it from the store.
    #[arg(long, env = "SLUICEGATE_INSTANCES", value_name = "N", requires = "instance_rank")]
    instances: Option<NonZeroU32>,
    /// Which of them this is, from 0 on.
    #[arg(long, env = "SLUICEGATE_INSTANCE_RANK", value_name = "R", requires = "instances")]
    instance_rank: Option<u32>,
}

/// A store that always decides, and what keeps its place in the fleet up to date.
pub(super) struct Served {
    pub(super) store: ServedStore,
    /// It learns as long as it is held.
    pub(super) _fleet: Option<Fleet>,
}

impl GuardArgs {
    /// How long a decision may wait for its store.
    pub(super) fn deadline(self) -> Duration {
        Duration::from_millis(self.store_deadline_ms)
    }

    /// Guards a store that was opened from a URL.
    pub(super) async fn guard(
        self,
        url: &StoreUrl,
        store: AnyStore,
        clock: &AnyClock,
    ) -> Result<Served, Failure> {
        let membership = Arc::new(Membership::default());
        let fleet = match (self.share()?, url, clock) {
            (Some(share), ..) => {
                membership.set(share);
                None
            }
            (None, StoreUrl::Redis(config), AnyClock::Redis(clock)) => {
                let fleet = Fleet::join(config, clock.clone(), membership.clone());
                Some(fleet.map_err(|error| Failure::usage(with_causes(&error)))?)
            }
            _ => None,
        };
        if let Some(fleet) = &fleet {
            hear(fleet).await;
        }
        let config = GuardConfig { deadline: self.deadline(), ..GuardConfig::default() };
        Ok(Served { store: ServedStore::of(store, membership, config), _fleet: fleet })
    }

    fn share(self) -> Result<Option<Share>, Failure> {
        let (Some(instances), Some(rank)) = (self.instances, self.instance_rank) else { return Ok(None) };
        let share = Share::new(instances, rank).ok_or_else(|| {
            let what = format!("`--instance-rank` is {rank}, and there are {instances} instances");
            Failure::usage(what).hint("ranks are counted from 0")
        })?;
        Ok(Some(share))
    }
}

/// Hears of the fleet before the first decision, if it can be heard.
async fn hear(fleet: &Fleet) {
    if let Err(error) = fleet.beat().await {
        let error = with_causes(&error);
        tracing::warn!(
            error,
            "the size of the fleet is not known: without the store this instance grants the whole of each limit, \
             unless `--instances` and `--instance-rank` say otherwise"
        );
    }
}
