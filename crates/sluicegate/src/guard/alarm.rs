//! Says that decisions are made without the store, and that they are not any more.

use std::{
    error::Error,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use sluicegate_core::Micros;

use crate::store::{Reason, StoreError};

/// Warns at most once a second, and says as seldom that all is well again: a line per request would fill a disk at the
/// very time in which the log is needed.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    raised: AtomicBool,
    /// The second of the last line.
    said_s: AtomicU64,
    /// The decisions since then that no line told of.
    silent: AtomicU64,
    /// The decisions without the store, by reason.
    by_reason: [AtomicU64; Reason::ALL.len()],
}

impl Alarm {
    /// A decision was made without the store.
    pub(super) fn raise(&self, error: &StoreError, now: Micros) {
        self.raised.store(true, Ordering::Relaxed);
        if let Some(count) = self.count(error.reason()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if !self.may_speak(now) {
            self.silent.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let unreported = self.silent.swap(0, Ordering::Relaxed);
        let error: &dyn Error = error;
        tracing::warn!(error, unreported, "the store did not decide: each limit's `on_store_failure` holds");
    }

    /// The decisions that were made without the store for a reason.
    pub(super) fn raised_for(&self, reason: Reason) -> u64 {
        self.count(reason).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn count(&self, reason: Reason) -> Option<&AtomicU64> {
        let at = Reason::ALL.into_iter().position(|one| one == reason)?;
        self.by_reason.get(at)
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// The store decides about everything again.
    pub(super) fn end(&self, now: Micros) {
        if self.may_speak(now) && self.raised.swap(false, Ordering::Relaxed) {
            let unreported = self.silent.swap(0, Ordering::Relaxed);
            tracing::info!(unreported, "the store decides again");
        }
    }

    /// Whether nothing was said in this second; the caller says something now.
    fn may_speak(&self, now: Micros) -> bool {
        let now_s = now.as_u64() / 1_000_000;
        self.said_s.load(Ordering::Relaxed) != now_s && self.said_s.swap(now_s, Ordering::Relaxed) != now_s
    }
}
