//! The domains that a server decides for, and what it does when the store cannot.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use sluicegate::{
    Clock, Limiter, LimiterError, Store, Verb, Verdict,
    core::{Ask, AskDecision, Attributes, Costs, Policy, Retry, policy::AskError},
};

use crate::causes::with_causes;

/// The domain of requests that name none.
pub const DEFAULT_DOMAIN: &str = "default";

/// One limiter per domain, all over one store.
#[derive(Debug)]
pub struct Domains<S, C> {
    limiters: HashMap<String, Limiter<S, C>>,
    alarm: Alarm,
}

/// Two policies of one domain: which of them holds would be a guess.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two policies have the domain `{0}`")]
pub struct DuplicateDomain(pub String);

/// A request that no decision can be made for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No policy has the domain.
    #[error("no policy has the domain `{0}`")]
    UnknownDomain(String),
    /// The request does not fit the policy.
    #[error(transparent)]
    Ask(#[from] AskError),
}

/// Who made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The store.
    Store,
    /// The rule for the time in which the store does not answer.
    Fallback,
}

/// A decision and who made it.
#[derive(Clone, Debug)]
pub struct Outcome<'p> {
    /// The decision. Where the fallback decided, no limit states a remaining amount.
    pub verdict: Verdict<'p>,
    /// Who made it.
    pub decided_by: DecidedBy,
}

impl<S: Store + Clone, C: Clock + Clone> Domains<S, C> {
    /// Limiters for policies of different domains.
    pub fn new(
        policies: impl IntoIterator<Item = Policy>,
        store: &S,
        clock: &C,
    ) -> Result<Self, DuplicateDomain> {
        let mut limiters = HashMap::new();
        for policy in policies {
            let domain = policy.domain().to_owned();
            let limiter = Limiter::new(policy, store.clone(), clock.clone());
            if limiters.insert(domain.clone(), limiter).is_some() {
                return Err(DuplicateDomain(domain));
            }
        }
        Ok(Self { limiters, alarm: Alarm::default() })
    }
}

impl<S: Store, C: Clock> Domains<S, C> {
    /// The limiter of a domain, for callers that want to hear of a store that fails.
    pub fn limiter(&self, domain: &str) -> Option<&Limiter<S, C>> {
        self.limiters.get(domain)
    }

    /// The domain, if there is just one.
    pub fn only(&self) -> Option<&str> {
        let mut domains = self.limiters.keys();
        domains.next().filter(|_| domains.next().is_none()).map(String::as_str)
    }

    /// Decides a request of a domain. A store that fails never makes this fail: the request then passes, and the answer says so.
    ///
    /// # Errors
    /// [`RequestError`] if the request makes no sense for the domain's policy.
    pub async fn decide(
        &self,
        domain: &str,
        verb: Verb,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<Outcome<'_>, RequestError> {
        let limiter =
            self.limiters.get(domain).ok_or_else(|| RequestError::UnknownDomain(domain.to_owned()))?;
        match limiter.decide(verb, attributes, costs).await {
            Ok(verdict) => {
                self.alarm.end();
                Ok(Outcome { verdict, decided_by: DecidedBy::Store })
            }
            Err(LimiterError::Ask(error)) => Err(error.into()),
            Err(error) => {
                self.alarm.raise(&error, limiter.clock());
                fail_open(limiter, attributes, costs)
            }
        }
    }
}

/// The decision when the store does not answer: whatever could pass at all passes, and says that it was not counted.
///
/// A caller never gets an error instead of a decision, and an ill store does not stop the traffic that it is there
/// to protect. What needs no store to refuse is refused all the same: a cost that can never fit, an amount of 0.
fn fail_open<'p, S: Store, C: Clock>(
    limiter: &'p Limiter<S, C>,
    attributes: &Attributes,
    costs: &Costs,
) -> Result<Outcome<'p>, RequestError> {
    let matched = limiter.policy().apply(attributes, costs)?;
    let mut verdict = Verdict::of(&matched, limiter.clock().now(), without_store);
    // A limit that was not asked binds nothing; one that can never admit the cost does.
    verdict.binding = verdict.binding.filter(|_| !verdict.allowed);
    Ok(Outcome { verdict, decided_by: DecidedBy::Fallback })
}

fn without_store(ask: &Ask<'_>) -> AskDecision {
    let allowed = ask.cost <= ask.rule.max_cost();
    AskDecision {
        allowed,
        limit: Some(ask.rule.amount()),
        capacity: Some(ask.rule.max_cost()),
        retry: (!allowed).then_some(Retry::Never),
        ..AskDecision::UNLIMITED
    }
}

/// Warns that decisions are made without the store, at most once a second: a warning per request would fill a disk
/// at the very time in which the log is needed.
#[derive(Debug, Default)]
struct Alarm {
    /// The second of the last warning; 0 while the store decides.
    last_s: AtomicU64,
    /// The decisions since then.
    silent: AtomicU64,
}

impl Alarm {
    fn raise(&self, error: &LimiterError, clock: &impl Clock) {
        let now_s = clock.now().as_u64() / 1_000_000;
        if self.last_s.swap(now_s, Ordering::Relaxed) == now_s {
            self.silent.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let unreported = self.silent.swap(0, Ordering::Relaxed);
        let error = with_causes(error);
        tracing::warn!(error, unreported, "the store did not decide: requests pass uncounted");
    }

    /// Says once that the store decides again.
    fn end(&self) {
        if self.last_s.load(Ordering::Relaxed) != 0 && self.last_s.swap(0, Ordering::Relaxed) != 0 {
            let unreported = self.silent.swap(0, Ordering::Relaxed);
            tracing::info!(unreported, "the store decides again");
        }
    }
}
