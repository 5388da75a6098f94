//! Listening: connections in, no more of them at once than there is room for.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

/// The pause after a failed accept: without it a process out of file descriptors would spin.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A listener with room for a number of connections; further ones wait in the listen queue.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Listening {
    pub(crate) fn new(listener: TcpListener, max_connections: u32) -> Self {
        let room = usize::try_from(max_connections).unwrap_or(Semaphore::MAX_PERMITS).max(1);
        Self { listener, room: Arc::new(Semaphore::new(room)) }
    }

    /// The next connection, once there is room for it. It holds its room until the permit is dropped.
    pub(crate) async fn accept(&self) -> (TcpStream, Option<OwnedSemaphorePermit>) {
        // The semaphore is never closed, so a permit always comes.
        let permit = Arc::clone(&self.room).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return (prompt(stream), permit),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A connection from the listen queue, if one waits there now: its client sees it as open already.
    pub(crate) async fn waiting(&self) -> Option<TcpStream> {
        poll_fn(|context| {
            Poll::Ready(match self.listener.poll_accept(context) {
                Poll::Ready(Ok((stream, _))) => Some(prompt(stream)),
                Poll::Ready(Err(_)) | Poll::Pending => None,
            })
        })
        .await
    }
}

/// Answers are small and whole: waiting for more to send would only delay them.
fn prompt(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot turn off delays on a connection");
    }
    stream
}
