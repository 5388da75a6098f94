//! Processes that decide by a clock of their own; the test that asks them knows the time.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use sluicegate::{
    Clock, SystemClock,
    core::{Align, Rule},
    testing::history::{Limits, Outcome, Record, Recorder},
};

use crate::{faketime, fixtures};

/// A limit of each kind, by name: `amount` per window, a bucket with as large a burst.
pub fn limits(amount: u64, window: Duration) -> Vec<(&'static str, Rule)> {
    vec![
        ("fixed", Rule::fixed_window(amount, window, Align::Epoch).expect("a rule")),
        ("first", Rule::fixed_window(amount, window, Align::FirstRequest).expect("a rule")),
        ("log", Rule::sliding_log(amount, window).expect("a rule")),
        ("counter", Rule::sliding_counter(amount, window).expect("a rule")),
        ("bucket", Rule::token_bucket(amount, window, amount).expect("a rule")),
    ]
}

/// Whose time a process decides by.
#[derive(Clone, Copy, Debug)]
pub enum Decides {
    /// The Redis server's, as it should.
    ByTheServersClock,
    /// Its own wall clock.
    ByItsOwnClock,
}

/// The binary `ask_by_clock`, which asks a store when it is told to. It ends with this value.
#[derive(Debug)]
pub struct Asker {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Asker {
    /// Starts the process on a server, for [`limits`] of these numbers. Its wall clock is so many seconds ahead.
    pub fn start(
        program: &str,
        url: &str,
        (amount, window): (u64, Duration),
        by: Decides,
        ahead_s: i64,
    ) -> Self {
        let mut command = Command::new(program);
        if ahead_s != 0 {
            faketime::turn(&mut command, ahead_s);
        }
        let clock = match by {
            Decides::ByTheServersClock => "server",
            Decides::ByItsOwnClock => "own",
        };
        command.args([url, &amount.to_string(), &window.as_micros().to_string(), clock]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the asking process");
        let says = BufReader::new(process.stdout.take().expect("its output"));
        let mut asker = Self { process, says };
        assert_eq!(asker.line(), "ready");
        asker
    }

    /// Takes 1 of each limit in turn until `ends_us` by the machine's clock, and records what comes of it.
    pub fn ask_until(&mut self, ends_us: u64, names: &[&str], clock: &SystemClock, recorder: &Recorder) {
        while clock.now().as_u64() < ends_us {
            for (at, name) in names.iter().enumerate() {
                let start = clock.now();
                let outcome = self.take(at);
                recorder.record(Record {
                    limit: (*name).to_owned(),
                    key: fixtures::subject("alice").as_str().to_owned(),
                    cost: 1,
                    start,
                    end: clock.now(),
                    outcome,
                    ..Record::default()
                });
            }
        }
    }

    fn take(&mut self, limit: usize) -> Outcome {
        let hears = self.process.stdin.as_mut().expect("its input");
        writeln!(hears, "{limit}").expect("a line to the asking process");
        match self.line().as_str() {
            "allowed" => Outcome::Allowed,
            "denied" => Outcome::Denied,
            "unknown" => Outcome::Unknown,
            other => panic!("the asking process says `{other}`"),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("a line of the asking process");
        line.trim().to_owned()
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // Both fail only if the process is gone already.
        let _killed = self.process.kill();
        let _waited = self.process.wait();
    }
}

/// Lets all ask at once for a while, and answers when that began, by the machine's clock.
pub fn ask_for(askers: &mut [Asker], names: &[&str], time: Duration, recorder: &Recorder) -> u64 {
    let clock = SystemClock::new();
    let began_us = clock.now().as_u64();
    let ends_us = clock.now().plus(time).as_u64();
    std::thread::scope(|scope| {
        for asker in askers {
            let clock = &clock;
            scope.spawn(move || asker.ask_until(ends_us, names, clock, recorder));
        }
    });
    began_us
}

/// The limits of [`limits`] as the checker wants them, with some amounts times so much.
pub fn laws(amount: u64, window: Duration, times: impl Fn(&str) -> u64) -> Limits {
    let named = limits(amount, window).into_iter().map(|(name, _)| name);
    Limits::of(named.map(|name| {
        let rules = limits(amount * times(name), window);
        let (_, rule) = rules.into_iter().find(|(other, _)| *other == name).expect("its own name");
        (name, rule)
    }))
}
