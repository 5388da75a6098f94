//! Sends what is due, over connections that are kept.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
    header,
};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use sluicegate::{
    Clock, SystemClock,
    core::{Attributes, Costs, Micros},
};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use super::{super::Failure, plan::Plan, report::Report};

/// The attribute by which users differ.
pub(super) const USER: &str = "user";
/// The longest wait for a connection or an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MAX_ANSWER_LEN: usize = 1 << 20;

/// What every request says.
pub(super) struct Asks<'a> {
    pub(super) domain: &'a str,
    pub(super) attributes: &'a Attributes,
    pub(super) costs: &'a Costs,
}

impl Asks<'_> {
    /// The attributes of a user's request.
    pub(super) fn attributes_of(&self, user: u32) -> Attributes {
        let mut attributes = self.attributes.clone();
        attributes.insert(USER, format!("user-{user}"));
        attributes
    }

    /// The body before the name of the user, and after it.
    fn body(&self) -> (String, String) {
        const MARK: &str = "\u{1}";
        let of = |name: &str| self.attributes.value(name).unwrap_or_default().to_owned();
        let mut attributes: Map<String, Value> =
            self.attributes.names().map(|name| (name.to_owned(), of(name).into())).collect();
        attributes.insert(USER.to_owned(), MARK.into());
        let costs: Map<String, Value> =
            self.costs.units().map(|unit| (unit.to_owned(), self.costs.of(unit).into())).collect();
        let mut body = json!({ "domain": self.domain, "attributes": attributes });
        if let (false, Some(body)) = (costs.is_empty(), body.as_object_mut()) {
            body.insert("cost".to_owned(), costs.into());
        }
        let text = body.to_string();
        // A control character is escaped in JSON, so the mark stands for nothing else.
        let (before, after) = text.split_once("\\u0001").unwrap_or((&text, ""));
        (before.to_owned(), after.to_owned())
    }
}

/// The door that is asked.
#[derive(Clone, Debug)]
pub(super) struct Target {
    address: SocketAddr,
    host: String,
}

impl Target {
    /// Looks a door up. One that is not on this machine is asked only if that was allowed.
    pub(super) async fn find(url: &str, remote: bool) -> Result<Self, Failure> {
        let uri = url.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("http"));
        let host = uri.as_ref().and_then(Uri::host).ok_or_else(|| {
            Failure::usage(format!("`{url}` is no `http://` URL")).hint("write it as `http://127.0.0.1:8080`")
        })?;
        let port = uri.as_ref().and_then(Uri::port_u16).unwrap_or(80);
        let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
        let found = found.map_err(|error| Failure::undecided(format!("cannot find `{host}`: {error}")))?;
        let usable = found.into_iter().find(|address| remote || address.ip().is_loopback());
        let address = usable.ok_or_else(|| {
            Failure::usage(format!("`{host}` is not this machine"))
                .hint("a load test is an attack where nobody expects it: add `--allow-remote` if you may do this there")
        })?;
        Ok(Self { address, host: format!("{host}:{port}") })
    }

    async fn connect(&self) -> Option<SendRequest<Full<Bytes>>> {
        let stream = timeout(PATIENCE, TcpStream::connect(self.address)).await.ok()?.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        // It ends with its sender; what breaks it is told to the request that waits.
        tokio::spawn(async move { drop(connection.await) });
        Some(sender)
    }
}

/// What all connections share.
struct Shared {
    target: Target,
    plan: Plan,
    body: (String, String),
    next: AtomicUsize,
    start: Instant,
    /// From when on nothing is sent any more, since whoever is asked does not keep up.
    end: Instant,
}

/// Sends all requests of a plan. Answers when it began, and what came of it.
pub(super) async fn drive(
    target: &Target,
    asks: &Asks<'_>,
    plan: &Plan,
    connections: u32,
) -> Result<(Micros, Report), Failure> {
    let (target, plan, body) = (target.clone(), plan.clone(), asks.body());
    // Connections are made before the first request is due.
    let ahead = Duration::from_millis(100);
    let (start, began) = (Instant::now() + ahead, SystemClock::new().now().plus(ahead));
    let end = start + plan.length() + PATIENCE;
    let shared = Arc::new(Shared { target, plan, body, next: AtomicUsize::new(0), start, end });
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn(send_what_is_due(shared.clone()));
    }
    let mut report = Report::default();
    while let Some(ended) = tasks.join_next().await {
        report.add(&ended.map_err(|error| Failure::undecided(format!("a connection was lost: {error}")))?);
    }
    report.took(start.elapsed());
    Ok((began, report))
}

async fn send_what_is_due(shared: Arc<Shared>) -> Report {
    let mut report = Report::default();
    let mut connection = shared.target.connect().await;
    while let Some((after, user)) = shared.plan.get(shared.next.fetch_add(1, Ordering::Relaxed)) {
        let due = shared.start + after;
        let late = Instant::now() >= due;
        if Instant::now() >= shared.end {
            report.unsent(1);
            continue;
        }
        sleep_until(due).await;
        // A request that found no free connection has waited since it was due, and so has whoever sent it. One that did not
        // is measured from when it was sent: a timer's lateness is not the server's.
        let since = if late { due } else { Instant::now() };
        if let Some(status) = answer(&shared, &mut connection, user).await {
            report.answered(status, since.elapsed());
        } else {
            report.failed(since.elapsed());
            connection = shared.target.connect().await;
        }
    }
    report
}

/// The status of a request's answer; `None` if it had none.
async fn answer(
    shared: &Shared,
    connection: &mut Option<SendRequest<Full<Bytes>>>,
    user: u32,
) -> Option<StatusCode> {
    let sender = connection.as_mut()?;
    let (before, after) = &shared.body;
    let request = Request::post("/v1/take")
        .header(header::HOST, &shared.target.host)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(format!("{before}user-{user}{after}")))
        .ok()?;
    let exchange = async {
        let answer = sender.send_request(request).await.ok()?;
        let status = answer.status();
        // The body is read so that the connection can serve again.
        Limited::new(answer.into_body(), MAX_ANSWER_LEN).collect().await.ok()?;
        Some(status)
    };
    timeout(PATIENCE, exchange).await.ok()?
}
