//! Ports for servers that a test ends and starts again.

use std::net::TcpListener;

/// Below the range from which the kernel takes the ports of outgoing connections. A client that keeps trying to reach a
/// server that was ended would now and then be given the server's own port, connect to itself, and keep the server from
/// coming back.
const RANGE: std::ops::Range<u16> = 10_000..32_000;

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(RANGE);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
