//! A clock that is turned by hand.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use sluicegate::{Clock, core::Micros};

/// A clock that stands still until it is turned.
#[derive(Debug)]
pub struct HandClock(AtomicU64);

impl HandClock {
    /// A clock that stands at this second since the epoch.
    pub fn at(second: u64) -> Self {
        Self(AtomicU64::new(second * 1_000_000))
    }

    /// Turns it on.
    pub fn turn(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Micros {
        Micros::new(self.0.load(Ordering::SeqCst))
    }
}
