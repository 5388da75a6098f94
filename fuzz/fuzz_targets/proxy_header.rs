//! Headers of the PROXY protocol: not one byte of what follows a header is taken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_server::fuzzing::proxy_header;

fuzz_target!(|bytes: &[u8]| {
    if let Some(end) = proxy_header(bytes) {
        assert!(0 < end && end <= bytes.len());
        assert_eq!(proxy_header(&bytes[..end]), Some(end), "a header is whole without what follows it");
        assert_eq!(proxy_header(&bytes[..end - 1]), None, "each of its bytes belongs to it");
    }
});
