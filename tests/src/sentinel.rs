//! A master, its replica, and three real sentinels that watch them.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::Instant,
};

use tempfile::TempDir;

use crate::{RedisServer, certs::Certs, ports::free_port, redis_server::until};

/// What the sentinels call the master.
pub const MASTER: &str = "limits";
const SENTINELS: usize = 3;

/// A running group: the servers and their sentinels. It ends with this value.
#[derive(Debug)]
pub struct Watched {
    /// The first is the master at first.
    pub servers: Vec<RedisServer>,
    /// The authority and the certificate of the sentinels, which speak TLS on a port of their own.
    pub certs: Certs,
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    process: Child,
    port: u16,
    tls_port: u16,
    _dir: TempDir,
}

impl Watched {
    /// A master with one replica.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same, with further lines in the sentinels' configuration.
    pub fn with(lines: &[&str]) -> Self {
        Self::of(lines, |arguments, _certs| RedisServer::with(arguments))
    }

    /// The same, with nothing but TLS between sentinels and servers, and to the servers that sentinels name.
    pub fn with_tls_throughout() -> Self {
        Self::of(&["tls-replication yes"], |arguments, certs| {
            RedisServer::with_certs(certs, &[arguments, &["--tls-replication", "yes"]].concat())
        })
    }

    fn of(lines: &[&str], server: impl Fn(&[&str], &Certs) -> RedisServer) -> Self {
        let certs = Certs::new();
        let arguments = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let servers = vec![server(&arguments, &certs), server(&arguments, &certs)];
        servers[1].follow(&servers[0]);
        let sentinels: Vec<Sentinel> =
            (0..SENTINELS).map(|_| Sentinel::of(&servers[0], lines, &certs)).collect();
        for sentinel in &sentinels {
            until("the sentinels know each other and the replica", || sentinel.knows_all());
        }
        Self { servers, certs, sentinels }
    }

    /// The URL of the store.
    pub fn url(&self) -> String {
        self.url_with("", "")
    }

    /// The URL with what stands before the hosts (`user:password@`) and after the master's name (`/3?…`).
    pub fn url_with(&self, before: &str, after: &str) -> String {
        let hosts: Vec<String> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis+sentinel://{before}{}/{MASTER}{after}", hosts.join(","))
    }

    /// The URL that speaks to the sentinels over TLS, and to the master without.
    pub fn url_with_tls(&self) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|one| format!("localhost:{}", one.tls_port)).collect();
        format!("redis+sentinel://{}/{MASTER}?sentinel_tls=yes", hosts.join(","))
    }

    /// The URL that speaks TLS to sentinels and to the master, with what stands before the hosts.
    pub fn url_with_tls_throughout(&self, before: &str) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|one| format!("localhost:{}", one.tls_port)).collect();
        format!("rediss+sentinel://{before}{}/{MASTER}", hosts.join(","))
    }

    /// Waits until this server is a master, and tells when that was seen.
    pub fn promoted(&self, server: usize) -> Instant {
        until("a replica is promoted", || self.servers[server].is_master());
        Instant::now()
    }

    /// Ends a sentinel, as a crash does.
    pub fn end_sentinel(&mut self, number: usize) {
        self.sentinels[number].end();
    }
}

impl Sentinel {
    fn of(master: &RedisServer, lines: &[&str], certs: &Certs) -> Self {
        let (dir, port, tls_port) =
            (TempDir::new().expect("a temporary directory"), free_port(), free_port());
        certs.write_to(dir.path());
        let mut config = format!(
            "port {port}\ntls-port {tls_port}\ntls-cert-file cert.pem\ntls-key-file key.pem\n\
             tls-ca-cert-file ca.pem\ntls-auth-clients no\nbind 127.0.0.1\ndir {}\nsentinel monitor {MASTER} 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds {MASTER} 500\nsentinel failover-timeout {MASTER} 2000\n",
            dir.path().display(),
            master.port_of_replication()
        );
        for line in lines {
            config.push_str(line);
            config.push('\n');
        }
        let path = dir.path().join("sentinel.conf");
        fs::write(&path, config).expect("a configuration written");
        let process = Command::new("redis-server")
            .current_dir(dir.path())
            .arg(&path)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("`redis-server` must be installed (Debian: `apt-get install redis-server`)");
        Self { process, port, tls_port, _dir: dir }
    }

    fn knows_all(&self) -> bool {
        let told = || -> redis::RedisResult<std::collections::HashMap<String, String>> {
            let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
            redis::cmd("SENTINEL").arg("MASTER").arg(MASTER).query(&mut client.get_connection()?)
        };
        told().is_ok_and(|told| {
            let is = |name: &str, value: &str| told.get(name).is_some_and(|told| told == value);
            is("num-slaves", "1") && is("num-other-sentinels", "2") && is("flags", "master")
        })
    }

    fn end(&mut self) {
        // Both fail only if the process is gone already.
        let _killed = self.process.kill();
        let _waited = self.process.wait();
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.end();
    }
}
