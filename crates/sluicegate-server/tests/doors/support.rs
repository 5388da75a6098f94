//! A server with all of its doors, and clients that speak each door's protocol over any bytes.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use sluicegate_server::grpc::proto::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    service::ratelimit::v3::{RateLimitRequest, rate_limit_service_client::RateLimitServiceClient},
};
use sluicegate_tests::certs::Certs;
use tempfile::TempDir;
use tokio::runtime;
use tonic::{Request, transport::Endpoint};

use crate::binary::{Process, sluicegate};

/// One limit for each address that a request may come from, and one for each user.
pub(crate) const POLICY: &str = "
version: 1
limits:
  - { name: per-client, algorithm: sliding_log, limit: 2, per: 1h, key: [ip], match: { ip: \"*\" } }
  - { name: per-user, algorithm: sliding_log, limit: 1000, per: 1h, key: [user], match: { user: \"*\" } }
";
/// Every door that clients use.
pub(crate) const DOORS: [Door; 3] = [Door::Http, Door::Grpc, Door::Resp];

/// A door that clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Http,
    Grpc,
    Resp,
}

/// A running server, in a folder of its own.
pub(crate) struct Server {
    process: Process,
    encrypted: bool,
    pub(crate) folder: TempDir,
}

impl Server {
    /// With these flags; files that they name are in its folder.
    pub(crate) fn start(folder: TempDir, flags: &[&str]) -> Self {
        std::fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
        let mut serve = sluicegate();
        serve.args(["serve", "--policy", "policy.yaml", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
        serve.args(["--resp", "127.0.0.1:0"]).args(flags).current_dir(folder.path());
        let encrypted = flags.contains(&"--tls-cert");
        Self { process: Process::start(&mut serve, 3), encrypted, folder }
    }

    pub(crate) fn address(&self, door: Door) -> SocketAddr {
        let [plain, encrypted] = match door {
            Door::Http => ["http", "https"],
            Door::Grpc => ["grpc", "grpcs"],
            Door::Resp => ["redis", "rediss"],
        };
        self.process.address(if self.encrypted { encrypted } else { plain }).parse().unwrap()
    }

    /// Begins a graceful stop.
    pub(crate) fn stop(self) -> Process {
        self.process.signal("-TERM");
        self.process
    }

    /// A connection in the clear.
    pub(crate) fn connect(&self, door: Door) -> TcpStream {
        patient(TcpStream::connect(self.address(door)).unwrap())
    }
}

/// A server that never answers fails the test instead of hanging it.
pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// How a client encrypts: it trusts an authority, and may have a certificate of its own.
pub(crate) fn trusting(authority: &Certs, own: Option<&Certs>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let certificate = CertificateDer::from_pem_slice(own.cert.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    }
}

/// An encrypted connection.
pub(crate) fn encrypt(stream: TcpStream, config: &ClientConfig) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config.clone()), name).unwrap(), stream)
}

/// Asks once, and tells what came back until the answer is there or the connection ends.
pub(crate) fn exchange(stream: &mut (impl Read + Write), request: &[u8], until: &str) -> String {
    // Whoever ends the connection at once may do so before all is written.
    _ = stream.write_all(request);
    _ = stream.flush();
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let told = String::from_utf8_lossy(&all).into_owned();
        if told.contains(until) {
            return told;
        }
        match stream.read(&mut bytes) {
            Ok(0) => return told,
            Ok(len) => all.extend_from_slice(&bytes[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer, and no end: {told}"),
            Err(_) => return told,
        }
    }
}

/// Whether the connection ends, whatever comes before that.
pub(crate) fn ends(stream: &mut (impl Read + Write)) -> bool {
    exchange(stream, b"", "\0 nobody says this");
    true
}

/// A question to a door, and what its answer holds.
pub(crate) fn question(door: Door) -> (&'static [u8], &'static str) {
    match door {
        Door::Http => (b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n", "200 OK"),
        Door::Resp => (b"PING\r\n", "+PONG"),
        // Both sides begin with settings, a frame of type 4 on stream 0; then the server acknowledges the client's.
        Door::Grpc => (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "\x04\x01\0\0\0\0"),
    }
}

/// Whether a door answers over these bytes.
pub(crate) fn answers(door: Door, stream: &mut (impl Read + Write)) -> bool {
    let (question, answer) = question(door);
    exchange(stream, question, answer).contains(answer)
}

/// A decision of the gRPC door about a user, or the code of its refusal.
pub(crate) fn ask_grpc(
    address: SocketAddr,
    tls: Option<&ClientConfig>,
    authorization: Option<&str>,
) -> Result<i32, tonic::Code> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tls = tls.cloned().map(|mut config| {
            config.alpn_protocols = vec![b"h2".to_vec()];
            tokio_rustls::TlsConnector::from(Arc::new(config))
        });
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let connect = tower::service_fn(move |_| {
            let tls = tls.clone();
            async move {
                let stream = tokio::net::TcpStream::connect(address).await?;
                let bytes: Box<dyn Bytes> = match tls {
                    None => Box::new(stream),
                    Some(tls) => {
                        Box::new(tls.connect(ServerName::try_from("localhost").unwrap(), stream).await?)
                    }
                };
                Ok::<_, std::io::Error>(TokioIo::new(bytes))
            }
        });
        let channel = endpoint.timeout(Duration::from_secs(20)).connect_with_connector(connect).await;
        let channel = channel.map_err(|_| tonic::Code::Unavailable)?;
        let entry = Entry { key: "user".to_owned(), value: "alice".to_owned() };
        let descriptors =
            vec![RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() }];
        let mut request =
            Request::new(RateLimitRequest { domain: "default".to_owned(), descriptors, hits_addend: 0 });
        if let Some(authorization) = authorization {
            request.metadata_mut().insert("authorization", authorization.parse().unwrap());
        }
        let response = RateLimitServiceClient::new(channel).should_rate_limit(request).await;
        response.map(|response| response.into_inner().overall_code).map_err(|status| status.code())
    })
}

/// Bytes in both directions.
trait Bytes: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Bytes for T {}
