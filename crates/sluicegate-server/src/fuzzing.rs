//! What reads the bytes of strangers, for the targets of `fuzz/` and nobody else: no part of the interface.

use futures_util::FutureExt;

use crate::{http, listen, resp};

/// What bytes are to the Redis door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A command that ends there.
    Whole(usize),
    /// The beginning of one.
    Part,
    /// Nothing that can become one.
    Refused,
}

/// What these bytes begin with.
pub fn resp_command(bytes: &[u8]) -> Command {
    match resp::parse(bytes) {
        Ok(Some(parsed)) => Command::Whole(parsed.end),
        Ok(None) => Command::Part,
        Err(_) => Command::Refused,
    }
}

/// Whether this is the body of one request to the HTTP door.
pub fn http_take(body: &[u8]) -> bool {
    http::Ask::read(body).is_ok()
}

/// Which of the requests in the body of a batch could be read; `None` if it is none.
pub fn http_batch(body: &[u8]) -> Option<Vec<bool>> {
    let batch = http::Batch::read(body).ok()?;
    Some(batch.items().map(http_take).collect())
}

/// Where a header of the PROXY protocol ends; `None` if there is none, or not all of it.
pub fn proxy_header(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    listen::read_proxy_header(&mut rest).now_or_never()?.ok()?;
    Some(bytes.len() - rest.len())
}
