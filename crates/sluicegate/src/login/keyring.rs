//! Secrets under which names are hashed and cookies are signed.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The fewest bytes of a secret.
pub const MIN_SECRET_LEN: usize = 32;
/// The most secrets whose signatures are believed.
pub const MAX_SECRETS: usize = 4;

/// Why secrets cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// There is none, or there are too many.
    #[error("a keyring has 1 to {MAX_SECRETS} secrets, not {0}")]
    Count(usize),
    /// One can be guessed.
    #[error("a secret has at least {MIN_SECRET_LEN} bytes, this one has {0}")]
    Short(usize),
}

/// One secret for names, and up to four for signatures, the newest first.
///
/// A new secret for signatures is put in front; what older ones signed stays genuine until they are taken away. The
/// secret for names stays: under another one, every account begins anew and every device is forgotten.
#[derive(Clone)]
pub struct Keyring {
    names: Box<[u8]>,
    signing: Vec<Box<[u8]>>,
}

/// 128 bits of an HMAC-SHA256.
pub(super) type Mark = [u8; 16];

impl Keyring {
    /// The secret for names, and those for signatures, the newest first.
    ///
    /// # Errors
    /// [`KeyringError`] if a secret is short, or there are none or too many for signatures.
    pub fn new(names: &[u8], signing: &[&[u8]]) -> Result<Self, KeyringError> {
        if signing.is_empty() || signing.len() > MAX_SECRETS {
            return Err(KeyringError::Count(signing.len()));
        }
        let short =
            [names].iter().chain(signing).map(|secret| secret.len()).find(|len| *len < MIN_SECRET_LEN);
        if let Some(short) = short {
            return Err(KeyringError::Short(short));
        }
        Ok(Self { names: names.into(), signing: signing.iter().map(|secret| (*secret).into()).collect() })
    }

    /// What stands for these parts in a store. Each part comes with its length, so that no two lists are one text.
    pub(super) fn name(&self, parts: &[&[u8]]) -> Mark {
        mark(&self.names, parts)
    }

    /// Signs these parts with the newest secret.
    pub(super) fn sign(&self, parts: &[&[u8]]) -> Mark {
        self.signing.first().map_or([0; 16], |secret| mark(secret, parts))
    }

    /// Whether one of the secrets signed these parts. It takes the same time whatever differs.
    pub(super) fn signed(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        signature.len() == 16
            && self.signing.iter().any(|secret| hmac(secret, parts).verify_truncated_left(signature).is_ok())
    }
}

fn hmac(secret: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // Any length is a key; a mark under no key at all is never made.
    let mut hmac = Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| Hmac::new(&[0; 64].into()));
    for part in parts {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        hmac.update(&length.to_be_bytes());
        hmac.update(part);
    }
    hmac
}

fn mark(secret: &[u8], parts: &[&[u8]]) -> Mark {
    let digest: [u8; 32] = hmac(secret, parts).finalize().into_bytes().into();
    std::array::from_fn(|at| digest.get(at).copied().unwrap_or_default())
}

/// The first eight bytes as a number that is not 0.
pub(super) fn number(mark: &Mark) -> u64 {
    mark.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte)).max(1)
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("signing", &self.signing.len()).finish_non_exhaustive()
    }
}
