//! Requests that make no sense: each is told what is wrong, and none is decided.

use sluicegate_server::grpc::proto::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::RateLimitOverride},
    service::ratelimit::v3::RateLimitRequest,
    r#type::v3::RateLimitUnit,
};
use tonic::Code;

use crate::support::{Client, Server, descriptor, hits, request};

const STRICT: &str = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 10, per: 1h, key: [user], if_missing: refuse }
";

async fn refused(client: &mut Client, request: RateLimitRequest, code: Code, words: &str) {
    let status = client.ask(request).await.unwrap_err();
    assert_eq!(status.code(), code, "{status:?}");
    assert!(status.message().contains(words), "{status:?}");
}

fn with_limit(requests_per_unit: u32, unit: RateLimitUnit) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit, unit: unit.into() });
    RateLimitDescriptor { limit, ..descriptor(&[("user", "alice")]) }
}

/// Envoy's own service lets a domain pass that it has never heard of, and nobody learns that nothing is limited.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_domain_is_an_error_that_the_proxy_counts_and_not_a_pass() {
    let server = Server::start(&[STRICT]);
    let mut client = server.connect().await;
    let elsewhere = RateLimitRequest {
        domain: "elsewhere".to_owned(),
        ..request(vec![descriptor(&[("user", "alice")])])
    };
    refused(&mut client, elsewhere, Code::NotFound, "`elsewhere`").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_understood_is_told_with_its_place() {
    let server = Server::start(&[STRICT]);
    let mut client = server.connect().await;
    let many = vec![("k", "v"); 65];
    let names: Vec<String> = (0..65).map(|number| format!("k{number}")).collect();
    let distinct: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    let long = "k".repeat(129);
    let mut negative = hits(&[("user", "alice")], 2);
    negative.is_negative_hits = true;
    let cases: Vec<(Vec<RateLimitDescriptor>, &str)> = vec![
        (vec![], "`descriptors` is empty"),
        (vec![descriptor(&[("user", "alice")]); 129], "at most 128"),
        (vec![descriptor(&[])], "descriptor 0: `entries` is empty"),
        (
            vec![descriptor(&[("user", "a")]), descriptor(&[("", "b")])],
            "descriptor 1: a key has 1 to 128 bytes",
        ),
        (vec![descriptor(&[(&long, "b")])], "this one has 129"),
        (vec![descriptor(&many)], "more than 64 entries"),
        (vec![descriptor(&distinct)], "more than 64 entries"),
        (vec![descriptor(&[("user", "a"), ("user", "b")])], "`user` is given twice"),
        (vec![descriptor(&[("path", "/")])], "descriptor 0: limit `per-user` needs the attribute `user`"),
        (vec![hits(&[("user", "alice")], 1 << 53)], "`hits_addend` is at most 9007199254740991"),
        (vec![negative], "`is_negative_hits`"),
        (vec![with_limit(1, RateLimitUnit::Unknown)], "`limit` has no known `unit`"),
        (vec![with_limit(u32::MAX, RateLimitUnit::Year)], "descriptor 0: `limit`: "),
    ];
    for (descriptors, words) in cases {
        refused(&mut client, request(descriptors), Code::InvalidArgument, words).await;
    }
    let nowhere =
        RateLimitRequest { domain: String::new(), ..request(vec![descriptor(&[("user", "alice")])]) };
    refused(&mut client, nowhere, Code::InvalidArgument, "`domain` is missing").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_cannot_all_be_decided_at_once_are_no_decision() {
    let limit = |number| {
        format!("  - {{ name: l{number}, algorithm: fixed_window, limit: 9, per: 1h, key: [user] }}\n")
    };
    let limits = (0..65).map(limit).collect::<Vec<_>>().concat();
    let server = Server::start(&[&format!("version: 1\nlimits:\n{limits}")]);
    let mut client = server.connect().await;
    client.ask(request(vec![descriptor(&[("user", "alice")])])).await.unwrap();
    let both = vec![descriptor(&[("user", "alice")]), descriptor(&[("user", "bob")])];
    refused(&mut client, request(both), Code::InvalidArgument, "more than 128 limits").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_the_bound_is_refused_and_the_connection_goes_on() {
    let server = Server::start(&[STRICT]);
    let mut client = server.connect().await;
    let long = "x".repeat(64 * 1024);
    refused(&mut client, request(vec![descriptor(&[("user", &long)])]), Code::OutOfRange, "").await;
    let long = "x".repeat(63 * 1024);
    client.ask(request(vec![descriptor(&[("user", &long)])])).await.unwrap();
}
