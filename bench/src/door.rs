//! Doors of servers: what a request costs the server's processes, and how long it takes.

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::Instant,
};

use crate::{median, process_nanos};

/// Connections of every load.
pub const CONNECTIONS: usize = 16;

/// A door to measure.
pub struct Door<'a> {
    /// Whose processor time counts: the server, and what it asks.
    pub pids: Vec<u32>,
    /// The requests of one load.
    pub requests: usize,
    /// Makes them and waits for the answers.
    pub load: Box<dyn Fn() + 'a>,
}

/// What one request takes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Processor time of the server.
    pub cpu_ns: f64,
    /// Time of the run, divided by its requests.
    pub wall_ns: f64,
}

impl Door<'_> {
    fn round(&self) -> Taken {
        let used = || self.pids.iter().map(|pid| process_nanos(*pid)).sum::<u64>();
        let (before, begin) = (used(), Instant::now());
        (self.load)();
        let (wall, cpu) = (begin.elapsed().as_nanos() as f64, (used() - before) as f64);
        Taken { cpu_ns: cpu / self.requests as f64, wall_ns: wall / self.requests as f64 }
    }
}

/// Medians of alternating rounds. A first round, which opens memory and caches, does not count.
pub fn alternate(doors: &[Door<'_>], rounds: usize) -> Vec<Taken> {
    let mut taken = vec![(Vec::new(), Vec::new()); doors.len()];
    for round in 0..=rounds {
        for (door, (cpu, wall)) in doors.iter().zip(&mut taken) {
            let once = door.round();
            if round > 0 {
                cpu.push(once.cpu_ns);
                wall.push(once.wall_ns);
            }
        }
    }
    taken.into_iter().map(|(cpu, wall)| Taken { cpu_ns: median(cpu), wall_ns: median(wall) }).collect()
}

/// What is said over plain connections.
#[derive(Clone, Copy)]
pub struct Talk<'a> {
    /// The bytes of one request on that connection.
    pub request: &'a (dyn Fn(usize) -> Vec<u8> + Sync),
    /// How many whole answers there are in these bytes, all of them good ones.
    pub answers: &'a (dyn Fn(&[u8]) -> usize + Sync),
    /// Requests that are sent before the first answer is read.
    pub depth: usize,
    /// How often that is done on each connection.
    pub turns: usize,
}

impl<'a> Talk<'a> {
    /// The door at this address, where this is said.
    pub fn at(self, address: &'a str, pids: Vec<u32>) -> Door<'a> {
        let load = move || {
            thread::scope(|scope| {
                for connection in 0..CONNECTIONS {
                    scope.spawn(move || self.over(TcpStream::connect(address).unwrap(), connection));
                }
            });
        };
        Door { pids, requests: CONNECTIONS * self.turns * self.depth, load: Box::new(load) }
    }

    fn over(&self, mut stream: TcpStream, connection: usize) {
        stream.set_nodelay(true).unwrap();
        let requests = (self.request)(connection).repeat(self.depth);
        let mut buffer = vec![0; 16 * 1024];
        for _ in 0..self.turns {
            stream.write_all(&requests).unwrap();
            let mut len = 0;
            while (self.answers)(&buffer[..len]) < self.depth {
                let read = stream.read(&mut buffer[len..]).unwrap();
                assert!(read > 0, "the server hangs up");
                len += read;
            }
        }
    }
}

/// An answer of HTTP that comes in one piece.
pub fn http_answers(bytes: &[u8]) -> usize {
    let good = bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 200");
    assert!(good, "{}", bytes.escape_ascii());
    usize::from(!bytes.is_empty())
}

/// A request of HTTP with a body of JSON.
pub fn http_request(path: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    let head = "host: localhost\r\ncontent-type: application/json";
    format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {len}\r\n\r\n{body}").into_bytes()
}

/// What `/v1/take` is asked on that connection.
pub fn take_request(connection: usize) -> Vec<u8> {
    let attributes = format!(r#"{{"user":"user-{connection}","endpoint":"/v1/chat"}}"#);
    http_request("/v1/take", &format!(r#"{{"attributes":{attributes},"cost":1}}"#))
}
