//! The door of the binary.

use super::{
    binary::{Process, sluicegate},
    support::Client,
};

#[test]
fn the_binary_opens_the_door_when_told_and_the_password_may_come_from_the_environment() {
    let mut serve = sluicegate();
    serve.args(["serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]);
    let serving = Process::start(serve.env("SLUICEGATE_RESP_PASSWORD", "s3cret"), 2);
    assert!(serving.address("http").starts_with("127.0.0.1:"));
    let address = serving.address("redis");
    let mut client = Client::connect(address.parse().unwrap());
    assert!(client.ask(&["CL.THROTTLE", "k", "0", "1", "60"]).starts_with("-NOAUTH"));
    assert_eq!(client.ask(&["AUTH", "s3cret"]), "OK");
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "0", "1", "60"]), "[0 1 0 -1 60]");
    assert_eq!(client.ask(&["CL.THROTTLE", "k", "0", "1", "60"]), "[1 1 0 60 60]");
}
