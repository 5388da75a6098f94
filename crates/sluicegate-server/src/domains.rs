//! The domains that a server decides for.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use sluicegate::{
    Clock, Limiter, Part, Store, SureStore, Verb, Verdict,
    core::{
        Attributes, Costs, Policy, RequestId,
        policy::{AskError, Assignments, MAX_APPLIED, explain::Explanation},
    },
};

use crate::{
    descriptors::Tree,
    metrics::{DomainMeter, Meters, Timing},
};

/// The domain of requests that name none.
pub const DEFAULT_DOMAIN: &str = "default";

/// One limiter per domain, all over one store.
#[derive(Debug)]
pub struct Domains<S, C> {
    limiters: HashMap<String, Limiter<S, C>>,
    /// Of domains whose limits count the descriptors that lead to them.
    trees: HashMap<String, Tree>,
    assignments: Option<Assignments>,
    metered: Option<Metered>,
}

/// What decisions are counted by.
#[derive(Debug)]
struct Metered {
    meters: Arc<Meters>,
    domains: HashMap<String, DomainMeter>,
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
    /// The id names another request.
    #[error("the id `{0}` was used for another request")]
    OtherRequest(RequestId),
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
        Ok(Self { limiters, trees: HashMap::new(), assignments: None, metered: None })
    }
}

impl<S: Store, C: Clock> Domains<S, C> {
    /// The same domains, in one of which users and organisations have tiers.
    #[must_use]
    pub fn with_assignments(self, assignments: Assignments) -> Self {
        Self { assignments: Some(assignments), ..self }
    }

    /// The same domains, some of which find the limit of a descriptor by a tree.
    #[must_use]
    pub fn with_trees(self, trees: HashMap<String, Tree>) -> Self {
        Self { trees, ..self }
    }

    /// The tree of a domain that has one.
    pub fn tree(&self, domain: &str) -> Option<&Tree> {
        self.trees.get(domain)
    }

    /// The same domains, whose decisions are counted.
    #[must_use]
    pub fn metered(self, meters: &Arc<Meters>) -> Self {
        let domains = meters.domains(self.limiters().map(Limiter::policy));
        Self { metered: Some(Metered { meters: meters.clone(), domains }), ..self }
    }

    /// The limiters of all domains, in no order.
    pub fn limiters(&self) -> impl Iterator<Item = &Limiter<S, C>> {
        self.limiters.values()
    }

    /// The limiter of a domain.
    pub fn limiter(&self, domain: &str) -> Option<&Limiter<S, C>> {
        self.limiters.get(domain)
    }

    /// The domain, if there is just one.
    pub fn only(&self) -> Option<&str> {
        let mut domains = self.limiters.keys();
        domains.next().filter(|_| domains.next().is_none()).map(String::as_str)
    }
}

impl<S: SureStore, C: Clock> Domains<S, C> {
    /// Decides a request of a domain. A tier that is assigned to its user or organisation stands in the place of the
    /// attribute `tier`, which callers are trusted to set otherwise.
    ///
    /// # Errors
    /// [`RequestError`] if the request makes no sense for the domain's policy.
    pub async fn decide(
        &self,
        domain: &str,
        verb: Verb,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<Verdict<'_>, RequestError> {
        let limiter = self.limiter(domain).ok_or_else(|| RequestError::UnknownDomain(domain.to_owned()))?;
        let _timing = self.time();
        let attributes = self.assigned(limiter, attributes);
        let verdict = limiter.decide_surely(verb, &attributes, costs).await?;
        if verb == Verb::Take {
            self.count(domain, &attributes, &verdict, verdict.allowed);
        }
        Ok(verdict)
    }

    /// What [`Domains::decide`] would answer to a take by now, and why. Nothing is counted.
    ///
    /// # Errors
    /// As [`Domains::decide`].
    pub async fn explain(
        &self,
        domain: &str,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<(Verdict<'_>, Explanation<'_>), RequestError> {
        let limiter = self.limiter(domain).ok_or_else(|| RequestError::UnknownDomain(domain.to_owned()))?;
        let attributes = self.assigned(limiter, attributes);
        let explanation = limiter.policy().explain(&attributes, costs)?;
        Ok((limiter.decide_surely(Verb::Peek, &attributes, costs).await?, explanation))
    }

    /// Takes for a request of a domain, counted once for an id.
    ///
    /// # Errors
    /// As [`Domains::decide`], and [`RequestError::OtherRequest`] if the id was used for another request.
    pub async fn take_once(
        &self,
        domain: &str,
        id: &RequestId,
        attributes: &Attributes,
        costs: &Costs,
    ) -> Result<Verdict<'_>, RequestError> {
        let limiter = self.limiter(domain).ok_or_else(|| RequestError::UnknownDomain(domain.to_owned()))?;
        let _timing = self.time();
        let attributes = self.assigned(limiter, attributes);
        let taken = limiter.take_once_surely(id, &attributes, costs).await?;
        let verdict = taken.ok_or_else(|| RequestError::OtherRequest(id.clone()))?;
        self.count(domain, &attributes, &verdict, verdict.allowed);
        Ok(verdict)
    }

    /// Decides the parts of one request of a domain as one: if one is refused, none is counted.
    ///
    /// # Errors
    /// [`AskError::TooManyLimits`] if more limits apply to them all than are decided at once.
    pub async fn decide_all<'p>(
        &self,
        limiter: &Limiter<S, C>,
        parts: &[Part<'p>],
    ) -> Result<Vec<Verdict<'p>>, RequestError> {
        if parts.iter().map(|part| part.matched.limits.len()).sum::<usize>() > MAX_APPLIED {
            let domain = limiter.policy().domain().to_owned();
            return Err(AskError::TooManyLimits { domain }.into());
        }
        let _timing = self.time();
        let verdicts = limiter.decide_all(parts).await;
        let passed = verdicts.iter().all(|verdict| verdict.allowed);
        for (part, verdict) in parts.iter().zip(&verdicts).filter(|(part, _)| part.verb == Verb::Take) {
            self.count(limiter.policy().domain(), &part.attributes, verdict, passed);
        }
        Ok(verdicts)
    }

    /// Times a decision until the answer is dropped.
    fn time(&self) -> Option<Timing<'_>> {
        self.metered.as_ref().map(|metered| metered.meters.time())
    }

    fn count(&self, domain: &str, attributes: &Attributes, verdict: &Verdict<'_>, passed: bool) {
        let Some(metered) = &self.metered else { return };
        if let Some(meter) = metered.domains.get(domain) {
            metered.meters.count(meter, attributes, verdict, passed);
        }
    }

    /// The attributes that a request is decided with.
    pub(crate) fn assigned<'a>(
        &self,
        limiter: &Limiter<S, C>,
        attributes: &'a Attributes,
    ) -> Cow<'a, Attributes> {
        let domain = limiter.policy().domain();
        match self.assignments.as_ref().filter(|all| all.domain() == domain) {
            Some(assignments) => assignments.over(attributes, limiter.clock().now()),
            None => Cow::Borrowed(attributes),
        }
    }
}
