//! Records of the Redis store: bytes that another program wrote are refused, never misread or a panic.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sluicegate::core::{Align, LimitId, Rule};
use sluicegate_redis::Record;

fuzz_target!(|bytes: &[u8]| {
    let record = Record::new(bytes);
    let ids = record.ids();
    assert_eq!(ids.is_ok(), record.resets_at().is_ok());
    let (amount, window) = (10, Duration::from_secs(60));
    let rules = [
        Rule::fixed_window(amount, window, Align::Epoch),
        Rule::sliding_log(amount, window),
        Rule::sliding_counter(amount, window),
        Rule::gcra(amount, window, amount),
    ];
    for rule in rules.map(Result::unwrap) {
        let id = LimitId::of("limit", &rule);
        if let (Ok(ids), Ok(Some(_))) = (&ids, record.state(id, &rule)) {
            assert!(ids.contains(&id.as_u32()));
        }
    }
});
