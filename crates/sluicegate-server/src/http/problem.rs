//! Mistakes of a client, as problem details (RFC 9457).

use std::borrow::Cow;

use hyper::{
    StatusCode,
    header::{ALLOW, HeaderValue},
};
use serde::Serialize;

use super::answer::{Answer, PROBLEM_JSON, answer};

/// What is wrong with a request.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: Cow<'static, str>,
    /// Where in the body, as a JSON pointer (RFC 6901).
    pointer: Option<String>,
    allow: Option<&'static str>,
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
        Self { status, detail: detail.into(), pointer: None, allow: None }
    }

    /// A request that names no path of the door's.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is nothing at this path; `/openapi.json` lists the paths")
    }

    /// A path that exists, asked with a wrong method.
    pub(super) fn wrong_method(allow: &'static str) -> Self {
        let detail = format!("this path answers {allow}");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    /// The problem as an answer.
    pub(super) fn answer(&self) -> Answer {
        let mut answer = answer(self.status, PROBLEM_JSON, self.body());
        if let Some(allow) = self.allow {
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
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
