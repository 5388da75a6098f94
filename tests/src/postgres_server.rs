//! A real PostgreSQL of a test's own.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{certs::Certs, ports::free_port};

/// How long a server may take to answer its first query.
const START_UP: Duration = Duration::from_secs(30);
/// The user that runs it where the tests run as root, which it refuses to be run by.
const OWNER: &str = "postgres";

/// A running server on a free port and a unix socket, with the superuser `admin`, and TLS for whoever asks for it. It ends
/// with this value.
#[derive(Debug)]
pub struct PostgresServer {
    process: Child,
    dir: TempDir,
    port: u16,
}

impl PostgresServer {
    /// A server with an empty database `limits`.
    pub fn start() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let (data, port) = (dir.path().join("data"), free_port());
        Certs::new().write_to(dir.path());
        own(dir.path());
        let words =
            ["--username=admin", "--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8"];
        let mut initdb = as_owner(&dir, "initdb");
        initdb.arg("-D").arg(&data).args(words).args(["--no-sync", "--no-locale"]);
        let made = initdb.output().expect("`initdb`");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let process = spawn(&dir, port);
        let mut server = Self { process, dir, port };
        server.wait_until_it_answers();
        server.sql_in("postgres", "CREATE DATABASE limits");
        server
    }

    /// Ends the server at once, without a word to its clients.
    pub fn stop(&mut self) {
        // Its children end with it only if it is asked to. That fails only if the process is gone already.
        let _told = Command::new("kill").args(["-QUIT", &self.process.id().to_string()]).status();
        let _waited = self.process.wait();
    }

    /// Starts it again after it was stopped, with what it had.
    pub fn restart(&mut self) {
        self.process = spawn(&self.dir, self.port);
        self.wait_until_it_answers();
    }

    /// The URL of its database over TCP, with what follows the `?`.
    pub fn url(&self, user: &str, query: &str) -> String {
        format!("postgres://{user}:password@localhost:{}/limits?{query}", self.port)
    }

    /// The URL over the unix socket, where no password is asked for.
    pub fn unix_url(&self, user: &str) -> String {
        let folder = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://{user}@{folder}:{}/limits", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate authority of its certificate, which is for `localhost` (PEM).
    pub fn authority(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Makes these lines all of `pg_hba.conf`, but for the administrator's own.
    pub fn admit(&self, lines: &str) {
        let file = self.dir.path().join("data/pg_hba.conf");
        fs::write(file, format!("local all admin trust\n{lines}\n")).expect("a file written");
        self.sql("SELECT pg_reload_conf()");
    }

    /// What SQL of the administrator's answers, without frills.
    pub fn sql(&self, sql: &str) -> String {
        self.sql_in("limits", sql)
    }

    /// What the server says to SQL of a user's, good or bad.
    pub fn sql_as(&self, user: &str, sql: &str) -> Result<String, String> {
        self.psql(user, "limits", sql)
    }

    fn sql_in(&self, database: &str, sql: &str) -> String {
        self.psql("admin", database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn psql(&self, user: &str, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", "password").args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-U", user]);
        let at = ["-p", &self.port.to_string(), "-d", database, "-c", sql];
        let output = psql.arg("-h").arg(self.dir.path()).args(at).output().expect("`psql`");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text").trim().to_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    fn wait_until_it_answers(&mut self) {
        let began = Instant::now();
        while began.elapsed() < START_UP {
            if let Some(status) = self.process.try_wait().expect("the state of postgres") {
                panic!("postgres ended at once: {status}");
            }
            if self.psql("admin", "postgres", "SELECT 1").is_ok() {
                return;
            }
            // Nothing tells when a server starts to listen; a try costs little.
            thread::sleep(Duration::from_millis(50));
        }
        panic!("postgres does not answer");
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Gives a folder to the user that runs the server.
fn own(dir: &Path) {
    let key = dir.join("key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a key that is nobody else's");
    // As root, the tests own what they make.
    if fs::metadata(dir).expect("a folder").uid() == 0 {
        let given = Command::new("chown").args(["-R", OWNER]).arg(dir).status();
        assert!(given.expect("`chown`").success());
    }
}

fn spawn(dir: &TempDir, port: u16) -> Child {
    let mut command = as_owner(dir, "postgres");
    command.arg("-D").arg(dir.path().join("data")).arg("-k").arg(dir.path());
    command.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-F", "-c", "ssl=on"]);
    for (parameter, file) in [("ssl_cert_file", "cert.pem"), ("ssl_key_file", "key.pem")] {
        command.arg("-c").arg(format!("{parameter}={}", dir.path().join(file).display()));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("`postgres`")
}

/// A program of the server's, run by whom the folder belongs to.
fn as_owner(dir: &TempDir, program: &str) -> Command {
    let program = programs().join(program);
    let owner = fs::metadata(dir.path()).expect("a folder").uid();
    let is_ours = fs::metadata("/proc/self").expect("this process").uid() == owner;
    let mut command = if is_ours {
        Command::new(program)
    } else {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={OWNER}")).arg(format!("--regid={OWNER}"));
        command.args(["--clear-groups", "--"]).arg(program);
        command
    };
    command.current_dir(dir.path());
    command
}

/// Where Debian puts the newest release: not on the path.
fn programs() -> PathBuf {
    let releases = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest =
        releases.map(|release| release.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max();
    newest.expect("PostgreSQL must be installed (Debian: `apt-get install postgresql`)")
}
