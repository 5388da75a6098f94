//! Runs the real binary.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// What a run said and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The binary, deaf to this process's settings.
pub(crate) fn sluicegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SLUICEGATE_") {
            command.env_remove(name);
        }
    }
    command.env("SLUICEGATE_LOG", "error");
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Run {
    finish(sluicegate().args(arguments))
}

pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A file of the repository's `policies` folder.
pub(crate) fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies").join(name);
    path.to_str().unwrap().to_owned()
}

/// A folder that is gone when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sluicegate-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Writes a policy of limits in flow style, one a line, and answers its path.
    pub(crate) fn policy(&self, name: &str, limits: &[&str]) -> String {
        let limits: Vec<_> = limits.iter().map(|limit| format!("  - {limit}\n")).collect();
        let path = self.0.join(name);
        fs::write(&path, format!("version: 1\ndomain: here\nlimits:\n{}", limits.concat())).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// A serving process, which ends with this value.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
}

impl Serving {
    pub(crate) fn start(policy: &str) -> Self {
        Self::start_on(policy, "memory")
    }

    pub(crate) fn start_on(policy: &str, store: &str) -> Self {
        let mut command = sluicegate();
        // Tests share their machine, and a decision without the store is not what they count.
        command.env("SLUICEGATE_STORE_DEADLINE_MS", "10000");
        Self::start_by(command, policy, store)
    }

    /// By a command that may have settings of its own already.
    pub(crate) fn start_by(mut command: Command, policy: &str, store: &str) -> Self {
        command.args(["serve", "--http", "127.0.0.1:0", "--policy", policy, "--store", store]);
        Self::spawn(command)
    }

    /// By a command that has all its settings.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect("its address").to_owned();
        Self { child, address }
    }

    /// The body of the answer to one POST.
    pub(crate) fn post(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
