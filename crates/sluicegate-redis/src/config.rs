//! Where the servers are, and how long to wait for them.

use std::{fmt, sync::Arc, time::Duration};

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError,
    io::tcp::TcpSettings,
};

use crate::{
    server::Server,
    url::{Group, group},
};

/// The servers of one store, with user, password and database number: a single one over TCP, TLS or a unix socket,
/// the master that sentinels name, or the nodes of a cluster.
#[derive(Clone)]
pub struct RedisConfig {
    named: Named,
    ca: Option<Arc<[u8]>>,
    connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
}

/// What the URL names.
#[derive(Clone)]
enum Named {
    One(ConnectionInfo),
    Sentinels { sentinels: Vec<ConnectionInfo>, name: Arc<str>, master: ConnectionInfo },
    Cluster { first: ConnectionInfo, seeds: Vec<ConnectionInfo> },
}

/// The servers, ready to be connected to.
pub(crate) enum Servers {
    One(Server),
    /// The master has the address of a sentinel until one names its own.
    Sentinels {
        sentinels: Vec<Server>,
        name: Arc<str>,
        master: Server,
    },
    /// Nodes of a cluster: one, and further ones.
    Cluster {
        first: Server,
        seeds: Vec<Server>,
    },
}

/// A configuration that names no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The address cannot be read.
    #[error("the redis url is not of the form `redis://[user:password@]host[:port][/database]`")]
    Url(#[source] RedisError),
    /// The addresses of a group of servers cannot be read.
    #[error("the redis url is not of the form `{form}`: {problem}")]
    Group {
        /// What it should look like.
        form: &'static str,
        /// What it lacks.
        problem: &'static str,
    },
    /// A group of servers is named where a single one is needed.
    #[error("this needs the url of a single server, such as `redis://host`")]
    NotOneServer,
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

    /// From a URL: `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS,
    /// `redis+unix:///path[?db=0&user=…&pass=…]`;
    /// `redis+sentinel://[user:password@]host[:port][,host…]/master[/database]` for the master that sentinels name
    /// (`rediss+sentinel://…` for TLS; `?sentinel_user=…&sentinel_password=…&sentinel_tls=yes|no` for the sentinels);
    /// `redis+cluster://[user:password@]host[:port][,host…]` for a cluster of which some nodes are named
    /// (`rediss+cluster://…` for TLS).
    ///
    /// # Errors
    /// [`ConfigError`] if it is none of these.
    ///
    /// ```
    /// use sluicegate_redis::RedisConfig;
    /// let config = RedisConfig::from_url("rediss://limiter:s%20cret@redis.internal:6380/3")?;
    /// assert_eq!(config.to_string(), "rediss://redis.internal:6380/3");
    /// # Ok::<(), sluicegate_redis::ConfigError>(())
    /// ```
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let named = match group(url).transpose()? {
            None => Named::One(ours(url.into_connection_info().map_err(ConfigError::Url)?)),
            Some(Group::Sentinels { sentinels, name, master }) => Named::Sentinels {
                sentinels: sentinels.into_iter().map(ours).collect(),
                name: name.into(),
                master: ours(master),
            },
            Some(Group::Cluster { first, seeds }) => {
                Named::Cluster { first: ours(first), seeds: seeds.into_iter().map(ours).collect() }
            }
        };
        let (connect_timeout, response_timeout) = (Self::CONNECT_TIMEOUT, Self::RESPONSE_TIMEOUT);
        Ok(Self { named, ca: None, connect_timeout, response_timeout })
    }

    /// Trusts this certificate authority (PEM) instead of the system's.
    #[must_use]
    pub fn trusting(mut self, ca_pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(ca_pem.into().into());
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
    /// [`ConfigError`] if the configuration cannot be used, or names a group of servers.
    pub fn client(&self) -> Result<Client, ConfigError> {
        match &self.named {
            Named::One(info) => self.server(info).client(),
            Named::Sentinels { .. } | Named::Cluster { .. } => Err(ConfigError::NotOneServer),
        }
    }

    /// The servers, with what holds for all of them.
    ///
    /// # Errors
    /// [`ConfigError`] if one of them cannot be used.
    pub(crate) fn servers(&self) -> Result<Servers, ConfigError> {
        let servers = match &self.named {
            Named::One(info) => Servers::One(self.server(info)),
            Named::Sentinels { sentinels, name, master } => Servers::Sentinels {
                // An authority is for those that speak TLS, which may be the master alone.
                sentinels: sentinels.iter().map(|info| self.server_of_group(info)).collect(),
                name: name.clone(),
                master: self.server_of_group(master),
            },
            Named::Cluster { first, seeds } => Servers::Cluster {
                first: self.server(first),
                seeds: seeds.iter().map(|info| self.server(info)).collect(),
            },
        };
        servers.check(self.ca.is_some())?;
        Ok(servers)
    }

    fn server(&self, info: &ConnectionInfo) -> Server {
        Server {
            info: info.clone(),
            ca: self.ca.clone(),
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
        }
    }

    fn server_of_group(&self, info: &ConnectionInfo) -> Server {
        Server { ca: self.ca.clone().filter(|_| with_tls(info)), ..self.server(info) }
    }
}

impl Servers {
    /// Makes a client of each, which finds what is wrong with it.
    fn check(&self, has_ca: bool) -> Result<(), ConfigError> {
        let all: Vec<&Server> = match self {
            Self::One(server) => vec![server],
            Self::Sentinels { sentinels, master, .. } => sentinels.iter().chain([master]).collect(),
            Self::Cluster { first, seeds } => seeds.iter().chain([first]).collect(),
        };
        if has_ca && all.iter().all(|server| !with_tls(&server.info)) {
            return Err(ConfigError::CaWithoutTls);
        }
        all.into_iter().try_for_each(|server| server.client().map(|_client| ()))
    }
}

/// The settings that every connection of ours has.
fn ours(info: ConnectionInfo) -> ConnectionInfo {
    // Decisions are small: waiting to fill a packet would only delay them. The third protocol version tells a client
    // that its connection was closed, so that the next call does not have to find out by failing.
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let settings = settings.set_lib_name("sluicegate", env!("CARGO_PKG_VERSION"));
    info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(settings)
}

fn with_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

/// Without user and password: fit for logs.
impl fmt::Display for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.named {
            Named::One(info) => {
                let database = info.redis_settings().db();
                match info.addr() {
                    ConnectionAddr::TcpTls { host, port, .. } => {
                        write!(f, "rediss://{host}:{port}/{database}")
                    }
                    ConnectionAddr::Unix(path) => write!(f, "redis+unix://{}?db={database}", path.display()),
                    address => write!(f, "redis://{address}/{database}"),
                }
            }
            Named::Sentinels { sentinels, name, master } => {
                let (scheme, database) = (scheme(master), master.redis_settings().db());
                write!(f, "{scheme}+sentinel://{}/{name}/{database}", addresses(sentinels.iter()))
            }
            Named::Cluster { first, seeds } => {
                write!(f, "{}+cluster://{}", scheme(first), addresses([first].into_iter().chain(seeds)))
            }
        }
    }
}

fn scheme(info: &ConnectionInfo) -> &'static str {
    if with_tls(info) { "rediss" } else { "redis" }
}

/// Addresses with commas between them.
fn addresses<'i>(infos: impl Iterator<Item = &'i ConnectionInfo>) -> String {
    let addresses: Vec<String> = infos.map(|info| info.addr().to_string()).collect();
    addresses.join(",")
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisConfig").field(&self.to_string()).finish()
    }
}
