//! The door: a request of Envoy's rate limit service to its answer.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use hyper::header::AUTHORIZATION;
use sluicegate::{Clock, SureStore, headers::Families};
use tonic::{Request, Response, Status, metadata::MetadataValue};

use super::{
    proto::envoy::service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse, rate_limit_service_server::RateLimitService,
    },
    request::{Asked, Mistake},
    response::respond,
};
use crate::{domains::RequestError, http::shortened, paced::Paced, running::Running, tokens::Tokens};

/// Answers requests of Envoy's rate limit service.
#[derive(Debug)]
pub struct Door<S, C> {
    running: Arc<Running<S, C>>,
    families: Families,
    tokens: Tokens,
    unknown: Paced,
}

impl<S: SureStore, C: Clock> Door<S, C> {
    /// A door that adds these families of headers to its answers, for clients that say one of these tokens.
    pub fn new(running: impl Into<Arc<Running<S, C>>>, families: Families, tokens: Tokens) -> Self {
        Self { running: running.into(), families, tokens, unknown: Paced::default() }
    }

    /// Decides all descriptors of a request in one atomic step: if one is over its limit, none is counted.
    ///
    /// # Errors
    /// [`Mistake`] if the request makes no sense or names no domain of this server's. A store that fails is none.
    pub async fn should_rate_limit(&self, request: RateLimitRequest) -> Result<RateLimitResponse, Mistake> {
        let RateLimitRequest { domain, descriptors, hits_addend } = request;
        if domain.is_empty() {
            return Err(Mistake::NoDomain);
        }
        let domains = self.running.now();
        let asked = Asked::read(descriptors, hits_addend, domains.tree(&domain))?;
        let limiter = domains.limiter(&domain).ok_or_else(|| self.unknown(domain))?;
        let parts = asked.parts(limiter.policy(), |attributes| domains.assigned(limiter, attributes))?;
        let verdicts = domains.decide_all(limiter, &parts).await?;
        Ok(respond(&verdicts, self.families))
    }

    /// A proxy usually lets pass what is answered with an error: then whoever runs this server should hear of it.
    fn unknown(&self, domain: String) -> RequestError {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if let Some(unreported) = self.unknown.due(now_s) {
            tracing::warn!(
                domain = shortened(domain.clone()),
                unreported,
                "no policy has the domain that a proxy asks for"
            );
        }
        RequestError::UnknownDomain(domain)
    }
}

#[tonic::async_trait]
impl<S: SureStore + 'static, C: Clock + 'static> RateLimitService for Door<S, C> {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let authorization =
            request.metadata().get(AUTHORIZATION.as_str()).map(MetadataValue::as_encoded_bytes);
        if !self.tokens.admit(authorization) {
            return Err(Status::unauthenticated("say `authorization: Bearer …` with a client token"));
        }
        let decided = Door::should_rate_limit(self, request.into_inner()).await;
        decided.map(Response::new).map_err(|mistake| refusal(&mistake))
    }
}

fn refusal(mistake: &Mistake) -> Status {
    let message = shortened(mistake.to_string());
    match mistake {
        Mistake::Request(RequestError::UnknownDomain(_)) => Status::not_found(message),
        _ => Status::invalid_argument(message),
    }
}
