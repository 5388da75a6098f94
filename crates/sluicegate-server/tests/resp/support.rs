//! A Redis door on a free port with a clock that is turned by hand, and a client that sends exactly what it is told.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use sluicegate::embedded::EmbeddedStore;
use sluicegate_server::resp::{self, Door};
use sluicegate_tests::HandClock;

use crate::served::{Served, domains};

/// A second that begins no window of a minute.
const NOW_S: u64 = 1_700_000_030;

/// A running door; it stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<HandClock>,
    served: Served,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[], None)
    }

    pub(crate) fn start_with(policies: &[&str], password: Option<&str>) -> Self {
        let clock = Arc::new(HandClock::at(NOW_S));
        let store = Arc::new(EmbeddedStore::default());
        let domains = domains(policies, &store, &clock);
        let door = Arc::new(Door::new(domains, store, clock.clone(), password.map(str::to_owned)));
        let served = Served::start(|listener, stopped| {
            let config = resp::Config { write_timeout: Duration::from_secs(2), ..resp::Config::default() };
            resp::serve(listener, door, config, async { _ = stopped.await })
        });
        Self { address: served.address, clock, served }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Stops, and waits until the door has ended.
    pub(crate) fn stop(&mut self) {
        self.served.stop();
        self.served.join();
    }
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, unread: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Whether the other side still takes anything.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// One command, as an array of bulk strings, and the answer to it.
    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        self.send(command(words));
        self.answer()
    }

    /// The next answer, in a short form: `OK`, `-ERR …`, `5`, `[a b]`, `{a: b}`, `nil`, `true`.
    pub(crate) fn answer(&mut self) -> String {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        match kind {
            "+" | ":" => rest.to_owned(),
            "-" => line,
            "_" => "nil".to_owned(),
            "#" => (rest == "t").to_string(),
            "$" if rest == "-1" => "nil".to_owned(),
            "$" => self.bulk(rest.parse().unwrap()),
            "*" => {
                let items: Vec<_> = (0..rest.parse().unwrap()).map(|_| self.answer()).collect();
                format!("[{}]", items.join(" "))
            }
            "%" => {
                let fields = 0..rest.parse().unwrap();
                let fields: Vec<_> =
                    fields.map(|_| format!("{}: {}", self.answer(), self.answer())).collect();
                format!("{{{}}}", fields.join(", "))
            }
            other => panic!("an answer begins with `{other}`: {line}"),
        }
    }

    fn line(&mut self) -> String {
        let end = loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\r\n") {
                break end;
            }
            assert!(self.fill(), "the connection ended");
        };
        let line = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        self.unread.drain(..2);
        line
    }

    fn bulk(&mut self, len: usize) -> String {
        while self.unread.len() < len + 2 {
            assert!(self.fill(), "the connection ended");
        }
        let bulk = self.unread.drain(..len).collect();
        self.unread.drain(..2);
        String::from_utf8(bulk).unwrap()
    }

    /// Reads more; `false` at the end.
    fn fill(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(len) => {
                self.unread.extend_from_slice(&bytes[..len]);
                len > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether the connection ends, whatever comes before that.
    pub(crate) fn ends(&mut self) -> bool {
        while self.fill() {
            self.unread.clear();
        }
        true
    }
}

/// The bytes of a command.
pub(crate) fn command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}
