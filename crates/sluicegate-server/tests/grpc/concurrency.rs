//! Exact counts through real sockets.

use futures_util::future::join_all;
use sluicegate_server::grpc::proto::envoy::service::ratelimit::v3::RateLimitRequest;

use crate::support::{Client, Server, descriptor, hits, passed, remaining, request};

fn thousand(algorithm: &str) -> Server {
    Server::start(&[&format!(
        "version: 1\nlimits:\n  - {{ name: l, algorithm: {algorithm}, limit: 1000, per: 1h, key: [user] }}\n"
    )])
}

/// Sends these at once, on four connections, and counts those that pass.
async fn passed_at_once(server: &Server, requests: Vec<RateLimitRequest>) -> usize {
    let clients: Vec<Client> = join_all((0..4).map(|_| server.connect())).await;
    let ask = |(index, request): (usize, RateLimitRequest)| {
        let mut client = clients[index % clients.len()].clone();
        tokio::spawn(async move { client.ask(request).await.unwrap() })
    };
    let responses = join_all(requests.into_iter().enumerate().map(ask)).await;
    responses
        .iter()
        .filter(|response| passed(response.as_ref().unwrap()).iter().all(|passes| *passes))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_200_at_once_at_990_of_1000_exactly_10_pass() {
    for algorithm in ["fixed_window", "sliding_log", "sliding_counter", "token_bucket", "gcra"] {
        let server = thousand(algorithm);
        let mut client = server.connect().await;
        client.ask(request(vec![hits(&[("user", "a")], 990)])).await.unwrap();
        let requests = vec![request(vec![descriptor(&[("user", "a")])]); 200];
        assert_eq!(passed_at_once(&server, requests).await, 10, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptors_of_one_request_are_counted_all_or_none_however_many_come_at_once() {
    let server = thousand("fixed_window");
    let mut client = server.connect().await;
    client.ask(request(vec![hits(&[("user", "full")], 970)])).await.unwrap();
    // Both orders, so that neither could be the one that happens to be safe.
    let (a, full) = (descriptor(&[("user", "a")]), descriptor(&[("user", "full")]));
    let requests = (0..200).map(|index| match index % 2 {
        0 => request(vec![a.clone(), full.clone()]),
        _ => request(vec![full.clone(), a.clone()]),
    });
    assert_eq!(passed_at_once(&server, requests.collect()).await, 30);
    let left =
        client.ask(request(vec![hits(&[("user", "a")], 0), hits(&[("user", "full")], 0)])).await.unwrap();
    assert_eq!(remaining(&left), [970, 0]);
}
