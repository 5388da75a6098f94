//! Flags that say who may connect to the doors, and how.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use super::{Failure, enforcement::fit_token};
use crate::{
    causes::with_causes,
    client::Proxies,
    listen::{Certificates, Entry, TlsFiles},
    tokens::Tokens,
};

/// Flags of the doors' entries.
#[derive(Debug, clap::Args)]
pub(super) struct SecurityArgs {
    /// The certificate (PEM) by which every door encrypts its TCP connections; it is read again when it changes.
    #[arg(long, env = "SLUICEGATE_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(long, env = "SLUICEGATE_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The authorities (PEM) that clients must have a certificate of; without it they need none.
    #[arg(long, env = "SLUICEGATE_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// A file of tokens, one a line: clients of the HTTP and gRPC doors say one as `authorization: Bearer …`.
    #[arg(long, env = "SLUICEGATE_CLIENT_TOKEN_FILE", value_name = "FILE")]
    client_token_file: Option<PathBuf>,
    /// The proxies whose connections begin with a header of the PROXY protocol, at every door: addresses and networks.
    #[arg(long, env = "SLUICEGATE_PROXY_PROTOCOL_FROM", value_name = "NETWORK,…")]
    proxy_protocol_from: Option<Proxies>,
    /// The most connections that each door holds at once; further ones wait in the listen queue.
    #[arg(long, env = "SLUICEGATE_MAX_CONNECTIONS", default_value = "10000", value_name = "N")]
    max_connections: u32,
    /// How long a client may take to open its connection, in ms: the PROXY protocol, TLS and the first bytes of HTTP/2.
    #[arg(long, env = "SLUICEGATE_OPENING_TIMEOUT_MS", default_value = "10000", value_name = "MS")]
    opening_timeout_ms: u32,
    /// How long a client may take to send the head of an HTTP request or a whole Redis command, in ms.
    #[arg(long, env = "SLUICEGATE_HEAD_TIMEOUT_MS", default_value = "60000", value_name = "MS")]
    head_timeout_ms: u32,
}

impl SecurityArgs {
    /// How connections come in.
    pub(super) fn entry(&self) -> Result<Entry, Failure> {
        Ok(Entry {
            max_connections: self.max_connections,
            opening_timeout: Duration::from_millis(self.opening_timeout_ms.into()),
            announcing: self.proxy_protocol_from.clone().unwrap_or_else(Proxies::none),
            certificates: self.certificates()?.map(Arc::new),
        })
    }

    fn certificates(&self) -> Result<Option<Certificates>, Failure> {
        let (Some(certificate), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else {
            return Ok(None);
        };
        let files = TlsFiles { certificate, key, client_authorities: self.tls_client_ca.clone() };
        Certificates::load(files).map(Some).map_err(|error| Failure::usage(with_causes(&error)))
    }

    /// What clients say to be let in.
    pub(super) fn tokens(&self) -> Result<Tokens, Failure> {
        let Some(path) = &self.client_token_file else { return Ok(Tokens::default()) };
        let text = fs::read_to_string(path);
        let text =
            text.map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", path.display())))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let tokens = lines.map(|line| fit_token(line, "client")).collect::<Result<Vec<_>, _>>()?;
        if tokens.is_empty() {
            return Err(Failure::usage(format!("`{}` holds no token", path.display())));
        }
        Ok(tokens.into_iter().collect())
    }

    pub(super) fn head_timeout(&self) -> Duration {
        Duration::from_millis(self.head_timeout_ms.into())
    }
}
