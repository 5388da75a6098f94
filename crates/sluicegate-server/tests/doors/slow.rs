//! Clients that take their time, and more of them than there is room for: none of them keeps others waiting.

use std::{
    io::{ErrorKind, Read, Write},
    thread,
    time::{Duration, Instant},
};

use sluicegate_tests::certs::Certs;
use tempfile::TempDir;

use crate::support::{DOORS, Door, Server, answers, encrypt, ends, exchange, patient, question, trusting};

const IMPATIENT: [&str; 4] = ["--opening-timeout-ms", "300", "--head-timeout-ms", "300"];

/// What a client may say before it falls silent: nothing, or a part of what is needed.
fn beginnings(door: Door) -> [&'static [u8]; 2] {
    match door {
        Door::Http => [b"", b"GET /livez HTTP/1.1\r\nhost"],
        Door::Grpc => [b"", b"PRI * HTTP/2.0\r\n"],
        Door::Resp => [b"", b"*2\r\n$4\r\nECHO\r\n$10\r\nabc"],
    }
}

#[test]
fn a_client_that_falls_silent_loses_its_connection_and_keeps_nobody_waiting() {
    let server = Server::start(TempDir::new().unwrap(), &IMPATIENT);
    for door in DOORS {
        for beginning in beginnings(door) {
            let mut silent: Vec<_> = (0..50).map(|_| server.connect(door)).collect();
            for stream in &mut silent {
                stream.write_all(beginning).unwrap();
            }
            assert!(answers(door, &mut server.connect(door)), "{door:?}");
            assert!(silent.iter_mut().all(ends), "{door:?}");
        }
    }
}

/// One byte now and then is no beginning either: what counts is when all of it is there.
#[test]
fn a_client_that_trickles_loses_its_connection() {
    let server = Server::start(TempDir::new().unwrap(), &IMPATIENT);
    for door in DOORS {
        let mut stream = server.connect(door);
        let begun = Instant::now();
        let bytes = beginnings(door)[1].iter().chain([b'x'].iter().cycle());
        for byte in bytes {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{door:?} is still open");
            thread::sleep(Duration::from_millis(50)); // What a trickle is.
        }
    }
}

#[test]
fn a_client_that_does_not_shake_hands_loses_its_connection() {
    let (certs, folder) = (Certs::new(), TempDir::new().unwrap());
    certs.write_to(folder.path());
    let server = Server::start(
        folder,
        &[&IMPATIENT[..], &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]].concat(),
    );
    for door in DOORS {
        let mut silent = server.connect(door);
        // A record of TLS that announces more than comes.
        silent.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
        assert!(answers(door, &mut encrypt(server.connect(door), &trusting(&certs, None))), "{door:?}");
        assert!(ends(&mut silent), "{door:?}");
    }
}

#[test]
fn a_connection_beyond_the_bound_waits_until_another_one_ends() {
    let server = Server::start(TempDir::new().unwrap(), &["--max-connections", "2"]);
    for door in DOORS {
        let mut held: Vec<_> = (0..2).map(|_| server.connect(door)).collect();
        assert!(held.iter_mut().all(|stream| answers(door, stream)), "{door:?}");
        let (question, answer) = question(door);
        let mut third = server.connect(door);
        third.write_all(question).unwrap();
        third.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let waits = third.read(&mut [0]).unwrap_err();
        assert_eq!(waits.kind(), ErrorKind::WouldBlock, "{door:?} has room for a third");
        held.pop();
        let mut third = patient(third);
        assert!(exchange(&mut third, b"", answer).contains(answer), "{door:?}");
    }
}

/// Commands before the password win no time either.
#[test]
fn a_client_that_never_says_the_password_loses_its_connection() {
    let arguments = [&IMPATIENT[..], &["--resp-password", "s3cret"]].concat();
    let server = Server::start(TempDir::new().unwrap(), &arguments);
    let mut stream = server.connect(Door::Resp);
    let begun = Instant::now();
    while stream.write_all(b"PING\r\n").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is still open");
        thread::sleep(Duration::from_millis(50)); // A client that goes on and on.
    }
}
