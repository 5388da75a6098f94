//! A gRPC service behind a limiter: `cargo run -p sluicegate --features tower --example tonic`. The service is the
//! standard health check; a refused call ends with `RESOURCE_EXHAUSTED`.

use std::{error::Error, net::SocketAddr, sync::Arc};

use http::request::Parts;
use sluicegate::{
    Limiter, RateLimitLayer, SystemClock,
    core::{Attributes, Policy},
    embedded::EmbeddedStore,
};
use tonic::transport::{Server, server::TcpIncoming};

const POLICY: &str = "
version: 1
limits:
  - { name: per-method, algorithm: gcra, limit: 1, per: 1m, burst: 10, key: [method] }
";

fn attributes(call: &Parts) -> Attributes {
    [("method", call.uri.path())].into_iter().collect()
}

/// Serves until the future is dropped; `bound` hears where.
///
/// # Errors
/// If the policy has mistakes, or the address is not to be had.
pub(crate) async fn serve(
    address: SocketAddr,
    bound: impl FnOnce(SocketAddr),
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let limiter =
        Limiter::new(Policy::parse(POLICY)?, Arc::new(EmbeddedStore::default()), SystemClock::new());
    let limit = RateLimitLayer::new(Arc::new(limiter), attributes);
    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind(address)?;
    bound(incoming.local_addr()?);
    Server::builder().layer(limit).add_service(health).serve_with_incoming(incoming).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    serve(SocketAddr::from(([127, 0, 0, 1], 50051)), |_| ()).await
}
