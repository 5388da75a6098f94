//! Mistakes of a client, as problem details (RFC 9457).

use std::borrow::Cow;

use hyper::{
    StatusCode,
    header::{ALLOW, HeaderName, HeaderValue, WWW_AUTHENTICATE},
};
use serde::Serialize;
use serde_path_to_error::{Path, Segment};

use super::answer::{Answer, PROBLEM_JSON, answer};

/// The longest explanation, in bytes: errors quote what was sent, which may be long.
const MAX_DETAIL_LEN: usize = 400;
/// The longest name in a pointer, in bytes; the pointer to a longer one ends at its parent.
const MAX_SEGMENT_LEN: usize = 128;

/// What is wrong with a request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: Cow<'static, str>,
    /// Where in the body, as a JSON pointer (RFC 6901).
    pointer: Option<String>,
    /// A header that tells what would be right.
    remedy: Option<(HeaderName, &'static str)>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
}

impl Problem {
    /// A problem with a status of its own.
    pub(super) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, detail: detail.into(), pointer: None, remedy: None }
    }

    /// A body that makes no sense.
    pub(super) fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// A body that makes no sense at one place of it.
    pub(super) fn malformed_at(path: &Path, error: &serde_json::Error) -> Self {
        let pointer = pointer_to(path);
        if pointer.is_empty() {
            return Self::malformed(shortened(error.to_string()));
        }
        let place = pointer.trim_start_matches('/').replace('/', ".");
        Self::malformed(shortened(format!("`{place}`: {error}"))).at(pointer)
    }

    /// Names the place.
    #[must_use]
    pub(super) fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }

    /// A request that names no path of the door's.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is nothing at this path; `/openapi.json` lists the paths")
    }

    /// A path that exists, asked with a wrong method.
    pub(super) fn wrong_method(allow: &'static str) -> Self {
        let detail = format!("this path answers {allow}");
        Self { remedy: Some((ALLOW, allow)), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    /// A request that does not say a token which is known.
    pub(super) fn unauthorized(token: &'static str) -> Self {
        let detail = format!("say `authorization: Bearer …` with {token}");
        Self { remedy: Some((WWW_AUTHENTICATE, "Bearer")), ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }

    /// The problem as an answer.
    pub(super) fn answer(&self) -> Answer {
        let mut answer = answer(self.status, PROBLEM_JSON, self.body());
        if let Some((name, value)) = &self.remedy {
            answer.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        answer
    }

    /// The problem as JSON.
    pub(super) fn body(&self) -> Vec<u8> {
        let body = Body {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            pointer: self.pointer.as_deref(),
        };
        // Strings and one number always serialise.
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

/// The path as a JSON pointer (RFC 6901).
fn pointer_to(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => {
                pointer.push('/');
                pointer.push_str(&index.to_string());
            }
            Segment::Map { key } if key.len() <= MAX_SEGMENT_LEN => {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            _ => break,
        }
    }
    pointer
}

/// A text of bounded length.
pub(crate) fn shortened(mut text: String) -> String {
    if text.len() > MAX_DETAIL_LEN {
        let whole = (0..=MAX_DETAIL_LEN).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(whole.unwrap_or(0));
        text.push('…');
    }
    text
}
