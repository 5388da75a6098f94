//! The listener: connections in, answers out, and an end that loses nothing.

use std::{convert::Infallible, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::OwnedSemaphorePermit,
    time::{sleep, timeout},
};

use super::{answer::Answer, linger::Lingering};
use crate::listen::Listening;

/// How long a client may take to send the head of a request, an idle connection included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of one request head; more is answered 431. It is also the read buffer's bound.
const MAX_HEAD_LEN: usize = 16 * 1024;
/// How long requests in flight may take after a stop before they are given up.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

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

/// What answers the requests that come in.
pub trait Service: Send + Sync + 'static {
    /// Answers one request, that came from `peer`.
    fn answer(&self, request: Request<Incoming>, peer: Option<IpAddr>)
    -> impl Future<Output = Answer> + Send;

    /// From here on `/readyz` answers 503, where there is one; everything else goes on.
    fn turn_unready(&self);
}

/// Serves until `stop` ends, then turns unready, goes on for `config.drain`, finishes what is in flight and returns.
pub async fn serve<D: Service>(
    listener: TcpListener,
    door: Arc<D>,
    config: Config,
    stop: impl Future<Output = ()>,
) {
    let connections = Connections::new(&door, config);
    let listening = Listening::new(listener, config.max_connections);
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
            (stream, permit) = listening.accept() => connections.spawn(stream, permit),
        }
    }
    connections.finish(listening).await;
}

/// The open connections.
struct Connections<D> {
    door: Arc<D>,
    protocol: http1::Builder,
    graceful: GracefulShutdown,
    write_timeout: Duration,
}

impl<D: Service> Connections<D> {
    fn new(door: &Arc<D>, config: Config) -> Self {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_LEN)
            .half_close(true);
        Self {
            door: Arc::clone(door),
            protocol,
            graceful: GracefulShutdown::new(),
            write_timeout: config.write_timeout,
        }
    }

    fn spawn(&self, stream: TcpStream, permit: Option<OwnedSemaphorePermit>) {
        let door = Arc::clone(&self.door);
        let peer = stream.peer_addr().ok().map(|address| address.ip());
        let service = service_fn(move |request: Request<Incoming>| {
            let door = Arc::clone(&door);
            async move { Ok::<_, Infallible>(door.answer(request, peer).await) }
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
    async fn finish(self, listening: Listening) {
        while let Some(stream) = listening.waiting().await {
            self.spawn(stream, None);
        }
        drop(listening);
        if timeout(STOP_TIMEOUT, self.graceful.shutdown()).await.is_err() {
            tracing::warn!("gave up on connections that did not end in {} s", STOP_TIMEOUT.as_secs());
        }
    }
}
