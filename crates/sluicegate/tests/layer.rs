//! The layer before real services: the examples, as they stand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use sluicegate::{
    Limiter, RateLimitLayer, SystemClock,
    core::{Attributes, Policy},
    embedded::EmbeddedStore,
};
use tokio::{sync::oneshot, task::JoinSet, time::Instant};
use tonic::{Code, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower_layer::Layer;
use tower_service::Service;

#[path = "../examples/axum.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod axum_example;
#[path = "../examples/tonic.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod tonic_example;

fn of(key: &str) -> Request<Body> {
    Request::builder().uri("/").header("x-api-key", key).body(Body::empty()).unwrap()
}

/// Fifty at once at a router that admits ten: exactly ten pass, and each other hears when to come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_router_of_axum_lets_through_what_its_limit_says() {
    let app = axum_example::app().unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let mut app = app.clone();
        tasks.spawn(async move { app.call(of("alice")).await.unwrap() });
    }
    let replies = tasks.join_all().await;
    let (passed, refused): (Vec<_>, Vec<_>) =
        replies.iter().partition(|reply| reply.status() == StatusCode::OK);
    assert_eq!(passed.len(), 10);
    assert!(passed.iter().all(|reply| reply.headers().contains_key("ratelimit")));
    for reply in refused {
        assert_eq!(reply.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(reply.headers()["retry-after"], "60");
        assert_eq!(reply.headers()["x-ratelimit-remaining"], "0");
    }
    assert_eq!(app.clone().call(of("bob")).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_of_grpc_ends_with_its_own_status() {
    let (bound, address) = oneshot::channel();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let serving = tokio::spawn(tonic_example::serve(any, |address| bound.send(address).unwrap()));
    let url = format!("http://{}", address.await.unwrap());
    let client = HealthClient::new(Endpoint::new(url).unwrap().connect().await.unwrap());
    let mut tasks = JoinSet::new();
    for _ in 0..30 {
        let mut client = client.clone();
        tasks.spawn(async move { client.check(HealthCheckRequest::default()).await });
    }
    let codes = tasks
        .join_all()
        .await
        .into_iter()
        .map(|answer| answer.map_or_else(|status| status.code(), |_| Code::Ok));
    let codes: Vec<_> = codes.collect();
    assert_eq!(codes.iter().filter(|code| **code == Code::Ok).count(), 10, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Code::ResourceExhausted).count(), 20, "{codes:?}");
    serving.abort();
}

/// A service that counts who comes through.
#[derive(Clone, Debug, Default)]
struct Inner(Arc<AtomicUsize>);

impl Service<Request<Body>> for Inner {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(Response::new(Body::empty())))
    }
}

fn policy(limit: &str) -> Policy {
    Policy::parse(&format!("version: 1\nlimits:\n  - {{ name: x, {limit} }}\n")).unwrap()
}

fn nothing(_: &http::request::Parts) -> Attributes {
    Attributes::default()
}

#[tokio::test]
async fn a_request_that_does_not_fit_the_policy_is_refused_as_malformed() {
    let inner = Inner::default();
    let policy = policy("algorithm: gcra, limit: 1, per: 1m, key: [user], if_missing: refuse");
    let limiter = Limiter::new(policy, Arc::new(EmbeddedStore::default()), SystemClock::new());
    let mut service = RateLimitLayer::new(Arc::new(limiter), nothing).layer(inner.clone());
    assert_eq!(service.call(of("a")).await.unwrap().status(), StatusCode::BAD_REQUEST);
    assert_eq!(inner.0.load(Ordering::SeqCst), 0);
}

/// As a client's layer: three calls at twenty a second take at least two pauses of 50 ms, and none is refused.
#[tokio::test]
async fn a_client_may_wait_instead_of_being_refused() {
    let inner = Inner::default();
    let policy = policy("algorithm: gcra, limit: 20, per: 1s, burst: 1, key: []");
    let limiter = Limiter::new(policy, Arc::new(EmbeddedStore::default()), SystemClock::new());
    let layer = RateLimitLayer::new(Arc::new(limiter), nothing).waiting(Duration::from_secs(20));
    let mut service = layer.layer(inner.clone());
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(service.call(of("a")).await.unwrap().status(), StatusCode::OK);
    }
    assert!(begun.elapsed() >= Duration::from_millis(99), "{:?}", begun.elapsed());
    assert_eq!(inner.0.load(Ordering::SeqCst), 3);
}
