//! Checks that a limiter passes or fails. They take any limiter, so that known-bad ones can show that they catch.

use std::sync::Arc;

use tokio::{sync::Barrier, task::JoinSet};

/// Makes `calls` calls at once and counts those that were admitted. `take` gets the number of the call.
pub async fn admitted_at_once<F, A>(calls: usize, take: F) -> usize
where
    F: Fn(usize) -> A + Send + Sync + 'static,
    A: Future<Output = bool> + Send,
{
    let (take, barrier) = (Arc::new(take), Arc::new(Barrier::new(calls)));
    let mut running = JoinSet::new();
    for call in 0..calls {
        let (take, barrier) = (take.clone(), barrier.clone());
        running.spawn(async move {
            barrier.wait().await;
            take(call).await
        });
    }
    running.join_all().await.into_iter().filter(|admitted| *admitted).count()
}

/// Every key of the server with its time to live in ms; -1 is none.
pub fn lives(admin: &mut redis::Connection) -> std::collections::HashMap<String, i64> {
    let keys: Vec<String> = redis::cmd("SCAN")
        .cursor_arg(0)
        .clone()
        .iter(admin)
        .expect("a scan")
        .map(|key| key.expect("a key"))
        .collect();
    let mut life = |key: String| {
        let life = redis::cmd("PTTL").arg(&key).query(admin).expect("a time to live");
        (key, life)
    };
    keys.into_iter().map(&mut life).collect()
}
