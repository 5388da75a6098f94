//! A certificate authority for one test, and a certificate of it for this host.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Everything in PEM form.
#[derive(Clone, Debug)]
pub struct Certs {
    /// The authority's certificate: what clients trust.
    pub ca: String,
    /// The server's certificate, for `localhost` and `127.0.0.1`.
    pub cert: String,
    /// The server's private key.
    pub key: String,
}

impl Certs {
    /// New ones.
    pub fn new() -> Self {
        let ca_key = KeyPair::generate().expect("a key for the authority");
        let mut ca_params = CertificateParams::default();
        ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // With one name for both, OpenSSL takes the server's certificate for one that vouches for itself.
        ca_params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        let ca = ca_params.self_signed(&ca_key).expect("a certificate for the authority").pem();
        let key = KeyPair::generate().expect("a key for the server");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("names that a certificate can have");
        let issuer = Issuer::from_params(&ca_params, &ca_key);
        let cert = params.signed_by(&key, &issuer).expect("a certificate for the server").pem();
        Self { ca, cert, key: key.serialize_pem() }
    }
}

impl Certs {
    /// Writes `ca.pem`, `cert.pem` and `key.pem` to a folder.
    pub fn write_to(&self, folder: &std::path::Path) {
        for (name, pem) in [("ca.pem", &self.ca), ("cert.pem", &self.cert), ("key.pem", &self.key)] {
            std::fs::write(folder.join(name), pem).expect("a certificate written");
        }
    }
}

impl Default for Certs {
    fn default() -> Self {
        Self::new()
    }
}
