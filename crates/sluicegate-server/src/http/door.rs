//! The door: which path is answered how.

use std::sync::atomic::{AtomicBool, Ordering};

use hyper::{Method, Request, StatusCode, body::Incoming};

use super::{
    answer::{Answer, JSON, answer},
    problem::Problem,
};

/// Answers requests.
#[derive(Debug, Default)]
pub struct Door {
    stopping: AtomicBool,
}

impl Door {
    /// A door that is ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// From here on `/readyz` answers 503; everything else goes on.
    pub fn turn_unready(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Answers one request.
    pub fn serve(&self, request: &Request<Incoming>) -> Answer {
        self.route(request).unwrap_or_else(|problem| problem.answer())
    }

    fn route(&self, request: &Request<Incoming>) -> Result<Answer, Problem> {
        match request.uri().path() {
            "/livez" => read_only(request.method(), || answer(StatusCode::OK, JSON, r#"{"status":"live"}"#)),
            "/readyz" => read_only(request.method(), || self.readiness()),
            _ => Err(Problem::not_found()),
        }
    }

    fn readiness(&self) -> Answer {
        if self.stopping.load(Ordering::Relaxed) {
            return answer(StatusCode::SERVICE_UNAVAILABLE, JSON, r#"{"status":"stopping"}"#);
        }
        answer(StatusCode::OK, JSON, r#"{"status":"ready"}"#)
    }
}

fn read_only(method: &Method, answer: impl FnOnce() -> Answer) -> Result<Answer, Problem> {
    match *method {
        Method::GET | Method::HEAD => Ok(answer()),
        _ => Err(Problem::wrong_method("GET, HEAD")),
    }
}
