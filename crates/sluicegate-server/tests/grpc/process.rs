//! The door of the binary.

use std::os::unix::net::UnixListener;

use sluicegate_server::grpc::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;

use crate::binary::{Process, sluicegate};
use crate::support::{Client, channel, passed};

fn serve(grpc: &str) -> Process {
    Process::start(sluicegate().args(["serve", "--http", "127.0.0.1:0", "--grpc", grpc]), 2)
}

async fn connect(serving: &Process) -> Client {
    let address = serving.address("grpc").parse().unwrap();
    Client(RateLimitServiceClient::new(channel(&address).await))
}

fn end(serving: Process) -> Option<i32> {
    serving.signal("-TERM");
    serving.wait()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_binary_opens_the_door_when_told_and_ends_with_0_while_a_client_is_connected() {
    let serving = serve("127.0.0.1:0");
    assert!(serving.address("http").starts_with("127.0.0.1:"));
    let mut client = connect(&serving).await;
    assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [true]);
    assert_eq!(end(serving), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_is_served_and_one_that_a_dead_process_left_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sluicegate.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let serving = serve(&format!("unix:{}", path.display()));
    let mut client = connect(&serving).await;
    assert_eq!(passed(&client.hit(&[&[("user", "alice")]]).await), [true]);
    assert_eq!(end(serving), Some(0));
    assert!(!path.exists());
}

#[test]
fn an_address_that_another_process_serves_is_left_to_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sluicegate.sock");
    let _taken = UnixListener::bind(&path).unwrap();
    let address = format!("unix:{}", path.display());
    let output = sluicegate().args(["serve", "--http", "127.0.0.1:0", "--grpc", &address]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains(&address) && told.contains("hint: "), "{told}");
}
