//! Any HTTP endpoint as a contender: 200 admits, 429 denies.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
    header::{HOST, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use super::{Contender, Failure, PATIENCE, Race, RaceError, Racer};

/// The text that stands for a round's own key in URL, headers and body.
const KEY: &str = "{key}";
/// The most of an answer that is read before its connection is given up, in bytes.
const MAX_ANSWER_LEN: usize = 1 << 20;

/// Flags that say where and how to ask.
#[derive(Debug, clap::Args)]
pub(super) struct Endpoint {
    /// An HTTP endpoint to race against: 200 admits, 429 denies. `{key}` stands for a fresh key per round.
    #[arg(long, env = "SLUICEGATE_RACE_URL", value_name = "URL")]
    url: Option<String>,
    /// The method to ask with.
    #[arg(long, env = "SLUICEGATE_RACE_METHOD", default_value = "GET", value_name = "METHOD")]
    method: Method,
    /// A header to send, such as `x-user: {key}`; again for each further one.
    #[arg(long = "header", env = "SLUICEGATE_RACE_HEADER", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The body to send; `{key}` stands for a fresh key per round.
    #[arg(long, env = "SLUICEGATE_RACE_BODY", default_value = "", value_name = "TEXT")]
    body: String,
    /// Race against hosts that are not this machine, too. Only do so where you may.
    #[arg(long, env = "SLUICEGATE_RACE_ALLOW_REMOTE")]
    allow_remote: bool,
}

/// An endpoint.
#[derive(Debug)]
pub(super) struct Target {
    url: String,
    address: SocketAddr,
    method: Method,
    headers: Vec<(HeaderName, String)>,
    body: String,
}

impl Endpoint {
    /// Whether every round meets a counter of its own: always, except at an endpoint that is asked without `{key}`.
    pub(super) fn is_fresh_each_round(&self) -> bool {
        let Some(url) = &self.url else { return true };
        std::iter::once(url).chain(&self.headers).chain([&self.body]).any(|text| text.contains(KEY))
    }

    /// The endpoint, if one is named: resolved once, so that what was checked is what is asked.
    pub(super) async fn open(&self, race: Race) -> Result<Option<Target>, Failure> {
        let Some(url) = &self.url else { return Ok(None) };
        let headers =
            self.headers.iter().map(|header| parse_header(header)).collect::<Result<Vec<_>, _>>()?;
        if race.rounds > 1 && !self.is_fresh_each_round() {
            let problem = Failure::usage("every round after the first would meet a full counter");
            return Err(problem.hint("let `{key}` stand in the URL, a header or the body, or race one round"));
        }
        let uri = uri(url, "probe")?;
        let address = self.resolve(&uri).await?;
        let (method, body) = (self.method.clone(), self.body.clone());
        Ok(Some(Target { url: url.clone(), address, method, headers, body }))
    }

    async fn resolve(&self, uri: &Uri) -> Result<SocketAddr, Failure> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let found = tokio::net::lookup_host((host, uri.port_u16().unwrap_or(80))).await;
        let found = found.map_err(|error| Failure::undecided(format!("cannot find `{host}`: {error}")))?;
        let addresses: Vec<SocketAddr> = found.collect();
        let usable = |address: &&SocketAddr| self.allow_remote || address.ip().is_loopback();
        addresses.iter().find(usable).copied().ok_or_else(|| {
            let problem = Failure::usage(format!("`{host}` is not this machine"));
            problem.hint("a race is a small attack: add `--allow-remote` if you may do this there")
        })
    }
}

fn uri(url: &str, key: &str) -> Result<Uri, Failure> {
    let parsed = url.replace(KEY, key).parse::<Uri>().ok();
    parsed.filter(|uri| uri.scheme_str() == Some("http") && uri.host().is_some()).ok_or_else(|| {
        let hint = "write it as `http://127.0.0.1:8080/path`; TLS is not spoken here";
        Failure::usage(format!("`{url}` is no `http://` URL")).hint(hint)
    })
}

fn parse_header(text: &str) -> Result<(HeaderName, String), Failure> {
    let malformed = || Failure::usage(format!("`{text}` is no header")).hint("write `name: value`");
    let (name, value) = text.split_once(':').ok_or_else(malformed)?;
    let (name, value) = (name.trim().parse().map_err(|_| malformed())?, value.trim());
    HeaderValue::from_str(value).map_err(|_| malformed())?;
    Ok((name, value.to_owned()))
}

impl Target {
    fn request(&self, key: &str) -> Result<Request<Full<Bytes>>, RaceError> {
        let wrong = |error: hyper::http::Error| RaceError::unanswered("request")(error.into());
        let uri: Uri =
            self.url.replace(KEY, key).parse().map_err(|error| wrong(hyper::http::Error::from(error)))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::builder().method(self.method.clone()).uri(path);
        if !self.headers.iter().any(|(name, _)| name == HOST) {
            request = request.header(HOST, host);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value.replace(KEY, key));
        }
        request.body(Full::from(self.body.replace(KEY, key))).map_err(wrong)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, RaceError> {
        let connect = async {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream = patient("connect", connect).await?;
        let (sender, connection) = patient("connect", http1::handshake(TokioIo::new(stream))).await?;
        // Ends with its sender; what breaks it is told to the request that waits.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}

/// Waits, but not for ever.
async fn patient<T, E>(what: &'static str, work: impl Future<Output = Result<T, E>>) -> Result<T, RaceError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match timeout(PATIENCE, work).await {
        Ok(done) => done.map_err(|error| RaceError::unanswered(what)(error.into())),
        Err(late) => Err(RaceError::unanswered(what)(late.into())),
    }
}

impl Contender for Target {
    type Racer = HttpRacer;

    fn name(&self) -> String {
        self.url.clone()
    }

    /// One after the other, over one connection for as long as the endpoint keeps it.
    async fn prepare(&self, key: &str, used: u32) -> Result<(), RaceError> {
        let mut sender = self.connect().await?;
        for at in 1..=used {
            if sender.is_closed() || patient("connect", sender.ready()).await.is_err() {
                sender = self.connect().await?;
            }
            if !send(&mut sender, self.request(key)?).await? {
                return Err(RaceError::DeniedEarly { at, used });
            }
        }
        Ok(())
    }

    async fn racer(&self, key: &str) -> Result<HttpRacer, RaceError> {
        Ok(HttpRacer { sender: self.connect().await?, request: self.request(key)? })
    }

    async fn clear(&self, _key: &str) -> Result<(), RaceError> {
        Ok(())
    }
}

/// One request on a connection that is open already.
pub(super) struct HttpRacer {
    sender: SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
}

impl Racer for HttpRacer {
    async fn run(mut self) -> Result<bool, RaceError> {
        send(&mut self.sender, self.request).await
    }
}

async fn send(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<bool, RaceError> {
    let answer = patient("request", sender.send_request(request)).await?;
    let status = answer.status();
    // The body is read so that the connection can serve again.
    let body = http_body_util::Limited::new(answer.into_body(), MAX_ANSWER_LEN);
    patient("answer", body.collect()).await?;
    match status {
        StatusCode::OK => Ok(true),
        StatusCode::TOO_MANY_REQUESTS => Ok(false),
        other => Err(RaceError::OtherStatus(other)),
    }
}
