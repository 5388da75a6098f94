//! Bodies of the HTTP door: each is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_server::fuzzing::{http_batch, http_take};

fuzz_target!(|body: &[u8]| {
    let read = http_take(body);
    assert!(!read || std::str::from_utf8(body).is_ok(), "JSON is UTF-8");
    if let Some(read) = http_batch(body) {
        assert!(read.len() <= 1_000, "a batch is bounded");
        assert!(!http_take(body), "no body is both one request and many");
    }
});
