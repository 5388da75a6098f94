//! Costs that are known only afterwards: an estimate is held, and settled by what it turned out to be.

use sluicegate_core::{
    Algorithm, Ask, Attributes, Charge, Costs, DecidedBy, Decision, Micros, Question, RequestId,
    policy::{AskError, Enforcement, Matched},
};

use crate::{
    clock::Clock,
    limiter::{Limiter, LimiterError, Verdict},
    shards::Pick,
    store::{Once, Settled, Store},
};

/// A request that was admitted at an estimate. What nobody settles stays charged: whoever dies has spent what it held.
#[derive(Clone, Debug)]
pub struct Hold<'p> {
    id: RequestId,
    at: Micros,
    held: Vec<Held<'p>>,
}

/// One limit's part of a hold.
#[derive(Clone, Debug)]
struct Held<'p> {
    ask: Ask<'p>,
    unit: &'p str,
    charged_at: u64,
}

impl<'p> Held<'p> {
    /// The charge at what it turned out to cost.
    fn settled(&self, costs: &Costs) -> Charge<'p> {
        Charge { ask: self.ask.clone(), charged_at: self.charged_at, actual: costs.of(self.unit) }
    }

    /// The charge of a cost that nobody held.
    fn debited(self) -> Charge<'p> {
        let actual = self.ask.cost;
        Charge { ask: Ask { cost: 0, ..self.ask }, charged_at: self.charged_at, actual }
    }
}

impl Hold<'_> {
    /// The id under which it is held, and settled.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// When it was admitted. It is to be settled within [`RequestId::LIFETIME`] from then.
    pub fn at(&self) -> Micros {
        self.at
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// [`Limiter::take_once`] at an estimate, with a [`Hold`] to settle if it is admitted.
    ///
    /// # Errors
    /// As [`Limiter::take_once`].
    ///
    /// ```
    /// use sluicegate::{Limiter, SystemClock, core::{Attributes, Costs, Policy}, embedded::EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = "{version: 1, limits: [{name: tokens, algorithm: quota, unit: tokens, limit: 1000,
    ///     period: {every: month}, key: [org]}]}";
    /// let limiter = Limiter::new(Policy::parse(policy)?, EmbeddedStore::default(), SystemClock::new());
    /// let (acme, tokens) = (Attributes::from_iter([("org", "acme")]), |n| Costs::of_units([("tokens", n)]));
    /// let (verdict, hold) = limiter.hold(&"call-1".parse()?, &acme, &tokens(400)).await?;
    /// assert_eq!(verdict.limits[0].decision.remaining, Some(600));
    /// limiter.settle(&hold.ok_or("denied")?, &tokens(150)).await?;
    /// assert_eq!(limiter.peek(&acme, &tokens(0)).await?.limits[0].decision.remaining, Some(850));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold(
        &self,
        id: &RequestId,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<(Verdict<'_>, Option<Hold<'_>>), LimiterError> {
        let (matched, pick) = (self.policy().apply(attributes, costs)?, Pick::of_id(id));
        let (asks, now) = (pick.asks(&matched, Enforcement::On), self.clock().now());
        let once = match asks.as_slice() {
            [] => Once::Decided { decision: Decision::of(Vec::new()), at: now },
            asks => self.store().take_once(id, asks, now).await?,
        };
        let verdict = self.tell_once(&matched, pick, now, once).await;
        let verdict = verdict.ok_or_else(|| LimiterError::OtherRequest(id.clone()))?;
        let at = verdict.decided_at;
        let hold = verdict.allowed.then(|| {
            let mut held = held(&matched, pick, at);
            if verdict.decided_by() == DecidedBy::Fallback {
                // The store counted nothing, and so has nothing to give back.
                for held in &mut held {
                    held.ask.cost = 0;
                }
            }
            Hold { id: id.clone(), at, held }
        });
        Ok((verdict, hold))
    }

    /// Replaces what was held by what it cost, in every unit: a rate limit gets back what was not used, and a quota counts what
    /// was used, be it more than is left. No limit refuses it, and made again it changes nothing. It counts in the period in
    /// which it was held.
    ///
    /// # Errors
    /// [`LimiterError::Ask`] for a unit that nothing was held in, [`LimiterError::OtherCosts`] if it was settled with other
    /// costs, [`LimiterError::TooLate`] more than a day after it was held, and [`LimiterError::Store`], after which it is to be
    /// made again.
    pub async fn settle(&self, hold: &Hold<'_>, costs: &Costs) -> Result<(), LimiterError> {
        let now = self.clock().now();
        if now >= hold.at.plus(RequestId::LIFETIME) {
            return Err(LimiterError::TooLate(hold.id.clone()));
        }
        let is_held = |unit: &str| hold.held.iter().any(|held| held.unit == unit);
        if let Some(unit) = costs.units().find(|unit| !is_held(unit)) {
            let (domain, unit) = (self.policy().domain().to_owned(), unit.to_owned());
            return Err(AskError::UnknownUnit { domain, unit }.into());
        }
        let charges: Vec<Charge<'_>> = hold.held.iter().map(|held| held.settled(costs)).collect();
        self.count(&hold.id, &charges, now).await
    }

    /// Counts a cost that was learned afterwards on all quotas that apply, once for its id, which no hold has. No limit refuses
    /// it. Rate limits are left alone: they limit what begins, and this has been.
    ///
    /// # Errors
    /// As [`Limiter::take`], and [`LimiterError::OtherCosts`] if other costs were counted under the id.
    pub async fn debit(
        &self,
        id: &RequestId,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<(), LimiterError> {
        let (matched, now) = (self.policy().apply(attributes, costs)?, self.clock().now());
        let quotas = held(&matched, Pick::of_id(id), now).into_iter();
        let quotas = quotas.filter(|held| held.ask.rule.algorithm() == Algorithm::Quota);
        let charges: Vec<Charge<'_>> = quotas.map(Held::debited).collect();
        self.count(id, &charges, now).await
    }

    async fn count(&self, id: &RequestId, charges: &[Charge<'_>], now: Micros) -> Result<(), LimiterError> {
        if charges.is_empty() {
            return Ok(());
        }
        match self.store().settle(id, charges, now).await? {
            Settled::Done => Ok(()),
            Settled::OtherCosts => Err(LimiterError::OtherCosts(id.clone())),
        }
    }
}

/// What the enforced limits of a request are charged at that time.
fn held<'p>(matched: &Matched<'p>, pick: Pick, at: Micros) -> Vec<Held<'p>> {
    let enforced = matched.limits.iter().filter(|applied| applied.enforcement == Enforcement::On);
    let held = enforced.filter_map(|applied| {
        let ask = pick.on_first(applied)?;
        let question =
            Question { rule: ask.rule, key: ask.subject.as_str().as_bytes(), cost: ask.cost, now: at };
        let charged_at = question.charged_now();
        Some(Held { ask, unit: &applied.limit.unit, charged_at })
    });
    held.collect()
}
