//! The fault proxy itself: what it promises to the tests that use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use redis::{Connection, RedisError};
use sluicegate_tests::{Fault, Proxy, RedisServer};

/// Longer than anything on this host takes that comes through at all.
const SHORT: Duration = Duration::from_millis(300);

fn through(proxy: &Proxy) -> Result<Connection, RedisError> {
    let client = redis::Client::open(proxy.url()).unwrap();
    let connection = client.get_connection_with_timeout(SHORT)?;
    connection.set_read_timeout(Some(SHORT))?;
    Ok(connection)
}

fn count(connection: &mut Connection) -> Result<u64, RedisError> {
    redis::cmd("INCR").arg("n").query(connection)
}

fn counted(server: &RedisServer) -> u64 {
    redis::cmd("GET").arg("n").query::<Option<u64>>(&mut server.admin()).unwrap().unwrap_or(0)
}

#[test]
fn it_carries_both_ways_and_counts_connections() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    for number in 1..=3 {
        assert_eq!(count(&mut through(&proxy).unwrap()).unwrap(), number);
        assert_eq!(proxy.connections(), number);
    }
    proxy.set(Fault::Delay(Duration::from_millis(100)));
    let mut slow = through(&proxy).unwrap();
    let began = Instant::now();
    assert_eq!(count(&mut slow).unwrap(), 4);
    assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
}

#[test]
fn a_refusing_proxy_closes_what_stands_and_can_be_connected_to_again_later() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let mut standing = through(&proxy).unwrap();
    count(&mut standing).unwrap();
    proxy.set(Fault::Refuse);
    assert!(through(&proxy).is_err_and(|error| error.is_connection_refusal()));
    assert!(count(&mut standing).is_err());
    proxy.set(Fault::Pass);
    assert_eq!(count(&mut through(&proxy).unwrap()).unwrap(), 2);
    let mut standing = through(&proxy).unwrap();
    proxy.cut_all();
    assert!(count(&mut standing).is_err());
}

#[test]
fn what_a_blackhole_or_a_half_open_connection_held_back_arrives_afterwards() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    for (fault, meanwhile) in [(Fault::Blackhole, 0), (Fault::HalfOpen, 2)] {
        let mut standing = through(&proxy).unwrap();
        proxy.set(fault);
        assert!(count(&mut standing).unwrap_err().is_timeout());
        assert_eq!(counted(&server), meanwhile);
        assert!(through(&proxy).is_err());
        proxy.set(Fault::Pass);
        let began = Instant::now();
        while counted(&server) == meanwhile && fault == Fault::Blackhole {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
    }
}

#[test]
fn a_cut_before_the_request_was_never_done_and_one_before_the_reply_was_done_once() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    proxy.set(Fault::CutBeforeRequest("INCR"));
    for cuts in 1..=20 {
        assert!(count(&mut through(&proxy).unwrap()).is_err());
        assert_eq!((proxy.cuts(), counted(&server)), (cuts, 0));
    }
    proxy.set(Fault::CutBeforeReply("INCR"));
    for cuts in 1..=20 {
        let error = count(&mut through(&proxy).unwrap()).unwrap_err();
        assert!(!error.is_timeout(), "{error}");
        assert_eq!((proxy.cuts(), counted(&server)), (20 + cuts, cuts));
    }
}
