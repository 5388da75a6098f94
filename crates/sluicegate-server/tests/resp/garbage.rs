//! No input kills the door, or makes it grow.

use super::support::{Server, command};

/// Random bytes, random parts of commands, and commands with one byte changed.
#[test]
fn whatever_a_stranger_sends_others_are_still_answered() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let server = Server::start();
    let mut honest = server.connect();
    let valid = [
        command(&["CL.THROTTLE", "k", "15", "30", "60"]),
        command(&["SG.TAKE", "api", "user=x"]),
        command(&["HELLO", "3"]),
        b"PING\r\n".to_vec(),
    ];
    for round in 0..400 {
        let mut bytes: Vec<u8> = match round % 3 {
            0 => (0..random.usize(1..300)).map(|_| random.u8(..)).collect(),
            1 => (0..random.usize(1..60))
                .map(|_| *random.choice(b"*$:0123456789-\r\n\"' \\x").unwrap())
                .collect(),
            _ => random.choice(&valid).unwrap().clone(),
        };
        if round % 3 == 2 {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        let mut stranger = server.connect();
        stranger.send(&bytes);
        drop(stranger);
        assert_eq!(honest.ask(&["PING"]), "PONG", "seed {seed}, after {}", bytes.escape_ascii());
    }
}

#[test]
fn bytes_that_cannot_become_a_command_end_the_connection_with_a_reason() {
    let server = Server::start();
    for (bytes, reason) in [
        (&b"*x\r\n"[..], "-ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n:5\r\n", "-ERR Protocol error: expected '$'"),
        (b"*1000000\r\n", "-ERR Protocol error: a command has at most 65536 bytes and 256 words"),
        (b"*2\r\n$4\r\nECHO\r\n$100000000\r\n", "-ERR Protocol error: a command has at most"),
        (b"ECHO \"x\r\n", "-ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut client = server.connect();
        client.send([b"PING\r\n", bytes].concat());
        assert_eq!(client.answer(), "PONG", "what came before is answered");
        let answer = client.answer();
        assert!(answer.starts_with(reason), "{answer}");
        assert!(client.ends());
    }
}

/// An endless line or an endless word is cut off at its bound.
#[test]
fn a_command_without_end_is_ended() {
    let server = Server::start();
    for begin in [&b""[..], b"*2\r\n$4\r\nECHO\r\n$65000\r\n"] {
        let mut client = server.connect();
        client.send(begin);
        let chunk = [b'x'; 4096];
        let sent = (0..10_000).take_while(|_| client.try_send(&chunk)).count();
        assert!(sent < 10_000, "40 MB were taken");
    }
}

/// A client that asks for ever and never reads is given up.
#[test]
fn a_client_that_never_reads_is_given_up() {
    let server = Server::start();
    let mut client = server.connect();
    let asks = command(&["COMMAND"]).repeat(1_000);
    let sent = (0..1_000).take_while(|_| client.try_send(&asks)).count();
    assert!(sent < 1_000, "a million answers were kept");
}
