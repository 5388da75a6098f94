//! Denials that are remembered: they cost the store nothing, and never deny what it would admit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use sluicegate::{
    Limiter, Once, Settled, Store, StoreError, Verb,
    core::{
        Align, Ask, Attributes, Charge, Costs, DecidedBy, Decision, LimitId, Micros, Policy, Question,
        RequestId, Retry, Rule, Subject,
    },
    embedded::{EmbeddedConfig, EmbeddedStore},
    guard::{DenialCache, GuardConfig, Guarded},
};
use sluicegate_tests::{
    HandClock,
    fixtures::{HOUR, Limit, subject},
};
use tokio::time::{Instant, advance, sleep};

const NOON: Micros = Micros::from_secs(1_790_000_000);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MAX_AGE: Duration = DenialCache::<()>::MAX_AGE;

/// A store that counts its calls and takes its time; clones share it.
#[derive(Clone, Debug)]
struct Counting {
    inside: Arc<EmbeddedStore>,
    calls: Arc<AtomicUsize>,
    latency: Duration,
}

impl Counting {
    fn new() -> Self {
        let inside = Arc::new(EmbeddedStore::new(EmbeddedConfig::for_keys(65_536)));
        Self { inside, calls: Arc::default(), latency: Duration::ZERO }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Store for Counting {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let decision = self.inside.take(asks, now).await;
        if !self.latency.is_zero() {
            sleep(self.latency).await;
        }
        decision
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        self.inside.take_once(id, asks, now).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.inside.peek(asks, now).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        self.inside.settle(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        if !self.latency.is_zero() {
            sleep(self.latency).await;
        }
        self.inside.forget(id, subject).await
    }
}

fn hourly(amount: u64) -> Limit {
    Limit::new("hourly", Rule::fixed_window(amount, HOUR, Align::Epoch).unwrap())
}

/// An ask whose denial may be remembered.
fn ask<'l>(limit: &'l Limit, user: &str, cost: u64) -> Ask<'l> {
    Ask { cache_denials: true, ..limit.ask(user, cost) }
}

/// A cache over a store in which alice has used up what the limit gives, and was denied.
async fn denied(limit: &Limit) -> (DenialCache<Counting>, Counting) {
    let store = Counting::new();
    let cache = DenialCache::new(store.clone());
    assert!(cache.take(&[ask(limit, "alice", limit.rule.amount())], NOON).await.unwrap().allowed);
    assert!(!cache.take(&[ask(limit, "alice", 2)], NOON).await.unwrap().allowed);
    (cache, store)
}

async fn take(cache: &DenialCache<Counting>, ask: Ask<'_>) -> Decision {
    cache.take(&[ask], NOON).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_denied_key_costs_the_store_one_call_in_a_hundred_milliseconds() {
    let limit = hourly(5);
    let (cache, store) = denied(&limit).await;
    for turn in 0..10 {
        for cost in (2..=5).cycle().take(100) {
            let decision = take(&cache, ask(&limit, "alice", cost)).await;
            assert_eq!((decision.allowed, store.calls()), (false, 2 + turn), "{cost}");
            advance(MS).await;
        }
        assert_eq!(take(&cache, ask(&limit, "alice", 2)).await.decided_by(), DecidedBy::Store);
    }
}

/// A smaller cost may fit, a cost of 0 always does, other limits and users are others, and a peek shows what is.
#[tokio::test(start_paused = true)]
async fn only_what_was_denied_is_denied_from_memory() {
    let (limit, other) = (hourly(5), Limit::new("other", Rule::gcra(5, HOUR, 5).unwrap()));
    let (cache, store) = denied(&limit).await;
    for asked in [
        ask(&limit, "alice", 1),
        ask(&limit, "alice", 0),
        ask(&limit, "bob", 2),
        ask(&other, "alice", 2),
        limit.ask("alice", 2),
    ] {
        let before = store.calls();
        let decision = take(&cache, asked.clone()).await;
        assert_eq!((decision.decided_by(), store.calls()), (DecidedBy::Store, before + 1), "{asked:?}");
    }
    let earlier = Micros::from_secs(1_789_999_999);
    assert_eq!(take(&cache, ask(&limit, "alice", 2)).await.decided_by(), DecidedBy::Cache);
    assert_eq!(cache.peek(&[ask(&limit, "alice", 2)], NOON).await.unwrap().decided_by(), DecidedBy::Store);
    let before = cache.take(&[ask(&limit, "alice", 2)], earlier).await.unwrap();
    assert_eq!(before.decided_by(), DecidedBy::Store, "asked with an earlier time");
    let id = "order".parse().unwrap();
    assert!(matches!(
        cache.take_once(&id, &[ask(&limit, "alice", 2)], NOON).await.unwrap(),
        Once::Decided { decision, .. } if decision.decided_by() == DecidedBy::Store
    ));
}

#[tokio::test(start_paused = true)]
async fn the_numbers_of_a_remembered_denial_are_those_of_now() {
    let limit = hourly(5);
    let (cache, _store) = denied(&limit).await;
    let later = NOON.plus(50 * MS);
    let (known, stored) = (ask(&limit, "alice", 2), limit.ask("alice", 2));
    let mut expected = cache.take(&[stored], later).await.unwrap();
    expected.asks[0].decided_by = DecidedBy::Cache;
    assert_eq!(cache.take(&[known], later).await.unwrap(), expected);
    // What can never fit is said to be so, and not to fit when something smaller does.
    assert_eq!(take(&cache, ask(&limit, "alice", 6)).await.retry(), Some(Retry::Never));
}

#[tokio::test(start_paused = true)]
async fn who_settles_here_ends_it_at_once() {
    let limit = hourly(5);
    let (cache, _store) = denied(&limit).await;
    let held = ask(&limit, "alice", 5);
    let question = Question { rule: &limit.rule, key: b"alice", cost: 5, now: NOON };
    assert_eq!(take(&cache, ask(&limit, "alice", 2)).await.decided_by(), DecidedBy::Cache);
    let charge = Charge { ask: held, charged_at: question.charged_now(), actual: 3 };
    let settled = cache.settle(&"call".parse().unwrap(), &[charge], NOON).await.unwrap();
    assert_eq!(settled, Settled::Done);
    let decision = take(&cache, ask(&limit, "alice", 2)).await;
    assert_eq!((decision.allowed, decision.decided_by()), (true, DecidedBy::Store));
}

#[tokio::test(start_paused = true)]
async fn who_forgets_here_ends_it_at_once_also_for_answers_on_their_way() {
    let limit = hourly(5);
    let (cache, _store) = denied(&limit).await;
    assert_eq!(take(&cache, ask(&limit, "alice", 2)).await.decided_by(), DecidedBy::Cache);
    cache.forget(limit.id, &subject("alice")).await.unwrap();
    assert!(take(&cache, ask(&limit, "alice", 5)).await.allowed);
    // The store denies, then it forgets, and then the denials arrive: one asked for before that was begun, one after.
    let slow = DenialCache::new(Counting { latency: 10 * MS, ..cache.store().clone() });
    let forget = async {
        sleep(5 * MS).await;
        slow.forget(limit.id, &subject("alice")).await.unwrap()
    };
    let later = async {
        sleep(7 * MS).await;
        take(&slow, ask(&limit, "alice", 1)).await
    };
    let (before, forgotten, after) = tokio::join!(take(&slow, ask(&limit, "alice", 1)), forget, later);
    assert!(!before.allowed && forgotten && !after.allowed);
    assert!(take(&slow, ask(&limit, "alice", 5)).await.allowed);
}

#[tokio::test(start_paused = true)]
async fn a_limit_with_other_numbers_is_asked_for_anew() {
    let (limit, raised) = (hourly(5), hourly(7));
    let (cache, store) = denied(&limit).await;
    assert!(take(&cache, ask(&raised, "alice", 2)).await.allowed);
    assert_eq!(store.calls(), 3);
    // And with the old ones too: somebody else's numbers have been at the state since.
    assert_eq!(take(&cache, ask(&limit, "alice", 2)).await.decided_by(), DecidedBy::Store);
}

#[tokio::test(start_paused = true)]
async fn of_several_limits_only_the_one_that_alone_denies_is_remembered() {
    let (first, second) = (hourly(5), Limit::new("second", Rule::gcra(3, HOUR, 3).unwrap()));
    let store = Counting::new();
    let cache = DenialCache::new(store.clone());
    let both = async |a, b| {
        let decision = cache.take(&[ask(&first, "alice", a), ask(&second, "alice", b)], NOON).await.unwrap();
        (decision.allowed, decision.decided_by(), decision.asks[1].remaining)
    };
    assert_eq!(both(2, 2).await, (true, DecidedBy::Store, Some(1)));
    assert_eq!(both(4, 2).await, (false, DecidedBy::Store, Some(1)), "both deny");
    assert!(cache.is_empty());
    assert_eq!(both(4, 1).await, (false, DecidedBy::Store, Some(1)), "the first alone denies");
    // Of the second nothing is known.
    assert_eq!(both(4, 1).await, (false, DecidedBy::Cache, None));
    assert_eq!(store.calls(), 3);
    // Two asks of one limit and subject are denied for their sum: neither alone would be.
    let twice = [ask(&second, "alice", 1), ask(&second, "alice", 1)];
    assert!(!cache.take(&twice, NOON).await.unwrap().allowed);
    assert!(take(&cache, ask(&second, "alice", 1)).await.allowed);
    // And what they come to, such as never, is known of the sum alone.
    assert!(!take(&cache, ask(&second, "alice", 2)).await.allowed);
    let decision = cache.take(&[ask(&second, "alice", 2), ask(&second, "alice", 2)], NOON).await.unwrap();
    assert_eq!((decision.decided_by(), decision.retry()), (DecidedBy::Store, Some(Retry::Never)));
}

#[tokio::test(start_paused = true)]
async fn denials_of_keys_without_end_take_bounded_memory() {
    let most = DenialCache::<()>::MAX_DENIALS;
    let (cache, limit) = (DenialCache::new(Counting::new()), hourly(0));
    for user in 0..most * 3 / 2 {
        take(&cache, ask(&limit, &user.to_string(), 1)).await;
        assert!(cache.len() <= most, "{user}");
    }
    assert!(cache.len() > most / 4, "{}", cache.len());
}

fn limits() -> Vec<Limit> {
    let rules = [
        Rule::fixed_window(4, SECOND, Align::Epoch),
        Rule::fixed_window(4, SECOND, Align::FirstRequest),
        Rule::sliding_log(4, SECOND),
        Rule::sliding_counter(4, SECOND),
        Rule::token_bucket(5, SECOND, 3),
        Rule::gcra(20, SECOND, 3),
        Rule::leaky_bucket(10, SECOND, 200 * MS),
        Rule::fixed_window(0, SECOND, Align::Epoch),
    ];
    rules.into_iter().enumerate().map(|(at, rule)| Limit::new(&format!("l{at}"), rule.unwrap())).collect()
}

/// One instance with a cache, others on the same store without; all take and forget, their clocks a little apart.
struct Scene<'l> {
    rng: Rng,
    cache: DenialCache<Counting>,
    store: Counting,
    limits: &'l [Limit],
    now: Micros,
    /// When somebody else forgot.
    forgotten: HashMap<(LimitId, Subject), Instant>,
    from_memory: usize,
}

impl<'l> Scene<'l> {
    fn new(seed: u64, limits: &'l [Limit]) -> Self {
        let store = Counting::new();
        let (cache, rng) = (DenialCache::new(store.clone()), Rng::with_seed(seed));
        Self { rng, cache, store, limits, now: NOON, forgotten: HashMap::new(), from_memory: 0 }
    }

    fn some_ask(&mut self) -> Ask<'l> {
        let limit = &self.limits[self.rng.usize(..self.limits.len())];
        ask(limit, ["alice", "bob"][self.rng.usize(..2)], self.rng.u64(0..=5))
    }

    async fn step(&mut self) {
        let passed = Duration::from_micros(self.rng.u64(0..30_000));
        advance(passed).await;
        self.now = self.now.plus(passed);
        // A caller that took the time a little earlier.
        let now = Micros::new(self.now.as_u64() - self.rng.u64(0..5_000));
        let asked = self.some_ask();
        match self.rng.u32(0..100) {
            0..65 => {
                let more = (self.rng.u32(0..3) == 0).then(|| self.some_ask());
                self.ask(&[asked].into_iter().chain(more).collect::<Vec<_>>(), now).await;
            }
            65..85 => drop(self.store.take(&[asked], now).await.unwrap()),
            85..93 => drop(self.cache.forget(asked.id, &asked.subject).await.unwrap()),
            _ => {
                self.store.forget(asked.id, &asked.subject).await.unwrap();
                self.forgotten.insert((asked.id, asked.subject), Instant::now());
            }
        }
    }

    async fn ask(&mut self, asks: &[Ask<'_>], now: Micros) {
        let truth = self.store.peek(asks, now).await.unwrap();
        let told = self.cache.take(asks, now).await.unwrap();
        if told.decided_by() != DecidedBy::Cache {
            assert_eq!(told.allowed, truth.allowed);
            return;
        }
        self.from_memory += 1;
        assert!(!told.allowed);
        for ((ask, told), truth) in
            asks.iter().zip(&told.asks).zip(&truth.asks).filter(|((_, told), _)| !told.allowed)
        {
            let forgotten = self.forgotten.get(&(ask.id, ask.subject.clone()));
            if forgotten.is_some_and(|at| at.elapsed() < MAX_AGE) {
                continue;
            }
            assert!(!truth.allowed, "denied from memory, admitted by the store: {ask:?}");
            match (told.retry.unwrap(), truth.retry.unwrap()) {
                (Retry::After(told), Retry::After(truth)) => {
                    assert!(told <= truth, "{ask:?}: {told:?} {truth:?}");
                }
                (told, truth) => assert_eq!(told, truth, "{ask:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_others_do_nothing_is_denied_from_memory_that_the_store_would_admit() {
    let limits = limits();
    let mut from_memory = 0;
    for seed in 0..400 {
        let mut scene = Scene::new(seed, &limits);
        for _ in 0..400 {
            scene.step().await;
        }
        from_memory += scene.from_memory;
    }
    assert!(from_memory > 3_000, "{from_memory}");
}

/// From the policy to the verdict.
#[tokio::test(start_paused = true)]
async fn a_policy_says_which_denials_are_remembered_and_the_verdict_says_which_were() {
    for (field, expected) in
        [("cache_denials: true", DecidedBy::Cache), ("cache_denials: false", DecidedBy::Store)]
    {
        let text = format!(
            "{{version: 1, limits: [{{name: hot, algorithm: gcra, limit: 1, per: 1h, key: [user], {field}}}]}}"
        );
        let guarded = Guarded::new(Counting::new(), Arc::default(), GuardConfig::default());
        let limiter = Limiter::new(Policy::parse(&text).unwrap(), guarded, HandClock::at(1_790_000_000));
        let alice = Attributes::from_iter([("user", "alice")]);
        let mut told = Vec::new();
        for _ in 0..3 {
            let verdict = limiter.decide_surely(Verb::Take, &alice, &Costs::requests(1)).await.unwrap();
            told.push((verdict.allowed, verdict.decided_by()));
        }
        let store = DecidedBy::Store;
        assert_eq!(told, [(true, store), (false, store), (false, expected)], "{field}");
    }
}

impl sluicegate::guard::Probe for Counting {
    async fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
