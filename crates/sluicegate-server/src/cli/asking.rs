//! One question to a server over HTTP, as verbs ask it.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::{HeaderMap, Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MAX_ANSWER_LEN: usize = 64 << 20;

/// What a server said.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

/// A server that was not heard.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unheard {
    #[error("cannot be reached: {0}")]
    Unreached(#[from] std::io::Error),
    #[error("does not answer within {PATIENCE:?}")]
    Late(#[from] tokio::time::error::Elapsed),
    #[error("is not understood: {0}")]
    Garbled(Box<dyn std::error::Error + Send + Sync>),
}

/// Asks a server at `host:port`, on a connection of its own.
pub(super) async fn ask(authority: &str, request: Request<Full<Bytes>>) -> Result<Answer, Unheard> {
    timeout(PATIENCE, exchange(authority, request)).await?
}

async fn exchange(authority: &str, mut request: Request<Full<Bytes>>) -> Result<Answer, Unheard> {
    let stream = TcpStream::connect(authority).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| Unheard::Garbled(error.into()))?;
    // It ends with its sender; what breaks it is told to the request that waits.
    tokio::spawn(async move { drop(connection.await) });
    let host =
        authority.parse().map_err(|error: header::InvalidHeaderValue| Unheard::Garbled(error.into()))?;
    request.headers_mut().insert(header::HOST, host);
    let answer = sender.send_request(request).await.map_err(|error| Unheard::Garbled(error.into()))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MAX_ANSWER_LEN).collect().await.map_err(Unheard::Garbled)?.to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Answer { status: head.status, headers: head.headers, body })
}
