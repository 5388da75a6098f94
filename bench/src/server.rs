//! Servers to measure.

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use sluicegate_redis::{RedisConfig, RedisStore};
use tempfile::TempDir;

/// A `redis-server` of a measurement's own; it ends with this value.
pub struct Server {
    process: Child,
    /// Its URL.
    pub url: String,
    /// Where it listens.
    pub address: String,
    _dir: TempDir,
}

impl Server {
    /// A server on a free port.
    pub fn start() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let port = free_port();
        let process = Command::new("redis-server")
            .current_dir(dir.path())
            .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("`redis-server` must be installed");
        let address = format!("127.0.0.1:{port}");
        await_listener(&address);
        Self { process, url: format!("redis://{address}"), address, _dir: dir }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A connection for looking.
    pub fn admin(&self) -> redis::Connection {
        redis::Client::open(self.url.as_str())
            .and_then(|client| client.get_connection())
            .expect("a connection")
    }

    /// A store on it.
    pub fn store(&self) -> RedisStore {
        RedisStore::open(&RedisConfig::from_url(&self.url).expect("a url")).expect("a store")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _waited = self.process.wait();
    }
}

/// A port of loopback that nobody listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|own| own.local_addr()).expect("a free port").port()
}

fn await_listener(address: &str) {
    while TcpStream::connect(address).is_err() {
        thread::sleep(Duration::from_millis(5)); // Nothing tells when a server starts to listen.
    }
}

/// Any other server of a measurement; it ends with this value.
pub struct Program {
    process: Child,
    /// Where it says that it listens: `http://127.0.0.1:8080`.
    urls: Vec<String>,
}

impl Program {
    /// A program that says in so many lines where it listens.
    pub fn announced(command: &mut Command, lines: usize) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("a program");
        let mut said = BufReader::new(process.stdout.take().expect("its output")).lines();
        let mut url = || {
            let line = said.next().expect("another line").expect("text");
            line.strip_prefix("listening on ").expect("where it listens").to_owned()
        };
        Self { urls: (0..lines).map(|_| url()).collect(), process }
    }

    /// A program that listens where it was told to.
    pub fn told(command: &mut Command, addresses: &[(&str, &str)]) -> Self {
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a program");
        addresses.iter().for_each(|(_, address)| await_listener(address));
        let urls = addresses.iter().map(|(scheme, address)| format!("{scheme}://{address}"));
        Self { urls: urls.collect(), process }
    }

    /// The address of its door of that scheme.
    pub fn address(&self, scheme: &str) -> &str {
        let mut doors = self.urls.iter().filter_map(|url| url.split_once("://"));
        doors.find(|(own, _)| *own == scheme).expect("a door of that scheme").1
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _waited = self.process.wait();
    }
}

/// The server of this repository, built as a release, since it is in another workspace.
pub fn sluicegate() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a repository");
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--bin", "sluicegate"])
        .current_dir(root)
        .status();
    assert!(build.expect("cargo").success());
    root.join("target/release/sluicegate")
}

/// A policy file with one GCRA by user; it goes with this value.
pub struct Policy(tempfile::NamedTempFile);

impl Policy {
    /// Writes it.
    pub fn write() -> Self {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a temporary file");
        let limit = "{ name: per-user, algorithm: gcra, limit: 1000000, per: 1s, key: [user] }";
        let text = format!("version: 1\ndomain: default\nlimits:\n  - {limit}\n");
        std::fs::write(file.path(), text).expect("a policy written");
        Self(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Microseconds of processor time that the server has used.
pub fn cpu_us(admin: &mut redis::Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(admin).expect("the server's statistics");
    let seconds = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
        line.trim().parse().expect("a number")
    };
    (seconds("used_cpu_user:") + seconds("used_cpu_sys:")) * 1e6
}
