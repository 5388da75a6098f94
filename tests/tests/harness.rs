//! The groups of servers that other tests meddle with: they come up, fail over and move slots as real ones do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sluicegate::{
    Once, Settled, Store, StoreError,
    core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject},
    embedded::EmbeddedStore,
    testing::history::Verdict,
};
use sluicegate_tests::{RedisCluster, RedisServer, Watched, Witness, fixtures::subject};

/// A store that loses its state now and then, or counts each call twice.
#[derive(Clone, Default)]
struct Faulty {
    inside: Arc<EmbeddedStore>,
    calls: Arc<AtomicU64>,
    forgets: bool,
    counts_twice: bool,
}

impl Store for Faulty {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let loses = self.calls.fetch_add(1, Ordering::Relaxed) % 100 == 99;
        let first = self.inside.take(asks, now).await?;
        if self.counts_twice {
            self.inside.take(asks, now).await?;
        }
        if loses && self.forgets {
            self.inside.forget(asks[0].id, &asks[0].subject).await?;
        }
        // An embedded store answers at once: the others would never come by.
        tokio::task::yield_now().await;
        Ok(first)
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
        self.inside.forget(id, subject).await
    }
}

/// What the fault tests rely on: a count that is lost is refuted, one that is made twice denies falsely.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_of_a_faulty_store_says_what_is_wrong_with_it() {
    let well = Faulty::default();
    let faults = [
        well.clone(),
        Faulty { forgets: true, inside: Arc::default(), ..well.clone() },
        Faulty { counts_twice: true, inside: Arc::default(), ..well },
    ];
    let mut found = Vec::new();
    for store in faults {
        let witness = Witness::of(&store, &subject("alice"));
        tokio::time::sleep(Duration::from_millis(200)).await; // for calls to be made
        let report = witness.report(Duration::from_secs(10), 0).await;
        found.push((report.verdict() == Verdict::Refuted, report.false_denials() > 0));
    }
    assert_eq!(found, [(false, false), (true, false), (false, true)]);
}

#[test]
fn a_server_can_be_frozen_followed_and_promoted() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    replica.follow(&master);
    assert!(master.is_master() && !replica.is_master());
    master.freeze();
    let client = redis::Client::open(master.url()).unwrap();
    let patience = std::time::Duration::from_millis(100);
    let hung = client.get_connection_with_timeout(patience).and_then(|mut connection| {
        connection.set_read_timeout(Some(patience))?;
        redis::cmd("PING").exec(&mut connection)
    });
    assert!(hung.unwrap_err().is_timeout());
    master.thaw();
    master.command(&["PING"]);
    replica.promote();
    assert!(replica.is_master());
}

#[test]
fn sentinels_promote_the_replica_of_a_master_that_was_killed() {
    let mut group = Watched::start();
    group.servers[0].stop();
    group.promoted(1);
}

#[test]
fn a_cluster_promotes_a_replica_and_moves_a_slot() {
    let mut cluster = RedisCluster::start();
    let slot = cluster.slot("{a}");
    let from = cluster.master_of(slot, 0);
    let to = (from + 1) % 3;
    cluster.nodes[from].command(&["SET", "{a}", "x"]);
    cluster.move_slot(slot, from, to, || {});
    assert_eq!(cluster.master_of(slot, to), to);
    assert_eq!(cluster.value("{a}", to).unwrap(), b"x");
    cluster.nodes[to].replicated_to(&cluster.nodes[to + 3]);
    cluster.nodes[to].stop();
    cluster.promoted(to + 3, slot, from);
    assert_eq!(cluster.value("{a}", from).unwrap(), b"x");
}
