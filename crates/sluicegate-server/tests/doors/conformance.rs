//! One list of requests and the decisions expected, through every door and on both stores.

use std::{fs, net::SocketAddr, net::TcpStream};

use serde_json::{Value, json};
use sluicegate::{
    Limiter,
    core::{Attributes, Costs, Policy},
};
use sluicegate_server::{
    grpc::proto::envoy::{
        extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
        service::ratelimit::v3::{
            RateLimitRequest, rate_limit_response::Code, rate_limit_service_client::RateLimitServiceClient,
        },
    },
    store::{AnyClock, AnyStore},
};
use sluicegate_tests::RedisServer;
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};
use tonic::transport::{Channel, Endpoint};

use crate::{
    binary::sluicegate,
    support::{Door, Server, exchange, patient},
};

/// Windows of a day that begin with the first request, and a bucket that gains a token in six hours: nothing changes while a
/// test runs.
const POLICY: &str = "
version: 1
domain: DOMAIN
exempt: [{ name: probes, match: { path: /healthz } }]
limits:
  - { name: per-user, algorithm: sliding_log, limit: 5, per: 1d, key: [user], match: { user: \"*\" } }
  - { name: per-path, algorithm: fixed_window, align: first_request, limit: 3, per: 1d, key: [path], match: { path: \"/v1/*\" } }
  - { name: per-org, algorithm: token_bucket, limit: 4, per: 1d, key: [org], match: { org: \"*\" } }
  - { name: tried-out, algorithm: fixed_window, limit: 1, per: 1d, key: [org], match: { org: \"*\" }, enforcement: shadow }
  - { name: closed, algorithm: gcra, limit: 0, per: 1m, key: [], match: { path: /closed } }
  - { name: free, algorithm: gcra, limit: unlimited, per: 1m, key: [], match: { path: /free } }
tiers:
  pro: { per-user: { limit: 7 } }
overrides:
  - { match: { user: root }, limits: { per-user: { limit: 6 } } }
";

/// What a request is of, what it costs, and the decision: whether it passes, the limit that binds it, and what remains of that.
type Step = (&'static [(&'static str, &'static str)], u64, bool, Option<(&'static str, u64)>);

const STEPS: &[Step] = &[
    // One limit, to its end and beyond; another key is another counter.
    (&[("user", "alice")], 1, true, Some(("per-user", 4))),
    (&[("user", "alice")], 3, true, Some(("per-user", 1))),
    (&[("user", "alice")], 2, false, Some(("per-user", 1))),
    (&[("user", "alice")], 1, true, Some(("per-user", 0))),
    (&[("user", "alice")], 1, false, Some(("per-user", 0))),
    (&[("user", "bob")], 1, true, Some(("per-user", 4))),
    // Several limits: all or none, and the one that binds is named.
    (&[("user", "bob"), ("path", "/v1/a")], 1, true, Some(("per-user", 3))),
    (&[("user", "bob"), ("path", "/v1/a")], 1, true, Some(("per-path", 1))),
    (&[("user", "alice"), ("path", "/v1/a")], 1, false, Some(("per-user", 0))),
    (&[("user", "carol"), ("path", "/v1/a")], 1, true, Some(("per-path", 0))),
    (&[("user", "carol"), ("path", "/v1/a")], 1, false, Some(("per-path", 0))),
    (&[("user", "carol")], 1, true, Some(("per-user", 3))),
    // A cost that can never fit, and a limit of nothing.
    (&[("user", "dave")], 6, false, Some(("per-user", 5))),
    (&[("path", "/closed")], 1, false, Some(("closed", 0))),
    (&[("user", "dave"), ("path", "/closed")], 1, false, Some(("closed", 0))),
    (&[("user", "dave")], 5, true, Some(("per-user", 0))),
    // Whoever has a tier or an exception has another amount, in the same counter.
    (&[("user", "alice"), ("tier", "pro")], 1, true, Some(("per-user", 1))),
    (&[("user", "root")], 6, true, Some(("per-user", 0))),
    // A limit in shadow counts and denies nobody.
    (&[("org", "acme")], 1, true, Some(("per-org", 3))),
    (&[("org", "acme")], 2, true, Some(("per-org", 1))),
    (&[("org", "acme")], 2, false, Some(("per-org", 1))),
    (&[("org", "acme")], 1, true, Some(("per-org", 0))),
    // Exempt, unlimited, or matched by nothing.
    (&[("user", "alice"), ("path", "/healthz")], 1, true, None),
    (&[("path", "/free")], 1_000, true, None),
    (&[("planet", "mars")], 1, true, None),
    (&[], 1, true, None),
    // No value can be taken for another one, or for two.
    (&[("user", "a:b{c} d=e,f")], 5, true, Some(("per-user", 0))),
    (&[("user", "a:b{c}"), ("org", "d=e,f")], 1, true, Some(("per-org", 3))),
    (&[("user", "a%3Ab{c} d=e,f")], 1, true, Some(("per-user", 4))),
    (&[("user", "ALICE")], 1, true, Some(("per-user", 4))),
];

/// What was decided.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    allowed: bool,
    binding: Option<(String, u64)>,
}

impl Told {
    fn of_json(told: &Value) -> Self {
        let limits = told["limits"].as_array().unwrap_or_else(|| panic!("no decision: {told}"));
        let of = |name: &str| limits.iter().find(|limit| limit["name"] == name).unwrap();
        let binding = told["binding"].as_str();
        let binding = binding.map(|name| (name.to_owned(), of(name)["remaining"].as_u64().unwrap()));
        Self { allowed: told["allowed"].as_bool().unwrap(), binding }
    }
}

/// A way to ask.
trait Asking {
    /// The domain that it counts in, so that all ways can share a store.
    const DOMAIN: &'static str;

    /// The decision about a request, or nothing if it cannot be said this way.
    fn take(&mut self, attributes: &[(&str, &str)], cost: u64) -> Option<Told>;
}

/// Walks through the list. What cannot be said this way is asked at the HTTP door, which shares the counters.
fn conform<A: Asking>(server: &Server, mut way: A) {
    let mut http = Http(server.address(Door::Http), A::DOMAIN);
    let mut said = 0;
    for (at, (attributes, cost, allowed, binding)) in STEPS.iter().enumerate() {
        let told = way.take(attributes, *cost);
        said += usize::from(told.is_some());
        let told = told.or_else(|| http.take(attributes, *cost)).unwrap();
        let binding = binding.map(|(name, remaining)| (name.to_owned(), remaining));
        let expected = Told { allowed: *allowed, binding };
        assert_eq!(told, expected, "{}, step {at}: {attributes:?} at {cost}", A::DOMAIN);
    }
    assert!(said * 2 > STEPS.len(), "{} said {said} of {}", A::DOMAIN, STEPS.len());
}

/// The HTTP door, in a domain.
struct Http(SocketAddr, &'static str);

fn ask_http(address: SocketAddr, head: &str, body: &str) -> Value {
    let mut stream = patient(TcpStream::connect(address).unwrap());
    let length = body.len();
    let request = format!("{head}host: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    let told = exchange(&mut stream, request.as_bytes(), "\0 nobody says this");
    let (_, body) = told.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {told:?}"));
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {told}"))
}

impl Asking for Http {
    const DOMAIN: &'static str = "http";

    fn take(&mut self, attributes: &[(&str, &str)], cost: u64) -> Option<Told> {
        let pairs: serde_json::Map<_, _> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let body = json!({ "domain": self.1, "attributes": pairs, "cost": cost }).to_string();
        let head = "POST /v1/take HTTP/1.1\r\ncontent-type: application/json\r\n";
        Some(Told::of_json(&ask_http(self.0, head, &body)))
    }
}

/// Forward authentication: one request each, described by headers.
struct Forwarded(SocketAddr);

impl Asking for Forwarded {
    const DOMAIN: &'static str = "forwarded";

    fn take(&mut self, attributes: &[(&str, &str)], cost: u64) -> Option<Told> {
        let is_declared = |(name, _): &(&str, &str)| ["user", "path", "org", "tier"].contains(name);
        if cost != 1 || !attributes.iter().all(is_declared) {
            return None;
        }
        let headers: Vec<_> =
            attributes.iter().map(|(name, value)| format!("x-{name}: {value}\r\n")).collect();
        let head =
            format!("GET /forward-auth/{}/some/path?query HTTP/1.1\r\n{}", Self::DOMAIN, headers.concat());
        Some(Told::of_json(&ask_http(self.0, &head, "")))
    }
}

/// Envoy's rate limit service, with one descriptor.
struct Grpc(Runtime, RateLimitServiceClient<Channel>);

impl Grpc {
    fn connect(address: SocketAddr) -> Self {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Self(runtime, RateLimitServiceClient::new(channel))
    }
}

impl Asking for Grpc {
    const DOMAIN: &'static str = "grpc";

    fn take(&mut self, attributes: &[(&str, &str)], cost: u64) -> Option<Told> {
        if attributes.is_empty() {
            return None;
        }
        let entry =
            |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
        let entries = attributes.iter().map(entry).collect();
        let descriptors =
            vec![RateLimitDescriptor { entries, hits_addend: Some(cost), ..RateLimitDescriptor::default() }];
        let request = RateLimitRequest { domain: Self::DOMAIN.to_owned(), descriptors, hits_addend: 0 };
        let response = self.0.block_on(self.1.should_rate_limit(request)).unwrap().into_inner();
        let status = &response.statuses[0];
        let binding = status.current_limit.as_ref();
        let binding = binding.map(|limit| (limit.name.clone(), u64::from(status.limit_remaining)));
        Some(Told { allowed: response.overall_code() == Code::Ok, binding })
    }
}

/// The Redis door, by a client library of Redis.
struct Resp(redis::Connection);

impl Asking for Resp {
    const DOMAIN: &'static str = "resp";

    fn take(&mut self, attributes: &[(&str, &str)], cost: u64) -> Option<Told> {
        let mut command = redis::cmd("SG.TAKE");
        command.arg(Self::DOMAIN);
        for (name, value) in attributes {
            command.arg(format!("{name}={value}"));
        }
        let told: redis::Value = command.arg("COST").arg(cost).query(&mut self.0).unwrap();
        Some(Told::of_json(&json_of(&told)))
    }
}

fn json_of(value: &redis::Value) -> Value {
    match value {
        redis::Value::Nil => Value::Null,
        redis::Value::Int(number) => json!(number),
        redis::Value::Boolean(truth) => json!(truth),
        redis::Value::BulkString(bytes) => json!(String::from_utf8_lossy(bytes)),
        redis::Value::SimpleString(text) => json!(text),
        redis::Value::Array(items) => items.iter().map(json_of).collect(),
        redis::Value::Map(pairs) => {
            let name = |name: &redis::Value| json_of(name).as_str().unwrap().to_owned();
            pairs.iter().map(|(key, value)| (name(key), json_of(value))).collect()
        }
        other => panic!("not an answer of this door: {other:?}"),
    }
}

/// The library, in this process.
struct Library(Runtime, Limiter<AnyStore, AnyClock>);

impl Library {
    fn open(store: &str) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (store, clock) = runtime.block_on(AnyStore::open(&store.parse().unwrap())).unwrap();
        let policy = Policy::parse(&POLICY.replace("DOMAIN", Self::DOMAIN)).unwrap();
        Self(runtime, Limiter::new(policy, store, clock))
    }
}

impl Asking for Library {
    const DOMAIN: &'static str = "library";

    fn take(&mut self, attributes: &[(&str, &str)], cost: u64) -> Option<Told> {
        let attributes: Attributes = attributes.iter().copied().collect();
        let verdict = self.0.block_on(self.1.take(&attributes, &Costs::requests(cost))).unwrap();
        let binding = verdict.binding_limit();
        let binding = binding.map(|limit| (limit.name.to_owned(), limit.decision.remaining.unwrap()));
        Some(Told { allowed: verdict.allowed, binding })
    }
}

/// The command line, a process for each request.
struct CommandLine<'s> {
    folder: &'s TempDir,
    store: String,
}

impl Asking for CommandLine<'_> {
    const DOMAIN: &'static str = "cli";

    fn take(&mut self, attributes: &[(&str, &str)], cost: u64) -> Option<Told> {
        let mut command = sluicegate();
        command.args(["take", "--policy", "cli.yaml", "--store", &self.store, "--output", "json"]);
        command.args(["--domain", Self::DOMAIN, "--cost", &cost.to_string()]);
        command.args(attributes.iter().map(|(name, value)| format!("{name}={value}")));
        let output = command.current_dir(self.folder.path()).output().unwrap();
        let told =
            Told::of_json(&serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}")));
        assert_eq!(output.status.code(), Some(i32::from(!told.allowed)), "{output:?}");
        Some(told)
    }
}

/// A server with a domain for each way to ask.
fn serve(store: &str) -> Server {
    let folder = TempDir::new().unwrap();
    let ways =
        [Http::DOMAIN, Forwarded::DOMAIN, Grpc::DOMAIN, Resp::DOMAIN, Library::DOMAIN, CommandLine::DOMAIN];
    let files = ways.map(|domain| format!("{domain}.yaml"));
    let mut flags = vec!["--store", store, "--store-deadline-ms", "10000", "--store-timeout-ms", "20000"];
    flags.extend([
        "--forward-auth",
        "user=header:x-user,path=header:x-path,org=header:x-org,tier=header:x-tier",
    ]);
    for (domain, file) in ways.iter().zip(&files) {
        fs::write(folder.path().join(file), POLICY.replace("DOMAIN", domain)).unwrap();
        flags.extend(["--policy", file]);
    }
    Server::start(folder, &flags)
}

fn every_door_conforms(store: &str) -> Server {
    let server = serve(store);
    let url = format!("redis://{}/?protocol=resp3", server.address(Door::Resp));
    conform(&server, Http(server.address(Door::Http), Http::DOMAIN));
    conform(&server, Forwarded(server.address(Door::Http)));
    conform(&server, Grpc::connect(server.address(Door::Grpc)));
    conform(&server, Resp(redis::Client::open(url).unwrap().get_connection().unwrap()));
    server
}

#[test]
fn every_door_and_the_library_decide_the_same_in_memory() {
    let server = every_door_conforms("memory");
    conform(&server, Library::open("memory"));
}

#[test]
fn every_door_the_library_and_the_command_line_decide_the_same_on_redis() {
    let redis = RedisServer::start();
    let server = every_door_conforms(&redis.url());
    conform(&server, Library::open(&redis.url()));
    conform(&server, CommandLine { folder: &server.folder, store: redis.url() });
}
