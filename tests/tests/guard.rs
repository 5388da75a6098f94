//! What guards a store, on a clock that is turned: the deadline to the microsecond, the breaker over any history.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use proptest::prelude::*;
use sluicegate::{
    Counted, Once, Settled, Store, StoreError, SureStore, Verb,
    core::{
        Align, Ask, Charge, DecidedBy, Decision, Headroom, LimitId, Micros, OnStoreFailure, RequestId, Retry,
        Rule, Share, Subject,
    },
    embedded::{EmbeddedConfig, EmbeddedStore},
    guard::{Bounded, Breaker, Deadline, GuardConfig, Guarded, Membership, Probe},
};
use sluicegate_tests::fixtures::{HOUR, Limit};
use tokio::time::{Instant, sleep, timeout};

const NOON: Micros = Micros::from_secs(1_790_000_000);
const MS: Duration = Duration::from_millis(1);
const DEADLINE: Duration = Duration::from_millis(20);

/// How a store answers, until it is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// After this long.
    After(Duration),
    /// An error, after this long.
    Failing(Duration),
    /// Not at all.
    Silent,
    /// Probes are answered, calls end in an error.
    Deceiving,
}

/// An embedded store with moods.
#[derive(Debug)]
struct Moody {
    inside: EmbeddedStore,
    mood: Mutex<Mood>,
    calls: AtomicUsize,
    probing: AtomicUsize,
    probed_twice: AtomicBool,
}

impl Moody {
    fn new(mood: Mood) -> Arc<Self> {
        let inside = EmbeddedStore::new(EmbeddedConfig::for_keys(4_096));
        let (mood, calls, probing) = (Mutex::new(mood), AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { inside, mood, calls, probing, probed_twice: AtomicBool::new(false) })
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    async fn answer<T>(&self, answer: impl FnOnce() -> T) -> Result<T, StoreError> {
        let mood = *self.mood.lock().unwrap();
        match mood {
            // A sleep of no time lasts until the timer's next millisecond.
            Mood::After(Duration::ZERO) | Mood::Failing(Duration::ZERO) | Mood::Deceiving => {}
            Mood::After(latency) | Mood::Failing(latency) => sleep(latency).await,
            Mood::Silent => std::future::pending().await,
        }
        if matches!(mood, Mood::Failing(_) | Mood::Deceiving) {
            return Err(StoreError::new("it fails", Counted::Nothing));
        }
        Ok(answer())
    }
}

impl Store for Moody {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.answer(|| self.inside.take_now(asks, now)).await
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.answer(|| self.inside.take_once_now(id, asks, now)).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.answer(|| self.inside.peek_now(asks, now)).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        self.answer(|| self.inside.settle_now(id, charges, now)).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        self.answer(|| self.inside.forget_now(id, subject)).await
    }
}

impl Probe for Moody {
    async fn probe(&self) -> Result<(), StoreError> {
        if self.probing.fetch_add(1, Ordering::Relaxed) > 0 {
            self.probed_twice.store(true, Ordering::Relaxed);
        }
        let deceives = *self.mood.lock().unwrap() == Mood::Deceiving;
        // A probe has a bound of its own, as one over a connection does.
        let answer = if deceives { Ok(Ok(())) } else { timeout(500 * MS, self.answer(|| ())).await };
        self.probing.fetch_sub(1, Ordering::Relaxed);
        answer.unwrap_or_else(|_| Err(StoreError::new("no answer", Counted::Nothing)))
    }
}

fn window(amount: u64) -> Limit {
    Limit::new("window", Rule::fixed_window(amount, HOUR, Align::Epoch).unwrap())
}

fn guarded(store: &Arc<Moody>) -> Guarded<Arc<Moody>> {
    Guarded::new(store.clone(), Arc::default(), GuardConfig { deadline: DEADLINE, ..GuardConfig::default() })
}

async fn take(store: &impl SureStore, ask: Ask<'_>) -> Decision {
    store.decide(Verb::Take, &[ask], NOON).await
}

async fn decide(store: &impl SureStore, asks: Vec<Ask<'_>>, verb: Verb) -> Decision {
    store.decide(verb, &asks, NOON).await
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_by_the_deadline_to_the_millisecond() {
    let (store, limit) = (Moody::new(Mood::Silent), window(5));
    let deadline = Deadline::new(store.clone(), DEADLINE);
    let begin = Instant::now();
    let late = deadline.take(&[limit.ask("alice", 1)], NOON).await.unwrap_err();
    assert_eq!((begin.elapsed(), late.counted()), (DEADLINE, Counted::Unknown));
    let late = deadline.peek(&[limit.ask("alice", 1)], NOON).await.unwrap_err();
    assert_eq!((begin.elapsed(), late.counted()), (2 * DEADLINE, Counted::Nothing));
    store.set(Mood::After(19 * MS));
    assert!(deadline.take(&[limit.ask("alice", 1)], NOON).await.unwrap().allowed);
    assert_eq!(begin.elapsed(), 2 * DEADLINE + 19 * MS);
}

/// One timer serves all calls: each still ends at its own time, whatever became of those before and after it.
#[tokio::test(start_paused = true)]
async fn calls_that_overlap_end_each_by_its_own_deadline() {
    let (store, limit) = (Moody::new(Mood::Silent), window(1_000));
    let deadline = Deadline::new(store.clone(), DEADLINE);
    let begin = Instant::now();
    let calls = (0..60u32).map(|number| {
        let (store, deadline, limit) = (&store, &deadline, &limit);
        async move {
            sleep(number * MS).await;
            // Of each four one is answered, one a little later than another, one given up, and one not answered.
            store.set(match number % 4 {
                0 => Mood::After(Duration::ZERO),
                1 => Mood::After(15 * MS),
                _ => Mood::Silent,
            });
            let ask = [limit.ask("alice", 1)];
            let call = deadline.take(&ask, NOON);
            let ended = if number % 4 == 2 { timeout(7 * MS, call).await.ok() } else { Some(call.await) };
            let expected = number * MS
                + [Duration::ZERO, 15 * MS, 7 * MS, DEADLINE][usize::try_from(number % 4).unwrap()];
            assert_eq!(begin.elapsed(), expected, "{number}");
            ended.map(|answer| answer.is_ok())
        }
    });
    let ended = join_all(calls).await;
    assert_eq!(ended, [Some(true), Some(true), None, Some(false)].repeat(15));
}

/// The timer lives in the runtime of whoever waited first. When that ends, others go on to wait for their time and no longer.
#[test]
fn a_call_ends_by_its_deadline_though_the_runtime_that_kept_the_time_is_gone() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (store, after) = (Moody::new(Mood::Silent), 300 * MS);
    let deadline = Deadline::new(store, after);
    let take = || {
        let deadline = deadline.clone();
        async move { deadline.take(&[window(5).ask("alice", 1)], NOON).await.map(|_| ()) }
    };
    let (first, second) = (runtime(), runtime());
    let _gone = first.spawn(take());
    // Until the first call waits, so that its runtime keeps the time.
    while deadline.store().calls.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(20 * MS); // and is watched
    let begin = std::time::Instant::now();
    let waits = second.spawn(take());
    std::thread::sleep(20 * MS); // until the second waits too
    first.shutdown_background();
    let late = second.block_on(async { timeout(10 * after, waits).await });
    assert!(late.expect("the call ends").unwrap().is_err());
    assert!(begin.elapsed() >= after, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_exceeds_the_bound_fails_at_once_and_counted_nothing() {
    let (store, limit) = (Moody::new(Mood::After(5 * MS)), window(100));
    let bounded = Bounded::new(store.clone(), 3);
    let begin = Instant::now();
    let calls = (0..10).map(|_| async {
        let ask = [limit.ask("alice", 1)];
        let answer = bounded.take(&ask, NOON).await;
        (answer.map_err(|error| error.counted()).map(|decision| decision.allowed), begin.elapsed())
    });
    let mut answers = join_all(calls).await;
    answers.sort_by_key(|(_, after)| *after);
    let expected = [vec![(Err(Counted::Nothing), Duration::ZERO); 7], vec![(Ok(true), 5 * MS); 3]].concat();
    assert_eq!(answers, expected);
    assert_eq!((bounded.in_flight(), store.calls.load(Ordering::Relaxed)), (0, 3));
    // A caller that goes away lands too.
    let ask = [limit.ask("alice", 1)];
    assert!(timeout(MS, bounded.take(&ask, NOON)).await.is_err());
    assert_eq!(bounded.in_flight(), 0);
}

/// A burst of requests must not turn a fleet away from a store that works.
#[tokio::test(start_paused = true)]
async fn too_many_calls_at_once_do_not_open_the_breaker() {
    let (store, limit) = (Moody::new(Mood::After(5 * MS)), window(1_000));
    let config = GuardConfig { max_in_flight: 10, ..GuardConfig::default() };
    let guarded = Guarded::new(store.clone(), Arc::default(), config);
    let decisions = join_all((0..500).map(|_| take(&guarded, limit.ask("alice", 1)))).await;
    let by_the_store = decisions.iter().filter(|decision| decision.decided_by() == DecidedBy::Store).count();
    assert_eq!(by_the_store, 10);
    assert!(guarded.breaker().is_closed());
}

/// Each call alone would wait for the deadline; after the third nobody waits any more.
#[tokio::test(start_paused = true)]
async fn a_dead_store_costs_three_callers_the_deadline_and_then_nobody_anything() {
    let (store, limit) = (Moody::new(Mood::Silent), window(100));
    let guarded = guarded(&store);
    let begin = Instant::now();
    for _ in 0..50 {
        assert_eq!(take(&guarded, limit.ask("alice", 1)).await.decided_by(), DecidedBy::Fallback);
    }
    assert_eq!((begin.elapsed(), store.calls.load(Ordering::Relaxed)), (3 * DEADLINE, 3));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_half_of_the_time_is_left_alone() {
    let (store, limit) = (Moody::new(Mood::After(MS)), window(1_000));
    let guarded = guarded(&store);
    for call in 0..24 {
        assert!(guarded.breaker().is_closed(), "{call}");
        store.set(Mood::After(if call % 2 == 0 { MS } else { 16 * MS }));
        take(&guarded, limit.ask("alice", 1)).await;
    }
    assert!(!guarded.breaker().is_closed());
}

/// A probe that is answered slowly says nothing about calls that have less time.
#[tokio::test(start_paused = true)]
async fn a_store_that_answers_each_call_too_late_is_not_let_back_in() {
    let (store, limit) = (Moody::new(Mood::After(100 * MS)), window(1_000));
    let guarded = guarded(&store);
    for _ in 0..60_000 {
        take(&guarded, limit.ask("alice", 1)).await;
        sleep(MS).await;
    }
    assert_eq!(store.calls.load(Ordering::Relaxed), 3);
}

/// The way back: a twentieth of all keys, a quarter, half, all; a key that the store decides about stays with it.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_back_decides_about_everything_within_two_seconds() {
    let (store, limit) = (Moody::new(Mood::Silent), window(1_000));
    let guarded = guarded(&store);
    while guarded.breaker().open_to_permille() > 0 {
        take(&guarded, limit.ask("alice", 1)).await;
    }
    sleep(60_000 * MS).await; // The pauses between probes are at their longest.
    store.set(Mood::After(Duration::ZERO));
    let begin = Instant::now();
    let (mut with_the_store, mut shares) = (Vec::new(), vec![0]);
    while !guarded.breaker().is_closed() {
        let share = guarded.breaker().open_to_permille();
        if shares.last() != Some(&share) {
            shares.push(share);
        }
        let mut now_with_it = Vec::new();
        for user in 0..1_000 {
            let decision = take(&guarded, limit.ask(&user.to_string(), 1)).await;
            if decision.decided_by() == DecidedBy::Store {
                now_with_it.push(user);
            }
        }
        assert!(with_the_store.iter().all(|user| now_with_it.contains(user)), "a key changed sides");
        assert!(now_with_it.len().abs_diff(usize::from(share)) < 60, "{} at {share}", now_with_it.len());
        with_the_store = now_with_it;
        sleep(10 * MS).await;
    }
    assert_eq!(shares, [0, 50, 250, 500]);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

/// What a store does for a while.
fn moods() -> impl Strategy<Value = Vec<(Mood, u64)>> {
    let mood = prop_oneof![
        3 => (0..30u64).prop_map(|ms| Mood::After(Duration::from_millis(ms))),
        2 => (0..30u64).prop_map(|ms| Mood::Failing(Duration::from_millis(ms))),
        1 => Just(Mood::Silent),
        2 => Just(Mood::Deceiving),
    ];
    prop::collection::vec((mood, prop_oneof![1..100u64, 100..4_000u64]), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_a_store_does_each_call_is_decided_in_time_and_the_breaker_does_not_flap(moods in moods()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let (store, limit) = (Moody::new(Mood::After(Duration::ZERO)), window(1_000_000));
            let guarded = guarded(&store);
            let begin = Instant::now();
            let mut shares = vec![1_000];
            for (mood, length_ms) in moods {
                store.set(mood);
                let until = Instant::now() + Duration::from_millis(length_ms);
                while Instant::now() < until {
                    let called = Instant::now();
                    let calls = (0..4).map(|user| take(&guarded, limit.ask(&format!("{user}-{called:?}"), 1)));
                    let decisions = join_all(calls).await;
                    assert!(decisions.iter().all(|decision| decision.allowed));
                    assert!(called.elapsed() <= DEADLINE, "{:?}", called.elapsed());
                    sleep(MS).await;
                    let share = guarded.breaker().open_to_permille();
                    if shares.last() != Some(&share) {
                        shares.push(share);
                    }
                }
            }
            assert!(!store.probed_twice.load(Ordering::Relaxed), "two probes at once");
            let fell = shares.windows(2).filter(|pair| pair[1] < pair[0]);
            assert!(fell.clone().all(|pair| pair[1] == 0), "closed by halves: {shares:?}");
            // The pauses are at least 50, 100, 200 and 400 ms, and then half a second.
            let most = 5 + begin.elapsed().as_secs() * 2 + 1;
            assert!(fell.map(|_| 1).sum::<u64>() <= most, "it flaps: {shares:?} in {:?}", begin.elapsed());
        });
    }
}

/// An outage every few seconds must not give a key its share anew each time.
#[tokio::test(start_paused = true)]
async fn what_was_counted_without_the_store_lasts_however_often_the_store_goes_and_comes() {
    let (store, limit) = (Moody::new(Mood::After(Duration::ZERO)), window(5));
    let guarded = guarded(&store);
    let (mut by_the_store, mut without) = (0, 0);
    for _ in 0..20 {
        for mood in [Mood::Failing(Duration::ZERO), Mood::After(Duration::ZERO)] {
            store.set(mood);
            for _ in 0..50 {
                let decision = take(&guarded, limit.ask("alice", 1)).await;
                match decision.decided_by() {
                    DecidedBy::Store => by_the_store += usize::from(decision.allowed),
                    _ => without += usize::from(decision.allowed),
                }
                sleep(100 * MS).await;
            }
        }
    }
    assert_eq!((by_the_store, without), (5, 5));
    // Nothing of it was told to the store, and nothing of it reaches the next window.
    let next = NOON.plus(HOUR);
    let decision = guarded.decide(Verb::Peek, &[limit.ask("alice", 1)], next).await;
    assert_eq!(decision.asks[0].remaining, Some(5));
    store.set(Mood::Failing(Duration::ZERO));
    let decision = guarded.decide(Verb::Peek, &[limit.ask("alice", 1)], next).await;
    assert_eq!((decision.decided_by(), decision.asks[0].remaining), (DecidedBy::Fallback, Some(5)));
    assert!(guarded.forget(limit.id, &limit.ask("alice", 1).subject).await.is_err());
}

/// Local, allow and deny in one request: one that denies, and none is counted.
#[tokio::test(start_paused = true)]
async fn asks_with_different_rules_are_decided_all_or_none() {
    let (store, first, second) = (Moody::new(Mood::Failing(Duration::ZERO)), window(3), window(5));
    let guarded = guarded(&store);
    let second = Limit { id: LimitId::of("second", &second.rule), ..second };
    let with = |limit: &'static str, does| {
        let limit = if limit == "first" { &first } else { &second };
        Ask { on_store_failure: does, ..limit.ask("alice", 1) }
    };
    let local = OnStoreFailure::default();
    let denied =
        decide(&guarded, vec![with("first", local), with("second", OnStoreFailure::Deny)], Verb::Take).await;
    assert_eq!((denied.allowed, denied.retry()), (false, Some(Retry::After(Duration::from_secs(1)))));
    let never = Ask { cost: 6, ..with("second", OnStoreFailure::Allow) };
    assert_eq!(
        decide(&guarded, vec![with("first", local), never], Verb::Take).await.retry(),
        Some(Retry::Never)
    );
    for left in [2, 1, 0] {
        let allowed =
            decide(&guarded, vec![with("first", local), with("second", OnStoreFailure::Allow)], Verb::Take)
                .await;
        let remaining = allowed.asks.iter().map(|ask| ask.remaining).collect::<Vec<_>>();
        assert_eq!((allowed.allowed, remaining), (true, vec![Some(left), None]));
    }
    let spent = decide(&guarded, vec![with("second", local), with("first", local)], Verb::Take).await;
    assert!(!spent.allowed);
    assert_eq!(decide(&guarded, vec![with("second", local)], Verb::Peek).await.asks[0].remaining, Some(5));
    // A cost of 0 passes everywhere, as it does with the store.
    let nothing = |does| Ask { cost: 0, ..with("first", does) };
    for does in [local, OnStoreFailure::Allow, OnStoreFailure::Deny] {
        assert!(decide(&guarded, vec![nothing(does)], Verb::Take).await.allowed, "{does:?}");
    }
}

/// The third of four has nothing of a limit of 2: it denies, and says that another try is worth it, and not "never".
#[tokio::test(start_paused = true)]
async fn an_instance_without_a_share_denies_until_the_store_is_back() {
    let (store, limit) = (Moody::new(Mood::Failing(Duration::ZERO)), window(2));
    let membership = Arc::new(Membership::default());
    let guarded = Guarded::new(store, membership.clone(), GuardConfig::default());
    membership.set(Share::new(4.try_into().unwrap(), 2).unwrap());
    let denied = take(&guarded, limit.ask("alice", 1)).await;
    assert_eq!((denied.allowed, denied.retry()), (false, Some(Retry::After(Duration::from_secs(1)))));
    assert_eq!(denied.asks[0].limit, Some(2));
    let headroom = Headroom::from_permille(2_000).unwrap();
    let roomy = Ask { on_store_failure: OnStoreFailure::Local { headroom }, ..limit.ask("alice", 1) };
    assert!(take(&guarded, roomy).await.allowed);
}

/// Wrapped or not, a store that works gives the same answers.
#[tokio::test(start_paused = true)]
async fn a_store_that_works_is_not_changed_by_its_guard() {
    let (store, limit) = (Arc::new(EmbeddedStore::default()), window(3));
    let guarded = Guarded::new(Arc::new(EmbeddedStore::default()), Arc::default(), GuardConfig::default());
    for cost in [1, 0, 4, 2, 1, 1] {
        assert_eq!(
            take(&guarded, limit.ask("alice", cost)).await,
            take(&store, limit.ask("alice", cost)).await
        );
    }
    let breaker = Breaker::new(store, DEADLINE);
    assert!(breaker.is_closed());
}
