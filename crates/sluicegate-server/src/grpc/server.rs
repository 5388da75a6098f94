//! The listener: connections in, answers out, and an end that loses nothing. Health and reflection stand beside the service.

use std::{sync::Arc, time::Duration};

use sluicegate::{Clock, SureStore};
use tokio::time::{sleep, timeout};
use tonic::transport::{Server, server::Connected};
use tonic_health::{ServingStatus, server::HealthReporter};
use tonic_reflection::server::Builder as Reflection;

use super::{
    door::Door,
    proto::{DESCRIPTORS, envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer},
};
use crate::listen::{Connection, Entry, Listener, Listening, Protocol};

/// The most bytes of one request, as at the HTTP door.
const MAX_MESSAGE_LEN: usize = 64 * 1024;
/// The most requests in flight on one connection; Envoy holds one connection per worker thread.
const MAX_STREAMS: u32 = 1_000;
/// The most bytes of one request's headers.
const MAX_HEADER_LEN: u32 = 16 * 1024;
/// How long one request may take, its body included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a silent peer is asked whether it still lives.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
/// How long it may take to say so; then its connection is closed.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long requests in flight may take after a stop before they are given up.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// The service's name; its health, and that of the whole server, which has the empty name.
const SERVICES: [&str; 2] = ["", "envoy.service.ratelimit.v3.RateLimitService"];

/// What an operator chooses about the listener.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How connections come in.
    pub entry: Entry,
    /// How long to go on serving after the stop, with health `NOT_SERVING`.
    pub drain: Duration,
}

/// Serves until `stop` ends, then turns unhealthy, goes on for `config.drain`, finishes what is in flight and returns.
///
/// # Errors
/// [`tonic::transport::Error`] if the protocol cannot be served at all.
pub async fn serve<S, C>(
    listener: impl Into<Listener>,
    door: Arc<Door<S, C>>,
    config: Config,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error>
where
    S: SureStore + 'static,
    C: Clock + 'static,
{
    let (health, health_service) = tonic_health::server::health_reporter();
    tell(&health, ServingStatus::Serving).await;
    let service = RateLimitServiceServer::from_arc(door).max_decoding_message_size(MAX_MESSAGE_LEN);
    let (reflection, older_reflection) = (reflection().build_v1(), reflection().build_v1alpha());
    let router = protocol()
        .add_service(service)
        .add_service(health_service)
        .add_optional_service(reflection.ok())
        .add_optional_service(older_reflection.ok());
    let (ending, ended) = tokio::sync::oneshot::channel();
    let stop = async {
        stop.await;
        tell(&health, ServingStatus::NotServing).await;
        sleep(config.drain).await;
        // Nobody hears of it only if serving has ended already.
        let _ = ending.send(());
    };
    let connections = Listening::new(listener.into(), config.entry, Protocol::Http2).opened();
    let serve = router.serve_with_incoming_shutdown(connections, async {
        // A sender that is gone ends it too.
        let _ = ended.await;
    });
    served(stop, serve).await
}

/// Waits for the stop, and then no longer for what is in flight than [`STOP_TIMEOUT`].
async fn served<E>(
    stop: impl Future<Output = ()>,
    serve: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let mut serve = std::pin::pin!(serve);
    tokio::select! {
        ended = &mut serve => return ended,
        () = stop => {}
    }
    timeout(STOP_TIMEOUT, serve).await.unwrap_or_else(|_| {
        tracing::warn!("gave up on gRPC requests that did not end in {} s", STOP_TIMEOUT.as_secs());
        Ok(())
    })
}

fn protocol() -> Server {
    Server::builder()
        .timeout(REQUEST_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADER_LEN)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

fn reflection() -> Reflection<'static> {
    Reflection::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

async fn tell(health: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        health.set_service_status(service, status).await;
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
