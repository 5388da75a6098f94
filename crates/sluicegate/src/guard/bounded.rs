//! Only so many calls at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use sluicegate_core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject};

use crate::store::{Counted, Once, Reason, Settled, Store, StoreError};

/// A store with a bound on the calls that are in flight. What exceeds it fails at once and was not counted.
#[derive(Debug)]
pub struct Bounded<S> {
    store: S,
    max_in_flight: usize,
    in_flight: AtomicUsize,
}

/// A call in flight; it lands when dropped.
struct Flight<'a>(&'a AtomicUsize);

impl<S> Bounded<S> {
    /// The most calls in flight unless said otherwise. A server that answers 200,000 calls a second has answered so
    /// many within 20 ms: further ones could only wait for their deadline.
    pub const DEFAULT: usize = 4_096;

    /// Bounds the calls of a store.
    pub fn new(store: S, max_in_flight: usize) -> Self {
        Self { store, max_in_flight, in_flight: AtomicUsize::new(0) }
    }

    /// The store inside.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The calls in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn board(&self) -> Result<Flight<'_>, StoreError> {
        let flight = Flight(&self.in_flight);
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= self.max_in_flight {
            // Dropping the flight takes it off the count again.
            let error = StoreError::new("too many calls wait for the store", Counted::Nothing);
            return Err(error.for_reason(Reason::Overload));
        }
        Ok(flight)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: Store> Store for Bounded<S> {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let _flight = self.board()?;
        self.store.take(asks, now).await
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        let _flight = self.board()?;
        self.store.take_once(id, asks, now).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let _flight = self.board()?;
        self.store.peek(asks, now).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        let _flight = self.board()?;
        self.store.settle(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        let _flight = self.board()?;
        self.store.forget(id, subject).await
    }
}
