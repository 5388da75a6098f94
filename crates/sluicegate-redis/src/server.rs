//! One server, and the connection to it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, Pipeline, PushInfo, PushKind,
    RedisError, TlsCertificates, Value, aio::MultiplexedConnection,
};
use tokio::sync::Notify;

use crate::{
    config::ConfigError,
    error::{Unreachable, ends_connection},
};

/// Calls that may wait to be written before callers wait for room; each is some hundred bytes.
const QUEUE: usize = 1_024;

/// Where a server is, as whom to speak to it, and how long to wait for it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) info: ConnectionInfo,
    pub(crate) ca: Option<Arc<[u8]>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
}

/// A connection that stands, until it is seen to have ended.
#[derive(Clone)]
pub(crate) struct Live {
    calls: MultiplexedConnection,
    ended: Arc<AtomicBool>,
    server: Arc<str>,
}

impl Server {
    /// The same at another address: a node that a server of the group named.
    pub(crate) fn at(&self, host: &str, port: u16) -> Self {
        let host = host.to_owned();
        let address = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                let (insecure, tls_params) = (*insecure, tls_params.clone());
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Self { info: self.info.clone().set_addr(address), ..self.clone() }
    }

    /// A client of it, which has not connected yet.
    pub(crate) fn client(&self) -> Result<Client, ConfigError> {
        let with_tls = matches!(self.info.addr(), ConnectionAddr::TcpTls { .. });
        if with_tls {
            // The process may have chosen its cryptography already; then that stands.
            let _chosen = rustls::crypto::ring::default_provider().install_default();
        }
        match &self.ca {
            None => Client::open(self.info.clone()).map_err(ConfigError::Url),
            Some(_) if !with_tls => Err(ConfigError::CaWithoutTls),
            Some(ca) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(ca.to_vec()) };
                Client::build_with_tls(self.info.clone(), certificates).map_err(ConfigError::Ca)
            }
        }
    }

    /// Connects, handshakes included, within the connect timeout.
    pub(crate) async fn connect(&self) -> Result<Live, Unreachable> {
        self.connect_hearing(Arc::default()).await
    }

    /// As [`Server::connect`], and wakes someone when a message comes on a channel that the connection has subscribed to.
    pub(crate) async fn connect_hearing(&self, published: Arc<Notify>) -> Result<Live, Unreachable> {
        let server: Arc<str> = self.to_string().into();
        let client = self.client().map_err(|error| Unreachable::misconfigured(&server, error))?;
        let connecting =
            tokio::time::timeout(self.connect_timeout, self.greet(client, server.clone(), published));
        let made = connecting.await.unwrap_or_else(|_elapsed| Err(timed_out()));
        made.map_err(|cause| Unreachable::new(&server, cause))
    }

    async fn greet(
        &self,
        client: Client,
        server: Arc<str>,
        published: Arc<Notify>,
    ) -> Result<Live, RedisError> {
        let ended = Arc::new(AtomicBool::new(false));
        let sign = ended.clone();
        let listen = move |push: PushInfo| {
            match push.kind {
                PushKind::Disconnection => sign.store(true, Ordering::Release),
                PushKind::Message => published.notify_one(),
                _ => {}
            }
            Ok::<(), redis::aio::SendError>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.response_timeout))
            .set_pipeline_buffer_size(QUEUE)
            .set_push_sender(listen);
        let calls = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Live { calls, ended, server })
    }
}

/// Its address alone: fit for messages.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.addr().fmt(f)
    }
}

impl Live {
    /// The address of the server at its other end.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// One command, sent once.
    pub(crate) async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        let answer = self.calls.send_packed_command(command).await.and_then(Value::extract_error);
        self.note(&answer);
        answer
    }

    /// Commands in one write, sent once; the answer to the last of them.
    pub(crate) async fn send_all(&mut self, commands: &Pipeline) -> Result<Option<Value>, RedisError> {
        let last = commands.len().saturating_sub(1);
        let answers = self.calls.send_packed_commands(commands, last, 1).await;
        let answer = answers.and_then(|mut answers| answers.pop().map(Value::extract_error).transpose());
        self.note(&answer);
        answer
    }

    /// Hears what is published to a channel, as long as the connection stands.
    pub(crate) async fn subscribe(&mut self, channel: &str) -> Result<(), RedisError> {
        let answer = self.calls.subscribe(channel).await;
        self.note(&answer);
        answer
    }

    /// Gives the connection up if the answer says so.
    fn note<T>(&self, answer: &Result<T, RedisError>) {
        if answer.as_ref().is_err_and(ends_connection) {
            // After a timeout the way to the server may be cut without a sign; a new connection finds out.
            self.ended.store(true, Ordering::Release);
        }
    }
}

pub(crate) fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
