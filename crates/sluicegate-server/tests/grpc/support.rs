//! A gRPC door on a free port with a clock that is turned by hand, and a client.
//!
//! Tests run on several threads: a door that ends asks its clients whether they have heard, and one whose only thread
//! waits for that end would never say so.

use std::{sync::Arc, time::Duration};

use sluicegate::{SureStore, embedded::EmbeddedStore, headers::Families};
use sluicegate_server::{
    domains::Domains,
    grpc::{
        self, Door,
        proto::envoy::{
            extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
            service::ratelimit::v3::{
                RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
                rate_limit_service_client::RateLimitServiceClient,
            },
        },
    },
    listen::Listen,
    tokens::Tokens,
};
use sluicegate_tests::HandClock;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use crate::served::{Served, domains};

/// A second that begins no window of a minute: 20 s are left of the one that it is in.
pub(crate) const NOW_S: u64 = 1_700_000_020;

/// A running door; it stops when dropped.
pub(crate) struct Server {
    pub(crate) address: Listen,
    pub(crate) clock: Arc<HandClock>,
    served: Served,
}

impl Server {
    pub(crate) fn start(policies: &[&str]) -> Self {
        Self::start_over(&Arc::new(EmbeddedStore::default()), policies, Duration::ZERO)
    }

    pub(crate) fn start_over<S: SureStore + Clone + 'static>(
        store: &S,
        policies: &[&str],
        drain: Duration,
    ) -> Self {
        Self::start_with(|clock| domains(policies, store, clock), drain)
    }

    /// Over the domains that are made for a clock.
    pub(crate) fn start_with<S: SureStore + Clone + 'static>(
        domains: impl FnOnce(&Arc<HandClock>) -> Domains<S, Arc<HandClock>>,
        drain: Duration,
    ) -> Self {
        let clock = Arc::new(HandClock::at(NOW_S));
        let families = Families { ietf: true, x_ratelimit: false };
        let door = Arc::new(Door::new(domains(&clock), families, Tokens::default()));
        let served = Served::start(move |listener, stopped| async move {
            let config = grpc::Config { drain, ..grpc::Config::default() };
            grpc::serve(listener, door, config, async { _ = stopped.await }).await.unwrap();
        });
        Self { address: Listen::Tcp(served.address), clock, served }
    }

    pub(crate) async fn channel(&self) -> Channel {
        channel(&self.address).await
    }

    pub(crate) async fn connect(&self) -> Client {
        Client(RateLimitServiceClient::new(self.channel().await))
    }

    /// Begins a graceful stop.
    pub(crate) fn stop(&mut self) {
        self.served.stop();
    }

    /// Waits until the door has ended.
    pub(crate) fn join(&mut self) {
        self.served.join();
    }
}

pub(crate) async fn channel(address: &Listen) -> Channel {
    let uri = match address {
        Listen::Tcp(address) => format!("http://{address}"),
        Listen::Unix(path) => format!("unix:{}", path.display()),
    };
    // A server that never answers fails the test instead of hanging it.
    Endpoint::from_shared(uri).unwrap().timeout(Duration::from_secs(20)).connect().await.unwrap()
}

/// One connection.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) RateLimitServiceClient<Channel>);

impl Client {
    pub(crate) async fn ask(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.0.should_rate_limit(request).await.map(tonic::Response::into_inner)
    }

    /// One hit on each of these descriptors of the domain `default`.
    pub(crate) async fn hit(&mut self, descriptors: &[&[(&str, &str)]]) -> RateLimitResponse {
        let descriptors = descriptors.iter().map(|entries| descriptor(entries)).collect();
        self.ask(request(descriptors)).await.unwrap()
    }
}

pub(crate) fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "default".to_owned(), descriptors, hits_addend: 0 }
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

/// That many hits on one descriptor.
pub(crate) fn hits(entries: &[(&str, &str)], hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

/// Whether each descriptor passes, in order; that the whole passes only if all do is checked here.
pub(crate) fn passed(response: &RateLimitResponse) -> Vec<bool> {
    let passed = |code: i32| match Code::try_from(code).unwrap() {
        Code::Ok => true,
        Code::OverLimit => false,
        Code::Unknown => panic!("UNKNOWN in {response:?}"),
    };
    let each: Vec<bool> = response.statuses.iter().map(|status| passed(status.code)).collect();
    assert_eq!(passed(response.overall_code), each.iter().all(|passes| *passes), "{response:?}");
    each
}

/// What remains of each descriptor.
pub(crate) fn remaining(response: &RateLimitResponse) -> Vec<u32> {
    response.statuses.iter().map(|status| status.limit_remaining).collect()
}
