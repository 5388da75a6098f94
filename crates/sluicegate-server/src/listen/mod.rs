//! Listening: how connections come in, the same way at every door.
//!
//! A connection arrives, once there is room for it, and is then opened: what a proxy says of it is read, and TLS shakes
//! hands. Whoever is slow at that keeps nobody waiting but himself.

mod address;
mod arrival;
mod connection;
mod proxy_protocol;
mod tls;

use std::{future::poll_fn, io, sync::Arc, task::Poll, time::Duration};

use futures_util::stream::{self, FuturesUnordered, Stream, StreamExt};
use tokio::{sync::Semaphore, time::sleep};

pub use address::{Listen, Listener, SocketFile, UnknownAddress};
pub(crate) use arrival::Arrival;
pub(crate) use connection::Connection;
pub(crate) use proxy_protocol::read as read_proxy_header;
pub use tls::{Certificates, TlsError, TlsFiles};

use crate::client::Proxies;

/// The pause after a failed accept: without it a process out of file descriptors would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What an operator chooses about the connections of a door.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The most connections at once; further ones wait in the listen queue.
    pub max_connections: u32,
    /// How long a client may take to open its connection: a proxy's header, TLS, and the first bytes of HTTP/2 included.
    pub opening_timeout: Duration,
    /// The proxies that say in a header of the PROXY protocol whose connection it is. They must, and others must not.
    pub announcing: Proxies,
    /// The certificates by which TCP connections are encrypted, if they are.
    pub certificates: Option<Arc<Certificates>>,
}

impl Default for Entry {
    /// Ten thousand connections, ten seconds, no proxies, no TLS.
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            opening_timeout: Duration::from_secs(10),
            announcing: Proxies::none(),
            certificates: None,
        }
    }
}

/// What is spoken at a door once a connection is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Resp,
}

/// A listener with room for a number of connections; further ones wait in the listen queue.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: Listener,
    room: Arc<Semaphore>,
    entry: Arc<Entry>,
    protocol: Protocol,
}

impl Listening {
    pub(crate) fn new(listener: Listener, entry: Entry, protocol: Protocol) -> Self {
        let room = usize::try_from(entry.max_connections).unwrap_or(Semaphore::MAX_PERMITS).max(1);
        Self { listener, room: Arc::new(Semaphore::new(room)), entry: Arc::new(entry), protocol }
    }

    /// The next connection, once there is room for it. It holds its room until it is dropped.
    pub(crate) async fn accept(&self) -> Arrival {
        // The semaphore is never closed, so a permit always comes.
        let room = Arc::clone(&self.room).acquire_owned().await.ok();
        loop {
            match poll_fn(|context| self.listener.poll_accept(context)).await {
                Ok(socket) => return Arrival::new(socket, &self.entry, self.protocol, room),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A connection from the listen queue, if one waits there now: its client sees it as open already.
    pub(crate) async fn waiting(&self) -> Option<Arrival> {
        poll_fn(|context| {
            Poll::Ready(match self.listener.poll_accept(context) {
                Poll::Ready(Ok(socket)) => Some(Arrival::new(socket, &self.entry, self.protocol, None)),
                Poll::Ready(Err(_)) | Poll::Pending => None,
            })
        })
        .await
    }

    /// The connections as they become open.
    pub(crate) fn opened(self) -> impl Stream<Item = io::Result<Connection>> {
        stream::unfold((self, FuturesUnordered::new()), |(listening, mut opening)| async {
            loop {
                tokio::select! {
                    arrival = listening.accept() => opening.push(arrival.open()),
                    Some(opened) = opening.next() => match opened {
                        Ok(connection) => return Some((Ok(connection), (listening, opening))),
                        Err(error) => tracing::debug!(%error, "a connection was not opened"),
                    },
                }
            }
        })
    }
}
