//! The limiter: a policy over a store and a clock.

use std::time::Duration;

use sluicegate_core::{
    Algorithm, Ask, AskDecision, Attributes, Costs, Decision, Micros, Policy, Retry,
    policy::{Applied, AskError},
};

use crate::{clock::Clock, store::Store, store::StoreError};

/// Decides requests: which limits of a policy apply, and whether the store lets them pass.
#[derive(Clone, Debug)]
pub struct Limiter<S, C> {
    policy: Policy,
    store: S,
    clock: C,
}

/// The answer to one request, limit by limit.
#[derive(Clone, Debug)]
pub struct Verdict<'p> {
    /// Whether the request passes.
    pub allowed: bool,
    /// The limit that binds, as an index into `limits`; `None` if no bounded limit applies.
    pub binding: Option<usize>,
    /// Every limit that applies, in the order of the policy.
    pub limits: Vec<LimitVerdict<'p>>,
    /// The time that the decision was made with: what the durations of the answers count from.
    pub decided_at: Micros,
}

/// The answer of one limit.
#[derive(Clone, Debug)]
pub struct LimitVerdict<'p> {
    /// The limit's name.
    pub name: &'p str,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// Its window.
    pub window: Duration,
    /// The unit that it counts.
    pub unit: &'p str,
    /// What the request costs in that unit.
    pub cost: u64,
    /// The numbers.
    pub decision: AskDecision,
}

impl Verdict<'_> {
    /// When the request is worth another try; `None` if it passes.
    pub fn retry(&self) -> Option<Retry> {
        self.binding_limit()?.decision.retry
    }

    /// How long an admitted request must wait before it proceeds.
    pub fn delay(&self) -> Duration {
        self.limits.iter().map(|limit| limit.decision.delay).max().unwrap_or_default()
    }

    /// The limit that binds.
    pub fn binding_limit(&self) -> Option<&LimitVerdict<'_>> {
        self.limits.get(self.binding?)
    }
}

/// A request without a verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// The request does not fit the policy.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The store could not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether a decision counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Counts if allowed.
    Take,
    /// Never counts.
    Peek,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// A limiter for one domain.
    pub fn new(policy: Policy, store: S, clock: C) -> Self {
        Self { policy, store, clock }
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Checks all limits that apply and, only if all pass, counts the cost on each, in one atomic step.
    ///
    /// # Errors
    /// [`LimiterError::Ask`] if the request does not fit the policy, [`LimiterError::Store`] if the store could not
    /// decide. A denial is a verdict, not an error.
    pub async fn take(&self, attributes: &Attributes, costs: &Costs) -> Result<Verdict<'_>, LimiterError> {
        self.decide(Verb::Take, attributes, costs).await
    }

    /// Answers as [`Limiter::take`] would, and counts nothing.
    ///
    /// # Errors
    /// As [`Limiter::take`].
    pub async fn peek(&self, attributes: &Attributes, costs: &Costs) -> Result<Verdict<'_>, LimiterError> {
        self.decide(Verb::Peek, attributes, costs).await
    }

    /// [`Limiter::take`] or [`Limiter::peek`], by name.
    ///
    /// # Errors
    /// As [`Limiter::take`].
    pub async fn decide(
        &self,
        verb: Verb,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<Verdict<'_>, LimiterError> {
        let applied = self.policy.apply(attributes, costs)?;
        let asks: Vec<Ask<'_>> = applied.iter().filter_map(|applied| applied.ask.clone()).collect();
        let now = self.clock.now();
        let decision = match (asks.as_slice(), verb) {
            ([], _) => Decision::of(Vec::new()),
            (asks, Verb::Take) => self.store.take(asks, now).await?,
            (asks, Verb::Peek) => self.store.peek(asks, now).await?,
        };
        Ok(verdict(&applied, decision, now))
    }
}

fn verdict<'p>(applied: &[Applied<'p>], decision: Decision, decided_at: Micros) -> Verdict<'p> {
    let mut answers = decision.asks.into_iter();
    let mut answer = |applied: &Applied<'p>| match &applied.ask {
        Some(_) => answers.next().unwrap_or(AskDecision::UNLIMITED),
        None => AskDecision::UNLIMITED,
    };
    let all = Decision::of(applied.iter().map(&mut answer).collect());
    let limits = applied.iter().zip(&all.asks).map(|(applied, decision)| {
        let (algorithm, window) = applied.limit.grant.shape();
        LimitVerdict {
            name: &applied.limit.name,
            algorithm,
            window,
            unit: &applied.limit.unit,
            cost: applied.cost,
            decision: *decision,
        }
    });
    Verdict { allowed: all.allowed, binding: all.binding(), limits: limits.collect(), decided_at }
}
