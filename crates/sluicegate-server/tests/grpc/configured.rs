//! Configuration of Envoy's rate limit service, served as it is: the examples of its documentation, and their answers.

use std::{collections::HashMap, fs, sync::Arc, thread, time::Duration};

use sluicegate::embedded::EmbeddedStore;
use sluicegate_server::{
    descriptors::{self, DescriptorDomain},
    domains::Domains,
    grpc::proto::envoy::{
        extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride,
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse, rate_limit_response::rate_limit::Unit,
            rate_limit_service_client::RateLimitServiceClient,
        },
        r#type::v3::RateLimitUnit,
    },
    import::Source,
};
use sluicegate_tests::HandClock;

use crate::{
    binary::{Process, sluicegate},
    support::{Client, Server, channel, descriptor, passed, remaining, request},
};

fn serve(files: &[&str]) -> Server {
    let sources: Vec<_> = files.iter().map(|&text| Source { name: "config.yaml", text }).collect();
    let read = descriptors::read(&sources).unwrap_or_else(|error| panic!("{error}"));
    Server::start_with(|clock| domains(read, clock), Duration::ZERO)
}

fn domains(
    read: Vec<DescriptorDomain>,
    clock: &Arc<HandClock>,
) -> Domains<Arc<EmbeddedStore>, Arc<HandClock>> {
    let trees: HashMap<_, _> =
        read.iter().map(|one| (one.policy.domain().to_owned(), one.tree.clone())).collect();
    let store = Arc::new(EmbeddedStore::default());
    Domains::new(read.into_iter().map(|one| one.policy), &store, clock).unwrap().with_trees(trees)
}

fn of(domain: &str, descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    let descriptors = descriptors.iter().map(|entries| descriptor(entries)).collect();
    RateLimitRequest { domain: domain.to_owned(), ..request(descriptors) }
}

/// The limit of each descriptor, as an amount and a unit.
fn limits(response: &RateLimitResponse) -> Vec<Option<(u32, Unit)>> {
    let limit = |status: &sluicegate_server::grpc::proto::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus| {
        status.current_limit.as_ref().map(|limit| (limit.requests_per_unit, limit.unit()))
    };
    response.statuses.iter().map(limit).collect()
}

/// How many of `tries` requests in a row pass.
async fn pass(client: &mut Client, request: &RateLimitRequest, tries: usize) -> usize {
    let mut count = 0;
    for _ in 0..tries {
        let response = client.ask(request.clone()).await.unwrap();
        count += usize::from(passed(&response).iter().all(|passes| *passes));
    }
    count
}

const DATABASES: &str = "
domain: databases
descriptors:
  - { key: database, value: users, rate_limit: { unit: second, requests_per_unit: 500 } }
  - { key: database, value: default, rate_limit: { unit: second, requests_per_unit: 400 } }
";
const MESSAGES: &str = "
domain: messages
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - { key: to_number, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: to_number, rate_limit: { unit: day, requests_per_unit: 100 } }
";
const ADDRESSES: &str = "
domain: addresses
descriptors:
  - { key: remote_address, rate_limit: { unit: second, requests_per_unit: 10 } }
  - { key: remote_address, value: 50.0.0.5, rate_limit: { unit: second, requests_per_unit: 0 } }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_value_has_the_limit_that_names_it_and_others_have_none() {
    let server = serve(&[DATABASES, MESSAGES]);
    let mut client = server.connect().await;
    let users = of("databases", &[&[("database", "users")]]);
    assert_eq!(pass(&mut client, &users, 510).await, 500);
    let both =
        of("databases", &[&[("database", "default")], &[("database", "other")], &[("table", "users")]]);
    let response = client.ask(both).await.unwrap();
    assert_eq!(limits(&response), [Some((400, Unit::Second)), None, None]);
    server.clock.turn(Duration::from_secs(1));
    assert_eq!(pass(&mut client, &users, 510).await, 500, "windows are those of the epoch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_entries_has_the_limit_at_its_last_one() {
    let server = serve(&[MESSAGES]);
    let mut client = server.connect().await;
    let marketing: &[(&str, &str)] = &[("message_type", "marketing"), ("to_number", "2061111111")];
    let number: &[(&str, &str)] = &[("to_number", "2061111111")];
    let request = of("messages", &[marketing, number]);
    assert_eq!(
        limits(&client.ask(request.clone()).await.unwrap()),
        [Some((5, Unit::Day)), Some((100, Unit::Day))]
    );
    assert_eq!(pass(&mut client, &request, 10).await, 4);
    // All or none: the six refused ones took nothing from the number itself.
    assert_eq!(remaining(&client.ask(of("messages", &[number])).await.unwrap()), [94]);
    let other: &[(&str, &str)] = &[("message_type", "marketing"), ("to_number", "2062222222")];
    assert_eq!(remaining(&client.ask(of("messages", &[other])).await.unwrap()), [4]);
    // Neither a way that is not gone to its end, nor one that goes on beyond it, nor another order.
    let nothing: [&[(&str, &str)]; 4] = [
        &[("message_type", "marketing")],
        &[("message_type", "marketing"), ("to_number", "2061111111"), ("more", "x")],
        &[("to_number", "2061111111"), ("message_type", "marketing")],
        &[("message_type", "billing"), ("to_number", "2061111111")],
    ];
    assert_eq!(limits(&client.ask(of("messages", &nothing)).await.unwrap()), [None; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_named_goes_before_the_key_alone_even_with_0() {
    let server = serve(&[ADDRESSES]);
    let mut client = server.connect().await;
    assert_eq!(pass(&mut client, &of("addresses", &[&[("remote_address", "50.0.0.5")]]), 3).await, 0);
    for address in ["50.0.0.6", "50.0.0.7"] {
        assert_eq!(pass(&mut client, &of("addresses", &[&[("remote_address", address)]]), 12).await, 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wildcards_are_tried_in_their_order_after_the_value_and_before_the_key() {
    let server = serve(&["
domain: paths
descriptors:
  - { key: path, value: /api/login, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: path, value: /api/*, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: path, value: /api/v1/*, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: path, value: /shared/*, share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 4 } }
  - { key: path, rate_limit: { unit: minute, requests_per_unit: 5 } }
"]);
    let mut client = server.connect().await;
    let path = |value| of("paths", &[&[("path", value)]]);
    for (value, expected) in [("/api/login", 1), ("/api/v1/x", 2), ("/api/v1/y", 2), ("/other", 5), ("", 5)] {
        assert_eq!(pass(&mut client, &path(value), 8).await, expected, "{value}");
    }
    // With `share_threshold` all values count together, without it each for itself.
    assert_eq!(pass(&mut client, &path("/shared/a"), 3).await, 3);
    assert_eq!(pass(&mut client, &path("/shared/b"), 3).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unlimited_and_shadowed_limits_pass_and_say_so() {
    let server = serve(&["
domain: tiers
descriptors:
  - { key: tier, value: gold, rate_limit: { unlimited: true } }
  - { key: tier, value: trial, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
"]);
    let mut client = server.connect().await;
    let gold = client.ask(of("tiers", &[&[("tier", "gold")]])).await.unwrap();
    assert_eq!((passed(&gold), remaining(&gold)), (vec![true], vec![u32::MAX]));
    assert_eq!(pass(&mut client, &of("tiers", &[&[("tier", "trial")]]), 3).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_replaces_another_counts_alone() {
    let server = serve(&["
domain: shop
descriptors:
  - { key: user, rate_limit: { name: everyone, unit: hour, requests_per_unit: 1 } }
  - { key: member, rate_limit: { unit: hour, requests_per_unit: 3, replaces: [{ name: everyone }] } }
"]);
    let mut client = server.connect().await;
    let user: &[(&str, &str)] = &[("user", "a")];
    assert_eq!(pass(&mut client, &of("shop", &[user, &[("member", "a")]]), 5).await, 3);
    assert_eq!(pass(&mut client, &of("shop", &[user]), 5).await, 1, "nothing was counted there");
}

/// A key may stand twice in a list there, which attributes of a policy could not.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_stands_again_is_counted_by_both_of_its_values() {
    let server = serve(&["
domain: twice
descriptors:
  - key: header
    descriptors:
      - { key: header, rate_limit: { unit: hour, requests_per_unit: 1 } }
"]);
    let mut client = server.connect().await;
    for (first, second) in [("a", "b"), ("b", "a"), ("a", "a")] {
        let both = of("twice", &[&[("header", first), ("header", second)]]);
        assert_eq!(pass(&mut client, &both, 2).await, 1, "{first} {second}");
    }
    let mut own = of("twice", &[&[("header", "a")]]);
    own.descriptors[0].limit =
        Some(RateLimitOverride { requests_per_unit: 2, unit: RateLimitUnit::Hour.into() });
    assert_eq!(pass(&mut client, &own, 3).await, 2, "a limit that comes with its descriptor");
}

#[test]
fn what_cannot_be_served_is_told_with_its_line() {
    let limit = "rate_limit: { unit: second, requests_per_unit: 1 }";
    for (body, words) in [
        (format!("  - {{ key: a, {limit} }}\n  - {{ key: a, {limit} }}"), "4: `a` stands twice"),
        (format!("  - {{ key: a, value: b, {limit} }}\n  - {{ key: a, value: b, {limit} }}"), "4: `a-b` stands twice"),
        (format!("  - {{ key: a, value: b*, {limit} }}\n  - {{ key: a, value: b*, {limit} }}"), "4: `a-b*` stands twice"),
        (format!("  - {{ value: b, {limit} }}"), "3: a descriptor has no `key`"),
        (format!("  - {{ key: a, value: b, share_threshold: true, {limit} }}"), "3: `share_threshold`"),
        (format!("  - {{ key: a, colour: red, {limit} }}"), "3: a descriptor has the field `colour`"),
        ("  - { key: a, rate_limit: { unit: eon, requests_per_unit: 1 } }".to_owned(), "no unit `eon`"),
        ("  - { key: a, rate_limit: { unit: day } }".to_owned(), "no `requests_per_unit`"),
        (format!("  - {{ key: a, quota_mode: true, {limit} }}"), "`quota_mode` cannot be served"),
        ("  - { key: a, rate_limit: { name: n, unit: day, requests_per_unit: 1, replaces: [{ name: n }] } }".to_owned(), "cannot replace itself"),
    ] {
        let text = format!("domain: d\ndescriptors:\n{body}\n");
        let error = descriptors::read(&[Source { name: "c.yaml", text: &text }]).unwrap_err().to_string();
        assert!(error.starts_with("c.yaml:") && error.contains(words), "{text}{error}");
    }
    let twice = [Source { name: "a.yaml", text: DATABASES }, Source { name: "b.yaml", text: DATABASES }];
    let error = descriptors::read(&twice).unwrap_err().to_string();
    assert!(error.contains("b.yaml:2: another file has the domain `databases`"), "{error}");
}

/// The binary, with a folder whose files change.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_served_and_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), ADDRESSES).unwrap();
    fs::write(folder.path().join("notes.txt"), "not a configuration").unwrap();
    let mut command = sluicegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    let serving = Process::start(command.arg("--envoy-ratelimit-config").arg(folder.path()), 2);
    let address = serving.address("grpc").parse().unwrap();
    let mut client = Client(RateLimitServiceClient::new(channel(&address).await));
    let blocked = of("addresses", &[&[("remote_address", "50.0.0.5")]]);
    assert_eq!(passed(&client.ask(blocked.clone()).await.unwrap()), [false]);

    fs::write(folder.path().join("a.yaml"), ADDRESSES.replace("50.0.0.5", "50.0.0.9")).unwrap();
    fs::write(folder.path().join("b.yml"), MESSAGES).unwrap();
    let marketing = of("messages", &[&[("message_type", "marketing"), ("to_number", "1")]]);
    let mut tries = 0;
    while client.ask(marketing.clone()).await.is_err() {
        tries += 1;
        assert!(tries < 1_000, "the files are not read again");
        thread::sleep(Duration::from_millis(20)); // Nothing tells a client when they are.
    }
    assert_eq!(passed(&client.ask(blocked).await.unwrap()), [true]);
    serving.signal("-TERM");
    assert_eq!(serving.wait(), Some(0));
}
