//! Proofs that cost whoever makes them: work, or a person's attention.
//!
//! ```text
//! nonce = "w1." bits "." issued "." number "." signature        in lower-case hexadecimal
//! proof = nonce ":" counter                                     such that SHA-256 of the proof begins with `bits` zeros
//! ```
//!
//! Work is friction and no more: a program finds a proof a hundred times as fast as a browser. Challenges gate the
//! budget and never enlarge it.

use std::{net::IpAddr, pin::Pin};

use sha2::{Digest, Sha256};
use sluicegate_core::{
    Micros,
    login::{Challenge, REMEMBERED_MS},
};

use super::{
    keyring::{Keyring, number},
    store::AccountKey,
    text::{from_hex, hex, mark_from_hex},
};

const PREFIX: &str = "w1";
/// The bits of the first challenge: some 65,000 hashes.
const LEAST_BITS: u8 = 16;
/// The bits of the hardest: some four million hashes.
const MOST_BITS: u8 = 22;
/// The most bytes of a proof that are looked at.
const MAX_PROOF_LEN: usize = 160;

/// Asks somebody else whether a person met a challenge.
pub trait CaptchaVerifier: Send + Sync {
    /// Whether the token is genuine. An error to ask is a `false`: then work can still be shown.
    fn verify<'a>(
        &'a self,
        token: &'a str,
        address: Option<IpAddr>,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// What work is bound to: proofs for one account and address are worth nothing for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'a> {
    pub(super) keys: &'a Keyring,
    pub(super) account: &'a AccountKey,
    pub(super) address: &'a [u8],
}

impl Work<'_> {
    /// A nonce to find a counter for.
    pub(super) fn ask(&self, challenge: Challenge, now: Micros) -> (String, u8) {
        let bits = LEAST_BITS.saturating_add(challenge.level).min(MOST_BITS);
        let (issued, random) = (now.as_u64() / 1_000, fastrand::u64(1..));
        let signature = self.sign(bits, issued, random);
        (format!("{PREFIX}.{bits:x}.{issued:x}.{random:x}.{}", hex(&signature)), bits)
    }

    /// The nonce's number, if the work was done in time; the store sees to it that it serves once.
    pub(super) fn verify(&self, proof: &str, now: Micros) -> Option<u64> {
        if proof.len() > MAX_PROOF_LEN {
            return None;
        }
        let (nonce, _counter) = proof.split_once(':')?;
        let mut parts = nonce.split('.');
        let (PREFIX, bits, issued) = (parts.next()?, from_hex(parts.next()?)?, from_hex(parts.next()?)?)
        else {
            return None;
        };
        let (random, signature) = (from_hex(parts.next()?)?, mark_from_hex(parts.next()?)?);
        let bits = u8::try_from(bits).ok()?;
        let in_time = (now.as_u64() / 1_000).saturating_sub(issued) < REMEMBERED_MS;
        let (bits_, issued_, random_) = ([bits], issued.to_be_bytes(), random.to_be_bytes());
        let genuine = self.keys.signed(&self.parts(&bits_, &issued_, &random_), &signature);
        (in_time && genuine && parts.next().is_none() && has_zeros(proof, bits)).then_some(random)
    }

    fn sign(&self, bits: u8, issued: u64, random: u64) -> [u8; 16] {
        self.keys.sign(&self.parts(&[bits], &issued.to_be_bytes(), &random.to_be_bytes()))
    }

    fn parts<'p>(&'p self, bits: &'p [u8; 1], issued: &'p [u8; 8], random: &'p [u8; 8]) -> [&'p [u8]; 6] {
        [b"work", &self.account.0, self.address, bits, issued, random]
    }
}

/// Whether the proof's hash begins with that many zero bits.
pub fn has_zeros(proof: &str, bits: u8) -> bool {
    let digest: [u8; 32] = Sha256::digest(proof).into();
    let mut zeros: u32 = 0;
    for byte in digest {
        zeros = zeros.saturating_add(byte.leading_zeros());
        if byte != 0 {
            break;
        }
    }
    zeros >= u32::from(bits)
}

/// Finds a proof, as a client does. It takes about 2^bits hashes.
pub fn solve(nonce: &str, bits: u8) -> String {
    let proofs = (0_u64..).map(|counter| format!("{nonce}:{counter:x}"));
    proofs.into_iter().find(|proof| has_zeros(proof, bits)).unwrap_or_default()
}

/// The number under which a captcha's token is spent.
pub(super) fn number_of_token(token: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(token).into();
    number(&std::array::from_fn(|at| digest.get(at).copied().unwrap_or_default()))
}
