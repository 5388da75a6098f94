//! `CL.THROTTLE`: redis-cell's five integers, and exact counts.

use std::{thread, time::Duration};

use super::support::{Server, command};

#[test]
fn the_five_integers_are_those_of_redis_cell() {
    let server = Server::start();
    let mut client = server.connect();
    let throttle = ["CL.THROTTLE", "user123", "15", "30", "60", "1"];
    assert_eq!(client.ask(&throttle), "[0 16 15 -1 2]");
    for left in (0..15).rev() {
        assert_eq!(client.ask(&throttle), format!("[0 16 {left} -1 {}]", 2 * (16 - left)));
    }
    assert_eq!(client.ask(&throttle), "[1 16 0 2 32]");
    server.clock.turn(Duration::from_millis(1_999));
    assert_eq!(client.ask(&throttle), "[1 16 0 1 31]");
    server.clock.turn(Duration::from_millis(1));
    assert_eq!(client.ask(&throttle), "[0 16 0 -1 32]");
}

/// brandur/redis-cell#50: a state whose time to live rounded to 0 was never stored, and nothing was ever limited.
#[test]
fn a_fast_rate_limits_all_the_same() {
    let server = Server::start();
    let mut client = server.connect();
    let throttle = ["CL.THROTTLE", "fast", "1000", "1000", "60"];
    let admitted = (0..2_000).filter(|_| client.ask(&throttle).starts_with("[0")).count();
    assert_eq!(admitted, 1_001);
}

/// brandur/redis-cell#12: a refused quantity above the limit told that nothing was used.
#[test]
fn a_quantity_that_can_never_fit_is_limited_and_tells_what_is_left() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "4", "5", "60", "2"]), "[0 5 3 -1 24]");
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "4", "5", "60", "6"]), "[1 5 3 -1 24]");
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "4", "5", "60", "0"]), "[0 5 3 -1 24]", "0 only looks");
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "4", "5", "60", "3"]), "[0 5 0 -1 60]");
}

#[test]
fn what_makes_no_limit_is_refused_by_name_and_counts_nothing() {
    let server = Server::start();
    let mut client = server.connect();
    let cases: [(&[&str], &str); 7] = [
        (&["k", "15", "30"], "-ERR wrong number of arguments for `cl.throttle`"),
        (&["k", "15", "30", "60", "1", "1"], "-ERR wrong number of arguments for `cl.throttle`"),
        (&["k", "-1", "30", "60"], "-ERR `max_burst` must be a whole number from 0 on, not `-1`"),
        (&["k", "15", "0", "60"], "-ERR `count` must be at least 1"),
        (&["k", "15", "30", "1e3"], "-ERR `period` must be a whole number from 0 on, not `1e3`"),
        (&["k", "15", "30", "60", "-1"], "-ERR `quantity` must be a whole number from 0 on, not `-1`"),
        (&["k", "9007199254740993", "1", "1"], "-ERR burst 9007199254740994 is too large"),
    ];
    for (words, message) in cases {
        let answer = client.ask(&[&["CL.THROTTLE"], words].concat());
        assert!(answer.starts_with(message), "{words:?}: {answer}");
    }
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "15", "30", "60"]), "[0 16 15 -1 2]");
}

/// Eight connections, each with deep pipelines, at one key: exactly what the bucket holds passes.
#[test]
fn pipelines_of_many_connections_share_one_exact_count() {
    let server = Server::start();
    let admitted: usize = thread::scope(|scope| {
        let connections: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    client.send(command(&["CL.THROTTLE", "hot", "998", "1", "60"]).repeat(500));
                    (0..500).filter(|_| client.answer().starts_with("[0")).count()
                })
            })
            .collect();
        connections.into_iter().map(|connection| connection.join().unwrap()).sum()
    });
    assert_eq!(admitted, 999);
}

/// The answers come in the order of the commands, wherever the bytes are cut.
#[test]
fn a_deep_pipeline_is_answered_in_order_whatever_its_pieces() {
    let server = Server::start();
    let mut client = server.connect();
    let bytes: Vec<u8> = (0..2_000_u32)
        .flat_map(|at| match at % 3 {
            0 => command(&["ECHO", &at.to_string()]),
            1 => command(&["CL.THROTTLE", &format!("key-{at}"), "0", "1", "60"]),
            _ => format!("ECHO '{at}'\r\n").into_bytes(),
        })
        .collect();
    let mut rest = bytes.as_slice();
    let mut random = fastrand::Rng::with_seed(7);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(random.usize(1..=rest.len().min(700)));
        client.send(piece);
        rest = after;
    }
    for at in 0..2_000_u32 {
        let expected = if at % 3 == 1 { "[0 1 0 -1 60]".to_owned() } else { at.to_string() };
        assert_eq!(client.answer(), expected, "{at}");
    }
}
