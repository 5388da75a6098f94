//! Where the server is, and how long to wait for it.

use std::{fmt, time::Duration};

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError, TlsCertificates,
    io::tcp::TcpSettings,
};

/// One Redis server: TCP, TLS or a unix socket, with user, password and database number.
#[derive(Clone)]
pub struct RedisConfig {
    info: ConnectionInfo,
    ca: Option<Vec<u8>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
}

/// A configuration that names no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The address cannot be read.
    #[error("the redis url is not of the form `redis://[user:password@]host[:port][/database]`")]
    Url(#[source] RedisError),
    /// A certificate authority was given for a connection without TLS.
    #[error("a ca file needs a `rediss://` url")]
    CaWithoutTls,
    /// The certificate authority cannot be read.
    #[error("the ca file holds no certificate in pem form")]
    Ca(#[source] RedisError),
}

impl RedisConfig {
    /// How long a new connection may take unless said otherwise.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
    /// How long an answer may take unless said otherwise.
    pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

    /// From a URL: `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, or
    /// `redis+unix:///path[?db=0&user=…&pass=…]`.
    ///
    /// # Errors
    /// [`ConfigError::Url`] if it is none of these.
    ///
    /// ```
    /// use sluicegate_redis::RedisConfig;
    /// let config = RedisConfig::from_url("rediss://limiter:s%20cret@redis.internal:6380/3")?;
    /// assert_eq!(config.to_string(), "rediss://redis.internal:6380/3");
    /// # Ok::<(), sluicegate_redis::ConfigError>(())
    /// ```
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let info = url.into_connection_info().map_err(ConfigError::Url)?;
        // Decisions are small: waiting to fill a packet would only delay them. The third protocol version tells a
        // client that its connection was closed, so that the next call does not have to find out by failing.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let settings = settings.set_lib_name("sluicegate", env!("CARGO_PKG_VERSION"));
        let info =
            info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(settings);
        let (connect_timeout, response_timeout) = (Self::CONNECT_TIMEOUT, Self::RESPONSE_TIMEOUT);
        Ok(Self { info, ca: None, connect_timeout, response_timeout })
    }

    /// Trusts this certificate authority (PEM) instead of the system's.
    #[must_use]
    pub fn trusting(mut self, ca_pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(ca_pem.into());
        self
    }

    /// Waits at most this long for a connection, handshakes included.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Waits at most this long for an answer.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// A plain client for the same server, for tools that talk to it beside the store.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration cannot be used.
    pub fn client(&self) -> Result<Client, ConfigError> {
        let with_tls = matches!(self.info.addr(), ConnectionAddr::TcpTls { .. });
        if with_tls {
            // The process may have chosen its cryptography already; then that stands.
            let _chosen = rustls::crypto::ring::default_provider().install_default();
        }
        match &self.ca {
            None => Client::open(self.info.clone()).map_err(ConfigError::Url),
            Some(_) if !with_tls => Err(ConfigError::CaWithoutTls),
            Some(ca) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(ca.clone()) };
                Client::build_with_tls(self.info.clone(), certificates).map_err(ConfigError::Ca)
            }
        }
    }
}

/// Without user and password: fit for logs.
impl fmt::Display for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.info.redis_settings().db();
        match self.info.addr() {
            ConnectionAddr::TcpTls { host, port, .. } => write!(f, "rediss://{host}:{port}/{database}"),
            ConnectionAddr::Unix(path) => write!(f, "redis+unix://{}?db={database}", path.display()),
            address => write!(f, "redis://{address}/{database}"),
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisConfig").field(&self.to_string()).finish()
    }
}
