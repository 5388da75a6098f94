//! The gRPC door: Envoy's rate limit service as far as one GCRA by user needs it, its client, and a bare tonic server.

use std::{
    convert::Infallible,
    future::ready,
    sync::Arc,
    task::{Context, Poll},
};

use sluicegate_bench::{
    door::{CONNECTIONS, Door, alternate},
    gcra::{BURST, Gcra},
    server::Program,
};
use tokio::{runtime::Runtime, task::JoinSet};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::NamedService,
    transport::{Channel, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

use crate::{
    ROUNDS,
    targets::{Target::AtMost, ratio},
};

/// Requests of one load on each connection, one at a time.
const REQUESTS: usize = 1_000;
const OK: i32 = 1;
const OVER_LIMIT: i32 = 2;
const SECOND: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
struct Asked {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answered {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<OneStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OneStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(message, optional, tag = "2")]
    current_limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    duration_until_reset: Option<Duration>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Limit {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    unit: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Duration {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// One GCRA by the first entry's value, answered with the same fields as ours but for headers.
fn decide(gcra: &Gcra, asked: &Asked) -> Answered {
    let statuses = asked.descriptors.iter().map(|descriptor| {
        let verdict = gcra.take(descriptor.entries[0].value.as_bytes(), u64::from(asked.hits_addend.max(1)));
        let (seconds, nanos) = (verdict.reset_ns / 1_000_000_000, verdict.reset_ns % 1_000_000_000);
        OneStatus {
            code: if verdict.allowed { OK } else { OVER_LIMIT },
            current_limit: Some(Limit { requests_per_unit: BURST as u32, unit: SECOND }),
            limit_remaining: verdict.remaining as u32,
            duration_until_reset: Some(Duration { seconds: seconds as i64, nanos: nanos as i32 }),
        }
    });
    let statuses: Vec<_> = statuses.collect();
    let denied = statuses.iter().any(|status| status.code != OK);
    Answered { overall_code: if denied { OVER_LIMIT } else { OK }, statuses }
}

/// The service as tonic's own generator writes services.
#[derive(Clone)]
struct Bare(Arc<Gcra>);

impl NamedService for Bare {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

impl Service<http::Request<Body>> for Bare {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = Method(self.0.clone());
        Box::pin(async move {
            let codec = ProstCodec::<Answered, Asked>::default();
            Ok(tonic::server::Grpc::new(codec).unary(method, request).await)
        })
    }
}

struct Method(Arc<Gcra>);

impl Service<Request<Asked>> for Method {
    type Response = Response<Answered>;
    type Error = Status;
    type Future = std::future::Ready<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Asked>) -> Self::Future {
        ready(Ok(Response::new(decide(&self.0, request.get_ref()))))
    }
}

#[tokio::main]
pub async fn serve_bare() {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap().with_nodelay(Some(true));
    println!("listening on grpc://{}", incoming.local_addr().unwrap());
    let bare = Bare(Arc::new(Gcra::new()));
    Server::builder().add_service(bare).serve_with_incoming(incoming).await.unwrap();
}

async fn ask_all(channel: Channel, connection: usize) {
    let mut client = tonic::client::Grpc::new(channel);
    let entry = Entry { key: "user".to_owned(), value: format!("user-{connection}") };
    let descriptors = vec![Descriptor { entries: vec![entry] }];
    let asked = Asked { domain: "default".to_owned(), descriptors, hits_addend: 0 };
    for _ in 0..REQUESTS {
        client.ready().await.unwrap();
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit".parse().unwrap();
        let request = Request::new(asked.clone());
        let answer = client.unary(request, path, ProstCodec::<Asked, Answered>::default()).await.unwrap();
        let answered: Answered = answer.into_inner();
        assert_eq!((answered.overall_code, answered.statuses.len()), (OK, 1));
        assert!(answered.statuses[0].current_limit.is_some(), "no limit applies");
    }
}

fn door<'a>(runtime: &'a Runtime, program: &'a Program) -> Door<'a> {
    let url = format!("http://{}", program.address("grpc"));
    let load = move || {
        runtime.block_on(async {
            let mut connections = JoinSet::new();
            for connection in 0..CONNECTIONS {
                let channel = Channel::from_shared(url.clone()).unwrap().connect().await.unwrap();
                connections.spawn(ask_all(channel, connection));
            }
            connections.join_all().await;
        });
    };
    Door { pids: vec![program.pid()], requests: CONNECTIONS * REQUESTS, load: Box::new(load) }
}

/// Measures, and prints what came of it.
pub fn measure(ours: &Program, bare: &Program) {
    let runtime = Runtime::new().unwrap();
    let taken = alternate(&[door(&runtime, ours), door(&runtime, bare)], ROUNDS);
    let [ours, bare] = [taken[0], taken[1]].map(|taken| taken.cpu_ns / 1e3);
    ratio(&format!("gRPC: ours ({ours:.1} us) / bare tonic ({bare:.1} us)"), ours / bare, AtMost(1.2));
}
