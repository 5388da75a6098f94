//! The door of the binary.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use super::support::Client;

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn the_binary_opens_the_door_when_told_and_the_password_may_come_from_the_environment() {
    let mut serve = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    serve.args(["serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]);
    let mut serving =
        Ended(serve.env("SLUICEGATE_RESP_PASSWORD", "s3cret").stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(serving.0.stdout.as_mut().unwrap()).lines();
    let lines: Vec<String> = lines.take(2).map(Result::unwrap).collect();
    assert!(lines[0].starts_with("listening on http://127.0.0.1:"), "{lines:?}");
    let address = lines[1].strip_prefix("listening on redis://").expect("its address");
    let mut client = Client::connect(address.parse().unwrap());
    assert!(client.ask(&["CL.THROTTLE", "k", "0", "1", "60"]).starts_with("-NOAUTH"));
    assert_eq!(client.ask(&["AUTH", "s3cret"]), "OK");
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "0", "1", "60"]), "[0 1 0 -1 60]");
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "0", "1", "60"]), "[1 1 0 60 60]");
}
