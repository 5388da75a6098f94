//! Where the tables are.

use std::{fmt, fs, io, path::PathBuf, str::FromStr};

use tokio_postgres::{
    Config,
    config::{Host, SslMode as Attempt},
};

use super::tls::{RootError, SslMode, Trust};
use crate::domains::DEFAULT_DOMAIN;

/// The port that is meant when none is named.
const PORT: u16 = 5432;

/// A server of PostgreSQL, a database, and the domain whose assignments are meant. Its display has no password.
#[derive(Clone, Debug)]
pub struct PostgresUrl {
    pub(super) config: Config,
    pub(super) tls: SslMode,
    pub(super) trust: Trust,
    /// The domain.
    pub domain: String,
}

/// A URL that names no server. It is not repeated: it may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It cannot be read.
    #[error(
        "the postgres url is not of the form \
         `postgres://[user[:password]@]host[:port][/database][?sslmode=…&sslrootcert=…&domain=…]`"
    )]
    Form,
    /// `sslmode` is none.
    #[error("`sslmode` is one of `disable`, `allow`, `prefer`, `require`, `verify-ca`, `verify-full`")]
    Mode,
    /// The certificates of the system sign for anyone who has a name.
    #[error(
        "`sslrootcert=system` needs `sslmode=verify-full`: everybody can have a certificate of those authorities"
    )]
    Weak,
    /// The certificate authority cannot be read.
    #[error("the file of `sslrootcert` cannot be read")]
    Unreadable(#[source] io::Error),
    /// The certificates to trust cannot be used.
    #[error(transparent)]
    Root(#[from] RootError),
}

impl FromStr for PostgresUrl {
    type Err = UrlError;

    /// As libpq reads it, with the `domain` besides; the certificate authority is read at once.
    fn from_str(url: &str) -> Result<Self, UrlError> {
        let (server, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut domain, mut mode, mut root) = (DEFAULT_DOMAIN, None, None);
        let mut passed_on = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("domain", value)) => domain = value,
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => root = Some(value),
                _ => passed_on.push(pair),
            }
        }
        let tls = mode.map_or(Ok(SslMode::Prefer), |mode| mode.parse().map_err(|()| UrlError::Mode))?;
        let trust = trust(root, tls)?;
        let config: Config =
            format!("{server}?{}", passed_on.join("&")).parse().map_err(|_| UrlError::Form)?;
        if config.get_hosts().is_empty() {
            return Err(UrlError::Form);
        }
        Ok(Self { config, tls, trust, domain: domain.to_owned() })
    }
}

/// What a server is trusted by.
fn trust(root: Option<&str>, tls: SslMode) -> Result<Trust, UrlError> {
    match root {
        Some("system") if tls != SslMode::VerifyFull => Err(UrlError::Weak),
        Some("system") | None => Ok(Trust::System),
        Some(path) => {
            let path = PathBuf::from(path.replace("%2F", "/").replace("%2f", "/"));
            Ok(Trust::authorities(&fs::read(path).map_err(UrlError::Unreadable)?)?)
        }
    }
}

impl PostgresUrl {
    /// The ways to connect, in the order in which they are tried: with TLS or without.
    pub(super) fn attempts(&self) -> &'static [Attempt] {
        match self.tls {
            SslMode::Disable => &[Attempt::Disable],
            SslMode::Allow => &[Attempt::Disable, Attempt::Require],
            SslMode::Prefer => &[Attempt::Require, Attempt::Disable],
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Attempt::Require],
        }
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        let ports = self.config.get_ports();
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
            let comma = if at == 0 { "" } else { "," };
            match host {
                Host::Tcp(host) => write!(f, "{comma}{host}:{port}")?,
                Host::Unix(folder) => write!(f, "{comma}{}:{port}", folder.display())?,
            }
        }
        write!(f, "/{}?domain={}", self.config.get_dbname().unwrap_or_default(), self.domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<PostgresUrl, UrlError> {
        url.parse()
    }

    #[test]
    fn a_url_is_shown_without_its_password() -> Result<(), UrlError> {
        let url =
            read("postgresql://reader:s3cret@a,b:6000/limits?domain=api&sslmode=disable&connect_timeout=3")?;
        assert_eq!(url.to_string(), "postgres://a:5432,b:6000/limits?domain=api");
        assert_eq!(read("postgres://a/")?.to_string(), "postgres://a:5432/?domain=default");
        assert_eq!(read("postgres://%2Frun%2Fpg/x")?.to_string(), "postgres:///run/pg:5432/x?domain=default");
        Ok(())
    }

    #[test]
    fn each_mode_tries_what_libpq_tries() -> Result<(), UrlError> {
        let attempts = |mode: &str| read(&format!("postgres://a?sslmode={mode}")).map(|url| url.attempts());
        let (plain, tls) = (Attempt::Disable, Attempt::Require);
        assert_eq!(attempts("disable")?, [plain]);
        assert_eq!(attempts("allow")?, [plain, tls]);
        assert_eq!(attempts("prefer")?, [tls, plain]);
        for mode in ["require", "verify-ca", "verify-full"] {
            assert_eq!(attempts(mode)?, [tls], "{mode}");
        }
        assert_eq!(read("postgres://a")?.attempts(), [tls, plain], "as libpq does when nothing is said");
        Ok(())
    }

    #[test]
    fn a_url_that_makes_no_sense_is_refused_and_not_repeated() {
        for url in [
            "postgres://",
            "postgres:///x",
            "postgres://u:s3cret@a:b",
            "postgres://u:s3cret@a?sslmode=verify",
            "postgres://u:s3cret@a?sslmode=require&sslrootcert=system",
            "postgres://u:s3cret@a?sslmode=verify-ca&sslrootcert=/nowhere",
            "postgres://u:s3cret@a?sslcert=x",
        ] {
            let told = read(url).err().map(|error| crate::causes::with_causes(&error)).unwrap_or_default();
            assert!(!told.is_empty() && !told.contains("s3cret"), "{url}: {told}");
        }
    }
}
