//! Counters that are split over shards, on a real server: together they admit exactly the limit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{collections::BTreeSet, sync::Arc};

use sluicegate::{
    Clock, Limiter,
    core::{Attributes, Costs, Micros, Policy},
};
use sluicegate_redis::RedisStore;
use sluicegate_tests::{RedisServer, checks::lives};

const TASKS: usize = 8;

/// A clock that stands still.
#[derive(Clone, Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Micros {
        Micros::from_secs(1_790_000_000)
    }
}

fn limiter(store: RedisStore, domain: &str, algorithm: &str, limit: usize) -> Limiter<RedisStore, Noon> {
    let policy = format!(
        "{{version: 1, domain: {domain}, limits: [\
         {{name: edge, algorithm: {algorithm}, limit: {limit}, per: 1h, key: [], shards: 8}}]}}"
    );
    Limiter::new(Policy::parse(&policy).unwrap(), store, Noon)
}

/// Takes until all shards are full, and answers how many calls were admitted.
async fn fill(limiter: Arc<Limiter<RedisStore, Noon>>) -> usize {
    const IN_A_ROW: usize = 200;
    let (mut admitted, mut denied) = (0, 0);
    while denied < IN_A_ROW {
        let verdict = limiter.take(&Attributes::default(), &Costs::requests(1)).await.unwrap();
        admitted += usize::from(verdict.allowed);
        denied = if verdict.allowed { 0 } else { denied + 1 };
    }
    admitted
}

/// A shard with room is looked at by one in four denied calls, so that 200 of them in a row miss it with a chance below
/// 10^-24: when all tasks have ended, every shard is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_shards_together_admit_exactly_the_limit_whoever_asks() {
    const LIMIT: usize = 203;
    let server = RedisServer::start();
    let stores = [server.store(), server.store()];
    for algorithm in ["fixed_window", "sliding_counter", "token_bucket", "gcra"] {
        let domain = algorithm.replace('_', "-");
        let limiters = stores.clone().map(|store| Arc::new(limiter(store, &domain, algorithm, LIMIT)));
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(fill(limiters[task % 2].clone()))).collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        assert_eq!(admitted, LIMIT, "{algorithm}");
        let keys: BTreeSet<String> = lives(&mut server.admin()).into_keys().collect();
        let expected = (0..8).map(|shard| format!("sg1:{{{domain}:!{shard}}}:s")).collect::<BTreeSet<_>>();
        assert!(expected.is_subset(&keys), "{keys:?}");
    }
}
