//! Certificates of the doors, read again when their files change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{VerifierBuilderError, WebPkiClientVerifier},
};
use tokio::time::sleep;

use super::Protocol;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Where it stands who this server is, and whom it trusts.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and those that vouch for it, in PEM form.
    pub certificate: PathBuf,
    /// Its private key, in PEM form.
    pub key: PathBuf,
    /// The authorities (PEM) that a client must have a certificate of; without it, clients need none.
    pub client_authorities: Option<PathBuf>,
}

/// Files that cannot be served by.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One of them cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// One of them is of another kind.
    #[error("`{path}` does not hold what it should, in PEM form")]
    Malformed {
        /// The file.
        path: String,
        /// Why.
        source: pem::Error,
    },
    /// There is no certificate in one of them.
    #[error("`{path}` holds no certificate")]
    Empty {
        /// The file.
        path: String,
    },
    /// A certificate and its key do not belong together, or are of an unknown kind.
    #[error("the certificate cannot be used with its key")]
    Unusable(#[from] rustls::Error),
    /// The authorities cannot be trusted.
    #[error("the authorities of clients cannot be used")]
    Authorities(#[from] VerifierBuilderError),
}

/// What the files hold.
#[derive(Clone, PartialEq, Eq)]
struct Texts {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authorities: Option<Vec<u8>>,
}

/// What new connections are encrypted by: one configuration for each protocol, which clients may insist on by name (ALPN).
#[derive(Debug)]
struct Configs {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
    resp: Arc<ServerConfig>,
}

/// The certificates in force.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    current: ArcSwap<Configs>,
    /// What was seen at the last look, in force or not; nothing if it could not be read.
    seen: Mutex<Option<Texts>>,
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Texts").finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] if one of them cannot be read, or nothing can be served by them.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let seen = files.read()?;
        let current = ArcSwap::from_pointee(files.parse(&seen)?);
        Ok(Self { files, current, seen: Mutex::new(Some(seen)) })
    }

    /// Looks at the files, and puts into force what has changed; `true` if something has. Open connections stay as they are.
    ///
    /// # Errors
    /// [`TlsError`] if what has changed cannot be served by: what was in force stays so. It is said once for each change.
    pub fn renew(&self) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = match self.files.read() {
            Ok(texts) => texts,
            Err(error) => return seen.take().map_or(Ok(false), |_| Err(error)),
        };
        if seen.as_ref() == Some(&texts) {
            return Ok(false);
        }
        let parsed = self.files.parse(&texts);
        *seen = Some(texts);
        self.current.store(Arc::new(parsed?));
        Ok(true)
    }

    /// Goes on looking, for ever. A key and a certificate that are replaced one after the other are taken once both are there.
    pub async fn keep_fresh(self: Arc<Self>) {
        loop {
            sleep(LOOK_EVERY).await;
            let certificates = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || certificates.renew()).await {
                Ok(Ok(true)) => tracing::info!("new certificates are in force"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(
                    error = crate::causes::with_causes(&error),
                    "certificates have changed and cannot be used: the old ones stay in force"
                ),
                Err(_) => return,
            }
        }
    }

    /// What a new connection is encrypted by.
    pub(super) fn config(&self, protocol: Protocol) -> Arc<ServerConfig> {
        let current = self.current.load();
        Arc::clone(match protocol {
            Protocol::Http1 => &current.http1,
            Protocol::Http2 => &current.http2,
            Protocol::Resp => &current.resp,
        })
    }
}

impl TlsFiles {
    fn read(&self) -> Result<Texts, TlsError> {
        Ok(Texts {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_authorities: self.client_authorities.as_deref().map(read).transpose()?,
        })
    }

    fn parse(&self, texts: &Texts) -> Result<Configs, TlsError> {
        let certificate = certificates(&self.certificate, &texts.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&texts.key).map_err(malformed(&self.key))?;
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match self.client_authorities.as_deref().zip(texts.client_authorities.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((path, text)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path, text)? {
                    roots.add(authority)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build()?)
            }
        };
        let resp = builder.with_single_cert(certificate, key)?;
        let speaking = |name: &str| {
            let mut config = resp.clone();
            config.alpn_protocols = vec![name.as_bytes().to_vec()];
            Arc::new(config)
        };
        Ok(Configs { http1: speaking("http/1.1"), http2: speaking("h2"), resp: resp.into() })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Unreadable { path: path.display().to_string(), source })
}

fn malformed(path: &Path) -> impl Fn(pem::Error) -> TlsError {
    move |source| TlsError::Malformed { path: path.display().to_string(), source }
}

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(malformed(path))?;
    if read.is_empty() {
        return Err(TlsError::Empty { path: path.display().to_string() });
    }
    Ok(read)
}
