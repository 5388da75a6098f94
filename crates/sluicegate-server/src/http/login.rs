//! Guesses at secrets over HTTP: `/v1/login/begin` and `/v1/login/report`.

use std::{fmt, net::IpAddr, pin::Pin, time::Duration};

use hyper::{
    StatusCode,
    header::{HeaderValue, RETRY_AFTER},
};
use serde::{Deserialize, Serialize};
use sluicegate::{
    Clock,
    core::login::{Lane, Scope},
    login::{
        Begun, LoginError, LoginGuard, LoginRequest, LoginStore, Proof, Purpose, Refusal, Settled,
        Settlement, Who,
    },
};

use super::{
    answer::{Answer, JSON, answer},
    problem::{Problem, shortened},
    request,
};

/// How long a caller waits that could not be answered.
const LATER: Duration = Duration::from_secs(1);

/// A guard, whatever its store and clock.
pub trait LoginAnswers: fmt::Debug + Send + Sync {
    /// Answers `/v1/login/begin`.
    fn begin<'a>(&'a self, json: &'a [u8]) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
    /// Answers `/v1/login/report`.
    fn report<'a>(&'a self, json: &'a [u8]) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
}

impl<S, C> LoginAnswers for LoginGuard<S, C>
where
    S: LoginStore + fmt::Debug + 'static,
    C: Clock + fmt::Debug + 'static,
{
    fn begin<'a>(&'a self, json: &'a [u8]) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move { begin(self, json).await.unwrap_or_else(|problem| problem.answer()) })
    }

    fn report<'a>(&'a self, json: &'a [u8]) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move { report(self, json).await.unwrap_or_else(|problem| problem.answer()) })
    }
}

/// The body of `/v1/login/begin`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BeginBody {
    purpose: String,
    id: Option<String>,
    name: Option<String>,
    address: Option<IpAddr>,
    code: Option<String>,
    cookie: Option<String>,
    #[serde(default)]
    epoch: u32,
    proof: Option<String>,
    #[serde(default)]
    stepped_up: bool,
}

impl BeginBody {
    fn request(&self) -> Result<LoginRequest<'_>, Problem> {
        let purpose = Purpose::named(&self.purpose, self.code.as_deref())
            .map_err(|error| Problem::malformed(shortened(error.to_string())).at("/purpose"))?;
        let who = match (&self.id, &self.name) {
            (Some(id), None) => Who::Resolved(id),
            (None, Some(name)) => Who::Presented(name),
            _ => return Err(Problem::malformed("give either `id` or `name`").at("/name")),
        };
        Ok(LoginRequest {
            cookie: self.cookie.as_deref(),
            epoch: self.epoch,
            proof: self.proof.as_deref().map(Proof::Work),
            stepped_up: self.stepped_up,
            ..LoginRequest::new(purpose, who, self.address)
        })
    }
}

/// The answer of `/v1/login/begin`.
#[derive(Debug, Default, Serialize)]
struct BegunBody<'a> {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bits: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

async fn begin<S: LoginStore, C: Clock>(guard: &LoginGuard<S, C>, json: &[u8]) -> Result<Answer, Problem> {
    let body: BeginBody = request::read(json)?;
    match guard.begin(&body.request()?).await {
        Ok(Begun::Open(attempt)) => {
            let begun =
                BegunBody { verdict: "allow", attempt: Some(attempt.into_token()), ..BegunBody::default() };
            Ok(tell(StatusCode::OK, &begun))
        }
        Ok(Begun::Refused(refusal)) => Ok(refused(&refusal)),
        Err(LoginError::Name(error)) => Err(Problem::malformed(error.to_string()).at("/name")),
        Err(LoginError::Store(error)) => {
            tracing::warn!(%error, "an attempt could not be counted, and is refused");
            Ok(refused(&Refusal::Busy { after: LATER }))
        }
    }
}

fn refused(refusal: &Refusal) -> Answer {
    let later = |verdict, scope, after: Duration| BegunBody {
        verdict,
        scope,
        retry_after_ms: Some(u64::try_from(after.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)),
        ..BegunBody::default()
    };
    let body = match refusal {
        Refusal::Challenge { nonce, bits, .. } => {
            BegunBody { verdict: "challenge", nonce: Some(nonce), bits: Some(*bits), ..BegunBody::default() }
        }
        Refusal::Delay { after } => later("delay", None, *after),
        Refusal::Deny { scope, after } => later("deny", Some(word(*scope)), *after),
        Refusal::Busy { after } => later("busy", None, *after),
        Refusal::StepUp => BegunBody { verdict: "step_up", ..BegunBody::default() },
    };
    let mut answer = tell(StatusCode::TOO_MANY_REQUESTS, &body);
    if let Some(retry_after_ms) = body.retry_after_ms {
        let seconds = retry_after_ms.div_ceil(1_000).max(1);
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::Account => "account",
        Scope::Address => "address",
        Scope::Code => "code",
    }
}

/// The body of `/v1/login/report`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportBody {
    attempt: String,
    outcome: OutcomeWord,
    #[serde(default)]
    popular: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeWord {
    Success,
    Failure,
    Aborted,
}

/// The answer of `/v1/login/report`.
#[derive(Debug, Serialize)]
struct SettledBody {
    settled: &'static str,
    /// Whether the caller may let the client in.
    let_in: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cookie: Option<String>,
}

async fn report<S: LoginStore, C: Clock>(guard: &LoginGuard<S, C>, json: &[u8]) -> Result<Answer, Problem> {
    let body: ReportBody = request::read(json)?;
    let settlement = match body.outcome {
        OutcomeWord::Success => Settlement::Right,
        OutcomeWord::Aborted => Settlement::Undecided,
        OutcomeWord::Failure => Settlement::Wrong { secret: None, popular: body.popular },
    };
    let attempt = guard.resume(&body.attempt);
    let attempt = attempt.ok_or_else(|| Problem::malformed("the attempt is not genuine").at("/attempt"))?;
    let not_settled = |settled| SettledBody { settled, let_in: false, lane: None, cookie: None };
    let told = match attempt.report(settlement).await {
        Ok(Settled::Done { lane, cookie }) => SettledBody {
            settled: "done",
            let_in: settlement == Settlement::Right,
            lane: Some(lane_word(lane)),
            cookie,
        },
        Ok(Settled::Already) => not_settled("already"),
        Ok(Settled::Expired) => not_settled("expired"),
        Err(error) => {
            tracing::warn!(%error, "an attempt could not be settled: it stays counted, and nobody is let in");
            not_settled("unknown")
        }
    };
    Ok(tell(StatusCode::OK, &told))
}

fn lane_word(lane: Lane) -> &'static str {
    match lane {
        Lane::Device => "device",
        Lane::Familiar => "familiar",
        Lane::Unknown => "unknown",
    }
}

fn tell(status: StatusCode, body: &impl Serialize) -> Answer {
    // Strings and numbers always serialise.
    answer(status, JSON, serde_json::to_vec(body).unwrap_or_default())
}
