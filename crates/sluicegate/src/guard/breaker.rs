//! A store that is ill is left alone until it is well again.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use sluicegate_core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject};
use tokio::time::{Instant, sleep, timeout};

use super::circuit::{Circuit, Epoch, Outcome, WHOLE};
use crate::{
    embedded::EmbeddedStore,
    store::{Counted, Once, Reason, Settled, Store, StoreError},
};

/// A store that can be asked whether it is there.
pub trait Probe: Send + Sync {
    /// One cheap call that counts nothing. It may take as long as making a connection does, and must end.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer.
    fn probe(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl<P: Probe> Probe for Arc<P> {
    fn probe(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).probe()
    }
}

/// It is always there.
impl Probe for EmbeddedStore {
    async fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A store that gets no calls while it is ill.
///
/// Three failures in a row open it, or twelve failed or slow calls of the last twenty-four. Then one task probes the
/// store, at growing intervals and never twice at once. When a probe ends well and not slowly, a twentieth of all keys
/// goes to the store again, then a quarter, half, and all; three failures of the last twenty-four calls on the way open
/// it again. The intervals begin anew only after it has been closed for a while, so that it cannot flap.
#[derive(Debug)]
pub struct Breaker<S>(Arc<Watched<S>>);

#[derive(Debug)]
struct Watched<S> {
    store: S,
    /// A [`Circuit`].
    circuit: AtomicU64,
    /// Pauses since it was last calm.
    pauses: AtomicU32,
    openings: AtomicU64,
    /// A call that takes longer is slow.
    slow: Duration,
}

/// The longest pause before the first probe. Each pause is cut by up to half, by chance, so that a fleet does not probe
/// in step.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before any probe. With the way back it keeps a store that has come back waiting for less than 2 s.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Doublings of the pause that are enough to reach the longest.
const MAX_DOUBLED: u32 = 4;
/// How long each step of the way back lasts.
const STEP: Duration = Duration::from_millis(200);
/// How long it must have been closed for the pauses to begin anew.
const CALM: Duration = Duration::from_secs(10);
/// A probe that takes longer has failed, whatever its store promises.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

impl<S: Store + Probe + 'static> Breaker<S> {
    /// Watches over a store. A call that takes longer than `slow` is taken for a sign of illness.
    pub fn new(store: S, slow: Duration) -> Self {
        let circuit = AtomicU64::new(Circuit::NEW.packed());
        Self(Arc::new(Watched {
            store,
            circuit,
            slow,
            pauses: AtomicU32::new(0),
            openings: AtomicU64::new(0),
        }))
    }

    /// The store that is watched over.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// Whether all calls go to the store.
    pub fn is_closed(&self) -> bool {
        self.0.circuit().is_closed()
    }

    /// The thousandths of all keys whose calls go to the store.
    pub fn open_to_permille(&self) -> u16 {
        self.0.circuit().share()
    }

    /// How often it has opened.
    pub fn openings(&self) -> u64 {
        self.0.openings.load(Ordering::Relaxed)
    }

    async fn call<T>(
        &self,
        turn: impl FnOnce() -> u16,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Some(epoch) = self.0.admit(turn) else {
            let error = StoreError::new("the store is ill, and left alone for now", Counted::Nothing);
            return Err(error.for_reason(Reason::Breaker));
        };
        let began = Instant::now();
        let answer = call.await;
        let outcome = match &answer {
            // It says nothing about the store: whoever asks for one broken key must not turn away everybody.
            Err(error) if error.reason() == Reason::Request => return answer,
            Err(_) => Outcome::Failed,
            Ok(_) if began.elapsed() > self.0.slow => Outcome::Slow,
            Ok(_) => Outcome::Good,
        };
        if let Some(opened) = self.0.note(epoch, outcome) {
            self.0.openings.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(recover(Arc::downgrade(&self.0), opened));
        }
        answer
    }
}

impl<S> Watched<S> {
    #[inline]
    fn circuit(&self) -> Circuit {
        Circuit::unpacked(self.circuit.load(Ordering::Relaxed))
    }

    /// Whether a call goes to the store, and when it began.
    #[inline]
    fn admit(&self, turn: impl FnOnce() -> u16) -> Option<Epoch> {
        let circuit = self.circuit();
        (circuit.is_closed() || !circuit.is_open() && turn() < circuit.share()).then_some(circuit.epoch)
    }

    /// Notes how a call ended. Answers the epoch that begins if this opens the breaker.
    #[inline]
    fn note(&self, began: Epoch, outcome: Outcome) -> Option<Epoch> {
        let mut seen = self.circuit.load(Ordering::Relaxed);
        loop {
            let circuit = Circuit::unpacked(seen);
            if circuit.epoch != began {
                return None;
            }
            let noted = circuit.after(outcome);
            if noted == circuit {
                // All is well and stays so: nothing is written, and no line of the cache is fought over.
                return None;
            }
            match self.swap(seen, noted) {
                Ok(_) => return (noted.is_open() && !circuit.is_open()).then_some(noted.epoch),
                Err(now) => seen = now,
            }
        }
    }

    fn swap(&self, seen: u64, new: Circuit) -> Result<u64, u64> {
        self.circuit.compare_exchange(seen, new.packed(), Ordering::Relaxed, Ordering::Relaxed)
    }

    /// One step towards closed, unless the breaker has opened again since `epoch`. Answers what holds then.
    fn step_up(&self, epoch: Epoch) -> Option<Circuit> {
        let mut seen = self.circuit.load(Ordering::Relaxed);
        loop {
            let circuit = Circuit::unpacked(seen);
            if circuit.epoch != epoch {
                return None;
            }
            let stepped = circuit.stepped_up();
            match self.swap(seen, stepped) {
                Ok(_) => return Some(stepped),
                Err(now) => seen = now,
            }
        }
    }

    /// How long to leave the store alone before the next probe.
    fn pause(&self) -> Duration {
        let doubled = self.pauses.fetch_add(1, Ordering::Relaxed).min(MAX_DOUBLED);
        let longest = FIRST_PAUSE.saturating_mul(1 << doubled).min(LONGEST_PAUSE);
        longest * fastrand::u32(500..=1_000) / 1_000
    }

    /// Lets the pauses begin anew if nothing has happened since `epoch`.
    fn forgive(&self, epoch: Epoch) {
        if self.circuit().epoch == epoch {
            self.pauses.store(0, Ordering::Relaxed);
        }
    }
}

impl<S: Probe> Watched<S> {
    /// Whether the store answers, and not slowly.
    async fn is_well(&self) -> bool {
        let began = Instant::now();
        let answer = timeout(PROBE_TIMEOUT, self.store.probe()).await;
        matches!(answer, Ok(Ok(()))) && began.elapsed() <= self.slow
    }
}

/// Leads an open breaker back to closed. It ends when the breaker does, or when it opens again: another task is then
/// on its way.
async fn recover<S: Probe>(breaker: Weak<Watched<S>>, epoch: Epoch) -> Option<()> {
    loop {
        let pause = breaker.upgrade()?.pause();
        sleep(pause).await;
        if breaker.upgrade()?.is_well().await {
            break;
        }
    }
    while !breaker.upgrade()?.step_up(epoch)?.is_closed() {
        sleep(STEP).await;
    }
    sleep(CALM).await;
    breaker.upgrade()?.forgive(epoch);
    Some(())
}

/// When the keys of a request have their turn on the way back, in thousandths: the same in every process.
fn turn_of(asks: &[Ask<'_>]) -> u16 {
    let hash = |ask: &Ask<'_>| turn_hash(&ask.subject);
    turn(asks.iter().map(hash).fold(0, u64::wrapping_add))
}

fn turn_hash(subject: &Subject) -> u64 {
    let mut hasher = DefaultHasher::new();
    subject.hash(&mut hasher);
    hasher.finish()
}

fn turn(hash: u64) -> u16 {
    u16::try_from(hash % u64::from(WHOLE)).unwrap_or(0)
}

impl<S: Store + Probe + 'static> Store for Breaker<S> {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.call(|| turn_of(asks), self.0.store.take(asks, now)).await
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        self.call(|| turn_of(asks), self.0.store.take_once(id, asks, now)).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.call(|| turn_of(asks), self.0.store.peek(asks, now)).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        let first = || charges.first().map_or(0, |charge| turn_hash(&charge.ask.subject));
        self.call(|| turn(first()), self.0.store.settle(id, charges, now)).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        self.call(|| turn(turn_hash(subject)), self.0.store.forget(id, subject)).await
    }
}
