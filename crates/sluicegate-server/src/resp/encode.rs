//! Answers to bytes: what the JSON of the HTTP door says, in the types of the Redis protocol.
//!
//! Version 3 has maps, booleans and null; version 2 tells a map as a flat list of names and values, a boolean as 0 or
//! 1, and null as the null bulk string.

use serde_json::Value;

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Two,
    Three,
}

/// Appends answers.
#[derive(Debug)]
pub(super) struct Writer<'o> {
    pub(super) out: &'o mut Vec<u8>,
    pub(super) version: Version,
}

impl Writer<'_> {
    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: a code in capitals, then what is wrong. Line ends inside would end it early, so they become blanks.
    pub(super) fn error(&mut self, text: &str) {
        self.line(b'-', text.replace(['\r', '\n'], " ").as_bytes());
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// The head of a list; its items follow.
    pub(super) fn list(&mut self, len: usize) {
        self.head(b'*', len);
    }

    /// The head of a map; its names and values follow in turn.
    pub(super) fn map(&mut self, len: usize) {
        match self.version {
            Version::Two => self.head(b'*', 2 * len),
            Version::Three => self.head(b'%', len),
        }
    }

    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Two => b"$-1\r\n",
            Version::Three => b"_\r\n",
        });
    }

    pub(super) fn boolean(&mut self, is: bool) {
        match self.version {
            Version::Two => self.integer(is.into()),
            Version::Three => self.line(b'#', if is { b"t" } else { b"f" }),
        }
    }

    /// A value of JSON. Its numbers are whole, and at most 2^63 - 1.
    pub(super) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.null(),
            Value::Bool(is) => self.boolean(*is),
            Value::Number(number) => match number.as_i64() {
                Some(number) => self.integer(number),
                None => self.bulk(number.to_string().as_bytes()),
            },
            Value::String(text) => self.bulk(text.as_bytes()),
            Value::Array(items) => {
                self.list(items.len());
                for item in items {
                    self.value(item);
                }
            }
            Value::Object(fields) => {
                self.map(fields.len());
                for (name, value) in fields {
                    self.bulk(name.as_bytes());
                    self.value(value);
                }
            }
        }
    }

    fn head(&mut self, kind: u8, len: usize) {
        self.line(kind, itoa::Buffer::new().format(len).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(version: Version, value: &Value) -> String {
        let mut out = Vec::new();
        Writer { out: &mut out, version }.value(value);
        out.escape_ascii().to_string()
    }

    #[test]
    fn each_version_tells_a_map_in_its_own_types() {
        let value = json!({"allowed": true, "limits": [1, "x"], "retry_after_ms": null});
        assert_eq!(
            told(Version::Three, &value),
            r"%3\r\n$7\r\nallowed\r\n#t\r\n$6\r\nlimits\r\n*2\r\n:1\r\n$1\r\nx\r\n$14\r\nretry_after_ms\r\n_\r\n"
        );
        assert_eq!(
            told(Version::Two, &value),
            r"*6\r\n$7\r\nallowed\r\n:1\r\n$6\r\nlimits\r\n*2\r\n:1\r\n$1\r\nx\r\n$14\r\nretry_after_ms\r\n$-1\r\n"
        );
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        let mut out = Vec::new();
        Writer { out: &mut out, version: Version::Two }.error("ERR `a\r\n+OK`");
        assert_eq!(out, b"-ERR `a  +OK`\r\n");
    }
}
