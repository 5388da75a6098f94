//! Passwords and TLS to servers that other servers name: the master of sentinels and the nodes of a cluster, before and
//! after a failover.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use sluicegate::{
    Counted, Store,
    core::{Align, Micros, Rule},
};
use sluicegate_redis::{RedisConfig, RedisStore, record_key};
use sluicegate_tests::{
    RedisCluster, RedisServer, Watched,
    certs::Certs,
    fixtures::{HOUR, Limit, subject},
    rights,
};

const NOON: Micros = Micros::from_secs(1_790_000_000);
/// Handshakes without optimisation on a shared machine take long.
const PATIENCE: Duration = Duration::from_secs(20);

fn store(url: &str, authority: &str) -> RedisStore {
    let config = RedisConfig::from_url(url).unwrap().trusting(authority);
    RedisStore::open(&config.connect_timeout(PATIENCE).response_timeout(PATIENCE)).unwrap()
}

fn limit() -> Limit {
    Limit::new("hourly", Rule::fixed_window(100, HOUR, Align::Epoch).unwrap())
}

/// Takes for each user until the servers have somebody who decides.
async fn all_pass(store: &RedisStore, limit: &Limit, users: &[String]) {
    let began = Instant::now();
    for user in users {
        while let Err(error) = store.take(&[limit.ask(user, 1)], NOON).await {
            assert!(error.counted() == Counted::Nothing && began.elapsed() < PATIENCE, "{user}: {error:?}");
        }
    }
}

/// Whoever came as the store's user came to the port with TLS.
fn nobody_came_without_tls(server: &RedisServer) {
    let port = server.tls_url().0.rsplit(':').next().unwrap().to_owned();
    let told: String = redis::from_redis_value(server.command(&["CLIENT", "LIST"])).unwrap();
    let came: Vec<&str> = told.lines().filter(|line| line.contains("user=limiter")).collect();
    assert!(
        !came.is_empty() && came.iter().all(|line| line.contains(&format!(":{port} "))),
        "{port}: {told}"
    );
}

/// Who trusts another authority, or has another password, is refused, and nothing is counted.
async fn others_are_refused(limit: &Limit, user: &str, url: impl Fn(&str) -> String, certs: &Certs) {
    for (before, authority) in [
        ("limiter:password@", Certs::new().ca),
        ("limiter:wrong@", certs.ca.clone()),
        ("nobody:password@", certs.ca.clone()),
    ] {
        let error = store(&url(before), &authority).take(&[limit.ask(user, 1)], NOON).await.unwrap_err();
        assert_eq!(error.counted(), Counted::Nothing, "{before}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_that_sentinels_name_is_spoken_to_over_tls_and_with_a_password() {
    let (mut group, limit) = (Watched::with_tls_throughout(), limit());
    for server in &group.servers {
        rights::give(server, &[rights::STORE, rights::MASTER]);
    }
    let users = ["alice".to_owned()];
    let store = store(&group.url_with_tls_throughout("limiter:password@"), &group.certs.ca);
    all_pass(&store, &limit, &users).await;
    others_are_refused(&limit, "alice", |before| group.url_with_tls_throughout(before), &group.certs).await;
    nobody_came_without_tls(&group.servers[0]);
    group.servers[0].replicated_to(&group.servers[1]);
    group.servers[0].stop();
    let group = tokio::task::spawn_blocking(move || {
        group.promoted(1);
        group
    });
    let _group = group.await.unwrap();
    all_pass(&store, &limit, &users).await;
    let left = store.peek(&[limit.ask("alice", 1)], NOON).await.unwrap().asks[0].remaining;
    assert_eq!(left, Some(98));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_cluster_is_spoken_to_over_tls_and_with_a_password() {
    let (certs, limit) = (Certs::new(), limit());
    let mut cluster = RedisCluster::with_tls(&certs);
    for node in &cluster.nodes {
        rights::give(node, &[rights::STORE, rights::NODE]);
    }
    let users: Vec<String> = (0..30).map(|number| format!("user-{number}")).collect();
    let store = store(&cluster.tls_url_with("limiter:password@"), &certs.ca);
    all_pass(&store, &limit, &users).await;
    let nodes: std::collections::BTreeSet<usize> =
        users.iter().map(|user| cluster.master_of(cluster.slot(&record_key(&subject(user))), 0)).collect();
    assert_eq!(nodes.len(), 3, "not all nodes have users");
    others_are_refused(&limit, &users[0], |before| cluster.tls_url_with(before), &certs).await;
    let slot = cluster.slot(&record_key(&subject(&users[0])));
    let master = cluster.master_of(slot, 0);
    cluster.nodes[..3].iter().for_each(nobody_came_without_tls);
    cluster.nodes[master].replicated_to(&cluster.nodes[master + 3]);
    cluster.nodes[master].stop();
    let cluster = tokio::task::spawn_blocking(move || {
        cluster.promoted(master + 3, slot, (master + 1) % 3);
        cluster
    });
    let _cluster = cluster.await.unwrap();
    all_pass(&store, &limit, &users).await;
    for user in &users {
        let left = store.peek(&[limit.ask(user, 1)], NOON).await.unwrap().asks[0].remaining;
        assert_eq!(left, Some(98), "{user}");
    }
}
