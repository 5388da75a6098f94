//! A tower layer: a service that is asked only for requests that a limiter admits.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE, request::Parts};
use sluicegate_core::{Attributes, Costs, Retry, policy::AskError};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    clock::Clock,
    headers::{self, HeaderStyle},
    limiter::{Limiter, Verb, Verdict},
    store::SureStore,
};

/// The media types of gRPC begin so; its refusals are told in other words.
const GRPC: &[u8] = b"application/grpc";
/// `RESOURCE_EXHAUSTED`, what a refused call ends with.
const EXHAUSTED: u16 = 8;
/// `INVALID_ARGUMENT`, what a call ends with that does not fit the policy.
const INVALID: u16 = 3;
/// Limits a service, such as a router of axum, a server of tonic, or a client of hyper.
///
/// A request that is refused is answered with 429, or with 403 if it can never pass, and an empty body; a call of gRPC
/// ends with `RESOURCE_EXHAUSTED`. Every answer has the rate limit headers. The delay of a leaky bucket is waited for. A
/// store over a network needs its fallback, [`Guarded`](crate::guard::Guarded), so that each request gets a decision.
///
/// ```
/// use std::sync::Arc;
/// use sluicegate::{Limiter, RateLimitLayer, SystemClock, core::Policy, embedded::EmbeddedStore};
/// let policy = Policy::parse("version: 1
/// limits:
///   - { name: per-key, algorithm: gcra, limit: 10, per: 1s, key: [api_key] }")?;
/// let limiter = Arc::new(Limiter::new(policy, Arc::new(EmbeddedStore::default()), SystemClock::new()));
/// let layer = RateLimitLayer::new(limiter, |request| {
///     let key = request.headers.get("x-api-key").and_then(|key| key.to_str().ok());
///     key.map(|key| ("api_key", key)).into_iter().collect()
/// });
/// # let _ = layer;
/// # Ok::<(), sluicegate::core::policy::PolicyError>(())
/// ```
#[derive(Debug)]
pub struct RateLimitLayer<S, C, K> {
    limiter: Arc<Limiter<S, C>>,
    attributes: Arc<K>,
    style: HeaderStyle,
    patience: Option<Duration>,
}

impl<S, C, K> Clone for RateLimitLayer<S, C, K> {
    fn clone(&self) -> Self {
        let (limiter, attributes) = (Arc::clone(&self.limiter), Arc::clone(&self.attributes));
        Self { limiter, attributes, style: self.style, patience: self.patience }
    }
}

impl<S, C, K: Fn(&Parts) -> Attributes> RateLimitLayer<S, C, K> {
    /// A layer that asks the limiter about what `attributes` tells of each request, at a cost of one request.
    pub fn new(limiter: Arc<Limiter<S, C>>, attributes: K) -> Self {
        let style = HeaderStyle::default();
        Self { limiter, attributes: Arc::new(attributes), style, patience: None }
    }

    /// Chooses the headers of answers.
    #[must_use]
    pub fn with_headers(self, style: HeaderStyle) -> Self {
        Self { style, ..self }
    }

    /// Lets requests wait up to that long for room instead of refusing them, in the order of arrival: for clients of an
    /// API that has a limit of its own.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }
}

impl<S: SureStore, C: Clock, K> RateLimitLayer<S, C, K> {
    async fn decide(&self, attributes: &Attributes) -> Result<Verdict<'_>, AskError> {
        let costs = Costs::default();
        match self.patience {
            Some(patience) => self.limiter.acquire(attributes, &costs, patience).await,
            None => self.limiter.decide_surely(Verb::Take, attributes, &costs).await,
        }
    }
}

impl<S, C, K, I> Layer<I> for RateLimitLayer<S, C, K> {
    type Service = RateLimited<I, S, C, K>;

    fn layer(&self, inner: I) -> Self::Service {
        RateLimited { inner, layer: self.clone() }
    }
}

/// A service behind a limiter; see [`RateLimitLayer`].
#[derive(Debug)]
pub struct RateLimited<I, S, C, K> {
    inner: I,
    layer: RateLimitLayer<S, C, K>,
}

impl<I: Clone, S, C, K> Clone for RateLimited<I, S, C, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

/// What a limited service answers, once it has.
type Answering<R, E> = Pin<Box<dyn Future<Output = Result<R, E>> + Send>>;

impl<I, S, C, K, B, R> Service<Request<B>> for RateLimited<I, S, C, K>
where
    I: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    I::Future: Send,
    S: SureStore + 'static,
    C: Clock + 'static,
    K: Fn(&Parts) -> Attributes + Send + Sync + 'static,
    B: Send + 'static,
    R: Default + 'static,
{
    type Response = Response<R>;
    type Error = I::Error;
    type Future = Answering<Response<R>, I::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled is the one that is ready.
        let inner = self.inner.clone();
        let (inner, layer) = (mem::replace(&mut self.inner, inner), self.layer.clone());
        Box::pin(answer(inner, layer, request))
    }
}

async fn answer<I, S, C, K, B, R>(
    mut inner: I,
    layer: RateLimitLayer<S, C, K>,
    request: Request<B>,
) -> Result<Response<R>, I::Error>
where
    I: Service<Request<B>, Response = Response<R>>,
    S: SureStore,
    C: Clock,
    K: Fn(&Parts) -> Attributes,
    R: Default,
{
    let (head, body) = request.into_parts();
    let attributes = (layer.attributes)(&head);
    let Ok(verdict) = layer.decide(&attributes).await else {
        return Ok(refusal(&head, StatusCode::BAD_REQUEST, INVALID));
    };
    let mut response = if verdict.allowed {
        // Who waited for room has waited for the delay as well.
        if layer.patience.is_none() {
            tokio::time::sleep(verdict.delay()).await;
        }
        inner.call(Request::from_parts(head, body)).await?
    } else {
        refusal(&head, status(&verdict), EXHAUSTED)
    };
    let status = response.status();
    headers::add(response.headers_mut(), &verdict, status, layer.style);
    Ok(response)
}

fn status(verdict: &Verdict<'_>) -> StatusCode {
    match verdict.retry() {
        Some(Retry::Never) => StatusCode::FORBIDDEN,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// A refusal in the words of the request's protocol: gRPC tells its own status, in headers of a 200.
fn refusal<R: Default>(head: &Parts, status: StatusCode, grpc_status: u16) -> Response<R> {
    let mut response = Response::new(R::default());
    if is_grpc(&head.headers) {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response.headers_mut().insert("grpc-status", HeaderValue::from(grpc_status));
    } else {
        *response.status_mut() = status;
    }
    response
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|media_type| media_type.as_bytes().starts_with(GRPC))
}
