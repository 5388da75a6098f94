//! A web server's log that looks like one, made from a seed.

use std::io::{self, BufReader, Read};

/// 2026-11-30T09:00:00Z
pub(crate) const START_S: u64 = 1_796_029_200;
const PATHS: [&str; 5] = ["/", "/search?q=cats", "/search?q=dogs", "/v1/items/17", "/login"];

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) at_s: u64,
    /// The number of the caller: an address, and of every third a user.
    pub(crate) caller: u64,
    pub(crate) path: &'static str,
}

impl Visit {
    pub(crate) fn ip(&self) -> String {
        format!("198.51.{}.{}", self.caller >> 8, self.caller & 255)
    }

    pub(crate) fn user(&self) -> Option<String> {
        self.caller.is_multiple_of(3).then(|| format!("user-{}", self.caller / 3))
    }
}

/// Requests of a morning: a rate that rises and falls, a storm in the middle, a few callers that ask far more than
/// others, some lines that come late, and now and then a line that is none.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    rng: fastrand::Rng,
    left: u64,
    clock_ms: u64,
    bad_every: u64,
}

impl Traffic {
    pub(crate) fn new(seed: u64, lines: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self { rng, left: lines, clock_ms: START_S * 1_000, bad_every: 40_009 }
    }

    pub(crate) fn log(self) -> BufReader<Log> {
        BufReader::with_capacity(1 << 16, Log { traffic: self, pending: Vec::new(), given: 0 })
    }

    /// Few ask often: the fourth power of an even chance.
    fn skewed(&mut self, among: u64) -> u64 {
        let squared = self.rng.u64(0..1 << 16).pow(2) >> 16;
        (squared * squared * among) >> 32
    }
}

impl Iterator for Traffic {
    /// `None` inside is a line that is no request.
    type Item = Option<Visit>;

    fn next(&mut self) -> Option<Option<Visit>> {
        self.left = self.left.checked_sub(1)?;
        let minute = (self.clock_ms / 60_000) % 60;
        let busy = if (30..33).contains(&minute) { 8 } else { 1 + minute % 5 };
        self.clock_ms += self.rng.u64(0..60 / busy);
        if self.left.is_multiple_of(self.bad_every) {
            return Some(None);
        }
        let late_s = if self.rng.u64(0..500) == 0 { self.rng.u64(1..4) } else { 0 };
        let caller = self.skewed(20_000);
        let path = PATHS[self.rng.usize(0..PATHS.len())];
        Some(Some(Visit { at_s: self.clock_ms / 1_000 - late_s, caller, path }))
    }
}

/// The traffic as a file.
pub(crate) struct Log {
    traffic: Traffic,
    pending: Vec<u8>,
    given: usize,
}

impl Read for Log {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.pending.len() {
            let Some(visit) = self.traffic.next() else { return Ok(0) };
            self.pending = line(visit.as_ref()).into_bytes();
            self.given = 0;
        }
        let length = buffer.len().min(self.pending.len() - self.given);
        buffer[..length].copy_from_slice(&self.pending[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}

/// A visit in the combined format; the log begins at nine o'clock of the last of November.
pub(crate) fn line(visit: Option<&Visit>) -> String {
    let Some(visit) = visit else { return "upstream timed out\n".to_owned() };
    let since_s = visit.at_s - (START_S - 9 * 3_600);
    let (hour, minute, second) = (since_s / 3_600, since_s / 60 % 60, since_s % 60);
    let (ip, path, user) = (visit.ip(), visit.path, visit.user());
    let user = user.as_deref().unwrap_or("-");
    format!(
        "{ip} - {user} [30/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 512 \"-\" \
         \"Mozilla/5.0 (X11; Linux x86_64)\"\n"
    )
}
