//! No call waits longer.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use sluicegate_core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject};

use super::{breaker::Probe, waiting::Waiting};
use crate::store::{Counted, Once, Reason, Settled, Store, StoreError};

/// A store whose calls end by a deadline. A `take` that did not end in time may have been counted all the same.
///
/// It needs a tokio runtime with its timer. One timer serves all calls that wait.
#[derive(Clone, Debug)]
pub struct Deadline<S> {
    store: S,
    waiting: Arc<Waiting>,
}

impl<S> Deadline<S> {
    /// How long a call may take unless said otherwise.
    pub const DEFAULT: Duration = Duration::from_millis(20);

    /// Gives the calls of a store that long.
    pub fn new(store: S, after: Duration) -> Self {
        Self { store, waiting: Waiting::new(after) }
    }

    /// The store inside.
    pub fn store(&self) -> &S {
        &self.store
    }

    async fn in_time<T>(
        &self,
        counted: Counted,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (mut call, mut wait) = (pin!(call), self.waiting.wait());
        let in_time = |context: &mut Context<'_>| match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending if wait.is_over(context) => {
                let late = StoreError::new("the store did not answer by the deadline", counted);
                Poll::Ready(Err(late.for_reason(Reason::Deadline)))
            }
            Poll::Pending => Poll::Pending,
        };
        poll_fn(in_time).await
    }
}

impl<S: Store> Store for Deadline<S> {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.in_time(Counted::Unknown, self.store.take(asks, now)).await
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        self.in_time(Counted::Unknown, self.store.take_once(id, asks, now)).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.in_time(Counted::Nothing, self.store.peek(asks, now)).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        self.in_time(Counted::Unknown, self.store.settle(id, charges, now)).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        self.in_time(Counted::Nothing, self.store.forget(id, subject)).await
    }
}

/// A probe has the store's own time: it may have to make a connection first, which nobody waits for.
impl<S: Probe> Probe for Deadline<S> {
    fn probe(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.store.probe()
    }
}
