//! Requests that may be made again without being counted again.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use sha2::{Digest, Sha256};

use crate::ask::{Ask, Charge};

/// What a caller names a request by: 1 to 128 bytes of printable ASCII without spaces, such as a UUID.
///
/// An id is known within its scope: what decides the slot of the request's first ask ([`RequestId::scope`]).
///
/// ```
/// use sluicegate_core::RequestId;
/// let id: RequestId = "5f0c2b8e-order-17".parse()?;
/// assert_eq!(id.as_str(), "5f0c2b8e-order-17");
/// assert!("two words".parse::<RequestId>().is_err());
/// # Ok::<(), sluicegate_core::RequestIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(Arc<str>);

/// A text that is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestIdError {
    /// It has no bytes, or more than [`RequestId::MAX_LEN`].
    #[error("an id has 1 to 128 bytes, this one has {0}")]
    Length(usize),
    /// It has a space, a control character or something beyond ASCII.
    #[error("an id is printable ASCII without spaces")]
    Unprintable,
}

impl RequestId {
    /// The most bytes of an id.
    pub const MAX_LEN: usize = 128;
    /// How long an id is remembered after the request was admitted.
    pub const LIFETIME: Duration = Duration::from_secs(86_400);

    /// The id as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A number that is always the same for this id: which shard of a counter its request goes to.
    pub fn number(&self) -> u32 {
        let digest: [u8; 32] = Sha256::digest(self.as_str()).into();
        let [a, b, c, d, ..] = digest;
        u32::from_le_bytes([a, b, c, d])
    }

    /// Within which the id is one request: the tag of the first ask's subject, which begins with its domain. So the
    /// ids of two domains never meet, nor do those of two users where the first limit counts by user.
    pub fn scope<'a>(asks: &'a [Ask<'_>]) -> &'a str {
        asks.first().map_or("", |ask| ask.subject.split().0)
    }
}

impl FromStr for RequestId {
    type Err = RequestIdError;

    fn from_str(text: &str) -> Result<Self, RequestIdError> {
        if text.is_empty() || text.len() > Self::MAX_LEN {
            return Err(RequestIdError::Length(text.len()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(RequestIdError::Unprintable);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is asked under an id, in 128 bits: limits, subjects and costs. Amounts are no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload([u8; Payload::LEN]);

impl Payload {
    /// Bytes of a payload.
    pub const LEN: usize = 16;

    /// Of these asks, in this order.
    pub fn of(asks: &[Ask<'_>]) -> Self {
        let mut hasher = Sha256::new();
        for ask in asks {
            push_ask(&mut hasher, ask);
        }
        Self::end(hasher)
    }

    /// Of what these charges turned out to cost, in this order. When they were charged is no part of it: a debit that is made
    /// again is made later.
    pub fn of_charges(charges: &[Charge<'_>]) -> Self {
        let mut hasher = Sha256::new();
        for charge in charges {
            push_ask(&mut hasher, &charge.ask);
            hasher.update(charge.actual.to_le_bytes());
        }
        Self::end(hasher)
    }

    fn end(hasher: Sha256) -> Self {
        let digest: [u8; 32] = hasher.finalize().into();
        let (payload, _rest) = digest.split_first_chunk().unwrap_or((&[0; Self::LEN], &[]));
        Self(*payload)
    }

    /// The bytes, as stored.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

fn push_ask(hasher: &mut Sha256, ask: &Ask<'_>) {
    // A subject is printable ASCII: the line's end closes it.
    hasher.update(ask.id.as_u32().to_le_bytes());
    hasher.update(ask.cost.to_le_bytes());
    hasher.update(ask.subject.as_str());
    hasher.update("\n");
}
