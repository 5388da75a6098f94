//! The door of the binary.

use std::{
    io::{BufRead, BufReader},
    os::unix::net::UnixListener,
    process::{Child, Command, Stdio},
};

use sluicegate_server::grpc::{
    Listen, proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient,
};

use crate::support::{Client, channel, passed};

struct Serving {
    child: Child,
    lines: Vec<String>,
}

impl Serving {
    fn start(grpc: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
        command.args(["serve", "--http", "127.0.0.1:0", "--grpc", grpc]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().take(2);
        let lines = lines.map(Result::unwrap).collect();
        Self { child, lines }
    }

    /// Where the gRPC door says that it listens.
    fn address(&self) -> Listen {
        self.lines[1].strip_prefix("listening on grpc://").expect("its address").parse().unwrap()
    }

    async fn connect(&self) -> Client {
        Client(RateLimitServiceClient::new(channel(&self.address()).await))
    }

    fn end(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_binary_opens_the_door_when_told_and_ends_with_0_while_a_client_is_connected() {
    let serving = Serving::start("127.0.0.1:0");
    assert!(serving.lines[0].starts_with("listening on http://127.0.0.1:"), "{:?}", serving.lines);
    let mut client = serving.connect().await;
    assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [true]);
    assert_eq!(serving.end(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_is_served_and_one_that_a_dead_process_left_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sluicegate.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let serving = Serving::start(&format!("unix:{}", path.display()));
    let mut client = serving.connect().await;
    assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [true]);
    assert_eq!(serving.end(), Some(0));
    assert!(!path.exists());
}

#[test]
fn an_address_that_another_process_serves_is_left_to_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sluicegate.sock");
    let _taken = UnixListener::bind(&path).unwrap();
    let address = format!("unix:{}", path.display());
    let output = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .args(["serve", "--http", "127.0.0.1:0", "--grpc", &address])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains(&address) && told.contains("hint: "), "{told}");
}
