//! TLS as libpq's `sslmode` has it.

use std::{fmt, str::FromStr, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Whether a connection is encrypted, and what the server must prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted where a plain connection is refused.
    Allow,
    /// Encrypted where the server can.
    Prefer,
    /// Encrypted; with authorities given, as [`SslMode::VerifyCa`].
    Require,
    /// Encrypted, to a server with a certificate of a trusted authority.
    VerifyCa,
    /// Encrypted, to the server that the URL names.
    VerifyFull,
}

impl FromStr for SslMode {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Ok(match word {
            "disable" => Self::Disable,
            "allow" => Self::Allow,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return Err(()),
        })
    }
}

/// The authorities whose certificates are believed.
#[derive(Clone)]
pub(super) enum Trust {
    /// Those of the machine.
    System,
    /// Those of a file.
    Given(Arc<RootCertStore>),
}

/// Authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// The file has none.
    #[error("the file of `sslrootcert` holds no certificate in pem form")]
    NoCertificate,
    /// The machine has none.
    #[error("this machine has no certificate authorities that could be trusted")]
    NoneHere,
    /// The library of TLS refuses its settings.
    #[error("tls cannot be used")]
    Tls(#[from] Error),
}

impl Trust {
    /// The authorities of a file (PEM).
    pub(super) fn authorities(pem: &[u8]) -> Result<Self, RootError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(|_| RootError::NoCertificate)?)?;
        }
        if roots.is_empty() { Err(RootError::NoCertificate) } else { Ok(Self::Given(Arc::new(roots))) }
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, RootError> {
        if let Self::Given(roots) = self {
            return Ok(roots.clone());
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() { Err(RootError::NoneHere) } else { Ok(Arc::new(roots)) }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

/// What makes connections encrypted.
pub(super) fn connector(mode: SslMode, trust: &Trust) -> Result<MakeRustlsConnect, RootError> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let chain = match (mode, trust) {
        (SslMode::VerifyFull, _) => {
            let config = builder.with_root_certificates(trust.roots()?).with_no_client_auth();
            return Ok(MakeRustlsConnect::new(config));
        }
        (SslMode::VerifyCa, _) | (SslMode::Require, Trust::Given(_)) => Some(trust.roots()?),
        _ => None,
    };
    let verifier = Arc::new(AnyName { chain, provider });
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Believes a server whatever its name is: with a certificate of these authorities, or with any.
#[derive(Debug)]
struct AnyName {
    chain: Option<Arc<RootCertStore>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.chain {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
