//! A real `redis-server` of a test's own.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use sluicegate_redis::{RedisConfig, RedisStore};
use tempfile::TempDir;

use crate::certs::Certs;

/// How long a server may take to answer its first PING.
const START_UP: Duration = Duration::from_secs(10);
/// How long a store of a test waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server on a free port, a unix socket and, if asked for, a port with TLS. It ends with this value.
#[derive(Debug)]
pub struct RedisServer {
    process: Child,
    dir: TempDir,
    port: u16,
    tls: Option<(u16, Certs)>,
    arguments: Vec<String>,
}

impl RedisServer {
    /// A server without further settings.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server with further arguments, as on the command line.
    pub fn with(arguments: &[&str]) -> Self {
        Self::launch(arguments, None)
    }

    /// A server that also speaks TLS, with a certificate authority of its own.
    pub fn with_tls() -> Self {
        Self::launch(&[], Some((free_port(), Certs::new())))
    }

    fn launch(arguments: &[&str], tls: Option<(u16, Certs)>) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let mut own = Vec::new();
        if let Some((port, certs)) = &tls {
            for (name, pem) in [("ca.pem", &certs.ca), ("cert.pem", &certs.cert), ("key.pem", &certs.key)] {
                fs::write(dir.path().join(name), pem).expect("a certificate written");
            }
            own =
                ["--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem", "--tls-ca-cert-file", "ca.pem"]
                    .map(str::to_owned)
                    .to_vec();
            own.extend(["--tls-auth-clients", "no", "--tls-port"].map(str::to_owned));
            own.push(port.to_string());
        }
        own.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let port = free_port();
        let process = spawn(&dir, port, &own);
        let mut server = Self { process, dir, port, tls, arguments: own };
        server.wait_until_it_answers();
        server
    }

    /// Ends the server, as a crash does, and starts an empty one in its place.
    pub fn restart(&mut self) {
        self.stop();
        self.process = spawn(&self.dir, self.port, &self.arguments);
        self.wait_until_it_answers();
    }

    /// Ends the server, as a crash does.
    pub fn stop(&mut self) {
        // Both fail only if the process is gone already.
        let _killed = self.process.kill();
        let _waited = self.process.wait();
    }

    /// The URL over TCP.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A store on this server. It waits longer for answers than the default: tests share their machine.
    pub fn store(&self) -> RedisStore {
        let config = RedisConfig::from_url(&self.url()).expect("a url").response_timeout(PATIENCE);
        RedisStore::open(&config.connect_timeout(PATIENCE)).expect("a server's url")
    }

    /// The URL over TCP with a user, a password and a database number.
    pub fn url_as(&self, user: &str, password: &str, database: u32) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL over the unix socket.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The URL with TLS, and the certificate authority to trust (PEM).
    pub fn tls_url(&self) -> (String, &str) {
        let (port, certs) = self.tls.as_ref().expect("a server started with TLS");
        (format!("rediss://localhost:{port}"), &certs.ca)
    }

    /// The process id, for measurements.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A connection for looking and meddling.
    pub fn admin(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("a url");
        client.get_connection().expect("a connection")
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    fn wait_until_it_answers(&mut self) {
        let client = redis::Client::open(self.url()).expect("a url");
        let began = Instant::now();
        while began.elapsed() < START_UP {
            if let Some(status) = self.process.try_wait().expect("the state of redis-server") {
                panic!("redis-server ended at once: {status}");
            }
            let pong = client.get_connection().and_then(|mut admin| redis::cmd("PING").exec(&mut admin));
            if pong.is_ok() {
                return;
            }
            // Nothing tells when a server starts to listen; a try costs little.
            thread::sleep(Duration::from_millis(5));
        }
        panic!("redis-server does not answer");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(dir: &TempDir, port: u16, arguments: &[String]) -> Child {
    Command::new("redis-server")
        .current_dir(dir.path())
        .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--unixsocket", "redis.sock"])
        .args(["--port", &port.to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("`redis-server` must be installed (Debian: `apt-get install redis-server`)")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its number").port()
}
