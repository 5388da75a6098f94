//! Holds and settlements on every store: estimates are held before a request goes on, and what it cost is settled afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{collections::HashMap, sync::Arc, time::Duration};

use fastrand::Rng;
use sluicegate::{
    Hold, Limiter, LimiterError, Settled, Store,
    core::{
        Align, Ask, Attributes, Charge, Costs, Every, LimitId, Micros, Period, Policy, Question, RequestId,
        Rule, policy::AskError,
    },
    embedded::EmbeddedStore,
};
use sluicegate_redis::RedisStore;
use sluicegate_tests::{
    HandClock, RedisServer,
    checks::{admitted_at_once, lives},
    fixtures::{HOUR, Limit, subject},
};

/// 2026-12-11T00:00:00Z.
const BEGIN: u64 = 1_796_947_200;
const NOW: Micros = Micros::from_secs(BEGIN);

const POLICY: &str = "version: 1
limits:
  - { name: calls, algorithm: token_bucket, limit: 10, per: 1m, burst: 10, key: [org] }
  - { name: tokens-a-minute, algorithm: fixed_window, unit: tokens, limit: 900, per: 1m, key: [org] }
  - { name: tokens, algorithm: quota, unit: tokens, limit: 1000, period: { every: day }, key: [org] }
";

fn id(text: impl AsRef<str>) -> RequestId {
    text.as_ref().parse().unwrap()
}

fn org(name: &str) -> Attributes {
    Attributes::from_iter([("org", name)])
}

fn tokens(tokens: u64) -> Costs {
    Costs::of_units([("tokens", tokens)])
}

fn limiter<S: Store>(store: S) -> Limiter<S, HandClock> {
    Limiter::new(Policy::parse(POLICY).unwrap(), store, HandClock::at(BEGIN))
}

async fn held<'l, S: Store>(
    limiter: &'l Limiter<S, HandClock>,
    who: &str,
    name: &str,
    cost: u64,
) -> Option<Hold<'l>> {
    limiter.hold(&id(name), &org(who), &tokens(cost)).await.unwrap().1
}

/// What is left of `calls`, `tokens-a-minute` and `tokens`.
async fn left<S: Store>(limiter: &Limiter<S, HandClock>, who: &str) -> [u64; 3] {
    let verdict = limiter.peek(&org(who), &tokens(0)).await.unwrap();
    [0, 1, 2].map(|at| verdict.limits[at].decision.remaining.unwrap())
}

async fn a_settlement_counts_what_it_cost_and_once(store: impl Store) {
    let limiter = limiter(store);
    let hold = held(&limiter, "acme", "call", 400).await.unwrap();
    assert_eq!(left(&limiter, "acme").await, [9, 500, 600]);
    assert!(held(&limiter, "acme", "more", 700).await.is_none());
    // The answer of the first may be lost: the same hold again is the same hold.
    let again = held(&limiter, "acme", "call", 400).await.unwrap();
    for hold in [&hold, &again, &hold] {
        limiter.settle(hold, &tokens(150)).await.unwrap();
        assert_eq!(left(&limiter, "acme").await, [9, 750, 850]);
    }
    let other = limiter.settle(&hold, &tokens(151)).await;
    assert!(matches!(other, Err(LimiterError::OtherCosts(_))), "{other:?}");
    let unknown = limiter.settle(&hold, &Costs::of_units([("euros", 1)])).await;
    assert!(matches!(unknown, Err(LimiterError::Ask(AskError::UnknownUnit { .. }))), "{unknown:?}");
    assert_eq!(left(&limiter, "acme").await, [9, 750, 850]);
}

/// The money is gone: no limit refuses what a call really cost, and the next one is denied.
async fn a_settlement_may_exceed_the_quota(store: impl Store) {
    let limiter = limiter(store);
    let hold = held(&limiter, "globex", "call", 800).await.unwrap();
    limiter.settle(&hold, &tokens(5_000)).await.unwrap();
    assert_eq!(left(&limiter, "globex").await, [9, 100, 0]);
    assert!(held(&limiter, "globex", "next", 1).await.is_none());
    // What costs nothing passes where nothing is left.
    assert!(held(&limiter, "globex", "free", 0).await.is_some());
}

/// LiteLLM#35525: a success whose price was not known released what it held. Whoever dies has spent it.
async fn what_nobody_settles_stays_charged(store: impl Store) {
    let limiter = limiter(store);
    drop(held(&limiter, "dead", "call", 400).await.unwrap());
    limiter.clock().turn(HOUR);
    assert_eq!(left(&limiter, "dead").await[2], 600);
}

/// It counts in the day in which it was held, whenever it is settled; the next day is not touched.
async fn a_settlement_counts_in_the_period_of_its_hold(store: impl Store) {
    let limiter = limiter(store);
    limiter.clock().turn(23 * HOUR);
    let hold = held(&limiter, "late", "call", 400).await.unwrap();
    limiter.clock().turn(2 * HOUR);
    drop(held(&limiter, "late", "morning", 100).await.unwrap());
    limiter.settle(&hold, &tokens(900)).await.unwrap();
    assert_eq!(left(&limiter, "late").await[2], 900);
    limiter.clock().turn(22 * HOUR);
    let late = limiter.settle(&hold, &tokens(900)).await;
    assert!(matches!(late, Err(LimiterError::TooLate(_))), "{late:?}");
}

/// State may be lost with a server, or forgotten: then all that a call cost is counted.
async fn a_settlement_needs_no_record_of_its_hold(store: impl Store) {
    let limiter = limiter(store);
    let hold = held(&limiter, "lost", "call", 400).await.unwrap();
    let matched = limiter.policy().apply(&org("lost"), &tokens(0)).unwrap();
    for ask in matched.limits.iter().filter_map(|applied| applied.ask.as_ref()) {
        limiter.store().forget(ask.id, &ask.subject).await.unwrap();
    }
    assert_eq!(left(&limiter, "lost").await, [10, 900, 1_000]);
    limiter.settle(&hold, &tokens(150)).await.unwrap();
    assert_eq!(left(&limiter, "lost").await, [10, 900, 850]);
}

async fn a_debit_counts_once_and_is_never_refused(store: impl Store) {
    let limiter = limiter(store);
    for _try in 0..3 {
        limiter.debit(&id("usage"), &org("late-bill"), &tokens(1_700)).await.unwrap();
        limiter.clock().turn(HOUR / 60);
    }
    assert_eq!(left(&limiter, "late-bill").await, [10, 900, 0]);
    let other = limiter.debit(&id("usage"), &org("late-bill"), &tokens(1)).await;
    assert!(matches!(other, Err(LimiterError::OtherCosts(_))), "{other:?}");
}

async fn all_of_it(store: impl Store + Clone) {
    a_settlement_counts_what_it_cost_and_once(store.clone()).await;
    a_settlement_may_exceed_the_quota(store.clone()).await;
    what_nobody_settles_stays_charged(store.clone()).await;
    a_settlement_counts_in_the_period_of_its_hold(store.clone()).await;
    a_settlement_needs_no_record_of_its_hold(store.clone()).await;
    a_debit_counts_once_and_is_never_refused(store).await;
}

#[tokio::test]
async fn holds_are_settled_in_this_process() {
    all_of_it(Arc::new(EmbeddedStore::default())).await;
}

#[tokio::test]
async fn holds_are_settled_on_redis() {
    let server = RedisServer::start();
    all_of_it(server.store()).await;
    for (key, life) in lives(&mut server.admin()) {
        assert!(life > 0, "{key} has no time to live");
    }
}

/// LiteLLM#18730: parallel calls were checked before any of them had counted, and spent 663 of 100 tokens.
async fn parallel_calls_never_spend_more_than_the_budget(store: impl Store + Clone + 'static) {
    let rule = Rule::quota(1_000, Period::default()).unwrap();
    let limit = Arc::new(Limit::new("budget", rule));
    let admitted = admitted_at_once(50, {
        let (store, limit) = (store.clone(), limit.clone());
        move |call| {
            let (store, limit) = (store.clone(), limit.clone());
            async move {
                store
                    .take_once(&id(format!("call-{call}")), &[limit.ask("p", 100)], NOW)
                    .await
                    .is_ok_and(allowed)
            }
        }
    });
    assert_eq!(admitted.await, 10);
    // All that were admitted settle at once, each three times.
    let settled = admitted_at_once(30, {
        let (store, limit) = (store.clone(), limit.clone());
        move |call| {
            let (store, limit) = (store.clone(), limit.clone());
            async move {
                settle(&store, &limit, &format!("call-{}", call / 3), 100, 60, NOW).await == Settled::Done
            }
        }
    });
    assert_eq!(settled.await, 30);
    let peeked = store.peek(&[limit.ask("p", 0)], NOW).await.unwrap();
    assert_eq!(peeked.asks[0].remaining, Some(400));
}

fn allowed(once: sluicegate::Once) -> bool {
    matches!(once, sluicegate::Once::Decided { decision, .. } if decision.allowed)
}

async fn settle(
    store: &impl Store,
    limit: &Limit,
    name: &str,
    held: u64,
    actual: u64,
    at: Micros,
) -> Settled {
    let ask = limit.ask("p", held);
    let charge = charge(ask, at, actual);
    store.settle(&id(name), &[charge], NOW).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_calls_are_held_and_settled_exactly() {
    parallel_calls_never_spend_more_than_the_budget(Arc::new(EmbeddedStore::default())).await;
    let server = RedisServer::start();
    parallel_calls_never_spend_more_than_the_budget(server.store()).await;
}

/// What an ask that was admitted at that time turned out to cost.
fn charge(ask: Ask<'_>, at: Micros, actual: u64) -> Charge<'_> {
    let question = Question { rule: ask.rule, key: ask.subject.as_str().as_bytes(), cost: ask.cost, now: at };
    Charge { charged_at: question.charged_now(), ask, actual }
}

/// A hold that is open in the model.
#[derive(Clone)]
struct Open {
    name: String,
    held: [u64; 2],
    at: Micros,
}

/// Two quotas of different calendars and a rate limit, counted by adding up.
struct Model {
    periods: [Period; 2],
    amounts: [u64; 2],
    used: HashMap<(usize, u64), u64>,
}

impl Model {
    fn used(&mut self, quota: usize, at: Micros) -> &mut u64 {
        self.used.entry((quota, self.periods[quota].span(at).start)).or_default()
    }

    fn fits(&mut self, costs: [u64; 2], now: Micros) -> bool {
        let amounts = self.amounts;
        (0..2).all(|at| costs[at] == 0 || *self.used(at, now) + costs[at] <= amounts[at])
    }

    fn replace(&mut self, held: [u64; 2], costs: [u64; 2], at: Micros) {
        for quota in 0..2 {
            let sum = self.used(quota, at);
            *sum = *sum - held[quota] + costs[quota];
        }
    }
}

/// Holds, settlements in any number and order, debits and owners that die, over hours and days: after each step both stores
/// hold what the sums say, and what was admitted by `take` fits.
#[tokio::test]
async fn random_holds_add_up_on_both_stores() {
    let server = RedisServer::start();
    for seed in 0..24 {
        let (embedded, redis) = (EmbeddedStore::default(), server.store());
        random_holds(seed, &embedded, &redis).await;
    }
}

async fn random_holds(seed: u64, embedded: &EmbeddedStore, redis: &RedisStore) {
    let mut rng = Rng::with_seed(seed);
    let periods = [Every::Hour, Every::Day].map(|every| Period::new(every, "Europe/Berlin").unwrap());
    let amounts = [rng.u64(50..200), rng.u64(100..900)];
    let rules: Vec<Rule> = periods
        .iter()
        .zip(amounts)
        .map(|(period, amount)| Rule::quota(amount, period.clone()).unwrap())
        .collect();
    let brake = Rule::fixed_window(1 << 20, HOUR, Align::Epoch).unwrap();
    let user = format!("random-{seed}");
    let asks = |costs: [u64; 2]| -> Vec<Ask<'_>> {
        let quotas = rules.iter().zip(costs).enumerate();
        let quotas = quotas.map(|(at, (rule, cost))| {
            Ask::new(rule, LimitId::of(&format!("q{at}"), rule), subject(&user), cost)
        });
        quotas.chain([Ask::new(&brake, LimitId::of("brake", &brake), subject(&user), 1)]).collect()
    };
    let mut model = Model { periods, amounts, used: HashMap::new() };
    let (mut open, mut done): (Vec<Open>, Vec<(Open, [u64; 2])>) = (Vec::new(), Vec::new());
    let mut now = NOW;
    for step in 0..80 {
        now = now.plus(Duration::from_secs(rng.u64(..1_800)));
        let costs = [rng.u64(..60), rng.u64(..60)];
        match rng.u8(..8) {
            0..4 => {
                let name = format!("{seed}-{step}");
                let fits = model.fits(costs, now);
                for _try in 0..rng.u8(1..3) {
                    let here = embedded.take_once_now(&id(&name), &asks(costs), now);
                    let there = redis.take_once(&id(&name), &asks(costs), now).await.unwrap();
                    assert_eq!(here, there, "seed {seed} step {step}");
                    assert_eq!(allowed(here), fits, "seed {seed} step {step}");
                }
                if fits {
                    model.replace([0, 0], costs, now);
                    open.push(Open { name, held: costs, at: now });
                }
            }
            4 if !open.is_empty() => drop(open.swap_remove(rng.usize(..open.len()))),
            5 if !done.is_empty() => {
                // A settlement whose answer was lost is made again, even much later.
                let (hold, actual) = done[rng.usize(..done.len())].clone();
                if now < hold.at.plus(RequestId::LIFETIME) {
                    settle_on_both(embedded, redis, &hold, asks(hold.held), actual, now).await;
                }
            }
            _ if !open.is_empty() => {
                let hold = open.swap_remove(rng.usize(..open.len()));
                if now < hold.at.plus(RequestId::LIFETIME) {
                    settle_on_both(embedded, redis, &hold, asks(hold.held), costs, now).await;
                    model.replace(hold.held, costs, hold.at);
                    done.push((hold, costs));
                }
            }
            _ => {}
        }
        let (here, there) =
            (embedded.peek_now(&asks([0, 0]), now), redis.peek(&asks([0, 0]), now).await.unwrap());
        assert_eq!(here, there, "seed {seed} step {step}");
        for at in 0..2 {
            let left = model.amounts[at].saturating_sub(*model.used(at, now));
            assert_eq!(here.asks[at].remaining, Some(left), "seed {seed} step {step} quota {at}");
        }
    }
}

async fn settle_on_both(
    embedded: &EmbeddedStore,
    redis: &RedisStore,
    hold: &Open,
    asks: Vec<Ask<'_>>,
    actual: [u64; 2],
    now: Micros,
) {
    let costs = asks.into_iter().zip([actual[0], actual[1], 1]);
    let charges: Vec<Charge<'_>> = costs.map(|(ask, actual)| charge(ask, hold.at, actual)).collect();
    assert_eq!(embedded.settle_now(&id(&hold.name), &charges, now), Settled::Done);
    assert_eq!(redis.settle(&id(&hold.name), &charges, now).await.unwrap(), Settled::Done);
}
