//! What a policy says to the requests of a plan, each at the time at which it is due.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate::{
    Clock, Limiter, Verb,
    core::{Micros, Policy},
    embedded::EmbeddedStore,
};

use super::{super::Failure, drive::Asks, plan::Plan};

/// A clock that is set.
#[derive(Debug)]
struct Turned(AtomicU64);

impl Clock for Turned {
    fn now(&self) -> Micros {
        Micros::new(self.0.load(Ordering::Relaxed))
    }
}

/// How many of the requests it refuses, from empty counters on.
pub(super) async fn denied(
    policy: Policy,
    asks: &Asks<'_>,
    plan: &Plan,
    began: Micros,
) -> Result<u64, Failure> {
    let clock = Turned(AtomicU64::new(began.as_u64()));
    let limiter = Limiter::new(policy, EmbeddedStore::default(), clock);
    let mut denied = 0;
    for (after, user) in (0..plan.total()).map_while(|at| plan.get(at)) {
        limiter.clock().0.store(began.plus(after).as_u64(), Ordering::Relaxed);
        let verdict = limiter.decide_surely(Verb::Take, &asks.attributes_of(user), asks.costs).await;
        denied += u64::from(!verdict.map_err(Failure::usage)?.allowed);
    }
    Ok(denied)
}
