//! How long things take.

use std::time::Instant;

use prometheus_client::metrics::histogram::Histogram;
use sluicegate::{
    Once, Settled, Store, StoreError,
    core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject},
    guard::Probe,
};

/// The bounds of latencies, in seconds: a quarter apart around a millisecond, so that a p99 there is known to an eighth.
const LATENCY_BOUNDS_S: [f64; 30] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_15, 0.000_2, 0.000_25, 0.000_3, 0.000_4, 0.000_5, 0.000_6, 0.000_7,
    0.000_8, 0.000_9, 0.001, 0.001_25, 0.001_5, 0.001_75, 0.002, 0.002_5, 0.003, 0.004, 0.005, 0.007_5, 0.01,
    0.015, 0.02, 0.05, 0.1, 0.25, 1.0,
];

/// A histogram of latencies.
pub(super) fn latencies() -> Histogram {
    Histogram::new(LATENCY_BOUNDS_S)
}

/// Times something that may be given up: it is counted when it is dropped, however it ends.
#[derive(Debug)]
pub(crate) struct Timing<'h> {
    histogram: &'h Histogram,
    began: Instant,
}

impl<'h> Timing<'h> {
    pub(super) fn begin(histogram: &'h Histogram) -> Self {
        Self { histogram, began: Instant::now() }
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        self.histogram.observe(self.began.elapsed().as_secs_f64());
    }
}

/// A store whose decisions are timed, from the call to the answer or until nobody waits for it any more.
#[derive(Debug)]
pub struct Timed<S> {
    store: S,
    latency: Histogram,
}

impl<S> Timed<S> {
    /// Times the calls of a store.
    pub(crate) fn new(store: S) -> Self {
        Self { store, latency: latencies() }
    }

    /// How long the calls took.
    pub(crate) fn latency(&self) -> &Histogram {
        &self.latency
    }
}

impl<S: Store> Store for Timed<S> {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let _timing = Timing::begin(&self.latency);
        self.store.take(asks, now).await
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        let _timing = Timing::begin(&self.latency);
        self.store.take_once(id, asks, now).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let _timing = Timing::begin(&self.latency);
        self.store.peek(asks, now).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        let _timing = Timing::begin(&self.latency);
        self.store.settle(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        self.store.forget(id, subject).await
    }
}

impl<S: Probe> Probe for Timed<S> {
    fn probe(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.store.probe()
    }
}
