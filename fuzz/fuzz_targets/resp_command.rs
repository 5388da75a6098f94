//! Commands of the Redis door: what has been said of some bytes holds whatever follows them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_server::fuzzing::{Command, resp_command};

fuzz_target!(|input: (&[u8], usize)| {
    let (bytes, cut) = input;
    let whole = resp_command(bytes);
    if let Command::Whole(end) = whole {
        assert!(0 < end && end <= bytes.len());
        assert_eq!(resp_command(&bytes[..end]), whole, "a command is whole without what follows it");
    }
    match resp_command(&bytes[..cut.min(bytes.len())]) {
        Command::Part => {}
        said => assert_eq!(said, whole),
    }
});
