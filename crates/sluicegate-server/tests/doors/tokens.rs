//! Tokens of clients.

use std::fs;

use tempfile::TempDir;
use tonic::Code;

use crate::{
    binary::sluicegate,
    support::{Door, Server, ask_grpc, exchange},
};

const OLD: &str = "0123456789abcdef-old";
const NEW: &str = "0123456789abcdef-new";

fn serve() -> Server {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("tokens"), format!("{OLD}\n\n  {NEW}\n")).unwrap();
    Server::start(folder, &["--client-token-file", "tokens"])
}

/// The status line and headers of an answer.
fn head(server: &Server, request: &str, header: &str) -> String {
    let body = r#"{"attributes": {"user": "alice"}}"#;
    let request =
        format!("{request} HTTP/1.1\r\nhost: x\r\n{header}content-length: {}\r\n\r\n{body}", body.len());
    exchange(&mut server.connect(Door::Http), request.as_bytes(), "\r\n\r\n")
}

#[test]
fn decisions_over_http_are_for_those_who_say_a_token_and_pages_for_everybody() {
    let server = serve();
    let wrong = format!("authorization: Bearer {OLD}x\r\n");
    for path in [
        "POST /v1/take",
        "POST /v1/peek",
        "POST /v1/explain",
        "POST /v1/batch",
        "POST /json",
        "GET /forward-auth/default",
        "GET /metrics",
    ] {
        for header in ["", "authorization: Bearer \r\n", "authorization: Basic abc\r\n", &wrong] {
            let told = head(&server, path, header);
            assert!(
                told.starts_with("HTTP/1.1 401 ") && told.contains("www-authenticate: Bearer"),
                "{path}: {told}"
            );
        }
        for token in [OLD, NEW] {
            let told = head(&server, path, &format!("authorization: Bearer {token}\r\n"));
            assert!(!told.starts_with("HTTP/1.1 401 "), "{path}: {told}");
        }
    }
    assert!(
        head(&server, "POST /v1/take", &format!("authorization: bearer {NEW}\r\n")).contains("ratelimit")
    );
    for page in ["GET /livez", "GET /readyz", "GET /openapi.json"] {
        assert!(head(&server, page, "").starts_with("HTTP/1.1 200 "), "{page}");
    }
}

#[test]
fn the_grpc_door_knows_the_same_tokens() {
    let server = serve();
    let address = server.address(Door::Grpc);
    for authorization in [None, Some("Bearer "), Some("Bearer nonsense"), Some(NEW)] {
        assert_eq!(ask_grpc(address, None, authorization), Err(Code::Unauthenticated), "{authorization:?}");
    }
    for token in [OLD, NEW] {
        assert_eq!(ask_grpc(address, None, Some(&format!("Bearer {token}"))), Ok(1));
    }
}

#[test]
fn a_token_that_could_be_guessed_is_refused_at_the_start() {
    let folder = TempDir::new().unwrap();
    for (text, words) in [("short\n", "16 or more"), ("\n", "holds no token")] {
        fs::write(folder.path().join("tokens"), text).unwrap();
        let mut serve = sluicegate();
        serve.args(["serve", "--http", "127.0.0.1:0", "--client-token-file", "tokens"]);
        let output = serve.current_dir(folder.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(words), "{told}");
    }
}
