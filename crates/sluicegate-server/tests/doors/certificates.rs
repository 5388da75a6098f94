//! TLS: encrypted doors, clients with certificates, and certificates that are replaced.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustls::ClientConfig;
use sluicegate_server::listen::{Certificates, TlsFiles};
use sluicegate_tests::certs::Certs;
use tempfile::TempDir;

use crate::support::{DOORS, Door, Server, answers, ask_grpc, encrypt, ends, exchange, trusting};

const TLS: [&str; 4] = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];

fn serve(certs: &Certs, flags: &[&str]) -> Server {
    let folder = TempDir::new().unwrap();
    certs.write_to(folder.path());
    Server::start(folder, &[&TLS[..], flags].concat())
}

/// Whether a client gets an answer through an encrypted connection.
fn reaches(server: &Server, door: Door, client: &ClientConfig) -> bool {
    match door {
        Door::Grpc => ask_grpc(server.address(door), Some(client), None).is_ok(),
        _ => answers(door, &mut encrypt(server.connect(door), client)),
    }
}

#[test]
fn every_door_is_encrypted_and_answers_nobody_in_the_clear() {
    let (certs, others) = (Certs::new(), Certs::new());
    let server = serve(&certs, &[]);
    for door in DOORS {
        assert!(reaches(&server, door, &trusting(&certs, None)), "{door:?}");
        assert!(!reaches(&server, door, &trusting(&others, None)), "{door:?} is who it says it is");
        assert!(!answers(door, &mut server.connect(door)), "{door:?} in the clear");
    }
}

#[test]
fn a_client_of_redis_itself_connects_by_tls() {
    let certs = Certs::new();
    let server = serve(&certs, &[]);
    let port = server.address(Door::Resp).port().to_string();
    let mut client = Command::new("redis-cli");
    client.args(["-h", "localhost", "-p", &port, "--tls", "--cacert", "ca.pem", "PING"]);
    let told = client.current_dir(server.folder.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&told.stdout), "PONG\n", "{told:?}");
}

#[test]
fn clients_need_a_certificate_of_the_authority_that_is_named() {
    let (certs, others) = (Certs::new(), Certs::new());
    let server = serve(&certs, &["--tls-client-ca", "ca.pem"]);
    for door in DOORS {
        assert!(reaches(&server, door, &trusting(&certs, Some(&certs))), "{door:?}");
        assert!(!reaches(&server, door, &trusting(&certs, None)), "{door:?} without one");
        assert!(!reaches(&server, door, &trusting(&certs, Some(&others))), "{door:?} with another's");
    }
}

#[test]
fn a_stop_ends_encrypted_connections_and_the_process_with_0() {
    let certs = Certs::new();
    let server = serve(&certs, &[]);
    // The gRPC door asks its clients whether they have heard, which these bytes alone would not answer.
    let mut open = [Door::Http, Door::Resp].map(|door| {
        let mut stream = encrypt(server.connect(door), &trusting(&certs, None));
        assert!(answers(door, &mut stream), "{door:?}");
        stream
    });
    let asked = server.stop();
    assert!(open.iter_mut().all(ends));
    assert_eq!(asked.wait(), Some(0));
}

/// A client that insists on HTTP/2 must not be left to an HTTP/1 door that would not understand a word.
#[test]
fn a_door_speaks_its_own_protocol_or_none() {
    let certs = Certs::new();
    let server = serve(&certs, &[]);
    for (door, own, other) in [(Door::Http, "http/1.1", "h2"), (Door::Grpc, "h2", "http/1.1")] {
        for (offered, passes) in [(vec![own], true), (vec![other, own], true), (vec![other], false)] {
            let mut client = trusting(&certs, None);
            client.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
            let answered = answers(door, &mut encrypt(server.connect(door), &client));
            assert_eq!(answered, passes, "{door:?} {offered:?}");
        }
    }
}

#[test]
fn certificates_are_replaced_while_it_runs_and_open_connections_stay() {
    let (old, new) = (Certs::new(), Certs::new());
    let server = serve(&old, &[]);
    let mut open = encrypt(server.connect(Door::Http), &trusting(&old, None));
    assert!(answers(Door::Http, &mut open));
    new.write_to(server.folder.path());
    let begun = Instant::now();
    while !reaches(&server, Door::Http, &trusting(&new, None)) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the new certificate is not served");
        thread::sleep(Duration::from_millis(20)); // Nothing tells a client when it is.
    }
    for door in DOORS {
        assert!(reaches(&server, door, &trusting(&new, None)), "{door:?}");
        assert!(!reaches(&server, door, &trusting(&old, None)), "{door:?}");
    }
    assert!(exchange(&mut open, b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n", "live").contains("200 OK"));
}

/// A key and its certificate are two files, so there is a moment when they do not belong together.
#[test]
fn files_that_cannot_be_served_by_are_said_once_and_change_nothing() {
    let (old, new) = (Certs::new(), Certs::new());
    let folder = TempDir::new().unwrap();
    old.write_to(folder.path());
    let [certificate, key, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|name| folder.path().join(name));
    let certificates = Certificates::load(TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_authorities: Some(ca),
    });
    let certificates = certificates.unwrap();
    assert!(!certificates.renew().unwrap(), "nothing has changed");
    std::fs::write(&key, &new.key).unwrap();
    certificates.renew().unwrap_err();
    assert!(!certificates.renew().unwrap(), "it is said once");
    std::fs::write(&certificate, "nonsense").unwrap();
    certificates.renew().unwrap_err();
    std::fs::remove_file(&certificate).unwrap();
    certificates.renew().unwrap_err();
    assert!(!certificates.renew().unwrap(), "it is said once");
    std::fs::write(&certificate, &new.cert).unwrap();
    assert!(certificates.renew().unwrap(), "both belong together");
}

#[test]
fn a_start_without_usable_certificates_is_refused_with_the_file() {
    let folder = TempDir::new().unwrap();
    Certs::new().write_to(folder.path());
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    for (cert, key, words) in [
        ("missing.pem", "key.pem", "cannot read `missing.pem`"),
        ("empty.pem", "key.pem", "`empty.pem` holds no certificate"),
        ("cert.pem", "cert.pem", "`cert.pem` does not hold what it should"),
    ] {
        let mut serve = crate::binary::sluicegate();
        serve.args(["serve", "--http", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
        let output = serve.current_dir(folder.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(words), "{told}");
    }
}
