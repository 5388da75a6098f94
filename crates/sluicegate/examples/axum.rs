//! A router of axum behind a limiter: `cargo run -p sluicegate --features tower --example axum`, then
//! `for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' -H 'x-api-key: alice' localhost:3000/; done`.

use std::{error::Error, sync::Arc};

use axum::{Router, routing::get};
use http::request::Parts;
use sluicegate::{
    Limiter, RateLimitLayer, SystemClock,
    core::{Attributes, Policy, policy::PolicyError},
    embedded::EmbeddedStore,
};

const POLICY: &str = "
version: 1
limits:
  - { name: per-key, algorithm: gcra, limit: 1, per: 1m, burst: 10, key: [api_key] }
";

/// What is known of a request. All that say no key count together.
fn attributes(request: &Parts) -> Attributes {
    let key = request.headers.get("x-api-key").and_then(|key| key.to_str().ok());
    key.map(|key| ("api_key", key)).into_iter().collect()
}

/// The application.
///
/// # Errors
/// [`PolicyError`] if the policy has mistakes.
pub(crate) fn app() -> Result<Router, PolicyError> {
    let policy = Policy::parse(POLICY)?;
    let limiter = Limiter::new(policy, Arc::new(EmbeddedStore::default()), SystemClock::new());
    let limit = RateLimitLayer::new(Arc::new(limiter), attributes);
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limit))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app()?).await?;
    Ok(())
}
