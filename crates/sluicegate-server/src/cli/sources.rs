//! What a decision is made from: policy files and a store. Shared by every verb that decides.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use sluicegate::{
    Store,
    core::{
        Policy,
        policy::{
            MAX_FILE_LEN, PolicyError,
            lint::{self, Checked},
        },
    },
};

use super::Failure;
use crate::{
    causes::with_causes,
    domains::Domains,
    store::{AnyClock, AnyStore, OpenError, StoreUrl},
};

/// The policy of a server that was given none.
pub(super) const SAMPLE: &str = include_str!("sample.yaml");

/// Flags of every verb that decides.
#[derive(Debug, clap::Args)]
pub(super) struct Sources {
    /// A policy file; give it again for each further domain. Without any, a sample policy holds.
    #[arg(long = "policy", env = "SLUICEGATE_POLICY", value_delimiter = ',', value_name = "FILE")]
    pub(super) policies: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// What decisions are made with.
pub(super) struct Opened {
    pub(super) policies: Vec<Policy>,
    pub(super) store: AnyStore,
    pub(super) clock: AnyClock,
}

/// Flags that say where counts are kept.
#[derive(Debug, clap::Args)]
pub(super) struct StoreArgs {
    /// Where counts are kept: `memory`, `redis://[user:password@]host[:port][/database]`, `unix:///path`,
    /// `redis+sentinel://[user:password@]host[:port][,host…]/master[/database]`, or
    /// `redis+cluster://[user:password@]host[:port][,host…]`; `rediss` instead of `redis` for TLS.
    #[arg(
        long,
        env = "SLUICEGATE_STORE",
        default_value = "memory",
        value_name = "STORE",
        hide_env_values = true
    )]
    store: Unread,
    /// The certificate authority that a `rediss://` server is trusted by (PEM), instead of the system's.
    #[arg(long, env = "SLUICEGATE_STORE_CA", value_name = "FILE")]
    store_ca: Option<PathBuf>,
    /// How long a store over a network may take to be reached, and to answer where nothing else says how long, in ms.
    #[arg(
        long,
        env = "SLUICEGATE_STORE_TIMEOUT_MS",
        default_value = "500",
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(1..=60_000)
    )]
    store_timeout_ms: u64,
}

/// The words of a flag that may hold a password: they are not read on the command line, since what reads them there
/// repeats them when they make no sense.
#[derive(Clone)]
pub(super) struct Unread(pub(super) String);

impl From<&str> for Unread {
    fn from(words: &str) -> Self {
        Self(words.to_owned())
    }
}

impl fmt::Debug for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unread")
    }
}

impl StoreArgs {
    /// The store that is meant, with the authority that it is trusted by and the time that it may take.
    pub(super) fn url(&self) -> Result<StoreUrl, Failure> {
        let store: StoreUrl = self.store.0.parse().map_err(|error| Failure::usage(with_causes(&error)))?;
        let config = match (store, &self.store_ca) {
            (StoreUrl::Memory, None) => return Ok(StoreUrl::Memory),
            (StoreUrl::Memory, Some(_)) => {
                return Err(Failure::usage("`--store-ca` is for a `rediss://` store"));
            }
            (StoreUrl::Redis(config), None) => *config,
            (StoreUrl::Redis(config), Some(path)) => config.trusting(certificate(path)?),
        };
        let timeout = Duration::from_millis(self.store_timeout_ms);
        Ok(StoreUrl::Redis(Box::new(config.connect_timeout(timeout).response_timeout(timeout))))
    }
}

/// The domains of policies, over a store.
pub(super) fn domains<S: Store + Clone>(
    policies: Vec<Policy>,
    store: &S,
    clock: &AnyClock,
) -> Result<Domains<S, AnyClock>, Failure> {
    Domains::new(policies, store, clock)
        .map_err(|error| Failure::usage(error).hint("give each policy file a `domain` of its own"))
}

/// Opens a store.
pub(super) async fn open(url: &StoreUrl) -> Result<(AnyStore, AnyClock), Failure> {
    AnyStore::open(url).await.map_err(|error| {
        let failure = match error {
            OpenError::Config(_) => Failure::usage(with_causes(&error)),
            OpenError::Refused(_) => Failure::undecided(with_causes(&error)),
        };
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

fn certificate(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", path.display())))
}

impl Sources {
    /// Reads the policies and opens the store.
    pub(super) async fn open(&self) -> Result<Opened, Failure> {
        let policies = self.policies()?;
        let (store, clock) = open(&self.store.url()?).await?;
        Ok(Opened { policies, store, clock })
    }

    /// The policies of the files, or the sample, with what is legal in them and probably not meant.
    pub(super) fn checked(&self) -> Result<Vec<Checked>, Failure> {
        if self.policies.is_empty() {
            return lint::check(SAMPLE).map(|checked| vec![checked]).map_err(Failure::usage);
        }
        let named = |path: &PathBuf| {
            let checked = read_text(path).map_err(FileError::from).and_then(|text| Ok(lint::check(&text)?));
            checked.map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
        };
        self.policies.iter().map(named).collect()
    }

    /// The policies of the files, or the sample.
    pub(super) fn policies(&self) -> Result<Vec<Policy>, Failure> {
        if self.policies.is_empty() {
            tracing::info!("no `--policy` is given: a sample policy holds");
            return Policy::parse(SAMPLE).map(|policy| vec![policy]).map_err(Failure::usage);
        }
        let named = |path: &PathBuf| {
            read(path).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
        };
        self.policies.iter().map(named).collect()
    }
}

/// Reads one policy file, and no more of it than a policy may have.
pub(super) fn read(path: &Path) -> Result<Policy, FileError> {
    Ok(Policy::parse(&read_text(path)?)?)
}

/// The text of a file, and no more of it than a policy may have: the length of one that is longer is one too many.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let bound = u64::try_from(MAX_FILE_LEN).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(bound).read_to_string(&mut text)?;
    Ok(text)
}

/// A file that holds no policy.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It has mistakes.
    #[error(transparent)]
    Mistaken(#[from] PolicyError),
}
