//! Open connections.

use std::{
    fmt,
    io::{self, IoSlice},
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};

use super::{Protocol, arrival::Bytes};

/// The bytes that every HTTP/2 connection begins with (RFC 9113, 3.4). HTTP/1 and RESP have clocks of their own.
const HTTP2_PREFACE_LEN: usize = 24;

/// Bytes that are still to come at the beginning, and until when.
pub(super) struct Greeting {
    missing: usize,
    until: Pin<Box<Sleep>>,
}

impl Greeting {
    pub(super) fn of(protocol: Protocol, within: Duration) -> Option<Self> {
        let greets = protocol == Protocol::Http2;
        greets.then(|| Self { missing: HTTP2_PREFACE_LEN, until: Box::pin(sleep(within)) })
    }
}

/// A connection that is open, with the room that it takes up.
pub(crate) struct Connection {
    bytes: Box<dyn Bytes>,
    peer: Option<IpAddr>,
    greeting: Option<Greeting>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Connection {
    pub(super) fn new(
        bytes: Box<dyn Bytes>,
        peer: Option<IpAddr>,
        greeting: Option<Greeting>,
        room: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { bytes, peer, greeting, _room: room }
    }

    /// Who is at the other end, as far as it is known: the peer, or the client that a proxy speaks for.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.bytes).poll_read(context, buffer);
        let Some(greeting) = &mut this.greeting else { return read };
        if read.is_pending() {
            ready!(greeting.until.as_mut().poll(context));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not begin")));
        }
        greeting.missing = greeting.missing.saturating_sub(buffer.filled().len().saturating_sub(before));
        if greeting.missing == 0 {
            this.greeting = None;
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().bytes).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().bytes).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().bytes).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().bytes).poll_shutdown(context)
    }
}
