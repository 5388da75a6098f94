//! Connections that have come in and are not open yet.

use std::{io, net::IpAddr, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::OwnedSemaphorePermit,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{
    Entry, Protocol,
    connection::{Connection, Greeting},
    proxy_protocol::{self, Said},
};

/// Bytes in both directions.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// An accepted socket, and who is at its other end: an address if it came over TCP.
pub(super) struct Socket {
    pub(super) bytes: Box<dyn Bytes>,
    pub(super) peer: Option<IpAddr>,
}

/// A connection that is to be opened, with the room that it takes up.
pub(crate) struct Arrival {
    socket: Socket,
    entry: Arc<Entry>,
    protocol: Protocol,
    room: Option<OwnedSemaphorePermit>,
}

impl Arrival {
    pub(super) fn new(
        socket: Socket,
        entry: &Arc<Entry>,
        protocol: Protocol,
        room: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self { socket, entry: Arc::clone(entry), protocol, room }
    }

    /// Opens it: what a proxy says of it is read, and TLS shakes hands.
    ///
    /// # Errors
    /// [`io::Error`] if the other side does something else, or nothing within [`Entry::opening_timeout`].
    pub(crate) async fn open(self) -> io::Result<Connection> {
        let Self { socket, entry, protocol, room } = self;
        let opened = timeout(entry.opening_timeout, open(socket, &entry, protocol)).await;
        let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "it was not opened in time"));
        let Socket { bytes, peer } = opened.unwrap_or_else(late)?;
        let greeting = Greeting::of(protocol, entry.opening_timeout);
        Ok(Connection::new(bytes, peer, greeting, room))
    }
}

async fn open(mut socket: Socket, entry: &Entry, protocol: Protocol) -> io::Result<Socket> {
    // Whoever may open a unix socket is on this machine: neither proxies nor TLS stand between.
    let Some(address) = socket.peer else { return Ok(socket) };
    if entry.announcing.contain(address)
        && let Said::Client(client) = proxy_protocol::read(&mut socket.bytes).await?
    {
        socket.peer = client;
    }
    if let Some(certificates) = &entry.certificates {
        let shaken = TlsAcceptor::from(certificates.config(protocol)).accept(socket.bytes).await?;
        socket.bytes = Box::new(shaken);
    }
    Ok(socket)
}
