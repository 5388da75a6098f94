//! Two instances behind a balancer, restarted one after the other under load, by the recipe of `docs/operating/restarts.md`.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use sluicegate_tests::{RedisServer, ports::free_port};
use tempfile::TempDir;

use crate::{
    binary::{Process, sluicegate},
    support::{Reply, Running, block, exchange, until_it_listens},
};

const LIMIT: usize = 700;
const POLICY: &str = "
version: 1
limits:
  - { name: all, algorithm: sliding_log, limit: 700, per: 1d, key: [] }
";

fn start(folder: &TempDir, redis: &RedisServer, port: u16) -> Process {
    let mut serve = sluicegate();
    serve.args(["serve", "--policy", "policy.yaml", "--store", &redis.url(), "--drain-ms", "2000"]);
    serve.args(["--store-deadline-ms", "10000", "--store-timeout-ms", "20000"]);
    serve.args(["--http", &format!("127.0.0.1:{port}")]);
    Process::start(serve.current_dir(folder.path()), 1)
}

fn take(balancer: SocketAddr) -> Reply {
    let body = r#"{"attributes": {}}"#;
    let head = "POST /v1/take HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    exchange(TcpStream::connect(balancer).unwrap(), &request)
}

/// Asks for as long as `going` is true.
fn load(balancer: SocketAddr, going: &AtomicBool) -> Vec<Reply> {
    std::iter::from_fn(|| going.load(Ordering::Relaxed).then(|| take(balancer))).collect()
}

/// What the balancer thinks of an instance is seen by whom it asks: so many of its own probes are waited for.
fn wait_until_ready(port: u16) {
    until_it_listens(SocketAddr::from(([127, 0, 0, 1], port)));
    thread::sleep(Duration::from_secs(1)); // Ten probes of the balancer, whose view cannot be asked for.
}

#[test]
fn two_instances_are_restarted_under_load_and_no_decision_fails() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().unwrap());
    fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
    let ports = [free_port(), free_port()];
    let balancer = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut instances = ports.map(|port| Some(start(&folder, &redis, port)));
    let recipe = block("restarts", "haproxy").replace("127.0.0.1:8000", &balancer.to_string());
    let recipe = recipe.replace("10.0.0.1:8080", &format!("127.0.0.1:{}", ports[0]));
    let recipe = recipe.replace("10.0.0.2:8080", &format!("127.0.0.1:{}", ports[1]));
    fs::write(folder.path().join("haproxy.cfg"), recipe).unwrap();
    let mut haproxy = Command::new("haproxy");
    let _haproxy = Running::start(haproxy.args(["-db", "-f", "haproxy.cfg"]).current_dir(folder.path()));
    until_it_listens(balancer);

    let going = AtomicBool::new(true);
    let replies = thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| load(balancer, &going))).collect();
        for (instance, port) in instances.iter_mut().zip(ports) {
            let begun = Instant::now();
            let old = instance.take().unwrap();
            old.signal("-TERM");
            assert_eq!(old.wait(), Some(0));
            assert!(begun.elapsed() >= Duration::from_secs(2), "it did not drain");
            *instance = Some(start(&folder, &redis, port));
            wait_until_ready(port);
        }
        going.store(false, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let count = |status| replies.iter().filter(|reply| reply.status == status).count();
    assert!(replies.len() > 2 * LIMIT, "{} requests are no load", replies.len());
    let failed = replies.iter().find(|reply| ![200, 429].contains(&reply.status));
    assert!(failed.is_none(), "{failed:?}");
    assert_eq!((count(200), count(429)), (LIMIT, replies.len() - LIMIT));
    assert!(replies.iter().all(|reply| reply.body.contains(r#""decided_by":"store""#)));
}
