//! What was denied and cannot have changed is denied without the store.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use sluicegate_core::{
    Ask, AskDecision, Charge, DecidedBy, Decision, LimitId, Micros, RequestId, Retry, Rule, Subject,
};
use tokio::time::Instant;

use crate::{
    asks::is_same,
    store::{Once, Settled, Store, StoreError},
};

/// A store whose denials are remembered, of the limits that say so ([`Ask::cache_denials`]).
///
/// What else happens to a key can only add to it, so that a cost that was denied stays denied, and every larger one too,
/// until the time at which it fits. Only who forgets or gives back changes that: if this happens here, the denial is
/// dropped before the call returns, and if elsewhere, it ends within [`DenialCache::MAX_AGE`], since no denial is
/// remembered for longer. A limit whose numbers changed is asked for anew.
///
/// A request is denied as soon as one of its asks is known to be; of the others nothing is said. A denial is remembered
/// only if it was the only one of its request.
#[derive(Debug)]
pub struct DenialCache<S> {
    store: S,
    parts: [Mutex<HashMap<u64, Denial>>; PARTS],
    hasher: RandomState,
    /// Counts what was dropped: an answer that was on its way meanwhile is not remembered.
    drops: AtomicU64,
}

/// Behind a lock each: callers of different keys hardly ever wait for each other.
const PARTS: usize = 16;

#[derive(Debug)]
struct Denial {
    id: LimitId,
    subject: Subject,
    rule: Rule,
    /// The cost that does not fit; no larger one does.
    cost: u64,
    /// The time that it was asked with.
    from: Micros,
    /// The time at which the cost fits; `None` if it never does.
    until: Option<Micros>,
    /// When the store was asked.
    asked_at: Instant,
    answer: AskDecision,
}

/// What is kept of the time before the store is asked.
struct Asked {
    at: Instant,
    drops: u64,
}

impl<S> DenialCache<S> {
    /// The longest that a denial is remembered, from the moment at which the store was asked.
    pub const MAX_AGE: Duration = Duration::from_millis(100);
    /// The most denials that are remembered. A part of them that is full begins anew.
    pub const MAX_DENIALS: usize = 16_384;

    /// Remembers the denials of a store.
    pub fn new(store: S) -> Self {
        let parts = std::array::from_fn(|_| Mutex::default());
        Self { store, parts, hasher: RandomState::new(), drops: AtomicU64::new(0) }
    }

    /// The store inside.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The denials that are in memory, those that are too old among them.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The denial of a request one of whose asks is known to be denied.
    fn known(&self, asks: &[Ask<'_>], now: Micros) -> Option<Decision> {
        let mut denied: Option<Vec<AskDecision>> = None;
        for (at, ask) in asks.iter().enumerate().filter(|(_, ask)| ask.cache_denials) {
            let is_asked_twice = || asks.iter().filter(|other| is_same(ask, other)).count() > 1;
            let Some(answer) = self.known_of(ask, now).filter(|_| !is_asked_twice()) else { continue };
            let answers = denied.get_or_insert_with(|| asks.iter().map(unasked).collect());
            if let Some(own) = answers.get_mut(at) {
                *own = answer;
            }
        }
        Some(Decision { allowed: false, asks: denied? })
    }

    fn known_of(&self, ask: &Ask<'_>, now: Micros) -> Option<AskDecision> {
        let (part, key) = self.place(ask.id, &ask.subject)?;
        let mut part = part.lock();
        let denial = part.get(&key).filter(|denial| denial.is_of(ask.id, &ask.subject))?;
        if denial.rule == *ask.rule {
            return denial.answer(ask, now);
        }
        // What other numbers do to the state, the denial does not know.
        self.drops.fetch_add(1, Ordering::Relaxed);
        part.remove(&key);
        None
    }

    fn asked(&self) -> Asked {
        Asked { at: Instant::now(), drops: self.drops.load(Ordering::Acquire) }
    }

    /// Remembers the denial of a request, if just one ask denied it.
    fn note(&self, asks: &[Ask<'_>], now: Micros, decision: &Decision, asked: &Asked) {
        let mut denied = asks.iter().zip(&decision.asks).filter(|(_, answer)| !answer.allowed);
        let (Some((ask, answer)), None) = (denied.next(), denied.next()) else { return };
        if !ask.cache_denials || answer.decided_by != DecidedBy::Store {
            return;
        }
        let Some((part, key)) = self.place(ask.id, &ask.subject) else { return };
        let denial = Denial::new(ask, now, *answer, asked.at);
        let mut part = part.lock();
        // Whoever drops counts first and then waits for the lock: what is put in before is taken out again.
        if self.drops.load(Ordering::Acquire) != asked.drops {
            return;
        }
        if part.len() >= Self::MAX_DENIALS / PARTS && !part.contains_key(&key) {
            part.clear();
        }
        part.insert(key, denial);
    }

    fn drop_denial(&self, id: LimitId, subject: &Subject) {
        self.drops.fetch_add(1, Ordering::AcqRel);
        if let Some((part, key)) = self.place(id, subject) {
            part.lock().remove(&key);
        }
    }

    /// The part and the number of a limit and a subject.
    fn place(&self, id: LimitId, subject: &Subject) -> Option<(&Mutex<HashMap<u64, Denial>>, u64)> {
        let key = self.hasher.hash_one((id, subject));
        let [low, ..] = key.to_le_bytes();
        Some((self.parts.get(usize::from(low) % PARTS)?, key))
    }
}

impl Denial {
    fn new(ask: &Ask<'_>, now: Micros, answer: AskDecision, asked_at: Instant) -> Self {
        let until = match answer.retry {
            Some(Retry::After(wait)) => Some(now.plus(wait)),
            Some(Retry::Never) => None,
            // A denial without a word on when to try again says nothing about later.
            None => Some(now),
        };
        let (id, subject, rule, cost) = (ask.id, ask.subject.clone(), ask.rule.clone(), ask.cost);
        Self { id, subject, rule, cost, from: now, until, asked_at, answer }
    }

    fn is_of(&self, id: LimitId, subject: &Subject) -> bool {
        self.id == id && self.subject == *subject
    }

    /// What is still true of it for an ask of its rule, later.
    fn answer(&self, ask: &Ask<'_>, now: Micros) -> Option<AskDecision> {
        let holds = ask.cost >= self.cost && self.from <= now && self.until.is_none_or(|until| now < until);
        if !holds || self.asked_at.elapsed() >= DenialCache::<()>::MAX_AGE {
            return None;
        }
        let gone = now.since(self.from);
        let fits = |until: Micros| Retry::After(until.since(now));
        let retry = self.until.filter(|_| ask.cost <= ask.rule.max_cost()).map_or(Retry::Never, fits);
        Some(AskDecision {
            reset_after: self.answer.reset_after.saturating_sub(gone),
            retry: Some(retry),
            decided_by: DecidedBy::Cache,
            ..self.answer
        })
    }
}

/// The answer to an ask of a request that another one denies.
fn unasked(ask: &Ask<'_>) -> AskDecision {
    AskDecision {
        limit: Some(ask.rule.amount()),
        capacity: Some(ask.rule.max_cost()),
        decided_by: DecidedBy::Cache,
        ..AskDecision::UNLIMITED
    }
}

/// Drops a denial when the call that changes it has ended, however that was.
struct Dropping<'c, S>(&'c DenialCache<S>, LimitId, &'c Subject);

impl<S> Drop for Dropping<'_, S> {
    fn drop(&mut self) {
        self.0.drop_denial(self.1, self.2);
    }
}

impl<S: Store> Store for DenialCache<S> {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        if asks.iter().all(|ask| !ask.cache_denials) {
            return self.store.take(asks, now).await;
        }
        if let Some(denied) = self.known(asks, now) {
            return Ok(denied);
        }
        let asked = self.asked();
        let decision = self.store.take(asks, now).await?;
        self.note(asks, now, &decision, &asked);
        Ok(decision)
    }

    /// An id that was admitted before is answered as it was then: only the store knows.
    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        self.store.take_once(id, asks, now).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.store.peek(asks, now).await
    }

    /// What it gives back, a remembered denial may hide for as long as it is remembered.
    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        let _dropping: Vec<_> =
            charges.iter().map(|charge| Dropping(self, charge.ask.id, &charge.ask.subject)).collect();
        self.store.settle(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        let _dropping = Dropping(self, id, subject);
        self.store.forget(id, subject).await
    }
}
