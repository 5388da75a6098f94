//! The server's clock, as this process knows it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use redis::Value;
use sluicegate::{Clock, StoreError, SystemClock, core::Micros};
use tokio::task::AbortHandle;

use crate::{
    config::{ConfigError, RedisConfig},
    connection::Call,
    error::unreadable,
    estimate::{Estimate, Sample},
    topology::{Slot, Topology},
};

/// Questions at the start, and after the server did not answer: one may be slow by chance.
const SAMPLES: usize = 5;
/// The time between questions: within it every process notices that the server's clock was set.
const PERIOD: Duration = Duration::from_millis(500);
/// How long a clock that stepped must stand before state from ahead of it is moved: until then others may still tell the
/// old time, and would take what was moved back for a window that is long over.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// This machine's monotonic clock, set to a Redis server's: all instances that share a server share its time, and no
/// script has to ask for it.
///
/// Until the first answer it tells this machine's wall time. A background task asks twice a second, as long as a clone
/// of the clock lives. Small errors are slewed away at 500 ppm, so that the time never goes back; a server's clock that
/// is more than 128 ms off beyond doubt was set, or is another server's, and then the told time steps to it.
#[derive(Clone, Debug)]
pub struct RedisClock {
    ticking: Arc<Ticking>,
    _task: Arc<Task>,
}

#[derive(Debug)]
struct Ticking {
    servers: Topology,
    monotonic: Instant,
    estimate: RwLock<Estimate>,
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
            estimate: RwLock::new(Estimate::guess(wall_us)),
        });
        let task = tokio::spawn(keep_asking(ticking.clone()));
        Ok(Self { ticking, _task: Arc::new(Task(task.abort_handle())) })
    }

    /// Asks the server for its time and corrects the clock.
    ///
    /// # Errors
    /// [`StoreError`] if the server does not answer; the clock goes on as it was.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.ticking.ask(SAMPLES).await.map_err(StoreError::with_nothing_counted)
    }

    /// Waits until all who share the server must have noticed the last step of its clock.
    pub(crate) async fn settled(&self) {
        let stepped_us = self.ticking.estimate.read().stepped_us();
        let stands_us = self.ticking.elapsed_us().saturating_sub(stepped_us);
        let stands = Duration::from_micros(u64::try_from(stands_us).unwrap_or(0));
        tokio::time::sleep(SETTLED_AFTER.saturating_sub(stands)).await;
    }
}

impl Clock for RedisClock {
    fn now(&self) -> Micros {
        // The time is read while the estimate stands still: else it could go back by what the estimate moves meanwhile.
        let estimate = self.ticking.estimate.read();
        let now_us = estimate.told_us(self.ticking.elapsed_us());
        Micros::new(u64::try_from(now_us).unwrap_or(0))
    }
}

async fn keep_asking(ticking: Arc<Ticking>) {
    let mut reachable = true;
    let mut questions = SAMPLES;
    loop {
        let answered = ticking.ask(questions).await;
        if let (true, Err(error)) = (reachable, &answered) {
            tracing::warn!(%error, "the clock of redis cannot be asked; this machine's goes on");
        }
        reachable = answered.is_ok();
        // After a failure another server may answer.
        questions = if reachable { 1 } else { SAMPLES };
        tokio::time::sleep(PERIOD).await;
    }
}

impl Ticking {
    fn elapsed_us(&self) -> i64 {
        i64::try_from(self.monotonic.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    async fn ask(&self, questions: usize) -> Result<(), StoreError> {
        for _ in 0..questions {
            let asked_us = self.elapsed_us();
            let told = self.servers.run(Slot::FIRST, Call::of(&redis::cmd("TIME"))).await?;
            let answered_us = self.elapsed_us();
            let server_us = time_us(told).ok_or_else(unreadable)?;
            self.learn(Sample { asked_us, answered_us, server_us });
        }
        Ok(())
    }

    fn learn(&self, sample: Sample) {
        let mut estimate = self.estimate.write();
        let first = estimate.is_guess();
        let stepped = estimate.learn(sample, self.elapsed_us());
        drop(estimate);
        let Some(step_us) = stepped else { return };
        // The first answer replaces a guess.
        if !first {
            tracing::warn!(
                step_us,
                "the clock of redis was set, or another server's is told: the time steps to it"
            );
        }
    }
}

/// Microseconds since the epoch from TIME's reply: seconds and microseconds, as text.
fn time_us(reply: Value) -> Option<i64> {
    let (seconds, micros): (i64, i64) = redis::from_redis_value(reply).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}
