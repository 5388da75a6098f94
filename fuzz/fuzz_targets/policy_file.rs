//! Policy files: each is refused with places, or decides about any request.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate::core::{Attributes, Costs, Policy};

fuzz_target!(|text: &str| {
    match Policy::parse(text) {
        Err(error) => assert!(!error.problems().is_empty() && !error.to_string().is_empty()),
        Ok(policy) => {
            for attributes in
                [Attributes::default(), [("user", "alice"), ("endpoint", "/v1/chat")].into_iter().collect()]
            {
                // A request that the policy refuses is an answer too.
                let _ = policy.apply(&attributes, &Costs::requests(1));
            }
        }
    }
});
