//! The PROXY protocol: who a connection is of, as a proxy says that passes bytes on.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
};

use tempfile::TempDir;
use tokio::{net::TcpSocket, runtime};

use crate::support::{DOORS, Door, Server, answers, ends, exchange, patient, question};

/// The address that plays the proxy.
const PROXY: &str = "127.0.0.9";

fn serve() -> Server {
    Server::start(TempDir::new().unwrap(), &["--proxy-protocol-from", PROXY])
}

/// A connection from the proxy, which says this first.
fn through_the_proxy(server: &Server, door: Door, header: &[u8]) -> TcpStream {
    let source: SocketAddr = format!("{PROXY}:0").parse().unwrap();
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(source).unwrap();
        socket.connect(server.address(door)).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    let mut stream = patient(stream);
    stream.write_all(header).unwrap();
    stream
}

fn v1(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 203.0.113.1 35646 80\r\n").into_bytes()
}

fn v2(client: [u8; 4]) -> Vec<u8> {
    let head = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
    [&head[..], &client, &[203, 0, 113, 1, 0x8b, 0x3e, 0, 80]].concat()
}

fn status(mut stream: TcpStream) -> String {
    let request = b"GET /forward-auth/default HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.9\r\n\r\n";
    exchange(&mut stream, request, "\r\n\r\n")[..12].to_owned()
}

/// Both versions say whose connection it is, and one client has one counter whichever of them says so.
#[test]
fn a_client_behind_the_proxy_is_counted_by_its_own_address() {
    let server = serve();
    let asked = [
        v1("198.51.100.7"),
        v2([198, 51, 100, 7]),
        v1("198.51.100.7"),
        v2([198, 51, 100, 8]),
        v1("198.51.100.8"),
    ];
    let statuses = asked.map(|header| status(through_the_proxy(&server, Door::Http, &header)));
    assert_eq!(statuses, ["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 429", "HTTP/1.1 200", "HTTP/1.1 200"]);
    // Whom the proxy does not know shares one counter.
    let unknown: Vec<_> =
        (0..3).map(|_| status(through_the_proxy(&server, Door::Http, b"PROXY UNKNOWN\r\n"))).collect();
    assert_eq!(unknown, ["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 429"]);
}

#[test]
fn every_door_reads_the_header_of_the_proxy_and_of_nobody_else() {
    let server = serve();
    for door in DOORS {
        for header in [v1("198.51.100.7"), v2([198, 51, 100, 7])] {
            assert!(answers(door, &mut through_the_proxy(&server, door, &header)), "{door:?}");
            // To the Redis door the line of version 1 is a command that it does not know, and it goes on.
            let told = exchange(&mut server.connect(door), &[&header[..], question(door).0].concat(), "\r\n");
            assert!(!told.starts_with(question(door).1), "{door:?}: a stranger chooses his address: {told}");
        }
        assert!(
            !answers(door, &mut through_the_proxy(&server, door, b"")),
            "{door:?}: the proxy says nothing"
        );
        assert!(answers(door, &mut server.connect(door)), "{door:?}: whoever is no proxy needs no header");
    }
}

/// 1,000 connections that claim an address each, from where no proxy is: none of them gets a counter of its own.
#[test]
fn forged_headers_gain_nothing() {
    let server = serve();
    let passed = (0..1_000).filter(|forged| {
        let mut stream = server.connect(Door::Http);
        stream.write_all(&v1(&format!("198.51.{}.{}", forged / 250, forged % 250))).unwrap();
        exchange(&mut stream, b"GET /forward-auth/default HTTP/1.1\r\nhost: x\r\n\r\n", "\r\n\r\n")
            .contains("200 OK")
    });
    assert_eq!(passed.count(), 0);
}

#[test]
fn bytes_that_are_no_header_end_the_connection() {
    let server = serve();
    for header in [
        &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
        b"PROXY nonsense\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\0",
    ] {
        for door in DOORS {
            assert!(ends(&mut through_the_proxy(&server, door, header)));
        }
    }
}
