//! The narrow waist: what a store can do, and nothing else.

use std::{borrow::Cow, error::Error, fmt, sync::Arc};

use sluicegate_core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject};

use crate::limiter::Verb;

/// Keeps the state of limits and decides, each call in one atomic step.
///
/// `now` is given: no store reads a clock to decide. Deadline, fallback, metrics and dry run are wrappers around a
/// store, never branches inside one.
pub trait Store: Send + Sync {
    /// Checks every ask and, only if all pass, counts them all. A denial changes nothing.
    fn take(
        &self,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// [`Store::take`] under an id: made again within [`RequestId::LIFETIME`], the same asks in the same order get the
    /// same answer and count nothing, also if the caller never got the first one. Denials, and requests that cost
    /// nothing, are not remembered: they are decided anew.
    fn take_once(
        &self,
        id: &RequestId,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> impl Future<Output = Result<Once, StoreError>> + Send;

    /// Answers as [`Store::take`] would, and changes nothing.
    fn peek(
        &self,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Replaces what charges cost by what they turned out to cost, under an id of its own. No limit refuses it, and it is
    /// done once: made again within [`RequestId::LIFETIME`] it changes nothing.
    fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send;

    /// Drops the state of one limit and subject, and nothing else. Answers whether there was any.
    fn forget(&self, id: LimitId, subject: &Subject)
    -> impl Future<Output = Result<bool, StoreError>> + Send;
}

impl<S: Store> Store for Arc<S> {
    fn take(
        &self,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        (**self).take(asks, now)
    }

    fn take_once(
        &self,
        id: &RequestId,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> impl Future<Output = Result<Once, StoreError>> + Send {
        (**self).take_once(id, asks, now)
    }

    fn peek(
        &self,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        (**self).peek(asks, now)
    }

    fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        (**self).settle(id, charges, now)
    }

    fn forget(
        &self,
        id: LimitId,
        subject: &Subject,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        (**self).forget(id, subject)
    }
}

/// A store that always decides: its `take` and `peek` never end in an error.
pub trait SureStore: Store {
    /// [`Store::take`] or [`Store::peek`], by name.
    fn decide(&self, verb: Verb, asks: &[Ask<'_>], now: Micros) -> impl Future<Output = Decision> + Send;

    /// [`Store::take_once`]. While the store does not answer, an id is not known.
    fn decide_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros)
    -> impl Future<Output = Once> + Send;
}

impl<S: SureStore> SureStore for Arc<S> {
    fn decide(&self, verb: Verb, asks: &[Ask<'_>], now: Micros) -> impl Future<Output = Decision> + Send {
        (**self).decide(verb, asks, now)
    }

    fn decide_once(
        &self,
        id: &RequestId,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> impl Future<Output = Once> + Send {
        (**self).decide_once(id, asks, now)
    }
}

/// What a store says to a request with an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once {
    /// The decision, of now or as it was made the first time.
    Decided {
        /// The decision.
        decision: Decision,
        /// When it was made: what its durations count from.
        at: Micros,
    },
    /// The id names another request, which was admitted; this one was not decided.
    OtherRequest,
}

/// What a store says to a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is done, now or before.
    Done,
    /// The id was settled with other costs; nothing was changed.
    OtherCosts,
}

/// Whether a call that failed may have counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It is known that nothing was counted: the call may be made again.
    Nothing,
    /// The call may have been applied: a second one could count twice.
    Unknown,
}

/// Why a store could not decide: what operators count by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The store said so, or could not be reached.
    #[default]
    Error,
    /// It did not answer by the deadline.
    Deadline,
    /// It is ill, and gets no calls for now.
    Breaker,
    /// Too many calls wait for it.
    Overload,
    /// It is well, and this request alone cannot be decided: for what one of its keys holds, or for how it is made.
    Request,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::Error, Self::Deadline, Self::Breaker, Self::Overload, Self::Request];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Deadline => "deadline",
            Self::Breaker => "breaker",
            Self::Overload => "overload",
            Self::Request => "request",
        }
    }
}

/// A store could not decide. A refusal is not an error.
///
/// It can be cloned: one failed call may answer several callers that were decided on together.
#[derive(Clone, Debug)]
pub struct StoreError {
    what: Cow<'static, str>,
    counted: Counted,
    reason: Reason,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error that says what could not be done and whether something may have been counted.
    pub fn new(what: impl Into<Cow<'static, str>>, counted: Counted) -> Self {
        Self { what: what.into(), counted, reason: Reason::Error, source: None }
    }

    /// Names another reason than [`Reason::Error`].
    #[must_use]
    pub fn for_reason(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into().into());
        self
    }

    /// Says that nothing was counted, whatever became of the call: it only reads, or it was refused.
    #[must_use]
    pub fn with_nothing_counted(self) -> Self {
        Self { counted: Counted::Nothing, ..self }
    }

    /// Why the store could not decide.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether the call may have counted.
    pub fn counted(&self) -> Counted {
        self.counted
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let source = self.source.as_deref()?;
        Some(source)
    }
}
