//! A connection that ends when it should: not before the last answer has arrived, and not long after its client has
//! stopped reading.
//!
//! A socket that is closed while bytes wait in it to be read resets the connection, and a reset throws away what
//! the client has not read yet: a client that sends a head of 20 KiB in one go would never see the 431. So before
//! the end, what is still coming is read and dropped, for a while.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::listen::Connection;

/// How long a client may go on sending to a connection that is at its end.
const LINGER: Duration = Duration::from_millis(500);
/// The most bytes that are read and dropped.
const MAX_DROPPED: usize = 1024 * 1024;

/// A stream that reads what is left before it closes, and fails when nobody takes what it writes.
///
/// A client that asks and never reads would hold its connection for ever: the buffers between are full, so nothing
/// more is read from it either, and no timer of the protocol runs while an answer is being written.
#[derive(Debug)]
pub(super) struct Lingering {
    stream: Connection,
    /// How long a write may wait for the client to take anything at all.
    write_timeout: Duration,
    /// When the write that waits is given up.
    give_up: Option<Pin<Box<Sleep>>>,
    dropped: usize,
    /// Set once there was something to drop: a connection without unread bytes closes at once.
    until: Option<Pin<Box<Sleep>>>,
}

impl Lingering {
    pub(super) fn new(stream: Connection, write_timeout: Duration) -> Self {
        Self { stream, write_timeout, give_up: None, dropped: 0, until: None }
    }

    /// What a write came to, or its end if it has waited for too long.
    fn poll_patiently(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.give_up = None;
            return written;
        }
        let timeout = self.write_timeout;
        let give_up = self.give_up.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(give_up.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no answer")))
    }

    /// Reads and drops until the client ends, the time is over, or nothing was unread in the first place.
    fn poll_drop_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4096];
        while self.dropped < MAX_DROPPED {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.dropped += buffer.filled().len();
                    self.until.get_or_insert_with(|| Box::pin(sleep(LINGER)));
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => {
                    return self.until.as_mut().map_or(Poll::Ready(()), |until| until.as_mut().poll(context));
                }
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.poll_patiently(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        self.poll_drop_rest(context).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.poll_patiently(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
