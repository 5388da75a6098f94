//! Answers on the wire.

use http_body_util::Full;
use hyper::{
    HeaderMap, Response, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};

/// What the door sends.
pub type Answer = Response<Full<Bytes>>;

/// The media type of everything but problems.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The media type of refusals and mistakes (RFC 9457).
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An answer of one body.
pub(super) fn answer(status: StatusCode, media_type: HeaderValue, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, media_type);
    *answer.headers_mut() = headers;
    answer
}
