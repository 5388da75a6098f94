//! The door: which path is answered how.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, HeaderValue},
    http::request::Parts,
};
use sluicegate::{
    Clock, SureStore, Verb, Verdict,
    core::{Costs, policy::AskError},
    headers::{self, HeaderStyle},
};

use super::{
    answer::{Answer, JSON, PROBLEM_JSON, answer},
    body, decision, envoy_json,
    forward_auth::{self, ForwardAuth},
    login::LoginAnswers,
    problem::{Problem, shortened},
    request::{Ask, Batch},
    server::Service,
};
use crate::{
    domains::{DEFAULT_DOMAIN, Domains, RequestError},
    explain,
    grpc::{self, Mistake},
    metrics::{Format, Metrics},
    running::Running,
    tokens::Tokens,
};

/// The most bytes of one request's body.
const MAX_BODY_LEN: usize = 64 * 1024;
/// The most bytes of a batch's body: about 1 KiB for each of a thousand requests.
const MAX_BATCH_LEN: usize = 1024 * 1024;
/// The usual length of a decision's body, in bytes, with one limit.
const USUAL_BODY_LEN: usize = 512;

/// What an operator chooses about answers.
#[derive(Clone, Debug)]
pub struct DoorConfig {
    /// Which headers a decision is told in.
    pub headers: HeaderStyle,
    /// How long a client may take to send a body; then it is answered 408.
    pub body_timeout: Duration,
    /// How requests of proxies are read.
    pub forward_auth: ForwardAuth,
    /// What `/metrics` tells; without it there is nothing at that path.
    pub metrics: Option<Arc<Metrics>>,
    /// What counts guesses at secrets; without it there is nothing at those paths.
    pub login: Option<Arc<dyn LoginAnswers>>,
    /// What clients say to be let in; pages are for everybody, except for the metrics.
    pub tokens: Tokens,
}

impl Default for DoorConfig {
    fn default() -> Self {
        let body_timeout = Duration::from_secs(30);
        Self {
            body_timeout,
            headers: HeaderStyle::default(),
            forward_auth: ForwardAuth::default(),
            metrics: None,
            login: None,
            tokens: Tokens::default(),
        }
    }
}

/// What a request is after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Decide(Decide),
    Forward,
    Read(Page),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decide {
    Take,
    Peek,
    Batch,
    Explain,
    /// As Envoy's rate limit service.
    Envoy,
    LoginBegin,
    LoginReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Livez,
    Readyz,
    OpenApi,
    Metrics(Format),
}

impl Target {
    fn of(head: &Parts) -> Result<Self, Problem> {
        let target = match head.uri.path() {
            "/v1/take" => Self::Decide(Decide::Take),
            "/v1/peek" => Self::Decide(Decide::Peek),
            "/v1/batch" => Self::Decide(Decide::Batch),
            "/v1/explain" => Self::Decide(Decide::Explain),
            envoy_json::PATH => Self::Decide(Decide::Envoy),
            "/v1/login/begin" => Self::Decide(Decide::LoginBegin),
            "/v1/login/report" => Self::Decide(Decide::LoginReport),
            "/livez" => Self::Read(Page::Livez),
            "/readyz" => Self::Read(Page::Readyz),
            "/openapi.json" => Self::Read(Page::OpenApi),
            "/metrics" => Self::Read(Page::Metrics(Format::accepted(&head.headers))),
            path if path.starts_with(forward_auth::PREFIX) => Self::Forward,
            _ => return Err(Problem::not_found()),
        };
        match (target, &head.method) {
            (Self::Decide(_), &Method::POST) => body::check_media_type(&head.headers).map(|()| target),
            (Self::Decide(_), _) => Err(Problem::wrong_method("POST")),
            (Self::Forward, _) | (Self::Read(_), &Method::GET | &Method::HEAD) => Ok(target),
            (Self::Read(_), _) => Err(Problem::wrong_method("GET, HEAD")),
        }
    }
}

/// Answers requests over HTTP.
#[derive(Debug)]
pub struct Door<S, C> {
    running: Arc<Running<S, C>>,
    config: DoorConfig,
    envoy: grpc::Door<S, C>,
    stopping: AtomicBool,
}

impl<S: SureStore + 'static, C: Clock + 'static> Service for Door<S, C> {
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: Option<IpAddr>,
    ) -> impl Future<Output = Answer> + Send {
        self.serve(request, peer)
    }

    fn turn_unready(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

impl<S: SureStore, C: Clock> Door<S, C> {
    /// A door that is ready.
    pub fn new(running: impl Into<Arc<Running<S, C>>>, config: DoorConfig) -> Self {
        let running = running.into();
        let envoy = grpc::Door::new(running.clone(), config.headers.families, Tokens::default());
        Self { running, config, envoy, stopping: AtomicBool::new(false) }
    }

    /// Answers one request, that came from `peer`.
    async fn serve(&self, request: Request<Incoming>, peer: Option<IpAddr>) -> Answer {
        let (head, body) = request.into_parts();
        match self.target(&head) {
            Ok(Target::Decide(verb)) => {
                let decided = self.decisions(verb, &head.headers, body).await;
                decided.unwrap_or_else(|problem| problem.answer())
            }
            Ok(Target::Forward) => {
                body::discard(body, self.config.body_timeout).await;
                let forwarded = Box::pin(self.forward(&head, peer)).await;
                forwarded.unwrap_or_else(|problem| problem.answer())
            }
            Ok(Target::Read(page)) => {
                body::discard(body, self.config.body_timeout).await;
                self.page(page)
            }
            Err(problem) => {
                body::discard(body, self.config.body_timeout).await;
                problem.answer()
            }
        }
    }

    /// What a request is after, if it may ask for that.
    fn target(&self, head: &Parts) -> Result<Target, Problem> {
        let target = Target::of(head)?;
        let authorization = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let is_open = matches!(target, Target::Read(page) if !matches!(page, Page::Metrics(_)));
        if is_open || self.config.tokens.admit(authorization) {
            return Ok(target);
        }
        Err(Problem::unauthorized("a client token"))
    }

    async fn decisions(&self, verb: Decide, headers: &HeaderMap, body: Incoming) -> Result<Answer, Problem> {
        let max_len = if verb == Decide::Batch { MAX_BATCH_LEN } else { MAX_BODY_LEN };
        let expected = body::Expected { max_len, within: self.config.body_timeout };
        let json = body::read(headers, body, expected).await?;
        if verb == Decide::Take {
            return self.take(&json).await;
        }
        // A future has room for the largest of its branches, and is moved with all of it.
        Box::pin(self.any_decisions(verb, &json)).await
    }

    async fn any_decisions(&self, verb: Decide, json: &[u8]) -> Result<Answer, Problem> {
        match verb {
            Decide::Take => self.take(json).await,
            Decide::Peek => self.peek(json).await,
            Decide::Batch => self.batch(json).await,
            Decide::Explain => self.explain(json).await,
            Decide::Envoy => self.envoy(json).await,
            Decide::LoginBegin => Ok(self.login()?.begin(json).await),
            Decide::LoginReport => Ok(self.login()?.report(json).await),
        }
    }

    fn login(&self) -> Result<&dyn LoginAnswers, Problem> {
        self.config.login.as_deref().ok_or_else(Problem::not_found)
    }

    fn page(&self, page: Page) -> Answer {
        match page {
            Page::Livez => answer(StatusCode::OK, JSON, r#"{"status":"live"}"#),
            Page::Readyz => self.readiness(),
            Page::OpenApi => answer(StatusCode::OK, JSON, super::OPENAPI),
            Page::Metrics(format) => self.metrics(format),
        }
    }

    fn metrics(&self, format: Format) -> Answer {
        let Some(metrics) = &self.config.metrics else { return Problem::not_found().answer() };
        match metrics.scrape(format) {
            Ok(text) => answer(StatusCode::OK, format.media_type(), text),
            Err(error) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).answer(),
        }
    }

    async fn take(&self, json: &[u8]) -> Result<Answer, Problem> {
        let domains = self.running.now();
        let verdict = decide(&domains, &Ask::read(json)?).await?;
        Ok(self.tell(&verdict, decision::status(&verdict)))
    }

    async fn forward(&self, head: &Parts, peer: Option<IpAddr>) -> Result<Answer, Problem> {
        let asked = self.config.forward_auth.read(head, peer)?;
        let domains = self.running.now();
        let decided = domains.decide(&asked.domain, Verb::Take, &asked.attributes, &Costs::default()).await;
        let verdict = decided.map_err(|error| problem(&error))?;
        let status = decision::status(&verdict);
        let denied = asked.deny_status.filter(|_| !verdict.allowed);
        let mut answer = self.tell(&verdict, status);
        *answer.status_mut() = denied.unwrap_or(status);
        Ok(answer)
    }

    async fn peek(&self, json: &[u8]) -> Result<Answer, Problem> {
        let ask = Ask { dry_run: true, ..Ask::read(json)? };
        let domains = self.running.now();
        let verdict = decide(&domains, &ask).await?;
        Ok(self.tell(&verdict, StatusCode::OK))
    }

    /// The decision that a take would get, and why: nothing is counted.
    async fn explain(&self, json: &[u8]) -> Result<Answer, Problem> {
        let ask = Ask::read(json)?;
        let domains = self.running.now();
        let domain = ask.domain.as_deref().unwrap_or(DEFAULT_DOMAIN);
        let explained = domains.explain(domain, &ask.attributes, &ask.costs).await;
        let (verdict, explanation) = explained.map_err(|error| problem(&error))?;
        Ok(answer(StatusCode::OK, JSON, explain::to_json(&verdict, &explanation).to_string()))
    }

    async fn envoy(&self, json: &[u8]) -> Result<Answer, Problem> {
        let decided = self.envoy.should_rate_limit(envoy_json::request(json)?).await;
        let response = decided.map_err(|mistake| match &mistake {
            Mistake::Request(error) => problem(error),
            _ => Problem::malformed(shortened(mistake.to_string())),
        })?;
        Ok(envoy_json::tell(&response))
    }

    /// All requests of a batch are on their way at once, so that a store over a network answers them in one go.
    async fn batch(&self, json: &[u8]) -> Result<Answer, Problem> {
        let batch = Batch::read(json)?;
        let domains = self.running.now();
        let results = join_all(batch.items().map(|item| batch_item(&domains, item))).await;
        let mut body = Vec::with_capacity(16 + results.iter().map(|result| result.len() + 1).sum::<usize>());
        body.extend_from_slice(br#"{"results":["#);
        for (index, result) in results.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(result);
        }
        body.extend_from_slice(b"]}");
        Ok(answer(StatusCode::OK, JSON, body))
    }

    fn tell(&self, verdict: &Verdict<'_>, status: StatusCode) -> Answer {
        let media_type = if status == StatusCode::OK { JSON } else { PROBLEM_JSON };
        let mut answer = answer(status, media_type, decision_body(verdict, status));
        headers::add(answer.headers_mut(), verdict, status, self.config.headers);
        answer
    }

    fn readiness(&self) -> Answer {
        if self.stopping.load(Ordering::Relaxed) {
            return answer(StatusCode::SERVICE_UNAVAILABLE, JSON, r#"{"status":"stopping"}"#);
        }
        answer(StatusCode::OK, JSON, r#"{"status":"ready"}"#)
    }
}

/// The body that `/v1/take` would answer to one request of a batch.
async fn batch_item<S: SureStore, C: Clock>(domains: &Domains<S, C>, item: &[u8]) -> Vec<u8> {
    match batch_verdict(domains, item).await {
        Ok(verdict) => decision_body(&verdict, decision::status(&verdict)),
        Err(problem) => problem.body(),
    }
}

async fn batch_verdict<'d, S: SureStore, C: Clock>(
    domains: &'d Domains<S, C>,
    item: &[u8],
) -> Result<Verdict<'d>, Problem> {
    decide(domains, &Ask::read(item)?).await
}

async fn decide<'d, S: SureStore, C: Clock>(
    domains: &'d Domains<S, C>,
    ask: &Ask<'_>,
) -> Result<Verdict<'d>, Problem> {
    let domain = ask.domain.as_deref().unwrap_or(DEFAULT_DOMAIN);
    let verb = if ask.dry_run { Verb::Peek } else { Verb::Take };
    let decided = match &ask.id {
        Some(id) if !ask.dry_run => domains.take_once(domain, id, &ask.attributes, &ask.costs).await,
        _ => domains.decide(domain, verb, &ask.attributes, &ask.costs).await,
    };
    decided.map_err(|error| problem(&error))
}

fn decision_body(verdict: &Verdict<'_>, status: StatusCode) -> Vec<u8> {
    let mut body = Vec::with_capacity(USUAL_BODY_LEN);
    decision::write(&mut body, verdict, status);
    body
}

fn problem(error: &RequestError) -> Problem {
    let detail = shortened(error.to_string());
    let place = match error {
        RequestError::OtherRequest(_) => return Problem::new(StatusCode::CONFLICT, detail).at("/id"),
        RequestError::UnknownDomain(_) => "/domain",
        RequestError::Ask(AskError::UnknownUnit { .. }) => "/cost",
        RequestError::Ask(AskError::UnknownTier { .. }) => "/attributes/tier",
        RequestError::Ask(_) => "/attributes",
    };
    Problem::malformed(detail).at(place)
}
