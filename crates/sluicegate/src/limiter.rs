//! The limiter: a policy over a store and a clock.

use std::time::Duration;

use sluicegate_core::{
    Algorithm, AskDecision, Attributes, Costs, DecidedBy, Decision, Micros, Policy, RequestId, Retry,
    policy::{Applied, AskError, Enforcement, Grant, Matched},
};

use crate::{
    acquire::Queues,
    clock::Clock,
    shadow,
    shards::{self, Pick},
    store::{Once, Store, StoreError, SureStore},
};

/// Decides requests: which limits of a policy apply, and whether the store lets them pass.
#[derive(Clone, Debug)]
pub struct Limiter<S, C> {
    policy: Policy,
    store: S,
    clock: C,
    queues: Queues,
}

/// The answer to one request, limit by limit.
#[derive(Clone, Debug)]
pub struct Verdict<'p> {
    /// Whether the request passes.
    pub allowed: bool,
    /// The limit that binds, as an index into `limits`; `None` if no bounded limit applies.
    pub binding: Option<usize>,
    /// The exemption that lets the request pass uncounted; then no limit applies.
    pub exempt: Option<&'p str>,
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
    /// Its window; `None` of a quota, whose periods differ in length.
    pub window: Option<Duration>,
    /// The unit that it counts.
    pub unit: &'p str,
    /// What the request costs in that unit.
    pub cost: u64,
    /// Whether its answer counts in the verdict.
    pub enforcement: Enforcement,
    /// The numbers.
    pub decision: AskDecision,
}

impl Verdict<'_> {
    /// When the request is worth another try; `None` if it passes.
    pub fn retry(&self) -> Option<Retry> {
        self.binding_limit()?.decision.retry
    }

    /// Who decided: the fallback if it did for any of the limits.
    pub fn decided_by(&self) -> DecidedBy {
        self.enforced().map(|limit| limit.decision.decided_by).max().unwrap_or_default()
    }

    /// The limits whose answers count.
    pub fn enforced(&self) -> impl Iterator<Item = &LimitVerdict<'_>> {
        self.limits.iter().filter(|limit| limit.enforcement == Enforcement::On)
    }

    /// How long an admitted request must wait before it proceeds.
    pub fn delay(&self) -> Duration {
        self.enforced().map(|limit| limit.decision.delay).max().unwrap_or_default()
    }

    /// The limit that binds.
    pub fn binding_limit(&self) -> Option<&LimitVerdict<'_>> {
        self.limits.get(self.binding?)
    }
}

impl LimitVerdict<'_> {
    /// What its amount is granted per, for people: `60s`, or `period` of a quota.
    pub fn per(&self) -> String {
        self.window.map_or_else(|| "period".to_owned(), |window| format!("{window:?}"))
    }

    /// The time after which more than now remains for certain, if nothing else happens; zero if nothing is used.
    ///
    /// A bucket gives its next token then, to the tick; a window gives back at its reset at the latest. For a refused
    /// cost it is when that cost fits, `None` if it never does.
    pub fn more_after(&self) -> Option<Duration> {
        match (self.decision.retry, self.algorithm) {
            (Some(Retry::After(wait)), _) => Some(wait),
            // The bucket that decided is a part of this limit's: its next token comes at an unknown time before its reset.
            (None, _) if self.decision.decided_by == DecidedBy::Fallback => Some(self.decision.reset_after),
            (Some(Retry::Never), _) => None,
            (None, Algorithm::TokenBucket | Algorithm::Gcra) => Some(self.next_token_after()),
            (None, _) => Some(self.decision.reset_after),
        }
    }

    /// A bucket is full at its reset, so its next token comes earlier by the time that all the others need.
    fn next_token_after(&self) -> Duration {
        let AskDecision { limit, capacity, remaining, reset_after, .. } = self.decision;
        let missing = capacity.unwrap_or_default().saturating_sub(remaining.unwrap_or_default());
        let others = u128::from(missing.saturating_sub(1));
        let amount = u128::from(limit.unwrap_or_default()).max(1);
        let window_us = self.window.unwrap_or_default().as_micros();
        let others_us = others.saturating_mul(window_us) / amount;
        reset_after.saturating_sub(Duration::from_micros(u64::try_from(others_us).unwrap_or(u64::MAX)))
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
    /// The id was settled with other costs, or they were counted under it; nothing was changed.
    #[error("the id `{0}` was settled with other costs")]
    OtherCosts(RequestId),
    /// The hold is more than a day old: whether it was settled is not known any more.
    #[error("the hold `{0}` was not settled within a day")]
    TooLate(RequestId),
    /// The id names another request, which was admitted. This one was not decided.
    #[error("the id `{0}` was used for another request")]
    OtherRequest(RequestId),
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
        Self { policy, store, clock, queues: Queues::default() }
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
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

    /// [`Limiter::take`], counted once however often it is made with this id: again within 24 hours it gets the same
    /// answer. So it may be tried again where nobody knows whether the first try was counted.
    ///
    /// # Errors
    /// As [`Limiter::take`], and [`LimiterError::OtherRequest`] if other limits, keys or costs were admitted under the id.
    ///
    /// ```
    /// use sluicegate::{Limiter, SystemClock, core::{Attributes, Costs, Policy}, embedded::EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = "{version: 1, limits: [{name: per-user, algorithm: gcra, limit: 5, per: 1h, key: [user]}]}";
    /// let limiter = Limiter::new(Policy::parse(policy)?, EmbeddedStore::default(), SystemClock::new());
    /// let (alice, one, id) = (Attributes::from_iter([("user", "alice")]), Costs::requests(1), "order-17".parse()?);
    /// for _try in 0..3 {
    ///     let verdict = limiter.take_once(&id, &alice, &one).await?;
    ///     assert_eq!(verdict.limits[0].decision.remaining, Some(4));
    /// }
    /// assert!(limiter.take_once(&id, &alice, &Costs::requests(2)).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take_once(
        &self,
        id: &RequestId,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<Verdict<'_>, LimiterError> {
        let (matched, pick) = (self.policy.apply(attributes, costs)?, Pick::of_id(id));
        let (asks, now) = (pick.asks(&matched, Enforcement::On), self.clock.now());
        let once = match asks.as_slice() {
            [] => Once::Decided { decision: Decision::of(Vec::new()), at: now },
            asks => self.store.take_once(id, asks, now).await?,
        };
        let verdict = self.tell_once(&matched, pick, now, once).await;
        verdict.ok_or_else(|| LimiterError::OtherRequest(id.clone()))
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
        let (matched, pick) = (self.policy.apply(attributes, costs)?, Pick::by_chance());
        let (asks, now) = (pick.asks(&matched, Enforcement::On), self.clock.now());
        let mut decision = match (asks.as_slice(), verb) {
            ([], _) => Decision::of(Vec::new()),
            (asks, Verb::Take) => self.store.take(asks, now).await?,
            (asks, Verb::Peek) => self.store.peek(asks, now).await?,
        };
        if verb == Verb::Take
            && let Some(asks) = pick.once_more(&matched, &decision)
        {
            decision = self.store.take(&asks, now).await?;
        }
        Ok(self.tell(verb, &matched, pick, now, decision).await)
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// The verdict of a request that was decided, once the limits in shadow have seen it too.
    pub(crate) async fn tell<'p>(
        &self,
        verb: Verb,
        matched: &Matched<'p>,
        pick: Pick,
        now: Micros,
        decision: Decision,
    ) -> Verdict<'p> {
        let verb = if decision.allowed { verb } else { Verb::Peek };
        let watched = shadow::watch(&self.store, verb, matched, pick, now).await;
        Verdict::of(matched, now, decision, watched)
    }

    /// The same of a request with an id: when it is made again, the limits in shadow have counted it before.
    pub(crate) async fn tell_once<'p>(
        &self,
        matched: &Matched<'p>,
        pick: Pick,
        now: Micros,
        once: Once,
    ) -> Option<Verdict<'p>> {
        match once {
            Once::Decided { decision, at } => {
                let verb = if at == now { Verb::Take } else { Verb::Peek };
                Some(self.tell(verb, matched, pick, at, decision).await)
            }
            Once::OtherRequest => None,
        }
    }
}

impl<S: SureStore, C: Clock> Limiter<S, C> {
    /// [`Limiter::take_once`] over a store that always decides; `None` if the id names another request.
    ///
    /// # Errors
    /// [`AskError`] if the request does not fit the policy.
    pub async fn take_once_surely(
        &self,
        id: &RequestId,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<Option<Verdict<'_>>, AskError> {
        let (matched, pick) = (self.policy.apply(attributes, costs)?, Pick::of_id(id));
        let (asks, now) = (pick.asks(&matched, Enforcement::On), self.clock.now());
        let once = match asks.as_slice() {
            [] => Once::Decided { decision: Decision::of(Vec::new()), at: now },
            asks => self.store.decide_once(id, asks, now).await,
        };
        Ok(self.tell_once(&matched, pick, now, once).await)
    }

    /// [`Limiter::decide`] over a store that always decides.
    ///
    /// # Errors
    /// [`AskError`] if the request does not fit the policy.
    pub async fn decide_surely(
        &self,
        verb: Verb,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<Verdict<'_>, AskError> {
        let (matched, pick) = (self.policy.apply(attributes, costs)?, Pick::by_chance());
        let (asks, now) = (pick.asks(&matched, Enforcement::On), self.clock.now());
        let mut decision = match asks.as_slice() {
            [] => Decision::of(Vec::new()),
            asks => self.store.decide(verb, asks, now).await,
        };
        if verb == Verb::Take
            && let Some(asks) = pick.once_more(&matched, &decision)
        {
            decision = self.store.decide(verb, &asks, now).await;
        }
        Ok(self.tell(verb, &matched, pick, now, decision).await)
    }
}

impl<'p> Verdict<'p> {
    /// The verdict of a request whose asks were decided, and whose asks in shadow were watched.
    fn of(
        matched: &Matched<'p>,
        decided_at: Micros,
        decision: Decision,
        watched: Vec<Option<AskDecision>>,
    ) -> Self {
        let (mut decided, mut watched) = (decision.asks.into_iter(), watched.into_iter());
        let mut answer = |applied: &Applied<'p>| match (&applied.ask, applied.enforcement) {
            (Some(_), Enforcement::On) => decided.next(),
            (Some(_), _) => watched.next().flatten(),
            (None, _) => None,
        };
        let limits: Vec<LimitVerdict<'p>> =
            matched.limits.iter().map(|applied| LimitVerdict::of(applied, answer(applied))).collect();
        Self::of_limits(limits, matched.exempt, decided_at)
    }

    /// The verdict that limits come to: those that are not enforced have no say.
    pub(crate) fn of_limits(
        limits: Vec<LimitVerdict<'p>>,
        exempt: Option<&'p str>,
        decided_at: Micros,
    ) -> Self {
        let enforced: Vec<usize> = (0..limits.len())
            .filter(|at| limits.get(*at).is_some_and(|limit| limit.enforcement == Enforcement::On))
            .collect();
        let all = Decision::of(enforced.iter().filter_map(|at| Some(limits.get(*at)?.decision)).collect());
        let binding = all.binding().and_then(|at| enforced.get(at).copied());
        Self { allowed: all.allowed, binding, exempt, limits, decided_at }
    }
}

impl<'p> LimitVerdict<'p> {
    fn of(applied: &Applied<'p>, answer: Option<AskDecision>) -> Self {
        let (algorithm, window) = applied.grant.shape();
        LimitVerdict {
            name: &applied.limit.name,
            algorithm,
            window,
            unit: &applied.limit.unit,
            cost: applied.cost,
            enforcement: applied.enforcement,
            decision: match (answer, applied.shards()) {
                (Some(part), Some(shards)) => shards::told(shards, part),
                (Some(answer), None) => answer,
                (None, _) => unasked(applied.grant),
            },
        }
    }
}

/// The answer of a limit that was not asked, or could not say: it stands in nobody's way, and nothing is known of what was
/// used.
fn unasked(grant: &Grant) -> AskDecision {
    match grant {
        Grant::Unlimited { .. } => AskDecision::UNLIMITED,
        Grant::Bounded(rule) => AskDecision {
            limit: Some(rule.amount()),
            capacity: Some(rule.max_cost()),
            ..AskDecision::UNLIMITED
        },
        Grant::Sharded(shards) => AskDecision {
            limit: Some(shards.whole().amount()),
            capacity: Some(shards.max_cost()),
            ..AskDecision::UNLIMITED
        },
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{Question, Rule, Skew};

    use super::*;

    /// A bucket of 7 per 3 s with a burst of 5, after each cost and each time: when is its next token there?
    #[test]
    fn a_bucket_has_its_next_token_when_told_and_not_two_ticks_earlier()
    -> Result<(), Box<dyn std::error::Error>> {
        let rule = Rule::token_bucket(7, Duration::from_secs(3), 5)?;
        let begin = Micros::from_secs(1_700_000_000);
        let ask = |cost, after| Question { rule: &rule, key: b"", cost, now: begin.plus(after) };
        for (cost, after_us) in
            (1..=5).flat_map(|cost| (0..3_000_000).step_by(71_993).map(move |us| (cost, us)))
        {
            let charged = ask(cost, Duration::ZERO).charge(ask(cost, Duration::ZERO).roll(None)?);
            let at = |after| {
                let state = ask(0, after).roll(Some(charged.clone()))?;
                Ok::<_, Skew>(ask(0, after).report(&state, false))
            };
            let after = Duration::from_micros(after_us);
            let (name, unit) = ("", "");
            let (algorithm, window) = (rule.algorithm(), Some(rule.window()));
            let (enforcement, decision) = (Enforcement::On, at(after)?);
            let told = LimitVerdict { name, algorithm, window, unit, cost: 0, enforcement, decision };
            let more_after = told.more_after().ok_or("never")?;
            if told.decision.remaining == told.decision.capacity {
                assert_eq!(more_after, Duration::ZERO);
                continue;
            }
            assert!(at(after + more_after)?.remaining > told.decision.remaining, "{cost} {after:?}");
            let earlier = (after + more_after).saturating_sub(Duration::from_micros(2)).max(after);
            assert_eq!(at(earlier)?.remaining, told.decision.remaining, "{cost} {after:?}");
        }
        Ok(())
    }
}
