//! The admin door: what is in force, and the few things that an operator changes by hand. A listener and a token of its own.

use std::{net::IpAddr, sync::Arc, time::Duration};

use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, HeaderValue},
    http::request::Parts,
};
use serde::{Deserialize, Serialize};
use sluicegate::{
    Clock, Store,
    core::{Attributes, policy::Enforcement},
};
use tokio::sync::{mpsc, oneshot};

use super::{
    answer::{Answer, JSON, answer},
    body,
    problem::{Problem, shortened},
    server::Service,
};
use crate::{
    causes::with_causes,
    domains::DEFAULT_DOMAIN,
    running::{Control, NoSwitch, Rejected, Switch},
    tokens::Tokens,
};

/// The most bytes of a request's body.
const MAX_BODY_LEN: usize = 64 * 1024;
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A wish that the files be read now; what became of it is answered: the version in force, or why it is still the old one.
pub type Reload = oneshot::Sender<Result<u64, Rejected>>;

/// Answers operators who say the token.
#[derive(Debug)]
pub struct Admin<S, C> {
    control: Arc<Control<S, C>>,
    token: Tokens,
    reloads: mpsc::Sender<Reload>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnforcementBody {
    domain: Option<String>,
    limit: Option<String>,
    enforcement: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgetBody {
    domain: Option<String>,
    limit: String,
    attributes: std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
struct VersionBody {
    version: u64,
}

#[derive(Serialize)]
struct ForgottenBody {
    forgotten: bool,
}

impl<S: Store + Clone + 'static, C: Clock + Clone + 'static> Service for Admin<S, C> {
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: Option<IpAddr>,
    ) -> impl Future<Output = Answer> + Send {
        self.serve(request, peer)
    }

    fn turn_unready(&self) {}
}

impl<S: Store + Clone, C: Clock + Clone> Admin<S, C> {
    /// A door that knows one token. Reloads are carried out by whoever reads from the other end of `reloads`.
    pub fn new(control: Arc<Control<S, C>>, token: String, reloads: mpsc::Sender<Reload>) -> Self {
        Self { control, token: [token].into_iter().collect(), reloads }
    }

    async fn serve(&self, request: Request<Incoming>, peer: Option<IpAddr>) -> Answer {
        let (head, body) = request.into_parts();
        if !self.token.admit(head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes)) {
            body::discard(body, BODY_TIMEOUT).await;
            tracing::warn!(target: "audit", ?peer, path = head.uri.path(), "admin request without the token");
            return Problem::unauthorized("the admin token").answer();
        }
        let told = self.carry_out(&head, body, peer).await;
        told.unwrap_or_else(|problem| problem.answer())
    }

    async fn carry_out(&self, head: &Parts, body: Incoming, peer: Option<IpAddr>) -> Result<Answer, Problem> {
        let expected = body::Expected { max_len: MAX_BODY_LEN, within: BODY_TIMEOUT };
        let json = body::read(&head.headers, body, expected).await?;
        match (head.uri.path(), &head.method) {
            ("/admin/status", &Method::GET) => Ok(told(&self.control.status())),
            ("/admin/reload", &Method::POST) => self.reload(peer).await,
            ("/admin/enforcement", &Method::POST) => self.enforce(&read(&json)?, peer),
            ("/admin/forget", &Method::POST) => self.forget(&read(&json)?, peer).await,
            ("/admin/status", _) => Err(Problem::wrong_method("GET")),
            ("/admin/reload" | "/admin/enforcement" | "/admin/forget", _) => {
                Err(Problem::wrong_method("POST"))
            }
            _ => Err(Problem::new(StatusCode::NOT_FOUND, "there is nothing at this path")),
        }
    }

    async fn reload(&self, peer: Option<IpAddr>) -> Result<Answer, Problem> {
        let (reply, answer) = oneshot::channel();
        let gone = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
        self.reloads.send(reply).await.map_err(|_| gone())?;
        let outcome = answer.await.map_err(|_| gone())?;
        tracing::info!(target: "audit", ?peer, ?outcome, "policies were read again");
        let version =
            outcome.map_err(|why| Problem::new(StatusCode::CONFLICT, shortened(why.to_string())))?;
        Ok(told(&VersionBody { version }))
    }

    fn enforce(&self, body: &EnforcementBody, peer: Option<IpAddr>) -> Result<Answer, Problem> {
        let to = match body.enforcement.as_str() {
            "file" => None,
            word => Some(Enforcement::from_name(word).ok_or_else(|| {
                Problem::malformed("`enforcement` must be `on`, `shadow`, `off`, or `file`")
                    .at("/enforcement")
            })?),
        };
        let domain = body.domain.as_deref().unwrap_or(DEFAULT_DOMAIN).to_owned();
        let switch = Switch { domain, limit: body.limit.clone() };
        let (domain, limit, to_word) = (&switch.domain, &switch.limit, &body.enforcement);
        tracing::info!(target: "audit", ?peer, domain, ?limit, enforcement = to_word, "enforcement is switched");
        let version = self.control.switch(switch, to).map_err(|error| match &error {
            NoSwitch::Domain(_) => Problem::malformed(shortened(error.to_string())).at("/domain"),
            NoSwitch::Limit { .. } => Problem::malformed(shortened(error.to_string())).at("/limit"),
        })?;
        Ok(told(&VersionBody { version }))
    }

    /// Drops the counter of one limit and key, and nothing else.
    async fn forget(&self, body: &ForgetBody, peer: Option<IpAddr>) -> Result<Answer, Problem> {
        let domain = body.domain.as_deref().unwrap_or(DEFAULT_DOMAIN);
        let domains = self.control.running().now();
        let unknown = |pointer: &'static str, what: String| Problem::malformed(shortened(what)).at(pointer);
        let limiter = domains
            .limiter(domain)
            .ok_or_else(|| unknown("/domain", format!("no policy has the domain `{domain}`")))?;
        let policy = limiter.policy();
        let Some(limit) = policy.limits().iter().find(|limit| limit.name == body.limit) else {
            let what = format!("the domain `{domain}` has no limit `{}`", body.limit);
            return Err(unknown("/limit", what));
        };
        let attributes: Attributes = body.attributes.iter().collect();
        let mut forgotten = false;
        for subject in policy.subjects_of(limit, &attributes) {
            tracing::info!(target: "audit", ?peer, domain, limit = limit.name, %subject, "a counter is forgotten");
            forgotten |= limiter.store().forget(limit.id, &subject).await.map_err(|error| {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, shortened(with_causes(&error)))
            })?;
        }
        Ok(told(&ForgottenBody { forgotten }))
    }
}

fn told(body: &impl Serialize) -> Answer {
    // Texts and numbers always serialise.
    answer(StatusCode::OK, JSON, serde_json::to_vec(body).unwrap_or_default())
}

fn read<'j, T: Deserialize<'j>>(json: &'j [u8]) -> Result<T, Problem> {
    serde_json::from_slice(json).map_err(|error| Problem::malformed(shortened(error.to_string())))
}
