//! A server to measure.

use std::{
    net::{TcpListener, TcpStream},
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
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|own| own.local_addr()).expect("a free port").port();
        let process = Command::new("redis-server")
            .current_dir(dir.path())
            .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("`redis-server` must be installed");
        let address = format!("127.0.0.1:{port}");
        while TcpStream::connect(&address).is_err() {
            thread::sleep(Duration::from_millis(5)); // Nothing tells when a server starts to listen.
        }
        Self { process, url: format!("redis://{address}"), address, _dir: dir }
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

/// Microseconds of processor time that the server has used.
pub fn cpu_us(admin: &mut redis::Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(admin).expect("the server's statistics");
    let seconds = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
        line.trim().parse().expect("a number")
    };
    (seconds("used_cpu_user:") + seconds("used_cpu_sys:")) * 1e6
}
