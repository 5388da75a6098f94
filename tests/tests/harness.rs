//! The groups of servers that other tests meddle with: they come up, fail over and move slots as real ones do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use sluicegate_tests::{RedisCluster, RedisServer, Watched};

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
