//! Callers that take without a pause while a test meddles with the servers.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sluicegate::{Counted, StoreError, core::Decision};
use tokio::task::JoinSet;

/// What callers were told.
#[derive(Debug, Default)]
pub struct Told {
    admitted: AtomicU64,
    denied: AtomicU64,
    nothing: AtomicU64,
    unknown: AtomicU64,
    slowest_us: AtomicU64,
    last_failure: Mutex<Option<Instant>>,
}

impl Told {
    /// How many calls were admitted.
    pub fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::SeqCst)
    }

    /// How many were denied.
    pub fn denied(&self) -> u64 {
        self.denied.load(Ordering::SeqCst)
    }

    /// How many failed, and it was known that nothing was counted.
    pub fn nothing(&self) -> u64 {
        self.nothing.load(Ordering::SeqCst)
    }

    /// How many failed, and may have been counted.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::SeqCst)
    }

    /// The longest that a call took.
    pub fn slowest(&self) -> Duration {
        Duration::from_micros(self.slowest_us.load(Ordering::SeqCst))
    }

    /// When the last call failed.
    pub fn last_failure(&self) -> Option<Instant> {
        *self.last_failure.lock().expect("no caller panics while it notes")
    }

    fn note(&self, began: Instant, answer: &Result<Decision, StoreError>) {
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.slowest_us.fetch_max(took, Ordering::SeqCst);
        let counter = match answer {
            Ok(decision) if decision.allowed => &self.admitted,
            Ok(_) => &self.denied,
            Err(error) => {
                *self.last_failure.lock().expect("no caller panics while it notes") = Some(Instant::now());
                if error.counted() == Counted::Nothing { &self.nothing } else { &self.unknown }
            }
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

/// The numbers of a scenario, for people.
impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (admitted, denied) = (self.admitted(), self.denied());
        let (nothing, unknown, slowest) = (self.nothing(), self.unknown(), self.slowest());
        write!(
            f,
            "{admitted} admitted, {denied} denied, {nothing} failed uncounted, {unknown} unknown, worst {slowest:?}"
        )
    }
}

/// Callers that take until they are stopped.
#[derive(Debug)]
pub struct Load {
    /// What they were told so far.
    pub told: Arc<Told>,
    stop: Arc<AtomicBool>,
    callers: JoinSet<()>,
}

impl Load {
    /// So many callers, each with a number of its own.
    pub fn of<F, A>(callers: usize, take: F) -> Self
    where
        F: Fn(usize) -> A + Clone + Send + 'static,
        A: Future<Output = Result<Decision, StoreError>> + Send,
    {
        let (told, stop) = (Arc::new(Told::default()), Arc::new(AtomicBool::new(false)));
        let mut running = JoinSet::new();
        for number in 0..callers {
            let (told, stop, take) = (told.clone(), stop.clone(), take.clone());
            running.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let began = Instant::now();
                    let answer = take(number).await;
                    told.note(began, &answer);
                    if answer.is_err() {
                        // A refused connection fails at once; without a pause the callers would only use up the
                        // processor that the servers need to recover.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            });
        }
        Self { told, stop, callers: running }
    }

    /// Waits until another call has been admitted than those before, and tells how long that took since `since`.
    pub async fn admitted_again(&self, since: Instant, within: Duration) -> Duration {
        let before = self.told.admitted();
        while self.told.admitted() == before {
            assert!(since.elapsed() < within, "nothing is admitted within {within:?}: {}", self.told);
            // No caller tells; a look costs little.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        since.elapsed()
    }

    /// Waits until the calls so far are enough for what is asked.
    pub async fn enough(&self, enough: impl Fn(&Told) -> bool) {
        let began = Instant::now();
        while !enough(&self.told) {
            assert!(began.elapsed() < Duration::from_secs(20), "{}", self.told);
            // No caller tells; a look costs little.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops the callers. Every call ends within `longest`, and none took longer.
    pub async fn end(self, longest: Duration) -> Arc<Told> {
        self.stop.store(true, Ordering::SeqCst);
        tokio::time::timeout(longest, self.callers.join_all()).await.expect("every call ends");
        assert!(self.told.slowest() < longest, "{}", self.told);
        self.told
    }
}
