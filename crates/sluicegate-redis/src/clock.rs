//! The server's clock, as this process knows it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use redis::Value;
use sluicegate::{Clock, StoreError, SystemClock, core::Micros};
use tokio::task::AbortHandle;

use crate::{
    config::{ConfigError, RedisConfig},
    connection::Call,
    error::unreadable,
    topology::{Slot, Topology},
};

/// Samples of one measurement; the one with the least round trip tells the most.
const SAMPLES: usize = 5;
/// The time between measurements. Quartz drifts by some 50 µs a second: 0.2 ms in this time.
const PERIOD: Duration = Duration::from_secs(4);

/// This machine's monotonic clock, set to a Redis server's: all instances that share a server share its time, and no
/// script has to ask for it.
///
/// Until the first answer it tells this machine's wall time. A background task sets it anew every few seconds, as long
/// as a clone of the clock lives.
#[derive(Clone, Debug)]
pub struct RedisClock {
    ticking: Arc<Ticking>,
    _task: Arc<Task>,
}

#[derive(Debug)]
struct Ticking {
    servers: Topology,
    monotonic: Instant,
    /// The server's time when `monotonic` was zero, in microseconds since the epoch.
    offset_us: AtomicI64,
}

#[derive(Debug)]
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RedisClock {
    /// A clock for a server, with a connection of its own so that its questions do not stand in a queue. It must be
    /// called within a tokio runtime; [`RedisClock::sync`] waits for the first answer.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration names no server.
    pub fn start(config: &RedisConfig) -> Result<Self, ConfigError> {
        let wall_us = i64::try_from(SystemClock::new().now().as_u64()).unwrap_or(i64::MAX);
        let ticking = Arc::new(Ticking {
            servers: Topology::of(config)?,
            monotonic: Instant::now(),
            offset_us: AtomicI64::new(wall_us),
        });
        let task = tokio::spawn(keep_setting(ticking.clone()));
        Ok(Self { ticking, _task: Arc::new(Task(task.abort_handle())) })
    }

    /// Asks the server for its time and sets the clock.
    ///
    /// # Errors
    /// [`StoreError`] if the server does not answer; the clock goes on as it was.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.ticking.set().await.map_err(StoreError::with_nothing_counted)
    }
}

impl Clock for RedisClock {
    fn now(&self) -> Micros {
        let now_us = self.ticking.elapsed_us().saturating_add(self.ticking.offset_us.load(Ordering::Relaxed));
        Micros::new(u64::try_from(now_us).unwrap_or(0))
    }
}

async fn keep_setting(ticking: Arc<Ticking>) {
    let mut reachable = true;
    loop {
        let set = ticking.set().await;
        if let (true, Err(error)) = (reachable, &set) {
            tracing::warn!(%error, "the clock of redis cannot be asked; this machine's goes on");
        }
        reachable = set.is_ok();
        tokio::time::sleep(PERIOD).await;
    }
}

impl Ticking {
    fn elapsed_us(&self) -> i64 {
        i64::try_from(self.monotonic.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    async fn set(&self) -> Result<(), StoreError> {
        let mut best: Option<Sample> = None;
        for _ in 0..SAMPLES {
            let sample = self.sample().await?;
            if best.is_none_or(|best| sample.round_trip_us < best.round_trip_us) {
                best = Some(sample);
            }
        }
        if let Some(best) = best {
            self.offset_us.store(best.offset_us, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn sample(&self) -> Result<Sample, StoreError> {
        let asked_us = self.elapsed_us();
        let told = self.servers.run(Slot::FIRST, Call::of(&redis::cmd("TIME"))).await?;
        let round_trip_us = self.elapsed_us().saturating_sub(asked_us);
        let server_us = time_us(told).ok_or_else(unreadable)?;
        // The server is taken to have looked at its clock half way.
        let offset_us = server_us.saturating_sub(asked_us.saturating_add(round_trip_us / 2));
        Ok(Sample { round_trip_us, offset_us })
    }
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    round_trip_us: i64,
    offset_us: i64,
}

/// Microseconds since the epoch from TIME's reply: seconds and microseconds, as text.
fn time_us(reply: Value) -> Option<i64> {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(reply).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}
