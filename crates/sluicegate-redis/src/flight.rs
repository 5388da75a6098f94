//! Single flight: of many callers that need the same thing made, one makes it and the others share what came of it.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// Counts the flights that landed, and lets one fly at a time.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    landed: AtomicU64,
    gate: Mutex<()>,
}

/// How many flights a caller had seen land when it came to need one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(u64);

impl Flight {
    pub(crate) fn seen(&self) -> Seen {
        Seen(self.landed.load(Ordering::Acquire))
    }

    /// Runs `flight` unless another flight has landed since `seen`. Answers `None` if one has.
    ///
    /// A caller waits for at most one flight of another; `flight` itself must end. A caller that goes away in flight
    /// leaves the gate to the next.
    pub(crate) async fn unless_landed<T>(&self, seen: Seen, flight: impl Future<Output = T>) -> Option<T> {
        let _gate = self.gate.lock().await;
        if self.landed.load(Ordering::Acquire) != seen.0 {
            return None;
        }
        let landed = flight.await;
        self.landed.fetch_add(1, Ordering::AcqRel);
        Some(landed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn of_many_callers_one_flies() {
        let flight = Arc::new(Flight::default());
        let flown = Arc::new(AtomicU64::new(0));
        let seen = flight.seen();
        let callers = (0..50).map(|_| {
            let (flight, flown) = (flight.clone(), flown.clone());
            tokio::spawn(async move {
                let fly = async {
                    tokio::task::yield_now().await;
                    flown.fetch_add(1, Ordering::Relaxed);
                };
                flight.unless_landed(seen, fly).await
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
        assert_eq!(flown.load(Ordering::Relaxed), 1);
        assert!(flight.unless_landed(flight.seen(), async {}).await.is_some());
    }
}
