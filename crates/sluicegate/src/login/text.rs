//! Bytes as text that fits into a cookie, a form and a URL.

use std::fmt::Write as _;

use super::keyring::Mark;

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _written = write!(text, "{byte:02x}");
    }
    text
}

/// A number of at most 64 bits. No sign, no other spelling.
pub(super) fn from_hex(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if plain { u64::from_str_radix(text, 16).ok() } else { None }
}

/// That many bytes.
pub(super) fn bytes_from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::try_from(from_hex(text.get(2 * at..2 * at + 2)?)?).ok()?;
    }
    Some(bytes)
}

pub(super) fn mark_from_hex(text: &str) -> Option<Mark> {
    bytes_from_hex(text)
}
