//! A door on a free port with a clock that is turned by hand, and a client that sends exactly what it is told.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use sluicegate::{SureStore, embedded::EmbeddedStore};
use sluicegate_server::http::{self, Door, DoorConfig};
use sluicegate_tests::HandClock;

use crate::served::{Served, domains};

/// A second that begins no window of a minute, so that windows start in the past.
pub(crate) const NOW_S: u64 = 1_700_000_030;

/// A running door; it stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<HandClock>,
    served: Served,
}

impl Server {
    /// Over an embedded store, with default headers.
    pub(crate) fn start(policies: &[&str]) -> Self {
        Self::start_with(policies, DoorConfig::default())
    }

    pub(crate) fn start_with(policies: &[&str], config: DoorConfig) -> Self {
        Self::start_over(Arc::new(EmbeddedStore::default()), policies, config, Duration::ZERO)
    }

    pub(crate) fn start_over<S: SureStore + Clone + 'static>(
        store: S,
        policies: &[&str],
        config: DoorConfig,
        drain: Duration,
    ) -> Self {
        let clock = Arc::new(HandClock::at(NOW_S));
        let door = Arc::new(Door::new(domains(policies, &store, &clock), config));
        let served = Served::start(move |listener, stopped| {
            let write_timeout = Duration::from_secs(2);
            let config = http::Config { drain, write_timeout, ..http::Config::default() };
            http::serve(listener, door, config, async { _ = stopped.await })
        });
        Self { address: served.address, clock, served }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Begins a graceful stop.
    pub(crate) fn stop(&mut self) {
        self.served.stop();
    }

    /// Waits until the door has ended.
    pub(crate) fn join(&mut self) {
        self.served.join();
    }

    /// One request on a connection of its own.
    pub(crate) fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.connect().post(path, body)
    }
}

/// One connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        // A server that never answers fails the test instead of hanging it.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn send_post(&mut self, path: &str, body: impl AsRef<[u8]>) {
        self.send(post_bytes(path, body));
    }

    pub(crate) fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.send_post(path, body);
        self.reply()
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        self.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len()));
        for (name, value) in headers {
            self.send(format!("{name}: {value}\r\n"));
        }
        self.send("\r\n");
        self.send(body);
        self.reply()
    }

    /// All that comes until the server closes the connection.
    pub(crate) fn read_to_end(mut self) -> String {
        let mut text = String::new();
        self.stream.read_to_string(&mut text).unwrap();
        text
    }

    /// The next answer.
    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("an answer, not a closed connection")
    }

    /// The next answer, or `None` if the server closed the connection.
    pub(crate) fn try_reply(&mut self) -> Option<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut reply = Reply { status, headers, body: Vec::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        reply.body.resize(length, 0);
        self.stream.read_exact(&mut reply.body).unwrap();
        Some(reply)
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The place that a problem names.
    pub(crate) fn pointer(&self) -> Option<String> {
        self.json()["pointer"].as_str().map(str::to_owned)
    }
}

/// The bytes of a request.
pub(crate) fn post_bytes(path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let mut bytes = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
