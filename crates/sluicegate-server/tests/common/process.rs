//! The binary as a process. Each program of tests uses what it needs.
#![allow(dead_code)]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// The binary, without what the environment of the tests would tell it.
pub(crate) fn sluicegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SLUICEGATE_")) {
        command.env_remove(name);
    }
    command
}

/// A process that serves; it is killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Vec<String>,
}

impl Process {
    /// Starts it, and waits until so many doors have said where they listen.
    pub(crate) fn start(command: &mut Command, doors: usize) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().take(doors);
        let lines: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!(lines.len(), doors, "it ended: {lines:?}");
        Self { child, lines }
    }

    /// Where that door listens: the first one is `http`.
    pub(crate) fn address(&self, door: &str) -> &str {
        let begins = format!("listening on {door}://");
        let address = self.lines.iter().find_map(|line| line.strip_prefix(&begins));
        address.unwrap_or_else(|| panic!("no door `{door}`: {:?}", self.lines))
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits for its end, and tells its exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
