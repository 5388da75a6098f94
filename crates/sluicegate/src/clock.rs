//! Where `now` comes from.

use std::{
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use sluicegate_core::Micros;

/// Tells the time that decisions are made with.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Micros;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Micros {
        (**self).now()
    }
}

/// The machine's clock: wall time when the process asked first, monotonic from there on. A step of the wall clock
/// neither re-opens a window nor locks one.
#[derive(Clone, Debug)]
pub struct SystemClock {
    wall: Micros,
    monotonic: Instant,
}

impl SystemClock {
    /// Anchors the monotonic clock to the wall clock.
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Micros::new(0).plus(since_epoch), monotonic: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        self.wall.plus(self.monotonic.elapsed())
    }
}
