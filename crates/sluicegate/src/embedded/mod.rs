//! The embedded store: exact under any number of threads, in bounded memory, without other software.
//!
//! Up to [`EmbeddedConfig::max_keys`] keys are counted one by one. A key that has reset makes room for others; one
//! that has not is never evicted. What finds no room is counted in a sketch that may refuse too early and never
//! admits too much, so that a flood of new keys frees nobody.

use sluicegate_core::{
    Algorithm, Ask, AskDecision, Charge, Decision, LimitId, Micros, Payload, Question, RequestId, Rule, Skew,
    State, Subject, rule::AnyMachine,
};
use smallvec::SmallVec;

use crate::{
    asks::Merged,
    limiter::Verb,
    store::{Once, Settled, Store, StoreError, SureStore},
};

mod fingerprint;
mod ids;
mod keyed;
mod logs;
mod record;
mod sketch;
mod table;

use fingerprint::{Fingerprint, Secret};
use ids::Ids;
pub use keyed::{KeyedLimiter, Refused};
use logs::Logs;
use record::Slotted;
use sketch::{Estimate, Sketch};
use table::{Busy, Home, Locked, Numbers, Place, Table};

/// How much an embedded store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedConfig {
    /// Keys that are counted one by one, each limit's key for itself: 1 to 2^31, by default 2^20 (about 54 MB once
    /// all are in use; less before).
    pub max_keys: usize,
    /// Entries of all sliding logs together, 16 bytes each: by default four for each of `max_keys`. Beyond it, entries
    /// of one key are merged, which counts them longer than due, never shorter.
    pub max_log_entries: usize,
    /// Ids of requests that are remembered, some 300 bytes each: by default 2^16. Beyond it the oldest is forgotten, and
    /// its request would be counted again.
    pub max_ids: usize,
}

impl EmbeddedConfig {
    /// Room for that many keys.
    pub const fn for_keys(max_keys: usize) -> Self {
        Self { max_keys, max_log_entries: max_keys.saturating_mul(4), max_ids: 1 << 16 }
    }
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        Self::for_keys(1 << 20)
    }
}

/// Keeps all state in this process.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{core::{Ask, LimitId, Micros, Rule, Subject}, embedded::EmbeddedStore};
///
/// let store = EmbeddedStore::default();
/// let rule = Rule::sliding_log(1, Duration::from_secs(1))?;
/// let subject = Subject::new("api", &[], &[("user", Some("alice"))]);
/// let ask = Ask::new(&rule, LimitId::of("per-user", &rule), subject, 1);
/// assert!(store.take_now(&[ask.clone()], Micros::from_secs(7)).allowed);
/// assert!(!store.take_now(&[ask], Micros::from_secs(7)).allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EmbeddedStore {
    secret: Secret,
    table: Table,
    logs: Logs,
    sketch: Sketch,
    ids: Ids,
}

/// A cell of the sketch for so many keys of the table.
const KEYS_PER_CELL: usize = 16;
const MIN_CELLS: usize = 1_024;
/// Looks at a key that others are changing, before a caller queues for the lock.
const FAST_TRIES: u32 = 64;
const MAX_KEYS: usize = 1 << 31;

/// One of each ask, without an allocation for up to four asks.
type Few<T> = SmallVec<[T; 4]>;

/// One limit, key and cost, found in memory.
struct Seat<'a> {
    question: Question<'a>,
    fingerprint: Fingerprint,
    found: Found,
}

/// What was decided without a lock: the state as of now, charged or refused, as a slot holds it.
struct Fast {
    numbers: Numbers,
    charged: bool,
}

/// Where a key is counted.
enum Found {
    /// In a slot of its own, with the state as of now; `old` if the slot was not claimed just now. `moved` is what
    /// was moved to now after a clock stepped back: a denial keeps it, or each later one would move it anew.
    Slot { place: Place, old: Option<Numbers>, state: State, moved: Option<State> },
    /// In the sketch.
    Sketch(Estimate),
}

impl Default for EmbeddedStore {
    fn default() -> Self {
        Self::new(EmbeddedConfig::default())
    }
}

impl EmbeddedStore {
    /// A store of that size. Memory is laid out at once and used as keys come.
    pub fn new(config: EmbeddedConfig) -> Self {
        let max_keys = config.max_keys.clamp(1, MAX_KEYS);
        Self {
            secret: Secret::default(),
            table: Table::new(max_keys),
            logs: Logs::new(config.max_log_entries.max(1)),
            sketch: Sketch::new((max_keys / KEYS_PER_CELL).max(MIN_CELLS)),
            ids: Ids::new(config.max_ids),
        }
    }

    /// [`Store::take`] without a future, for callers in this process.
    pub fn take_now(&self, asks: &[Ask<'_>], now: Micros) -> Decision {
        if let [ask] = asks {
            return Decision::of(vec![self.take_one(&Keyed::of(ask), now)]);
        }
        self.decide(asks, now, true)
    }

    /// [`Store::take_once`] without a future.
    pub fn take_once_now(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Once {
        let merged = Merged::of(asks);
        let decide = || {
            let decision = self.take_now(asks, now);
            let counts = decision.allowed && asks.iter().any(|ask| ask.cost > 0);
            (decision, counts)
        };
        self.ids.once(RequestId::scope(asks), id, Payload::of(merged.asks()), now, decide)
    }

    /// [`Store::settle`] without a future.
    pub fn settle_now(&self, id: &RequestId, charges: &[Charge<'_>], now: Micros) -> Settled {
        let scope = charges.first().map_or("", |charge| charge.ask.subject.split().0);
        let settle = || {
            self.settle_all(charges, now);
            (Decision::of(Vec::new()), true)
        };
        // An id has no space in it, so that no request is taken for a settlement.
        match self.ids.once(&format!("{scope} settled"), id, Payload::of_charges(charges), now, settle) {
            Once::Decided { .. } => Settled::Done,
            Once::OtherRequest => Settled::OtherCosts,
        }
    }

    /// Settles all charges under the locks of all their buckets.
    fn settle_all(&self, charges: &[Charge<'_>], now: Micros) {
        let fingerprint = |charge: &Charge<'_>| {
            self.secret.fingerprint(charge.ask.id, charge.ask.subject.as_str().as_bytes())
        };
        let fingerprints: Few<Fingerprint> = charges.iter().map(fingerprint).collect();
        let locked = self.table.lock(fingerprints.iter().map(|fingerprint| self.table.home(*fingerprint)));
        for (charge, fingerprint) in charges.iter().zip(fingerprints) {
            let (question, home) = (Keyed::of(&charge.ask).question(now), self.table.home(fingerprint));
            let place = locked.find(fingerprint, home);
            let old = place.map(|place| locked.hold(place));
            let stored = old.and_then(|numbers| record::read(question.rule, numbers, &self.logs));
            let settled = question.settle(stored.clone(), charge.as_give_back());
            let settled = settled.filter(|settled| stored.as_ref() != Some(settled));
            let claim = || {
                let is_alone = self.sketch.estimate(fingerprint, now).is_empty();
                let reclaim = |numbers| record::drop_log(numbers, &self.logs);
                if is_alone { locked.claim(fingerprint, home, now, reclaim) } else { None }
            };
            match (settled, place) {
                (None, None) => {}
                (None, Some(place)) => locked.put_back(place),
                (Some(settled), _) => match place.or_else(claim) {
                    Some(place) => locked.write(place, record::write(&question, settled, old, &self.logs)),
                    None => drop(self.sketch.charge(fingerprint, question.rule, charge.actual, now)),
                },
            }
        }
    }

    /// [`Store::peek`] without a future.
    pub fn peek_now(&self, asks: &[Ask<'_>], now: Micros) -> Decision {
        self.decide(asks, now, false)
    }

    /// [`Store::forget`] without a future. A key that is counted in the sketch stays counted there.
    pub fn forget_now(&self, id: LimitId, subject: &Subject) -> bool {
        let fingerprint = self.secret.fingerprint(id, subject.as_str().as_bytes());
        let home = self.table.home(fingerprint);
        let locked = self.table.lock([home].into_iter());
        let Some(place) = locked.find(fingerprint, home) else { return false };
        record::drop_log(locked.hold(place), &self.logs);
        locked.release(place);
        true
    }

    /// The stored state of one limit and subject, for tests and tools.
    pub fn state(&self, rule: &Rule, id: LimitId, subject: &Subject) -> Option<State> {
        let fingerprint = self.secret.fingerprint(id, subject.as_str().as_bytes());
        let home = self.table.home(fingerprint);
        let locked = self.table.lock([home].into_iter());
        let place = locked.find(fingerprint, home)?;
        let state = record::read(rule, locked.hold(place), &self.logs);
        locked.put_back(place);
        state
    }

    /// The keys that have not reset and are counted one by one. It looks at every slot: not for a hot path.
    pub fn live_keys(&self, now: Micros) -> usize {
        self.table.live_keys(now)
    }

    /// The bytes laid out for the table; a page costs memory from its first use on.
    pub fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Decides one ask.
    fn take_one(&self, keyed: &Keyed<'_, '_>, now: Micros) -> AskDecision {
        for _ in 0..FAST_TRIES {
            match self.fast(keyed, now) {
                Ok(Some(Fast { numbers, charged })) => {
                    let Some(state) = record::unpack(keyed.rule, numbers) else { break };
                    return keyed.question(now).report(&state, charged);
                }
                Ok(None) => break,
                Err(Busy) => std::hint::spin_loop(),
            }
        }
        let decisions = self.decide_all(std::slice::from_ref(keyed), now, true);
        decisions.into_iter().next().unwrap_or(AskDecision::UNLIMITED)
    }

    /// The verdict alone; the numbers of a refusal are worked out when they are asked for.
    #[inline]
    fn check_one<'r>(&self, keyed: &Keyed<'r, '_>, now: Micros) -> Result<(), Refused<'r>> {
        match self.fast(keyed, now) {
            Ok(Some(Fast { charged, .. })) if charged || keyed.cost == 0 => Ok(()),
            Ok(Some(Fast { numbers, .. })) => Err(Refused::by(keyed.rule, keyed.cost, now, numbers)),
            Ok(None) | Err(Busy) => self.check_slowly(keyed, now),
        }
    }

    #[cold]
    fn check_slowly<'r>(&self, keyed: &Keyed<'r, '_>, now: Micros) -> Result<(), Refused<'r>> {
        match self.take_one(keyed, now) {
            AskDecision { allowed: true, .. } => Ok(()),
            decision => Err(Refused::known(decision)),
        }
    }

    /// Decides about a key that has a slot, without a lock while reading: a denial writes to no shared line.
    /// `None`: the key is new, a log or skewed.
    #[inline]
    fn fast(&self, keyed: &Keyed<'_, '_>, now: Micros) -> Result<Option<Fast>, Busy> {
        match keyed.rule.machine() {
            AnyMachine::Bucket(machine) => self.fast_with(machine, keyed, now),
            AnyMachine::FixedWindow(machine) => self.fast_with(machine, keyed, now),
            AnyMachine::SlidingCounter(machine) => self.fast_with(machine, keyed, now),
            AnyMachine::Quota(machine) => self.fast_with(machine, keyed, now),
            AnyMachine::SlidingLog(_) => Ok(None),
        }
    }

    #[inline]
    fn fast_with<M: Slotted>(
        &self,
        machine: &M,
        keyed: &Keyed<'_, '_>,
        now: Micros,
    ) -> Result<Option<Fast>, Busy> {
        let fingerprint = self.secret.fingerprint(keyed.id, keyed.key);
        let Some(seen) = self.table.glimpse(fingerprint)? else { return Ok(None) };
        let (tick, at, cost) = (keyed.rule.tick(), keyed.rule.at(now, keyed.key), keyed.cost);
        let Ok(state) = machine.roll(machine.unpack(seen.numbers), at) else { return Ok(None) };
        if cost == 0 || cost > machine.max_cost() || !machine.admits(&state, at.now, cost) {
            return Ok(Some(Fast { numbers: machine.pack(&state), charged: false }));
        }
        let words = machine.words(tick, &machine.charge(state, at.now, cost));
        seen.write_if_unchanged(words)?;
        Ok(Some(Fast { numbers: words.numbers, charged: true }))
    }

    fn decide(&self, asks: &[Ask<'_>], now: Micros, count: bool) -> Decision {
        let merged = Merged::of(asks);
        let keyed: Vec<Keyed<'_, '_>> = merged.asks().iter().map(Keyed::of).collect();
        Decision::of(merged.spread(&self.decide_all(&keyed, now, count)))
    }

    /// Decides all asks under the locks of all their buckets: every one is counted, or none.
    fn decide_all(&self, asks: &[Keyed<'_, '_>], now: Micros, count: bool) -> Few<AskDecision> {
        if !self.logs.has_room() {
            self.table.sweep(now, |numbers| record::drop_log(numbers, &self.logs));
        }
        let fingerprint = |ask: &Keyed<'_, '_>| self.secret.fingerprint(ask.id, ask.key);
        let fingerprints: Few<Fingerprint> = asks.iter().map(fingerprint).collect();
        let locked = self.table.lock(fingerprints.iter().map(|fingerprint| self.table.home(*fingerprint)));
        let seats: Few<Seat<'_>> = asks
            .iter()
            .zip(fingerprints)
            .map(|(ask, fingerprint)| self.seat(ask, fingerprint, now, &locked))
            .collect();
        let commit = count && seats.iter().all(Seat::admits);
        let settle = |seat: Seat<'_>| {
            if commit { self.commit(seat, &locked) } else { self.leave(seat, &locked, count) }
        };
        seats.into_iter().map(settle).collect()
    }

    /// Finds where a key is counted, and claims a slot if it is new and there is one.
    fn seat<'a>(
        &self,
        ask: &Keyed<'a, 'a>,
        fingerprint: Fingerprint,
        now: Micros,
        locked: &Locked<'_>,
    ) -> Seat<'a> {
        let question = ask.question(now);
        let home = self.table.home(fingerprint);
        let found = match locked.find(fingerprint, home) {
            Some(place) => {
                let numbers = locked.hold(place);
                let stored = record::read(ask.rule, numbers, &self.logs);
                let (state, moved) = rolled(&question, stored);
                Found::Slot { place, old: Some(numbers), state, moved }
            }
            None => self.seat_new(&question, fingerprint, home, locked),
        };
        Seat { question, fingerprint, found }
    }

    fn seat_new(
        &self,
        question: &Question<'_>,
        fingerprint: Fingerprint,
        home: Home,
        locked: &Locked<'_>,
    ) -> Found {
        let estimate = self.sketch.estimate(fingerprint, question.now);
        let reclaim = |numbers| record::drop_log(numbers, &self.logs);
        // Only a log needs room among the logs: however many of them there are, others are counted one by one.
        let has_room = question.rule.algorithm() != Algorithm::SlidingLog || self.logs.has_room();
        let claimed = if estimate.is_empty() && has_room {
            locked.claim(fingerprint, home, question.now, reclaim)
        } else {
            None
        };
        match claimed {
            Some(place) => Found::Slot { place, old: None, state: question.fresh(), moved: None },
            None => Found::Sketch(estimate),
        }
    }

    fn commit(&self, seat: Seat<'_>, locked: &Locked<'_>) -> AskDecision {
        let Seat { question, fingerprint, .. } = seat;
        let (rule, cost, now) = (question.rule, question.cost, question.now);
        match seat.found {
            Found::Slot { .. } if cost == 0 => self.leave(seat, locked, true),
            Found::Slot { place, old, state, .. } => {
                let charged = question.charge(state);
                let decision = question.report(&charged, true);
                locked.write(place, record::write(&question, charged, old, &self.logs));
                decision
            }
            Found::Sketch(estimate) if cost == 0 => estimate.report(rule, cost, now, true),
            Found::Sketch(_) => {
                self.sketch.charge(fingerprint, rule, cost, now).report(rule, cost, now, true)
            }
        }
    }

    /// Answers without counting, and gives back a slot that was claimed.
    fn leave(&self, seat: Seat<'_>, locked: &Locked<'_>, keep_moved: bool) -> AskDecision {
        let Seat { question, found, .. } = seat;
        let Question { rule, cost, now, .. } = question;
        match found {
            Found::Slot { place, old, state, moved } => {
                let decision = question.report(&state, false);
                match (old, moved.filter(|_| keep_moved && cost > 0)) {
                    (None, _) => locked.release(place),
                    (Some(_), Some(moved)) => {
                        locked.write(place, record::write(&question, moved, old, &self.logs));
                    }
                    (Some(_), None) => locked.put_back(place),
                }
                decision
            }
            Found::Sketch(estimate) => estimate.report(rule, cost, now, estimate.admits(rule, cost)),
        }
    }
}

impl Seat<'_> {
    fn admits(&self) -> bool {
        match &self.found {
            Found::Slot { state, .. } => self.question.admits(state),
            Found::Sketch(estimate) => estimate.admits(self.question.rule, self.question.cost),
        }
    }
}

/// The stored state as of now, and the stored state moved if it had to be. This process has one clock, so state from beyond its skew is moved to now at once.
fn rolled(question: &Question<'_>, stored: Option<State>) -> (State, Option<State>) {
    if let Ok(state) = question.roll(stored.clone()) {
        return (state, None);
    }
    let moved = stored.map(|state| question.rebase(state));
    let state = question.roll(moved.clone()).unwrap_or_else(|Skew| question.fresh());
    (state, moved)
}

/// An ask by the bytes of its key.
#[derive(Clone, Debug)]
struct Keyed<'r, 'k> {
    rule: &'r Rule,
    id: LimitId,
    key: &'k [u8],
    cost: u64,
}

impl<'r, 'k> Keyed<'r, 'k> {
    fn of(ask: &'k Ask<'r>) -> Self {
        Self { rule: ask.rule, id: ask.id, key: ask.subject.as_str().as_bytes(), cost: ask.cost }
    }

    fn question(&self, now: Micros) -> Question<'k>
    where
        'r: 'k,
    {
        Question { rule: self.rule, key: self.key, cost: self.cost, now }
    }
}

impl Store for EmbeddedStore {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.take_now(asks, now))
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        Ok(self.take_once_now(id, asks, now))
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.peek_now(asks, now))
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        Ok(self.settle_now(id, charges, now))
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        Ok(self.forget_now(id, subject))
    }
}

impl SureStore for EmbeddedStore {
    async fn decide_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Once {
        self.take_once_now(id, asks, now)
    }

    async fn decide(&self, verb: Verb, asks: &[Ask<'_>], now: Micros) -> Decision {
        match verb {
            Verb::Take => self.take_now(asks, now),
            Verb::Peek => self.peek_now(asks, now),
        }
    }
}
