//! The HTTP door on the embedded store against a bare hyper server that reads JSON, decides one GCRA and writes JSON.
//!
//! Both serve the same requests over kept-alive connections on loopback. What is compared is the processor time of the
//! server's process per request, so that the load generator does not matter.

use std::{collections::HashMap, convert::Infallible, process::Command, sync::Arc};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use sluicegate_bench::{
    door::{CONNECTIONS, Talk, alternate, http_answers, take_request},
    gcra::{Gcra, Verdict},
    server::{Policy, Program, sluicegate},
};

const ROUNDS: usize = 7;
const REQUESTS: usize = 2_000;

#[derive(Deserialize)]
struct Ask {
    attributes: HashMap<String, String>,
    #[serde(default = "one")]
    cost: u64,
}

#[derive(Serialize)]
struct Reply {
    allowed: bool,
    remaining: u64,
    retry_after_ms: Option<u64>,
}

fn one() -> u64 {
    1
}

/// Reads an ask and answers it.
fn decide(gcra: &Gcra, ask: Ask) -> Reply {
    let user = ask.attributes.into_iter().find(|(name, _)| name == "user").map(|(_, user)| user);
    let Verdict { allowed, remaining, retry_ns, .. } =
        gcra.take(user.unwrap_or_default().as_bytes(), ask.cost);
    Reply { allowed, remaining, retry_after_ms: (!allowed).then(|| retry_ns.div_ceil(1_000_000)) }
}

async fn answer(gcra: Arc<Gcra>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let reply = decide(&gcra, serde_json::from_slice(&body).unwrap());
    let status = if reply.allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(Full::new(serde_json::to_vec(&reply).unwrap().into())).unwrap())
}

#[tokio::main]
async fn serve_bare() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    let gcra = Arc::new(Gcra::new());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let gcra = gcra.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(gcra.clone(), request));
            http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
        });
    }
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("bare") {
        return serve_bare();
    }
    let policy = Policy::write();
    let mut serve = Command::new(sluicegate());
    serve.args(["serve", "--http", "127.0.0.1:0", "--policy"]).arg(policy.path());
    let ours = Program::announced(&mut serve, 1);
    let bare = Program::announced(Command::new(std::env::current_exe().unwrap()).arg("bare"), 1);
    let talk = Talk { request: &take_request, answers: &http_answers, depth: 1, turns: REQUESTS };
    let doors = [&ours, &bare].map(|server| talk.at(server.address("http"), vec![server.pid()]));
    let taken = alternate(&doors, ROUNDS);
    let (ours, bare) = (taken[0].cpu_ns, taken[1].cpu_ns);
    println!("| HTTP, server processor time per request | sluicegate | bare hyper | ours / bare |");
    println!("|---|---|---|---|");
    println!(
        "| POST JSON, one GCRA, {CONNECTIONS} connections | {:.1} us | {:.1} us | {:.2}x |",
        ours / 1e3,
        bare / 1e3,
        ours / bare
    );
}
