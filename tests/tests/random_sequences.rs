//! Every store against the arithmetic: the same asks at the same times, the same decisions and the same stored states.
#![allow(clippy::print_stderr)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures_util::future::{join_all, join3};
use sluicegate::{
    Once, Settled, Store, StoreError,
    core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Rule, State, Subject},
    embedded::EmbeddedStore,
};
use sluicegate_redis::{RedisStore, record_key};
use sluicegate_tests::{
    RedisServer,
    checks::lives,
    model::Model,
    sequence::{Jumps, Step, World},
};

/// Worlds per run, and steps in each.
const WORLDS: u64 = 100;
const STEPS: usize = 40;
/// A record outlives its states by at least 8 s and at most 10 s.
const GRACE_MS: std::ops::Range<u64> = 8_000..10_001;
/// What a machine under load may need between a write and a look at its time to live.
const DELAY_MS: u64 = 3_000;

/// A store whose states can be looked at.
trait Open: Store {
    async fn stored(&self, rule: &Rule, id: LimitId, subject: &Subject) -> Option<State>;
}

impl Open for RedisStore {
    async fn stored(&self, rule: &Rule, id: LimitId, subject: &Subject) -> Option<State> {
        self.state(rule, id, subject).await.unwrap()
    }
}

/// A Redis store that is never idle: each take waits, and is decided in one call with others.
struct Crowded {
    store: RedisStore,
    rule: Rule,
    others: Vec<Subject>,
}

impl Crowded {
    fn new(store: RedisStore) -> Self {
        let rule = Rule::token_bucket(1_000_000, Duration::from_secs(1), 1_000_000).unwrap();
        let other = |user: usize| Subject::new("crowd", &[], &[("user", Some(user.to_string().as_str()))]);
        Self { store, rule, others: (0..18).map(other).collect() }
    }
}

impl Store for Crowded {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let ask = |subject: &Subject| {
            let id = LimitId::of("crowd", &self.rule);
            [Ask::new(&self.rule, id, subject.clone(), 1)]
        };
        let crowd: Vec<[Ask<'_>; 1]> = self.others.iter().map(ask).collect();
        // Sixteen go at once. The next waits with the one in question, which waits with the last.
        let (before, after) = crowd.split_at(17);
        let noon = Micros::from_secs(1_790_000_000);
        let before = join_all(before.iter().map(|asks| self.store.take(asks, noon)));
        let after = join_all(after.iter().map(|asks| self.store.take(asks, noon)));
        let (before, answer, after) = join3(before, self.store.take(asks, now), after).await;
        assert!(before.into_iter().chain(after).all(|taken| taken.unwrap().allowed));
        answer
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        self.store.take_once(id, asks, now).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.store.peek(asks, now).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        self.store.settle(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        self.store.forget(id, subject).await
    }
}

impl Open for Crowded {
    async fn stored(&self, rule: &Rule, id: LimitId, subject: &Subject) -> Option<State> {
        self.store.stored(rule, id, subject).await
    }
}

impl Open for EmbeddedStore {
    async fn stored(&self, rule: &Rule, id: LimitId, subject: &Subject) -> Option<State> {
        self.state(rule, id, subject)
    }
}

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("SLUICEGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    first..first + WORLDS
}

async fn call(store: &impl Store, world: &World, step: &Step) -> Result<Answer, StoreError> {
    Ok(match step {
        Step::Take(plans) => Answer::Decision(store.take(&world.asks(plans), world.now()).await?),
        Step::Peek(plans) => Answer::Decision(store.peek(&world.asks(plans), world.now()).await?),
        Step::Forget(plan) => {
            let ask = world.ask(plan);
            Answer::Forgotten(store.forget(ask.id, &ask.subject).await?)
        }
    })
}

fn call_model(model: &mut Model, world: &World, step: &Step) -> Answer {
    match step {
        Step::Take(plans) => Answer::Decision(model.take(&world.asks(plans), world.now())),
        Step::Peek(plans) => Answer::Decision(model.peek(&world.asks(plans), world.now())),
        Step::Forget(plan) => {
            let ask = world.ask(plan);
            Answer::Forgotten(model.forget(ask.id, &ask.subject))
        }
    }
}

#[derive(Debug, PartialEq)]
enum Answer {
    Decision(Decision),
    Forgotten(bool),
}

/// Runs one world on a store and the model, and `look` after every step.
async fn compare(
    store: &impl Open,
    mut world: World,
    next: impl Fn(&mut World) -> Step,
    mut look: impl FnMut(&World, &Step, &Answer, &Model),
) {
    let mut model = Model::default();
    for number in 0..STEPS {
        let step = next(&mut world);
        let at = || format!("step {number} at {}: {step:?} of {world:?}", world.now());
        let dropped = may_be_dropped(&model, &world, &step);
        let expected = call_model(&mut model, &world, &step);
        let answered =
            call(store, &world, &step).await.unwrap_or_else(|error| panic!("{error:?} in {}", at()));
        if !(dropped && answered == Answer::Forgotten(false)) {
            assert_eq!(answered, expected, "{}", at());
        }
        for subject in world.subjects() {
            for (id, rule) in world.limits() {
                let stored = store.stored(rule, id, subject).await;
                let kept = model.kept(id, subject);
                // A store may drop what has reset.
                let gone =
                    stored.is_none() && kept.is_some_and(|kept| kept.resets_at_us <= world.now().as_u64());
                if !gone {
                    assert_eq!(stored.as_ref(), kept.map(|kept| &kept.state), "{subject} after {}", at());
                }
            }
        }
        look(&world, &step, &answered, &model);
    }
}

/// Whether the state to forget has reset, so that a store may have dropped it already.
fn may_be_dropped(model: &Model, world: &World, step: &Step) -> bool {
    let Step::Forget(plan) = step else { return false };
    let ask = world.ask(plan);
    model.kept(ask.id, &ask.subject).is_some_and(|kept| kept.resets_at_us <= world.now().as_u64())
}

/// Prints the seed if the world fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with SLUICEGATE_SEED={}", self.0);
        }
    }
}

async fn compare_all(store: &impl Open, name: &str, seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        let _seed = Seed(seed);
        let world = World::new(seed, name, Jumps::BackAndForth);
        compare(store, world, World::step, |_, _, _, _| {}).await;
        let world = World::new(seed, &format!("{name}-some"), Jumps::Forward);
        compare(store, world, World::step_of_some_limits, |_, _, _, _| {}).await;
        if seed.is_multiple_of(3) {
            let world = World::of_pairs_in_order(seed, &format!("{name}-pairs"), Jumps::BackAndForth);
            compare(store, world, World::step, |_, _, _, _| {}).await;
        }
    }
}

#[tokio::test]
async fn redis_decides_and_keeps_what_the_arithmetic_says() {
    let server = RedisServer::start();
    compare_all(&server.store(), "redis", seeds()).await;
}

#[tokio::test]
async fn redis_decides_the_same_about_requests_that_wait_with_others() {
    let server = RedisServer::start();
    compare_all(&Crowded::new(server.store()), "crowded", seeds().take(30)).await;
}

#[tokio::test]
async fn the_embedded_store_decides_and_keeps_what_the_arithmetic_says() {
    compare_all(&EmbeddedStore::default(), "embedded", seeds()).await;
}

/// The asks of a step that were counted.
fn charged<'w>(world: &'w World, step: &'w Step, answered: &Answer) -> impl Iterator<Item = Ask<'w>> {
    let asks = match (step, answered) {
        (Step::Take(plans), Answer::Decision(Decision { allowed: true, .. })) => world.asks(plans),
        _ => Vec::new(),
    };
    asks.into_iter().filter(|ask| ask.cost > 0)
}

/// Limiters were found with keys that never expire (limits#14: blocked until deleted by hand), that live a thousand
/// times too long (Losant/redis-gcra#6), or that end inside their window (rack-attack PR#85): here every key is looked
/// at after every step.
#[tokio::test]
async fn every_key_lives_until_it_has_reset_and_the_grace_and_no_longer() {
    let server = RedisServer::start();
    let (store, mut admin) = (server.store(), server.admin());
    for seed in seeds().take(60) {
        let _seed = Seed(seed);
        redis::cmd("FLUSHALL").exec(&mut admin).unwrap();
        let mut due: HashMap<String, (u64, Instant)> = HashMap::new();
        let mut written: HashMap<String, Vec<u8>> = HashMap::new();
        let world = World::new(seed, "ttl", Jumps::BackAndForth);
        compare(&store, world, World::step, |world, step, answered, model| {
            for (key, life) in lives(&mut admin) {
                let value: Vec<u8> = redis::cmd("GET").arg(&key).query(&mut admin).unwrap();
                let subject = world.subjects().iter().find(|subject| record_key(subject) == key).unwrap();
                let changed = written.insert(key.clone(), value.clone()).as_ref() != Some(&value);
                let moved = changed && matches!(step, Step::Take(_));
                if moved || charged(world, step, answered).any(|ask| ask.subject == *subject) {
                    let need_us = model.resets_at_us(subject).unwrap().saturating_sub(world.now().as_u64());
                    due.insert(key.clone(), (need_us / 1_000, Instant::now()));
                }
                let (need_ms, since) = due[&key];
                let passed = u64::try_from(since.elapsed().as_millis()).unwrap();
                let life = u64::try_from(life).unwrap_or_else(|_| panic!("{key} has no time to live"));
                let least = (need_ms + GRACE_MS.start).saturating_sub(passed + DELAY_MS);
                assert!(life > 0 && life >= least, "{key}: {life} ms left, {need_ms} ms until it has reset");
                assert!(life <= need_ms + GRACE_MS.end, "{key}: {life} ms left for a need of {need_ms} ms");
            }
        })
        .await;
    }
}

/// `EXPIRE` only where a counter is new never repairs a key that lost its time to live (OpenGateLLM#608,
/// PatchMon#868): one such key blocks its user for ever.
#[tokio::test]
async fn a_key_without_time_to_live_gets_one_from_the_next_count() {
    let server = RedisServer::start();
    let (store, mut admin) = (server.store(), server.admin());
    for seed in seeds().take(30) {
        let mut world = World::new(seed, "persist", Jumps::Forward);
        for _ in 0..STEPS {
            for key in lives(&mut admin).into_keys() {
                redis::cmd("PERSIST").arg(&key).exec(&mut admin).unwrap();
            }
            let step = world.step();
            let answered = call(&store, &world, &step).await.unwrap();
            let lives = lives(&mut admin);
            for ask in charged(&world, &step, &answered) {
                assert!(lives[&record_key(&ask.subject)] > 0, "seed {seed}: {step:?}");
            }
        }
        redis::cmd("FLUSHALL").exec(&mut admin).unwrap();
    }
}
