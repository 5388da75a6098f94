//! Several sets of limits that are decided as one: if one of them refuses, none is counted.

use std::borrow::Cow;

use sluicegate_core::{
    Attributes, Decision, Micros,
    policy::{Enforcement, Matched},
};

use crate::{
    clock::Clock,
    limiter::{Limiter, Verb, Verdict},
    shards::Pick,
    store::SureStore,
};

/// The limits that apply to one part of a request.
#[derive(Clone, Debug)]
pub struct Part<'p> {
    /// Whether the part counts or is only checked.
    pub verb: Verb,
    /// What it is about.
    pub attributes: Cow<'p, Attributes>,
    /// Its limits, each with its ask.
    pub matched: Matched<'p>,
}

impl<S: SureStore, C: Clock> Limiter<S, C> {
    /// Decides all parts of a request: each gets a verdict of its own, in their order, and only if all pass is any
    /// counted.
    ///
    /// Parts to take are taken in one atomic step. Parts to peek are looked at first; if one of them is refused, the
    /// others are only peeked. Since a peek counts nothing, it is no matter that something may happen between the two.
    pub async fn decide_all<'p>(&self, parts: &[Part<'p>]) -> Vec<Verdict<'p>> {
        let (pick, now) = (Pick::by_chance(), self.clock().now());
        let peeked = self.answer(Verb::Peek, pick, now, &all_of(parts, Verb::Peek)).await;
        // What cannot pass as a whole must count nothing.
        let verb = if peeked.allowed { Verb::Take } else { Verb::Peek };
        let taken = self.answer(verb, pick, now, &all_of(parts, Verb::Take)).await;
        let passes = peeked.allowed && taken.allowed;
        let (mut peeked, mut taken) = (peeked.asks.into_iter(), taken.asks.into_iter());
        let mut verdicts = Vec::with_capacity(parts.len());
        for part in parts {
            let answers = if part.verb == Verb::Peek { &mut peeked } else { &mut taken };
            let own = answers.by_ref().take(pick.asks(&part.matched, Enforcement::On).len()).collect();
            let verb = if passes { part.verb } else { Verb::Peek };
            verdicts.push(self.tell(verb, &part.matched, pick, now, Decision::of(own)).await);
        }
        verdicts
    }

    /// Asks the store, unless there is nothing to ask.
    async fn answer(&self, verb: Verb, pick: Pick, now: Micros, all: &Matched<'_>) -> Decision {
        let asks = pick.asks(all, Enforcement::On);
        if asks.is_empty() {
            return Decision::of(Vec::new());
        }
        let decision = self.store().decide(verb, &asks, now).await;
        match pick.once_more(all, &decision).filter(|_| verb == Verb::Take) {
            Some(asks) => self.store().decide(verb, &asks, now).await,
            None => decision,
        }
    }
}

/// The limits of all parts with that verb.
fn all_of<'p>(parts: &[Part<'p>], verb: Verb) -> Matched<'p> {
    let parts = parts.iter().filter(|part| part.verb == verb);
    let limits = parts.flat_map(|part| part.matched.limits.iter().cloned()).collect();
    Matched { exempt: None, limits }
}

impl Verdict<'_> {
    /// What several verdicts of one time say together: all of their limits, and the one of them that binds.
    pub fn of_all(verdicts: &[Self]) -> Self {
        let limits: Vec<_> = verdicts.iter().flat_map(|verdict| verdict.limits.iter().cloned()).collect();
        // Of several, an exemption of one says nothing about the others.
        let exempt = verdicts.iter().find_map(|verdict| verdict.exempt).filter(|_| limits.is_empty());
        let decided_at = verdicts.first().map_or(Micros::new(0), |verdict| verdict.decided_at);
        Self::of_limits(limits, exempt, decided_at)
    }
}
