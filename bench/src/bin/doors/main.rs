//! Each door against its floor and its peers: `cargo run --release --bin doors`.
//!
//! What is compared is the processor time of the servers' processes per request, so that the load generator, which is the
//! same for all, does not matter. `THROTTLECRAB_SERVER` names the program of `cargo install throttlecrab-server`.

mod grpc;
mod http;
mod resp;
mod targets;

use std::{env, process::Command};

use sluicegate_bench::server::{Policy, Program, free_port, sluicegate};

const ROUNDS: usize = 7;

fn bare(door: &str) -> Program {
    Program::announced(Command::new(env::current_exe().unwrap()).arg(door), 1)
}

/// The peer with both its doors, if it is here.
fn throttlecrab() -> Option<Program> {
    let program = env::var_os("THROTTLECRAB_SERVER")?;
    let [http, redis] = [free_port(), free_port()].map(|port| port.to_string());
    let mut command = Command::new(program);
    command.args(["--http", "--http-host", "127.0.0.1", "--http-port", &http]);
    command.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &redis]);
    let [http, redis] = [http, redis].map(|port| format!("127.0.0.1:{port}"));
    Some(Program::told(&mut command, &[("http", &http), ("redis", &redis)]))
}

fn main() {
    match env::args().nth(1).as_deref() {
        Some("resp") => return resp::serve_bare(),
        Some("grpc") => return grpc::serve_bare(),
        _ => {}
    }
    let policy = Policy::write();
    let mut serve = Command::new(sluicegate());
    serve.args([
        "serve",
        "--http",
        "127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
        "--resp",
        "127.0.0.1:0",
        "--policy",
    ]);
    let ours = Program::announced(serve.arg(policy.path()), 3);
    let peer = throttlecrab();
    resp::measure(&ours, &bare("resp"), peer.as_ref());
    grpc::measure(&ours, &bare("grpc"));
    http::measure(&ours, &policy, peer.as_ref());
}
