//! Remembered denials over a real Redis: what they cost it, and how soon they end when another instance forgets or gives
//! back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sluicegate::{
    Clock, Store, SureStore, SystemClock, Verb,
    core::{Ask, DecidedBy, Decision, Rule, algorithm::GiveBack},
    guard::{DenialCache, GuardConfig, Guarded},
};
use sluicegate_redis::RedisStore;
use sluicegate_tests::{
    RedisServer,
    fixtures::{HOUR, Limit, subject},
};

/// What a busy machine may add to a call.
const LATE: Duration = Duration::from_millis(400);

fn limit() -> Limit {
    Limit::new("hourly", Rule::sliding_log(3, HOUR).unwrap())
}

fn instance(server: &RedisServer) -> Guarded<RedisStore> {
    let config = GuardConfig { deadline: Duration::from_secs(1), ..GuardConfig::default() };
    Guarded::new(server.store(), Arc::default(), config)
}

async fn take(instance: &Guarded<RedisStore>, limit: &Limit) -> Decision {
    let ask = Ask { cache_denials: true, ..limit.ask("alice", 1) };
    instance.decide(Verb::Take, &[ask], SystemClock::new().now()).await
}

/// Uses up the limit, until a denial is answered from memory.
async fn denied(instance: &Guarded<RedisStore>, limit: &Limit) {
    while take(instance, limit).await.decided_by() != DecidedBy::Cache {}
}

/// The longest that an instance goes on denying.
async fn denies_for(instance: &Guarded<RedisStore>, limit: &Limit) -> Duration {
    let begin = Instant::now();
    while !take(instance, limit).await.allowed {}
    begin.elapsed()
}

#[tokio::test]
async fn a_denied_key_costs_redis_ten_calls_a_second_however_often_it_is_asked_for() {
    let (server, limit) = (RedisServer::start(), limit());
    let instance = instance(&server);
    denied(&instance, &limit).await;
    let (before, begin) = (server.script_calls(), Instant::now());
    let mut asked = 0;
    while begin.elapsed() < Duration::from_secs(1) {
        assert!(!take(&instance, &limit).await.allowed);
        asked += 1;
    }
    let (cost, most) = (server.script_calls() - before, begin.elapsed().as_millis() / 100 + 1);
    assert!(u128::from(cost) <= most && asked > 1_000, "{cost} calls for {asked} denials");
}

/// It is asked again and again meanwhile, so that a denial would live for ever if asking prolonged it.
#[tokio::test]
async fn what_another_instance_forgets_or_gives_back_is_admitted_here_within_a_hundred_milliseconds() {
    let (server, limit) = (RedisServer::start(), limit());
    let (here, elsewhere) = (instance(&server), server.store());
    for _ in 0..5 {
        denied(&here, &limit).await;
        assert!(elsewhere.forget(limit.id, &subject("alice")).await.unwrap());
        let after = denies_for(&here, &limit).await;
        assert!(after < DenialCache::<()>::MAX_AGE + LATE, "{after:?} after a forget");

        denied(&here, &limit).await;
        let rule = &limit.rule;
        let state = elsewhere.state(rule, limit.id, &subject("alice")).await.unwrap().unwrap();
        let sluicegate::core::State::SlidingLog(log) = state else { panic!("{state:?}") };
        let back = GiveBack { charged_at: log.entries[0].time, held: 1, actual: 0 };
        elsewhere.give_back(&limit.ask("alice", 1), back).await.unwrap();
        let after = denies_for(&here, &limit).await;
        assert!(after < DenialCache::<()>::MAX_AGE + LATE, "{after:?} after a give back");
    }
    // Here it holds at once.
    denied(&here, &limit).await;
    here.forget(limit.id, &subject("alice")).await.unwrap();
    assert!(take(&here, &limit).await.allowed);
}
