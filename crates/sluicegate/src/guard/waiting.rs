//! Calls that wait for the same length of time, watched over by one timer.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    task::{Context, Waker},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

/// Who waits, in the order in which their time ends: a timer of its own for each call costs more than all the rest of a
/// guard. The task that holds the one timer looks at the calls once in the time that each of them has.
#[derive(Debug)]
pub(super) struct Waiting {
    after: Duration,
    line: Mutex<Line>,
}

/// No longer than the calls of one deadline: whoever stands first leaves it by then.
#[derive(Debug, Default)]
struct Line {
    calls: VecDeque<Option<Call>>,
    /// The number of the call that stands first.
    first: u64,
    is_watched: bool,
}

#[derive(Debug)]
struct Call {
    until: Instant,
    waker: Waker,
}

/// One call, from the moment at which it has to wait. It leaves the line when dropped.
#[derive(Debug)]
pub(super) struct Wait<'w> {
    waiting: &'w Arc<Waiting>,
    place: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    until: Instant,
}

impl Waiting {
    pub(super) fn new(after: Duration) -> Arc<Self> {
        Arc::new(Self { after, line: Mutex::default() })
    }

    pub(super) fn wait(self: &Arc<Self>) -> Wait<'_> {
        Wait { waiting: self, place: None }
    }

    /// When the next call's time ends; `None`, and nobody watches any more, if no call waits.
    fn next(&self) -> Option<Instant> {
        let mut line = self.line.lock();
        let next = line.calls.iter().flatten().next().map(|call| call.until);
        line.is_watched = next.is_some();
        next
    }

    /// Wakes those whose time has ended.
    fn wake(&self, now: Instant) {
        let ended = self.line.lock().ended(now);
        for call in ended {
            call.waker.wake();
        }
    }
}

impl Line {
    fn at(&mut self, number: u64) -> Option<&mut Option<Call>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.calls.get_mut(at)
    }

    fn join(&mut self, call: Call) -> u64 {
        let standing = u64::try_from(self.calls.len()).unwrap_or(u64::MAX);
        self.calls.push_back(Some(call));
        self.first.saturating_add(standing)
    }

    fn leave(&mut self, number: u64) -> Option<Call> {
        let left = self.at(number).and_then(Option::take);
        self.close_up();
        left
    }

    /// Those whose time has ended; they stand in the line no more.
    fn ended(&mut self, now: Instant) -> Vec<Call> {
        let is_ended = |call: &Option<Call>| call.as_ref().is_none_or(|call| call.until <= now);
        let ended =
            self.calls.iter_mut().take_while(|call| is_ended(call)).filter_map(Option::take).collect();
        self.close_up();
        ended
    }

    fn close_up(&mut self) {
        while self.calls.front().is_some_and(Option::is_none) {
            self.calls.pop_front();
            self.first += 1;
        }
    }
}

impl Wait<'_> {
    /// Whether the time of a call that cannot go on is over. If not, its task is woken when it is.
    pub(super) fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let Some(place) = self.place else {
            self.begin(context);
            return false;
        };
        if Instant::now() >= place.until {
            return true;
        }
        let mut line = self.waiting.line.lock();
        if let Some(Some(call)) = line.at(place.number) {
            call.waker.clone_from(context.waker());
        }
        self.be_watched(line);
        false
    }

    fn begin(&mut self, context: &Context<'_>) {
        // A time without end needs no watch.
        let Some(until) = Instant::now().checked_add(self.waiting.after) else { return };
        let call = Call { until, waker: context.waker().clone() };
        let mut line = self.waiting.line.lock();
        let number = line.join(call);
        self.place = Some(Place { number, until });
        self.be_watched(line);
    }

    fn be_watched(&self, mut line: MutexGuard<'_, Line>) {
        let was_watched = std::mem::replace(&mut line.is_watched, true);
        // A runtime that is ending drops the watch at once, which then wants the line.
        drop(line);
        if !was_watched {
            tokio::spawn(watch(Watch(Arc::downgrade(self.waiting))));
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            // Dropped once the line is unlocked: nobody knows what a waker does.
            let _left = self.waiting.line.lock().leave(place.number);
        }
    }
}

/// Whoever watches. It may end with its runtime while calls of another one wait: they are woken, and one of them sees to
/// it that they are watched again.
struct Watch(Weak<Waiting>);

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(waiting) = self.0.upgrade() else { return };
        let mut line = waiting.line.lock();
        line.is_watched = false;
        let wakers: Vec<Waker> = line.calls.iter().flatten().map(|call| call.waker.clone()).collect();
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }
}

async fn watch(mut watch: Watch) -> Option<()> {
    loop {
        let waiting = watch.0.upgrade()?;
        let Some(next) = waiting.next() else {
            // Another may have begun to watch by now.
            watch.0 = Weak::new();
            return None;
        };
        drop(waiting);
        sleep_until(next).await;
        watch.0.upgrade()?.wake(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever stands in the midst of a line and leaves it makes no room; when those before go, all of it is there again.
    #[tokio::test(start_paused = true)]
    async fn a_line_is_no_longer_than_from_the_first_who_waits_to_the_last() {
        let waiting = Waiting::new(Duration::from_millis(20));
        let mut context = Context::from_waker(Waker::noop());
        let mut join = || {
            let mut wait = waiting.wait();
            assert!(!wait.is_over(&mut context));
            wait
        };
        let (first, mut rest) = (join(), Vec::new());
        for _ in 0..1_000 {
            rest.push(join());
        }
        let last = join();
        drop(rest);
        assert_eq!(waiting.line.lock().calls.len(), 1_002);
        drop(first);
        assert_eq!(waiting.line.lock().calls.len(), 1);
        drop(last);
        assert!(waiting.line.lock().calls.is_empty());
    }
}
