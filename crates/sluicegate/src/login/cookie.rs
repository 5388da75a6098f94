//! Cookies of devices that proved themselves.
//!
//! ```text
//! cookie = "d1." device "." epoch "." issued "." signature      all in lower-case hexadecimal
//! ```

use sluicegate_core::Micros;

use super::{
    keyring::{Keyring, Mark, number},
    store::AccountKey,
    text::{from_hex, hex, mark_from_hex},
};

const PREFIX: &str = "d1";
/// How long a cookie is genuine, in seconds: a year.
pub const COOKIE_LIFETIME_S: u64 = 31_536_000;

/// What is signed of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device<'a> {
    pub(super) keys: &'a Keyring,
    pub(super) account: &'a AccountKey,
    /// Cookies of an earlier epoch of the account are revoked.
    pub(super) epoch: u32,
}

impl Device<'_> {
    /// A cookie for a new device of the account.
    pub(super) fn issue(&self, now: Micros) -> String {
        let (device, issued) = (fastrand::u64(1..), now.as_u64() / 1_000_000);
        let signature = self.keys.sign(&self.parts(&Fields::new(device, self.epoch, issued)));
        format!("{PREFIX}.{device:x}.{:x}.{issued:x}.{}", self.epoch, hex(&signature))
    }

    /// The device's number, if the cookie is genuine: of this account, of its epoch, and not too old.
    pub(super) fn verify(&self, cookie: &str, now: Micros) -> Option<u64> {
        let mut parts = cookie.split('.');
        let (PREFIX, device, epoch) = (parts.next()?, from_hex(parts.next()?)?, from_hex(parts.next()?)?)
        else {
            return None;
        };
        let (issued, signature) = (from_hex(parts.next()?)?, mark_from_hex(parts.next()?)?);
        let fields = Fields::new(device, u32::try_from(epoch).ok()?, issued);
        let age_s = (now.as_u64() / 1_000_000).saturating_sub(issued);
        let holds = parts.next().is_none() && epoch >= u64::from(self.epoch) && age_s < COOKIE_LIFETIME_S;
        (holds && self.keys.signed(&self.parts(&fields), &signature)).then_some(device)
    }

    fn parts<'f>(&'f self, fields: &'f Fields) -> [&'f [u8]; 5] {
        [b"device", &self.account.0, &fields.device, &fields.epoch, &fields.issued]
    }
}

struct Fields {
    device: [u8; 8],
    epoch: [u8; 4],
    issued: [u8; 8],
}

impl Fields {
    fn new(device: u64, epoch: u32, issued: u64) -> Self {
        Self { device: device.to_be_bytes(), epoch: epoch.to_be_bytes(), issued: issued.to_be_bytes() }
    }
}

/// A number for a text that was named by somebody else, such as a code's id.
pub(super) fn number_of(keys: &Keyring, parts: &[&[u8]]) -> u64 {
    let mark: Mark = keys.name(parts);
    number(&mark)
}
