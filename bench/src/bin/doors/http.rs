//! The HTTP door against a peer, and on Redis. Its floor has a measurement of its own.

use std::process::Command;

use sluicegate_bench::{
    door::{Talk, alternate, http_answers, http_request, take_request},
    gcra::BURST,
    server::{Policy, Program, Server, sluicegate},
};

use crate::{
    ROUNDS,
    targets::{Target::AtMost, absent, figure, ratio},
};

/// Requests of one load on each connection, one at a time.
const REQUESTS: usize = 1_000;

fn throttle_request(connection: usize) -> Vec<u8> {
    let burst = BURST - 1;
    let limit = format!(r#""max_burst":{burst},"count_per_period":1000000,"period":1"#);
    http_request("/throttle", &format!(r#"{{"key":"user-{connection}",{limit},"quantity":1}}"#))
}

fn talk<'a>(request: &'a (dyn Fn(usize) -> Vec<u8> + Sync)) -> Talk<'a> {
    Talk { request, answers: &http_answers, depth: 1, turns: REQUESTS }
}

/// Measures, and prints what came of it.
pub fn measure(ours: &Program, policy: &Policy, throttlecrab: Option<&Program>) {
    let redis = Server::start();
    let mut serve = Command::new(sluicegate());
    serve.args(["serve", "--http", "127.0.0.1:0", "--store", &redis.url, "--policy"]).arg(policy.path());
    let shared = Program::announced(&mut serve, 1);
    let mut doors = vec![
        talk(&take_request).at(ours.address("http"), vec![ours.pid()]),
        talk(&take_request).at(shared.address("http"), vec![shared.pid(), redis.pid()]),
    ];
    doors.extend(
        throttlecrab.map(|program| talk(&throttle_request).at(program.address("http"), vec![program.pid()])),
    );
    let taken: Vec<_> = alternate(&doors, ROUNDS).iter().map(|taken| taken.cpu_ns / 1e3).collect();
    figure("HTTP on Redis, exact: the server and Redis", taken[1], " us", AtMost(20.0));
    match taken.get(2) {
        Some(theirs) => {
            let name = format!("HTTP: ours ({:.1} us) / throttlecrab-server ({theirs:.1} us)", taken[0]);
            ratio(&name, taken[0] / theirs, AtMost(0.8));
        }
        None => absent("HTTP: ours / throttlecrab-server"),
    }
}
