//! The listener: connections in, answers out, and an end that loses nothing.

use std::{convert::Infallible, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::time::{sleep, timeout};

use super::{answer::Answer, linger::Lingering};
use crate::listen::{Arrival, Entry, Listener, Listening, Protocol};

/// The most bytes of one request head; more is answered 431. It is also the read buffer's bound.
const MAX_HEAD_LEN: usize = 16 * 1024;
/// How long requests in flight may take after a stop before they are given up.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// What an operator chooses about the listener.
#[derive(Clone, Debug)]
pub struct Config {
    /// How connections come in.
    pub entry: Entry,
    /// How long to go on serving after the stop, with `/readyz` red.
    pub drain: Duration,
    /// How long an answer may wait for its client to take anything of it; then the connection is closed.
    pub write_timeout: Duration,
    /// How long a client may take to send the head of a request, an idle connection included.
    pub head_timeout: Duration,
}

impl Default for Config {
    /// No drain; 30 s for answers, and a minute for heads.
    fn default() -> Self {
        Self {
            entry: Entry::default(),
            drain: Duration::ZERO,
            write_timeout: Duration::from_secs(30),
            head_timeout: Duration::from_secs(60),
        }
    }
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
    listener: impl Into<Listener>,
    door: Arc<D>,
    config: Config,
    stop: impl Future<Output = ()>,
) {
    let connections = Connections::new(&door, &config);
    let listening = Listening::new(listener.into(), config.entry, Protocol::Http1);
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
            arrival = listening.accept() => connections.spawn(arrival),
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
    fn new(door: &Arc<D>, config: &Config) -> Self {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .header_read_timeout(config.head_timeout)
            .max_buf_size(MAX_HEAD_LEN)
            .half_close(true);
        Self {
            door: Arc::clone(door),
            protocol,
            graceful: GracefulShutdown::new(),
            write_timeout: config.write_timeout,
        }
    }

    fn spawn(&self, arrival: Arrival) {
        let (door, protocol, write_timeout) =
            (Arc::clone(&self.door), self.protocol.clone(), self.write_timeout);
        let watcher = self.graceful.watcher();
        tokio::spawn(async move {
            let connection = match arrival.open().await {
                Ok(connection) => connection,
                Err(error) => return tracing::debug!(%error, "a connection was not opened"),
            };
            let peer = connection.peer();
            let service = service_fn(move |request: Request<Incoming>| {
                let door = Arc::clone(&door);
                async move { Ok::<_, Infallible>(door.answer(request, peer).await) }
            });
            let stream = Lingering::new(connection, write_timeout);
            let served = watcher.watch(protocol.serve_connection(TokioIo::new(stream), service)).await;
            if let Err(error) = served {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }

    /// Takes in the connections that clients see as open already, then waits until all have been answered.
    async fn finish(self, listening: Listening) {
        while let Some(arrival) = listening.waiting().await {
            self.spawn(arrival);
        }
        drop(listening);
        if timeout(STOP_TIMEOUT, self.graceful.shutdown()).await.is_err() {
            tracing::warn!("gave up on connections that did not end in {} s", STOP_TIMEOUT.as_secs());
        }
    }
}
