//! The decision when the store cannot decide: each limit's own rule.

use std::{sync::Arc, time::Duration};

use sluicegate_core::{
    Ask, AskDecision, DecidedBy, Decision, LimitId, Micros, OnStoreFailure, Retry, Rule, Share, Subject,
};
use smallvec::SmallVec;

use super::membership::Membership;
use crate::{
    embedded::{EmbeddedConfig, EmbeddedStore},
    limiter::Verb,
};

/// Decides without the store, by what each limit says about that.
///
/// Limits that decide locally are counted here, in this process, by the same algorithm with this instance's share. What
/// is counted here is never told to the store, and lasts however often the store comes and goes.
#[derive(Debug)]
pub struct Fallback {
    local: EmbeddedStore,
    membership: Arc<Membership>,
}

/// When a refusal that only the absence of the store explains is worth another try. Nobody knows when it is back; it is
/// asked about that often.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// What an ask comes to.
enum Means {
    /// It needs no count.
    Settled(AskDecision),
    /// It is counted here, by this instance's part of the rule.
    Local(Rule),
}

/// One of each ask, without an allocation for up to four asks.
type Few<T> = SmallVec<[T; 4]>;

impl Fallback {
    /// A fallback that has counted nothing yet, for an instance with that share of every limit.
    pub fn new(membership: Arc<Membership>, local: EmbeddedConfig) -> Self {
        Self { local: EmbeddedStore::new(local), membership }
    }

    /// Decides all asks: one that is denied denies the request, and then nothing is counted.
    pub fn decide(&self, verb: Verb, asks: &[Ask<'_>], now: Micros) -> Decision {
        let share = self.membership.share();
        let means: Few<Means> = asks.iter().map(|ask| Means::of(ask, share)).collect();
        let local: Few<Ask<'_>> =
            asks.iter().zip(&means).filter_map(|(ask, means)| means.local(ask)).collect();
        let counts = verb == Verb::Take && means.iter().all(Means::may_pass);
        let mut counted = self.count(&local, now, counts).into_iter();
        let answers = asks.iter().zip(&means).map(|(ask, means)| match means {
            Means::Settled(answer) => *answer,
            Means::Local(_) => of_the_whole(ask.rule, counted.next().unwrap_or(AskDecision::UNLIMITED)),
        });
        Decision::of(answers.collect())
    }

    /// Drops what was counted here for one limit and subject. Answers whether there was anything.
    pub fn forget(&self, id: LimitId, subject: &Subject) -> bool {
        self.local.forget_now(id, subject)
    }

    fn count(&self, asks: &[Ask<'_>], now: Micros, counts: bool) -> Vec<AskDecision> {
        match (asks, counts) {
            ([], _) => Vec::new(),
            (asks, true) => self.local.take_now(asks, now).asks,
            (asks, false) => self.local.peek_now(asks, now).asks,
        }
    }
}

impl Means {
    fn of(ask: &Ask<'_>, share: Share) -> Self {
        if ask.cost > ask.rule.max_cost() {
            return Self::Settled(refused(ask.rule, Retry::Never));
        }
        let local = match ask.on_store_failure {
            OnStoreFailure::Allow => return Self::Settled(allowed(ask.rule, None)),
            OnStoreFailure::Deny => None,
            OnStoreFailure::Local { headroom } => ask.rule.share(headroom, share),
        };
        match local {
            Some(rule) if ask.cost <= rule.max_cost() => Self::Local(rule),
            // A cost of 0 passes where nothing is left, so it passes here.
            _ if ask.cost == 0 => Self::Settled(allowed(ask.rule, Some(0))),
            _ => Self::Settled(refused(ask.rule, Retry::After(STORE_RETRY))),
        }
    }

    fn may_pass(&self) -> bool {
        !matches!(self, Self::Settled(AskDecision { allowed: false, .. }))
    }

    fn local<'m>(&'m self, ask: &Ask<'m>) -> Option<Ask<'m>> {
        let Self::Local(rule) = self else { return None };
        Some(Ask { rule, ..ask.clone() })
    }
}

fn allowed(rule: &Rule, remaining: Option<u64>) -> AskDecision {
    let (limit, capacity) = (Some(rule.amount()), Some(rule.max_cost()));
    AskDecision { limit, capacity, remaining, decided_by: DecidedBy::Fallback, ..AskDecision::UNLIMITED }
}

fn refused(rule: &Rule, retry: Retry) -> AskDecision {
    let reset_after = if let Retry::After(wait) = retry { wait } else { Duration::ZERO };
    AskDecision { allowed: false, reset_after, retry: Some(retry), ..allowed(rule, Some(0)) }
}

/// What was counted by a part, told with the numbers of the whole: callers know the limit by them.
fn of_the_whole(rule: &Rule, part: AskDecision) -> AskDecision {
    let capacity = rule.max_cost();
    AskDecision {
        limit: Some(rule.amount()),
        capacity: Some(capacity),
        remaining: part.remaining.map(|left| left.min(capacity)),
        decided_by: DecidedBy::Fallback,
        ..part
    }
}
