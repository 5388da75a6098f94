//! Processes whose wall clocks disagree, and servers whose clock is set, by real processes under `libfaketime`. All is
//! recorded by the machine's clock, which nobody turns, and held against the laws.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use sluicegate::testing::history::{Outcome, Record, Recorder, Report, Settings, Verdict};
use sluicegate_tests::{
    Asker, RedisServer,
    asker::{Decides, ask_for, laws, limits},
};

const AMOUNT: u64 = 20;
/// Hours are whole multiples of it, so that epoch windows begin when they do by the machine's clock, however many
/// hours a server is off.
const WINDOW: Duration = Duration::from_secs(2);
/// What a round trip may leave as an error: a busy machine's pauses.
const ROUND_TRIP: Duration = Duration::from_millis(100);

fn names() -> Vec<&'static str> {
    limits(AMOUNT, WINDOW).into_iter().map(|(name, _)| name).collect()
}

fn start(server: &RedisServer, by: Decides, ahead_s: &[i64]) -> Vec<Asker> {
    let program = env!("CARGO_BIN_EXE_ask_by_clock");
    let start = |ahead_s: &i64| Asker::start(program, &server.url(), (AMOUNT, WINDOW), by, *ahead_s);
    ahead_s.iter().map(start).collect()
}

fn settings() -> Settings {
    Settings { clock_error: ROUND_TRIP, ..Settings::default() }
}

fn check_with_clocks_apart(by: Decides) -> Report {
    let (server, recorder) = (RedisServer::start(), Recorder::default());
    let mut askers = start(&server, by, &[-3, -1, 1, 3]);
    // Real processes count in real time: two windows and a bit.
    ask_for(&mut askers, &names(), WINDOW * 5 / 2, &recorder);
    recorder.check_with(&laws(AMOUNT, WINDOW, |_| 1), &settings())
}

#[test]
fn four_processes_with_clocks_six_seconds_apart_keep_every_law() {
    let report = check_with_clocks_apart(Decides::ByTheServersClock);
    assert!(report.holds(), "{report}");
    for ((limit, _), row) in &report.rows {
        assert!(row.admitted >= AMOUNT * 2 && row.denied > AMOUNT, "{limit} was not pressed\n{report}");
    }
}

/// The same by the processes' own clocks: each looks at windows that are long over, or not yet there.
#[test]
fn the_same_processes_by_their_own_clocks_are_refuted() {
    let report = check_with_clocks_apart(Decides::ByItsOwnClock);
    assert_eq!(report.verdict(), Verdict::Refuted, "{report}");
}

/// What is recorded around a step of the server's clock by that many seconds: before, and from a while after it on,
/// when everybody must have noticed.
fn around_a_step(ahead_s: i64) -> Recorder {
    let (server, recorder) = (RedisServer::with_clock_of_its_own(), Recorder::default());
    let mut askers = start(&server, Decides::ByTheServersClock, &[0, 0]);
    ask_for(&mut askers, &names(), WINDOW * 3 / 2, &recorder);
    server.set_clock(ahead_s);
    let stepped_us = ask_for(&mut askers, &names(), WINDOW * 7 / 2, &recorder);
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query(&mut server.admin()).unwrap();
    let off_s = seconds - i64::try_from(stepped_us / 1_000_000).unwrap();
    assert!((off_s - ahead_s).abs() < 60, "the server's clock was not set: it is off by {off_s} s");
    assert_open_again(&recorder, stepped_us);
    recorder
}

/// No limit is locked for longer than itself: a window after the step, and a second for everybody to notice it, each
/// admits what it grants in a window and a half.
fn assert_open_again(recorder: &Recorder, stepped_us: u64) {
    let open_us = stepped_us + u64::try_from((WINDOW + Duration::from_secs(1)).as_micros()).unwrap();
    for name in names() {
        let after = |record: &&Record| {
            record.limit == name && record.start.as_u64() > open_us && record.outcome == Outcome::Allowed
        };
        let admitted = recorder.records().iter().filter(after).count();
        assert!(admitted > 0, "`{name}` is locked");
    }
}

/// sethvargo/go-limiter#41, tikv/pd#10744: the bucket drains and is not refilled for an hour, or a window that was
/// full is open again at each turn between two clocks.
#[test]
fn a_servers_clock_that_steps_back_an_hour_opens_no_window_again_and_locks_none() {
    let report = around_a_step(-3_600).check_with(&laws(AMOUNT, WINDOW, back), &settings());
    assert!(report.verdict() != Verdict::Refuted, "{report}");
}

/// At most as much more as the laws say, for all of it: once, and not once for each turn between two clocks.
fn back(limit: &str) -> u64 {
    if ["fixed", "first", "counter"].contains(&limit) { 2 } else { 1 }
}

#[test]
fn a_servers_clock_that_steps_an_hour_ahead_opens_no_window_more_than_once() {
    let report = around_a_step(3_600).check_with(&laws(AMOUNT, WINDOW, ahead), &settings());
    assert!(report.verdict() != Verdict::Refuted, "{report}");
}

/// As the laws say, and once more for what expired with the step before anybody noticed it.
fn ahead(limit: &str) -> u64 {
    if ["fixed", "first"].contains(&limit) { 4 } else { 3 }
}
