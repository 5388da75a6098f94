//! Reading the body of a request, within bounds.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use http_body_util::BodyExt;
use hyper::{
    HeaderMap, StatusCode,
    body::{Body, Bytes, Incoming},
    header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderValue},
};
use tokio::time::timeout;

use super::problem::Problem;

/// The most bytes of a refused body that are read and dropped, so that a client that sends first and reads later
/// gets its answer instead of a broken connection.
const MAX_DISCARDED: usize = 4 * 1024 * 1024;

/// The bounds of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// Bytes.
    pub(super) max_len: usize,
    /// The time in which all of it must arrive.
    pub(super) within: Duration,
}

/// Refuses a body that says it is not JSON. One that says nothing is taken at its word.
pub(super) fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "bodies are taken without a `content-encoding`",
        ));
    }
    match headers.get(CONTENT_TYPE) {
        None => Ok(()),
        Some(given) if given == "application/json" || is_json(given) => Ok(()),
        Some(_) => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the `content-type` of a request is `application/json` (with curl: `-H 'content-type: application/json'`)",
        )),
    }
}

fn is_json(media_type: &HeaderValue) -> bool {
    let Ok(text) = media_type.to_str() else { return false };
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.starts_with("application/") && essence.ends_with("+json")
}

/// What a future gives within that time.
///
/// A body has nearly always come with its head, but is handed over one step later. So the second look is taken at
/// once, and a timer, which costs more than reading the body, is set only if that finds nothing either.
async fn soon<F: Future>(within: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut looked = false;
    let first = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if looked => Poll::Ready(None),
        Poll::Pending => {
            looked = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match first.await {
        Some(output) => Some(output),
        None => timeout(within, future).await.ok(),
    }
}

/// The whole body.
pub(super) async fn read(headers: &HeaderMap, body: Incoming, expected: Expected) -> Result<Bytes, Problem> {
    match soon(expected.within, read_bounded(headers, body, expected.max_len)).await {
        Some(read) => read,
        None => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")),
    }
}

async fn read_bounded(headers: &HeaderMap, mut body: Incoming, max: usize) -> Result<Bytes, Problem> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > max {
        // Who waits for `100 Continue` sends nothing before the answer.
        if !headers.contains_key(EXPECT) {
            drain(body).await;
        }
        return Err(too_large(max));
    }
    let first = next_data(&mut body).await?.unwrap_or_default();
    if body.is_end_stream() && first.len() <= max {
        return Ok(first);
    }
    let mut whole = Vec::with_capacity(announced.max(first.len()));
    whole.extend_from_slice(&first);
    while whole.len() <= max
        && let Some(data) = next_data(&mut body).await?
    {
        whole.extend_from_slice(&data);
    }
    if whole.len() > max {
        drain(body).await;
        return Err(too_large(max));
    }
    Ok(whole.into())
}

/// The next data of a body; `None` at its end.
async fn next_data(body: &mut Incoming) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::malformed("the body ended early or is not framed as HTTP"))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Reads and drops a body that nobody wants.
pub(super) async fn discard(body: Incoming, within: Duration) {
    if !body.is_end_stream() {
        // What has not come by then is not waited for: the connection ends after the answer.
        let _ = timeout(within, drain(body)).await;
    }
}

async fn drain(mut body: Incoming) {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut left = MAX_DISCARDED;
    while announced <= MAX_DISCARDED
        && let Ok(Some(data)) = next_data(&mut body).await
    {
        match left.checked_sub(data.len()) {
            Some(less) => left = less,
            None => return,
        }
    }
}

fn too_large(max: usize) -> Problem {
    let detail = format!("the body is larger than {max} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}
