//! A real `redis-server` of a test's own.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use sluicegate_redis::{RedisConfig, RedisStore};
use tempfile::TempDir;

use crate::{certs::Certs, faketime, ports::free_port};

/// How long a server may take to answer its first PING.
const START_UP: Duration = Duration::from_secs(10);
/// How long a store of a test waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// The file that says how far a server's own clock is ahead, if it has one.
const CLOCK: &str = "clock";

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

    /// A server that also speaks TLS, with this certificate, and with further arguments.
    pub fn with_certs(certs: &Certs, arguments: &[&str]) -> Self {
        Self::launch(arguments, Some((free_port(), certs.clone())))
    }

    /// A server whose wall clock [`RedisServer::set_clock`] sets.
    pub fn with_clock_of_its_own() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        faketime::set(&dir.path().join(CLOCK), 0);
        Self::launch_in(dir, &[], None)
    }

    /// Sets the server's clock: that many seconds ahead of the machine's.
    pub fn set_clock(&self, ahead_s: i64) {
        faketime::set(&self.dir.path().join(CLOCK), ahead_s);
    }

    fn launch(arguments: &[&str], tls: Option<(u16, Certs)>) -> Self {
        Self::launch_in(TempDir::new().expect("a temporary directory"), arguments, tls)
    }

    fn launch_in(dir: TempDir, arguments: &[&str], tls: Option<(u16, Certs)>) -> Self {
        let mut own = Vec::new();
        if let Some((port, certs)) = &tls {
            certs.write_to(dir.path());
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
        self.begin_anew();
        self.wait_until_it_answers();
    }

    /// Ends the server, as a crash does, and starts another, which loads what it finds in its directory first.
    pub fn begin_anew(&mut self) {
        self.stop();
        self.process = spawn(&self.dir, self.port, &self.arguments);
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

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it keeps its files.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Stops the process where it stands, as a machine that swaps or hangs does.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets a stopped process go on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Sets a parameter of the running server.
    pub fn set(&self, parameter: &str, value: &str) {
        self.command(&["CONFIG", "SET", parameter, value]);
    }

    /// Makes it a replica of another server, and waits until it has all that the other has.
    pub fn follow(&self, master: &Self) {
        self.command(&["REPLICAOF", "127.0.0.1", &master.port_of_replication().to_string()]);
        let linked = || self.info("replication").contains("master_link_status:up");
        until("a replica is in step", linked);
    }

    /// The port that replicas and sentinels come to.
    pub fn port_of_replication(&self) -> u16 {
        let by_tls = self.arguments.iter().any(|argument| argument == "--tls-replication");
        self.tls.as_ref().filter(|_| by_tls).map_or(self.port, |(port, _)| *port)
    }

    /// Waits until a replica has everything that this master has been told so far.
    pub fn replicated_to(&self, replica: &Self) {
        let offset = |server: &Self| {
            let told = server.info("replication");
            let line =
                told.lines().find_map(|line| line.strip_prefix("master_repl_offset:").map(str::to_owned));
            line.and_then(|offset| offset.parse::<u64>().ok()).expect("an offset")
        };
        let said = offset(self);
        until("a replica has it all", || offset(replica) >= said);
    }

    /// Makes a replica a master.
    pub fn promote(&self) {
        self.command(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Whether it says that it is a master. A server that is being promoted closes its connections and says nothing.
    pub fn is_master(&self) -> bool {
        let client = redis::Client::open(self.url()).expect("a url");
        let told = client.get_connection().and_then(|mut admin| redis::cmd("ROLE").query(&mut admin));
        told.is_ok_and(|role: Vec<redis::Value>| {
            role.first() == Some(&redis::Value::BulkString(b"master".to_vec()))
        })
    }

    /// A section of what the server tells about itself.
    pub fn info(&self, section: &str) -> String {
        redis::cmd("INFO").arg(section).query(&mut self.admin()).expect("what the server tells")
    }

    /// How many scripts it was asked to run.
    pub fn script_calls(&self) -> u64 {
        let told = self.info("commandstats");
        let line = told.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    /// One command of an administrator.
    pub fn command(&self, words: &[&str]) -> redis::Value {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.admin()).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("`kill`").success());
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
            if pong.is_ok() || pong.is_err_and(|error| error.code() == Some("NOAUTH")) {
                return;
            }
            // Nothing tells when a server starts to listen; a try costs little.
            thread::sleep(Duration::from_millis(5));
        }
        panic!("redis-server does not answer");
    }
}

/// Waits until something holds that no process tells of.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(dir: &TempDir, port: u16, arguments: &[String]) -> Child {
    let mut command = Command::new("redis-server");
    let clock = dir.path().join(CLOCK);
    if clock.exists() {
        faketime::follow(&mut command, &clock);
    }
    command
        .current_dir(dir.path())
        .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--unixsocket", "redis.sock"])
        // Without this a replica waits five seconds for others that might want the same copy.
        .args(["--repl-diskless-sync-delay", "0"])
        .args(["--port", &port.to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("`redis-server` must be installed (Debian: `apt-get install redis-server`)")
}
