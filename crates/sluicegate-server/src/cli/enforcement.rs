//! `sluicegate enforcement`: turns a limit, or a domain, on, into shadow, or off, on a running server.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::ValueEnum;
use http_body_util::Full;
use hyper::{Request, StatusCode, body::Bytes, header};

use super::{Failure, asking, runtime, sources::Unread};

/// Flags of `enforcement`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// `on` decides, `shadow` counts and reports and never denies, `off` is not asked, `file` is what the policy says.
    to: To,
    /// The limit; without it, the whole domain.
    limit: Option<String>,
    /// The domain.
    #[arg(long, env = "SLUICEGATE_DOMAIN", default_value = "default", value_name = "DOMAIN")]
    domain: String,
    /// Where the server's admin door listens.
    #[arg(long, env = "SLUICEGATE_ADMIN", default_value = "127.0.0.1:8082", value_name = "ADDR")]
    admin: SocketAddr,
    #[command(flatten)]
    token: TokenArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    On,
    Shadow,
    Off,
    File,
}

/// Flags that give the admin token.
#[derive(Debug, clap::Args)]
pub(super) struct TokenArgs {
    /// The token that operators say to the admin door.
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    admin_token: Option<Unread>,
    /// A file that holds the token, instead.
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN_FILE", value_name = "FILE", conflicts_with = "admin_token")]
    admin_token_file: Option<PathBuf>,
}

/// A shorter token could be guessed.
const MIN_TOKEN_LEN: usize = 16;

impl TokenArgs {
    /// The token.
    pub(super) fn read(&self) -> Result<String, Failure> {
        let token = match (&self.admin_token, &self.admin_token_file) {
            (Some(token), _) => token.0.clone(),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path);
                let text = text
                    .map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", path.display())))?;
                text.trim_end().to_owned()
            }
            (None, None) => {
                let hint = "give `--admin-token-file`, or SLUICEGATE_ADMIN_TOKEN in the environment";
                return Err(Failure::usage("the admin door needs a token").hint(hint));
            }
        };
        fit_token(&token, "admin")
    }
}

/// A token that nobody guesses, and that a header can hold.
pub(super) fn fit_token(token: &str, whose: &str) -> Result<String, Failure> {
    if token.len() < MIN_TOKEN_LEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("the {whose} token must have {MIN_TOKEN_LEN} or more printable characters");
        return Err(Failure::usage(what).hint("make one with `openssl rand -hex 32`"));
    }
    Ok(token.to_owned())
}

/// Asks the server, and prints what it answers.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let token = args.token.read()?;
    let body = serde_json::json!({
        "domain": args.domain,
        "limit": args.limit,
        "enforcement": args.to.to_possible_value().map(|word| word.get_name().to_owned()),
    });
    let request = Request::post("/admin/enforcement")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(Failure::usage)?;
    let answer = runtime()?.block_on(asking::ask(&args.admin.to_string(), request)).map_err(|error| {
        Failure::undecided(format!("`{}` {error}", args.admin))
            .hint("start the server with `--admin`, and say where it listens by `--admin` here")
    })?;
    let (status, answer) = (answer.status, answer.body);
    if status != StatusCode::OK {
        return Err(Failure::usage(format!("the server answers {status}: {answer}")));
    }
    // Nobody may be reading; the exit code says it all the same.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{answer}\n").as_bytes());
    Ok(ExitCode::SUCCESS)
}
