//! The HTTP door on the embedded store against a bare hyper server that reads JSON, decides one GCRA and writes JSON.
//!
//! Both serve the same requests over kept-alive connections on loopback. What is compared is the processor time of the
//! server's process per request, so that the load generator does not matter.

use std::{
    collections::HashMap,
    convert::Infallible,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use sluicegate_bench::{median, process_nanos};

const ROUNDS: usize = 7;
const CONNECTIONS: usize = 16;
const REQUESTS: usize = 2_000;
const POLICY: &str = "version: 1
domain: default
limits:
  - { name: per-user, algorithm: gcra, limit: 1000000, per: 1s, key: [user] }
";

#[derive(Deserialize)]
struct Ask {
    attributes: HashMap<String, String>,
    #[serde(default = "one")]
    cost: u64,
}

#[derive(Serialize)]
struct Reply {
    allowed: bool,
    remaining: u64,
    retry_after_ms: Option<u64>,
}

fn one() -> u64 {
    1
}

const INTERVAL_NS: u64 = 1_000;
const BURST: u64 = 1_000_000;

/// A textbook GCRA over a map: theoretical arrival times in nanoseconds.
fn decide(arrivals: &Mutex<HashMap<String, u64>>, ask: Ask) -> Reply {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let user = ask.attributes.into_iter().find(|(name, _)| name == "user").map(|(_, user)| user);
    let mut arrivals = arrivals.lock().unwrap();
    let arrival = arrivals.entry(user.unwrap_or_default()).or_insert(now);
    let next = (*arrival).max(now) + ask.cost * INTERVAL_NS;
    let latest = now + BURST * INTERVAL_NS;
    let allowed = next <= latest;
    if allowed {
        *arrival = next;
    }
    Reply {
        allowed,
        remaining: latest.saturating_sub(next) / INTERVAL_NS,
        retry_after_ms: (!allowed).then(|| (next - latest).div_ceil(1_000_000)),
    }
}

async fn answer(
    arrivals: Arc<Mutex<HashMap<String, u64>>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let reply = decide(&arrivals, serde_json::from_slice(&body).unwrap());
    let status = if reply.allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(Full::new(serde_json::to_vec(&reply).unwrap().into())).unwrap())
}

#[tokio::main]
async fn serve_bare() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    let arrivals = Arc::new(Mutex::new(HashMap::new()));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let arrivals = arrivals.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(arrivals.clone(), request));
            http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
        });
    }
}

/// A server process, ended by its own id.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        Self { child, address }
    }

    /// Nanoseconds of this server's processor time per request.
    fn round(&self) -> f64 {
        let before = process_nanos(self.child.id());
        std::thread::scope(|scope| {
            for connection in 0..CONNECTIONS {
                scope.spawn(move || self.load(connection));
            }
        });
        (process_nanos(self.child.id()) - before) as f64 / (CONNECTIONS * REQUESTS) as f64
    }

    fn load(&self, connection: usize) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let body =
            format!(r#"{{"attributes":{{"user":"user-{connection}","endpoint":"/v1/chat"}},"cost":1}}"#);
        let request = format!(
            "POST /v1/take HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut buffer = [0; 4_096];
        for _ in 0..REQUESTS {
            stream.write_all(request.as_bytes()).unwrap();
            let read = stream.read(&mut buffer).unwrap();
            assert!(
                buffer[..read].starts_with(b"HTTP/1.1 200"),
                "{}",
                String::from_utf8_lossy(&buffer[..read])
            );
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds the server as a release, since it is in another workspace.
fn sluicegate() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--bin", "sluicegate"])
        .current_dir(root)
        .status();
    assert!(build.unwrap().success());
    root.join("target/release/sluicegate")
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("bare") {
        return serve_bare();
    }
    let policy = std::env::temp_dir().join(format!("sluicegate-bench-{}.yaml", std::process::id()));
    std::fs::write(&policy, POLICY).unwrap();
    let serve = ["serve", "--http", "127.0.0.1:0", "--policy", policy.to_str().unwrap()];
    let ours = Server::start(Command::new(sluicegate()).args(serve));
    let bare = Server::start(Command::new(std::env::current_exe().unwrap()).arg("bare"));
    let mut figures = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for (server, figures) in [&ours, &bare].into_iter().zip(&mut figures) {
            let nanos = server.round();
            // The first round opens memory and caches.
            if round > 0 {
                figures.push(nanos);
            }
        }
    }
    let [ours, bare] = figures.map(median);
    println!("| HTTP, server processor time per request | sluicegate | bare hyper | ours / bare |");
    println!("|---|---|---|---|");
    println!(
        "| POST JSON, one GCRA, {CONNECTIONS} connections | {:.1} us | {:.1} us | {:.2}x |",
        ours / 1e3,
        bare / 1e3,
        ours / bare
    );
    let _ = std::fs::remove_file(policy);
}
