//! A store that fails.

use sluicegate::{
    Counted, Once, Store, StoreError,
    core::{Ask, Decision, LimitId, Micros, RequestId, Subject},
    guard::Probe,
};

/// A store that is out of reach.
#[derive(Clone, Debug)]
pub struct Gone;

fn gone<T>() -> Result<T, StoreError> {
    Err(StoreError::new("the store is gone", Counted::Nothing))
}

impl Store for Gone {
    async fn take(&self, _asks: &[Ask<'_>], _now: Micros) -> Result<Decision, StoreError> {
        gone()
    }

    async fn take_once(&self, _id: &RequestId, _asks: &[Ask<'_>], _now: Micros) -> Result<Once, StoreError> {
        gone()
    }

    async fn peek(&self, _asks: &[Ask<'_>], _now: Micros) -> Result<Decision, StoreError> {
        gone()
    }

    async fn forget(&self, _id: LimitId, _subject: &Subject) -> Result<bool, StoreError> {
        gone()
    }
}

impl Probe for Gone {
    async fn probe(&self) -> Result<(), StoreError> {
        gone()
    }
}
