//! The door: bytes of commands in, bytes of answers out, in the order of the commands.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use futures_util::future::join_all;
use sluicegate::{Clock, SureStore, Verb, core::AskDecision};

use super::{
    command::{Command, Decide, Refused},
    encode::Writer,
    parse::{ProtocolError, parse},
    session::Session,
    take::Take,
    throttle::{self, Throttle},
};
use crate::{http::decision_value, running::Running};

/// The most commands that are decided together: their answers wait in memory until the last is there.
const MAX_RUN: usize = 128;

/// Answers the Redis protocol.
#[derive(Debug)]
pub struct Door<S, C> {
    running: Arc<Running<S, C>>,
    store: S,
    clock: C,
    password: Option<String>,
    connections: AtomicI64,
}

/// What a decision came to.
enum Decided {
    Throttled([i64; 5]),
    Told(serde_json::Value),
    Refused(Refused),
}

/// How far a buffer was carried out.
#[derive(Debug)]
pub(super) struct Progress {
    /// The bytes that need not be kept.
    pub(super) consumed: usize,
    /// Why the connection cannot go on, if so.
    pub(super) broken: Option<ProtocolError>,
}

impl<S: SureStore, C: Clock> Door<S, C> {
    /// A door over the domains' policies, and over a store for the limits that commands spell out. With a password,
    /// connections say it first.
    pub fn new(running: impl Into<Arc<Running<S, C>>>, store: S, clock: C, password: Option<String>) -> Self {
        Self { running: running.into(), store, clock, password, connections: AtomicI64::new(1) }
    }

    pub(super) fn session(&self) -> Session<'_> {
        Session::new(self.connections.fetch_add(1, Ordering::Relaxed), self.password.as_deref())
    }

    /// Carries out the whole commands at the beginning of a buffer, at most [`MAX_RUN`] of them.
    pub(super) async fn carry_out(
        &self,
        session: &mut Session<'_>,
        buffer: &[u8],
        out: &mut Vec<u8>,
    ) -> Progress {
        let (mut consumed, mut broken, mut run) = (0, None, Vec::new());
        for _ in 0..MAX_RUN {
            let parsed = match parse(buffer.get(consumed..).unwrap_or_default()) {
                Ok(Some(parsed)) => parsed,
                Ok(None) => break,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            };
            consumed += parsed.end;
            if parsed.words.is_empty() {
                continue;
            }
            match Command::read(&parsed.words, &mut session.last) {
                Ok(Command::Plain(name, rest)) => {
                    self.decide_all(std::mem::take(&mut run), &mut session.writer(out)).await;
                    session.carry_out(name, rest, out);
                }
                _ if !session.trusted => run.push(Err(Refused::NoAuth)),
                Ok(Command::Decide(decide)) => run.push(Ok(decide)),
                Err(refused) => run.push(Err(refused)),
            }
            if session.ending {
                break;
            }
        }
        self.decide_all(run, &mut session.writer(out)).await;
        if let Some(error) = broken {
            session.writer(out).error(&format!("ERR Protocol error: {error}"));
        }
        Progress { consumed, broken }
    }

    /// All decisions of a run are on their way at once, so that a store over a network answers them in one go.
    async fn decide_all(&self, run: Vec<Result<Decide, Refused>>, writer: &mut Writer<'_>) {
        let decided = join_all(run.iter().map(|decide| async move {
            match decide {
                Ok(decide) => self.decide(decide).await.unwrap_or_else(Decided::Refused),
                Err(refused) => Decided::Refused(refused.clone()),
            }
        }));
        for decided in decided.await {
            match decided {
                Decided::Throttled(numbers) => {
                    writer.list(numbers.len());
                    for number in numbers {
                        writer.integer(number);
                    }
                }
                Decided::Told(value) => writer.value(&value),
                Decided::Refused(refused) => writer.error(&refused.to_string()),
            }
        }
    }

    async fn decide(&self, decide: &Decide) -> Result<Decided, Refused> {
        match decide {
            Decide::Throttle(throttle) => Ok(Decided::Throttled(self.throttle(throttle).await)),
            Decide::Take(take) => self.ask(Verb::Take, take).await.map(Decided::Told),
            Decide::Peek(take) => self.ask(Verb::Peek, take).await.map(Decided::Told),
        }
    }

    async fn throttle(&self, throttle: &Throttle) -> [i64; 5] {
        let decision = self.store.decide(Verb::Take, &[throttle.ask()], self.clock.now()).await;
        throttle::reply(decision.asks.first().unwrap_or(&AskDecision::UNLIMITED))
    }

    async fn ask(&self, verb: Verb, take: &Take) -> Result<serde_json::Value, Refused> {
        let domains = self.running.now();
        let verdict = domains.decide(&take.domain, verb, &take.attributes, &take.costs).await;
        verdict.map(|verdict| decision_value(&verdict)).map_err(|error| Refused::Invalid(error.to_string()))
    }
}
