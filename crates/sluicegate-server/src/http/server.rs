//! The listener: connections in, answers out, and an end that loses nothing.

use std::{convert::Infallible, future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use sluicegate::{Clock, Store};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::{door::Door, linger::Lingering};

/// How long a client may take to send the head of a request, an idle connection included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of one request head; more is answered 431. It is also the read buffer's bound.
const MAX_HEAD_LEN: usize = 16 * 1024;
/// How long requests in flight may take after a stop before they are given up.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a failed accept: without it a process out of file descriptors would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What an operator chooses about the listener.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The most connections at once.
    pub max_connections: u32,
    /// How long to go on serving after the stop, with `/readyz` red.
    pub drain: Duration,
    /// How long an answer may wait for its client to take anything of it; then the connection is closed.
    pub write_timeout: Duration,
}

impl Config {
    /// The write timeout unless said otherwise.
    pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
}

/// Serves until `stop` ends, then turns unready, goes on for `config.drain`, finishes what is in flight and returns.
pub async fn serve<S, C>(
    listener: TcpListener,
    door: Arc<Door<S, C>>,
    config: Config,
    stop: impl Future<Output = ()>,
) where
    S: Store + 'static,
    C: Clock + 'static,
{
    let connections = Connections::new(&door, config);
    let mut until = pin!(async {
        stop.await;
        door.turn_unready();
        tracing::info!("stopping: `/readyz` is red");
        sleep(config.drain).await;
    });
    loop {
        tokio::select! {
            biased;
            () = &mut until => break,
            (stream, permit) = connections.accept(&listener) => connections.spawn(stream, permit),
        }
    }
    connections.finish(listener).await;
}

/// The open connections.
struct Connections<S, C> {
    door: Arc<Door<S, C>>,
    protocol: http1::Builder,
    room: Arc<Semaphore>,
    graceful: GracefulShutdown,
    write_timeout: Duration,
}

impl<S: Store + 'static, C: Clock + 'static> Connections<S, C> {
    fn new(door: &Arc<Door<S, C>>, config: Config) -> Self {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_LEN)
            .half_close(true);
        let room = usize::try_from(config.max_connections).unwrap_or(Semaphore::MAX_PERMITS).max(1);
        Self {
            door: Arc::clone(door),
            protocol,
            room: Arc::new(Semaphore::new(room)),
            graceful: GracefulShutdown::new(),
            write_timeout: config.write_timeout,
        }
    }

    /// The next connection, once there is room for it.
    async fn accept(&self, listener: &TcpListener) -> (TcpStream, Option<OwnedSemaphorePermit>) {
        // The semaphore is never closed, so a permit always comes.
        let permit = Arc::clone(&self.room).acquire_owned().await.ok();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return (stream, permit),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn spawn(&self, stream: TcpStream, permit: Option<OwnedSemaphorePermit>) {
        // Answers are small and whole: waiting for more to send would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot turn off delays on a connection");
        }
        let door = Arc::clone(&self.door);
        let service = service_fn(move |request: Request<Incoming>| {
            let door = Arc::clone(&door);
            async move { Ok::<_, Infallible>(door.serve(request).await) }
        });
        let stream = Lingering::new(stream, self.write_timeout);
        let connection = self.protocol.serve_connection(TokioIo::new(stream), service);
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }

    /// Takes in the connections that clients see as open already, then waits until all have been answered.
    async fn finish(self, listener: TcpListener) {
        while let Some(stream) = waiting_connection(&listener).await {
            self.spawn(stream, None);
        }
        drop(listener);
        if timeout(STOP_TIMEOUT, self.graceful.shutdown()).await.is_err() {
            tracing::warn!("gave up on connections that did not end in {} s", STOP_TIMEOUT.as_secs());
        }
    }
}

/// A connection from the listen queue, if one waits there now.
async fn waiting_connection(listener: &TcpListener) -> Option<TcpStream> {
    poll_fn(|context| {
        Poll::Ready(match listener.poll_accept(context) {
            Poll::Ready(Ok((stream, _))) => Some(stream),
            Poll::Ready(Err(_)) | Poll::Pending => None,
        })
    })
    .await
}
