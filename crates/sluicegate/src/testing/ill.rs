//! Stores that are ill.

use sluicegate_core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject};

use crate::{
    guard::Probe,
    store::{Counted, Once, Settled, Store, StoreError},
};

/// A store that does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ill {
    /// It is out of reach: every call fails at once, and counts nothing.
    Gone,
    /// It never answers.
    Silent,
}

impl Ill {
    async fn call<T>(self) -> Result<T, StoreError> {
        match self {
            Self::Gone => Err(StoreError::new("the store is gone", Counted::Nothing)),
            Self::Silent => std::future::pending().await,
        }
    }
}

impl Store for Ill {
    async fn take(&self, _: &[Ask<'_>], _: Micros) -> Result<Decision, StoreError> {
        self.call().await
    }

    async fn take_once(&self, _: &RequestId, _: &[Ask<'_>], _: Micros) -> Result<Once, StoreError> {
        self.call().await
    }

    async fn peek(&self, _: &[Ask<'_>], _: Micros) -> Result<Decision, StoreError> {
        self.call().await
    }

    async fn settle(&self, _: &RequestId, _: &[Charge<'_>], _: Micros) -> Result<Settled, StoreError> {
        self.call().await
    }

    async fn forget(&self, _: LimitId, _: &Subject) -> Result<bool, StoreError> {
        self.call().await
    }
}

impl Probe for Ill {
    async fn probe(&self) -> Result<(), StoreError> {
        self.call().await
    }
}
