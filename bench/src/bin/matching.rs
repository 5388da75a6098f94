//! What it costs to find the one limit among a thousand that applies to a request.

use std::hint::black_box;

use sluicegate::core::{Attributes, Costs, Policy};
use sluicegate_bench::{median, thread_nanos};

const ROUNDS: usize = 15;
const CALLS: usize = 2_000;
const LIMITS: usize = 1_000;

/// A policy of so many limits, each for the requests of one value or pattern.
fn policy(limits: usize, condition: impl Fn(usize) -> String) -> Policy {
    let limit = |at: usize| {
        format!(
            "  - {{ name: l{at}, algorithm: gcra, limit: 10, per: 1s, key: [user], match: {} }}\n",
            condition(at)
        )
    };
    let text: String = (0..limits).map(limit).collect();
    Policy::parse(&format!("version: 1\nlimits:\n{text}")).unwrap()
}

/// Requests of which each meets one of the limits.
fn requests(path: impl Fn(usize) -> String) -> Vec<Attributes> {
    let request = |call: usize| {
        let (user, path) = (format!("user-{}", call % 97), path(call * 7_919 % LIMITS));
        [("user", user.as_str()), ("endpoint", path.as_str()), ("method", "GET")].into_iter().collect()
    };
    (0..CALLS).map(request).collect()
}

/// Nanoseconds of one call.
fn one_round(requests: &[Attributes], mut find: impl FnMut(&Attributes) -> usize) -> f64 {
    let begin = thread_nanos();
    let found: usize = requests.iter().map(|request| black_box(find(request))).sum();
    let nanos = (thread_nanos() - begin) as f64 / requests.len() as f64;
    assert_eq!(found, requests.len(), "each request meets one limit");
    nanos
}

fn compare(name: &str, condition: impl Fn(usize) -> String, path: impl Fn(usize) -> String) {
    let many = policy(LIMITS, condition);
    let one = policy(1, |_| "{ endpoint: \"/*\" }".to_owned());
    let requests = requests(path);
    let costs = Costs::default();
    let apply = |policy: &Policy, request: &Attributes| policy.apply(request, &costs).unwrap().limits.len();
    // What it would cost to ask each limit, and then to make the ask of the one that was found.
    let scan = |request: &Attributes| {
        let found = many.limits().iter().filter(|limit| limit.matcher.matches(request)).count();
        found * apply(&one, request)
    };
    let mut figures = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        figures[0].push(one_round(&requests, |request| apply(&many, request)));
        figures[1].push(one_round(&requests, scan));
        figures[2].push(one_round(&requests, |request| apply(&one, request)));
    }
    let [indexed, scanned, alone] = figures.map(median);
    println!(
        "| {name} | {indexed:.0} ns | {scanned:.0} ns | {alone:.0} ns | {:.0}x | {:.2}x |",
        scanned / indexed,
        indexed / alone
    );
}

fn main() {
    println!(
        "| 1,000 limits, one match | policy | linear scan | policy of one limit | scan / policy | policy / one |"
    );
    println!("|---|---|---|---|---|---|");
    compare("exact values", |at| format!("{{ endpoint: /v1/items-{at} }}"), |at| format!("/v1/items-{at}"));
    compare(
        "beginnings (`/v1/items-7/*`)",
        |at| format!("{{ endpoint: \"/v1/items-{at}/*\" }}"),
        |at| format!("/v1/items-{at}/reviews"),
    );
    compare(
        "two conditions, one shared by all",
        |at| format!("{{ method: GET, endpoint: /v1/items-{at} }}"),
        |at| format!("/v1/items-{at}"),
    );
}
