//! Exact counts through real sockets.

use std::{
    net::SocketAddr,
    sync::{Arc, Barrier},
    thread,
};

use crate::support::{Client, Reply, Server};

/// Sends one request on each of `clients` connections, all at once, to these doors in turn.
pub(crate) fn at_once(doors: &[SocketAddr], clients: usize, body: &str) -> Vec<Reply> {
    let barrier = Arc::new(Barrier::new(clients));
    let threads: Vec<_> = doors
        .iter()
        .cycle()
        .take(clients)
        .map(|door| {
            let (barrier, body, mut client) = (Arc::clone(&barrier), body.to_owned(), Client::connect(*door));
            thread::spawn(move || {
                barrier.wait();
                client.post("/v1/take", body)
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// How many passed; every other one was denied.
pub(crate) fn passed(replies: &[Reply]) -> usize {
    assert!(replies.iter().all(|reply| [200, 429].contains(&reply.status)), "{replies:?}");
    replies.iter().filter(|reply| reply.status == 200).count()
}

fn thousand(algorithm: &str) -> Server {
    Server::start(&[&format!(
        "version: 1\nlimits:\n  - {{ name: l, algorithm: {algorithm}, limit: 1000, per: 1h, key: [user] }}\n"
    )])
}

const ALGORITHMS: [&str; 5] = ["fixed_window", "sliding_log", "sliding_counter", "token_bucket", "gcra"];

#[test]
fn of_200_at_once_at_990_of_1000_exactly_10_pass() {
    for algorithm in ALGORITHMS {
        let server = thousand(algorithm);
        assert_eq!(server.post("/v1/take", r#"{"attributes": {"user": "a"}, "cost": 990}"#).status, 200);
        let replies = at_once(&[server.address], 200, r#"{"attributes": {"user": "a"}}"#);
        assert_eq!(passed(&replies), 10, "{algorithm}");
    }
}

/// The incident that began all this: 50 requests at 998 of 1,000, read by all before any had written.
#[test]
fn of_50_at_once_at_998_of_1000_exactly_2_pass() {
    for algorithm in ALGORITHMS {
        let server = thousand(algorithm);
        assert_eq!(server.post("/v1/take", r#"{"attributes": {"user": "a"}, "cost": 998}"#).status, 200);
        let replies = at_once(&[server.address], 50, r#"{"attributes": {"user": "a"}}"#);
        assert_eq!(passed(&replies), 2, "{algorithm}");
        let mut left: Vec<_> =
            replies.iter().map(|reply| reply.header("x-ratelimit-remaining").unwrap()).collect();
        left.sort_unstable();
        assert_eq!((left[0], left[48], left[49]), ("0", "0", "1"), "{algorithm}");
    }
}

#[test]
fn where_the_second_limit_denies_the_first_is_not_charged() {
    let server = Server::start(&["
version: 1
limits:
  - { name: wide, algorithm: fixed_window, limit: 1000, per: 1d, key: [user] }
  - { name: narrow, algorithm: gcra, limit: 10, per: 1d, key: [user, endpoint] }
  - { name: log, algorithm: sliding_log, limit: 500, per: 1d, key: [] }
"]);
    let replies = at_once(&[server.address], 100, r#"{"attributes": {"user": "a", "endpoint": "x"}}"#);
    assert_eq!(passed(&replies), 10);
    let left = server.post("/v1/peek", r#"{"attributes": {"user": "a", "endpoint": "y"}}"#).json();
    let remaining: Vec<_> = (0..3).map(|index| left["limits"][index]["remaining"].clone()).collect();
    assert_eq!(remaining, [990, 10, 490]);
}

#[test]
fn mixed_costs_at_once_never_add_up_to_more_than_the_limit() {
    let server = Server::start(&["
version: 1
limits:
  - { name: all, algorithm: fixed_window, limit: 100, per: 1d, key: [] }
"]);
    let barrier = Arc::new(Barrier::new(60));
    let threads: Vec<_> = (0..60_u64)
        .map(|index| {
            let (barrier, mut client, cost) = (Arc::clone(&barrier), server.connect(), index % 7);
            thread::spawn(move || {
                barrier.wait();
                let status =
                    client.post("/v1/take", format!(r#"{{"attributes": {{}}, "cost": {cost}}}"#)).status;
                if status == 200 { cost } else { 0 }
            })
        })
        .collect();
    let passed: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let left = server.post("/v1/peek", r#"{"attributes": {}}"#).json()["limits"][0]["remaining"].clone();
    assert_eq!(left, 100 - passed);
    // The costs add up to 176, and whatever is left was too little for every later cost.
    assert!(passed > 94, "{passed}");
}
