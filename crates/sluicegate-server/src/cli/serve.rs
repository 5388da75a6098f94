//! `sluicegate serve`: the doors, until a signal ends them.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::OptionFuture};
use hyper::header::HeaderName;
use sluicegate::headers::{Families, HeaderStyle, Reset};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    Failure,
    enforcement::TokenArgs,
    guard::{GuardArgs, Served},
    kept::Kept,
    listeners::ListenArgs,
    login::LoginArgs,
    origin::Origin,
    security::SecurityArgs,
    sources::{self, Sources, Unread},
    supervisor::Supervisor,
    watch::{Files, Texts, Unusable, Watch},
};
use crate::{
    causes::with_causes,
    client::{ClientRule, Proxies},
    grpc,
    http::{self, Admin, Declared, Door, DoorConfig, ForwardAuth},
    listen::Entry,
    metrics::Metrics,
    resp,
    running::{Control, Misfit, Status},
};

/// Flags of `serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that has flags as keys: `max_connections: 100` for `--max-connections 100`. A flag, and a variable of the
    /// environment, comes before it.
    #[arg(id = "config", long = "config", env = "SLUICEGATE_CONFIG", value_name = "FILE")]
    _config: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
    /// A folder of configuration files of Envoy's rate limit service (`*.yaml`), served as they are at the gRPC door and at
    /// `/json`; they are read again when they change.
    #[arg(long, env = "SLUICEGATE_ENVOY_RATELIMIT_CONFIG", value_name = "DIR")]
    envoy_ratelimit_config: Option<PathBuf>,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    listen: ListenArgs,
    /// Families of rate limit headers that the gRPC door asks Envoy to add: as `--headers`. Envoy has `x-ratelimit` ones of
    /// its own.
    #[arg(long, env = "SLUICEGATE_GRPC_HEADERS", default_value = "ietf", value_name = "FAMILIES")]
    grpc_headers: Families,
    /// The password that clients of the Redis door say first; without it they need none.
    #[arg(
        long,
        env = "SLUICEGATE_RESP_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true,
        requires = "resp"
    )]
    resp_password: Option<Unread>,
    #[command(flatten)]
    forward_auth: ForwardAuthArgs,
    #[command(flatten)]
    token: TokenArgs,
    /// Where it stands who has which tier: `file:PATH`, `redis://[user:password@]host[:port][/database][?domain=NAME]`
    /// (`rediss` for TLS), or `postgres://[user[:password]@]host[:port][/database][?sslmode=…&domain=NAME]`. It is read again
    /// when it changes, as policies are.
    #[arg(long, env = "SLUICEGATE_CONFIG_SOURCE", value_name = "SOURCE", hide_env_values = true)]
    config_source: Option<Unread>,
    /// A file that keeps the assignments of a source on a server, for a start while that is away.
    #[arg(long, env = "SLUICEGATE_CONFIG_CACHE", value_name = "FILE", requires = "config_source")]
    config_cache: Option<PathBuf>,
    #[command(flatten)]
    login: LoginArgs,
    #[command(flatten)]
    security: SecurityArgs,
    /// How long to go on serving after a stop signal turned `/readyz` red, in ms, so that load balancers notice.
    #[arg(long, env = "SLUICEGATE_DRAIN_MS", default_value = "0", value_name = "MS")]
    drain_ms: u32,
    /// Families of rate limit headers to send: `ietf`, `x-ratelimit`, both with a comma, or `none`.
    #[arg(long, env = "SLUICEGATE_HEADERS", default_value = "ietf,x-ratelimit", value_name = "FAMILIES")]
    headers: Families,
    /// What `X-RateLimit-Reset` counts: seconds since the epoch, or from now.
    #[arg(long, env = "SLUICEGATE_RESET", default_value = "epoch")]
    reset: Reset,
}

/// Flags that say how requests of proxies are read.
#[derive(Debug, clap::Args)]
struct ForwardAuthArgs {
    /// The attributes of requests at `/forward-auth/DOMAIN`, each with where it comes from: `client` (the client's
    /// address), `method`, `path` (what stands below the domain), `header:NAME`, or `path:NAME` (the path of a URI in a
    /// header).
    #[arg(
        long,
        env = "SLUICEGATE_FORWARD_AUTH",
        value_name = "NAME=SOURCE,…",
        default_value = "ip=client,method=header:x-forwarded-method,host=header:x-forwarded-host,endpoint=path:x-forwarded-uri"
    )]
    forward_auth: Declared,
    /// The proxies whose word on the client's address is taken: addresses and networks.
    #[arg(
        long,
        env = "SLUICEGATE_TRUSTED_PROXIES",
        value_name = "NETWORK,…",
        default_value = "127.0.0.0/8,::1"
    )]
    trusted_proxies: Proxies,
    /// The header in which they tell it: a list as in `x-forwarded-for`, or `forwarded` (RFC 7239).
    #[arg(long, env = "SLUICEGATE_CLIENT_HEADER", value_name = "NAME", default_value = "x-forwarded-for")]
    client_header: HeaderName,
}

impl ForwardAuthArgs {
    fn read(self) -> ForwardAuth {
        let client = ClientRule { trusted: self.trusted_proxies, header: self.client_header };
        ForwardAuth { attributes: self.forward_auth, client }
    }
}

/// Operators are few.
const MAX_ADMINS: u32 = 16;

/// Serves until SIGTERM or SIGINT; requests in flight are answered before the process ends.
pub(super) fn run(args: Args) -> Result<ExitCode, Failure> {
    super::runtime()?.block_on(serve(args))
}

async fn serve(args: Args) -> Result<ExitCode, Failure> {
    let files = files(&args)?;
    if files.policies.is_empty() && files.descriptors.is_none() {
        tracing::info!("no `--policy` is given: a sample policy holds");
    }
    let texts = first_texts(&files).await?;
    let written = files.parse(&texts).map_err(Failure::usage)?;
    let url = args.sources.store.url()?;
    let (store, clock) = sources::open(&url).await?;
    store.inspect(&clock).await;
    let login = args.login.guard(&url, &clock, args.guard.deadline())?;
    let Served { store, _fleet } = args.guard.guard(&url, store, &clock).await?;
    let control =
        Arc::new(Control::new(written, store.clone(), clock.clone()).map_err(|error| misfit(&error))?);
    tell(&control.status());

    let (entry, tokens) = (args.security.entry()?, args.security.tokens()?);
    let listeners = args.listen.bind().await?;
    let admin_token = listeners.admin.is_some().then(|| args.token.read()).transpose()?;
    let supervisor = Arc::new(Supervisor::of_environment());
    let stop = stop_signal().map_err(|error| Failure::undecided(with_causes(&error)))?;
    let stop = told(stop, supervisor.clone()).shared();
    let (reload, reloads) = mpsc::channel(1);
    let watch = Watch::new(files, texts, control.clone(), reloads);
    tokio::spawn(watch.map_err(|error| Failure::undecided(with_causes(&error)))?.run());
    listeners.announce(entry.certificates.is_some());
    if let Some(certificates) = entry.certificates.clone() {
        tokio::spawn(certificates.keep_fresh());
    }
    supervisor.ready();
    tokio::spawn(async move { supervisor.watch().await });

    let (drain, head_timeout) = (Duration::from_millis(args.drain_ms.into()), args.security.head_timeout());
    let config = http::Config { entry: entry.clone(), drain, head_timeout, ..http::Config::default() };
    let running = control.running().clone();
    let headers = HeaderStyle { families: args.headers, reset: args.reset };
    let forward_auth = args.forward_auth.read();
    let metrics = Some(Arc::new(Metrics::new(control.clone(), store.clone(), clock.clone())));
    let door =
        DoorConfig { headers, forward_auth, metrics, login, tokens: tokens.clone(), ..DoorConfig::default() };
    let http = Door::new(running.clone(), door);
    let http = http::serve(listeners.http, Arc::new(http), config.clone(), stop.clone());
    let grpc = listeners.grpc.map(|listener| {
        let door = grpc::Door::new(running.clone(), args.grpc_headers, tokens);
        grpc::serve(listener, Arc::new(door), grpc::Config { entry: entry.clone(), drain }, stop.clone())
    });
    let resp = listeners.resp.map(|listener| {
        let door = resp::Door::new(running, store, clock, args.resp_password.map(|password| password.0));
        let config = resp::Config { entry, drain, command_timeout: head_timeout, ..resp::Config::default() };
        resp::serve(listener, Arc::new(door), config, stop.clone())
    });
    let admin = listeners.admin.zip(admin_token).map(|(listener, token)| {
        let entry = Entry { max_connections: MAX_ADMINS, ..Entry::default() };
        let door = Admin::new(control, token, reload);
        http::serve(listener, Arc::new(door), http::Config { entry, ..config }, stop)
    });
    let ((), grpc, _, _) =
        tokio::join!(http, OptionFuture::from(grpc), OptionFuture::from(resp), OptionFuture::from(admin));
    grpc.transpose().map_err(|error| Failure::undecided(with_causes(&error)))?;
    Ok(ExitCode::SUCCESS)
}

/// The stop, of which the supervisor is told.
async fn told(stop: impl Future<Output = ()>, supervisor: Arc<Supervisor>) {
    stop.await;
    supervisor.stopping();
}

/// Where it stands what is to be in force.
fn files(args: &Args) -> Result<Files, Failure> {
    let assignments = args.config_source.as_ref().map(Origin::parse).transpose()?;
    if matches!((&assignments, &args.config_cache), (Some(Origin::File(_)), Some(_))) {
        return Err(Failure::usage(
            "`--config-cache` is for a source on a server; a file is there at every start",
        ));
    }
    Ok(Files {
        policies: args.sources.policies.clone(),
        descriptors: args.envoy_ratelimit_config.clone(),
        assignments,
        kept: args.config_cache.clone().map(Kept),
    })
}

/// What is written at the start. A server that has assignments is asked from here on.
async fn first_texts(files: &Files) -> Result<Texts, Failure> {
    if let Some(Origin::Remote(remote)) = &files.assignments {
        remote.look().await;
        if let Some(kept) = &files.kept {
            remote.suppose(kept);
        }
        let remote = remote.clone();
        tokio::spawn(async move { remote.listen().await });
    }
    files.read().map_err(|error| match error {
        Unusable::Unheard(_) => Failure::undecided(error),
        _ => Failure::usage(error),
    })
}

/// Says in the log which policies are in force.
fn tell(status: &Status) {
    for domain in &status.domains {
        let (name, policy, limits) = (&domain.domain, &domain.policy, domain.limits.len());
        tracing::info!(
            domain = name,
            policy,
            limits,
            assignments = domain.assignments,
            "a policy is in force"
        );
    }
}

fn misfit(error: &Misfit) -> Failure {
    let problem = Failure::usage(error);
    match error {
        Misfit::Domain(_) => problem.hint("give each policy file a `domain` of its own"),
        _ => problem,
    }
}

/// Ends at the first SIGTERM or SIGINT. The handlers are in place when this returns.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
