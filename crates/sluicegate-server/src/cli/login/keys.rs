//! Flags of `serve` about the login guard.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use clap::ValueEnum;
use sluicegate::login::{EmbeddedLogin, Keyring, LocalTwin, LoginConfig, LoginGuard, Profile};
use sluicegate_redis::RedisLogin;

use super::Failure;
use crate::{
    causes::with_causes,
    http::LoginAnswers,
    store::{AnyClock, StoreUrl},
};

/// How many times the deadline of a decision the store of guesses may take to answer: attempts are rarer, and verifying a
/// secret takes longer than that anyway.
const PATIENCE: u32 = 5;

/// Flags about guesses at secrets.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LoginArgs {
    /// A file of secrets of at least 32 bytes, one a line, which opens `/v1/login/begin` and `/v1/login/report`: the first is
    /// for names and stays, the others are for signatures, the newest first.
    #[arg(
        id = "login_keys_file",
        long = "login-keys-file",
        env = "SLUICEGATE_LOGIN_KEYS_FILE",
        value_name = "FILE"
    )]
    keys_file: Option<PathBuf>,
    /// How guesses are counted: `strong` has lanes and leaks, `basic` a counter and a lockout.
    #[arg(
        id = "login_profile",
        long = "login-profile",
        env = "SLUICEGATE_LOGIN_PROFILE",
        default_value = "strong",
        value_name = "PROFILE"
    )]
    profile: ProfileWord,
    /// How many instances share the guesses that each decides without its store.
    #[arg(
        id = "login_instances",
        long = "login-instances",
        env = "SLUICEGATE_LOGIN_INSTANCES",
        default_value = "1",
        value_name = "N"
    )]
    instances: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileWord {
    Strong,
    Basic,
}

impl LoginArgs {
    /// The guard over the store of that URL; `None` if there are no secrets for it.
    pub(in crate::cli) fn guard(
        &self,
        url: &StoreUrl,
        clock: &AnyClock,
        deadline: Duration,
    ) -> Result<Option<Arc<dyn LoginAnswers>>, Failure> {
        let Some(path) = &self.keys_file else { return Ok(None) };
        let named = |error: String| Failure::usage(format!("`{}`: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        let secrets: Vec<&[u8]> =
            text.lines().map(|line| line.trim().as_bytes()).filter(|line| !line.is_empty()).collect();
        let (for_names, signing) =
            secrets.split_first().map_or((&[][..], &[][..]), |(first, rest)| (*first, rest));
        let keys = Keyring::new(for_names, signing).map_err(|error| named(error.to_string()))?;
        let profile = match self.profile {
            ProfileWord::Strong => Profile::Strong,
            ProfileWord::Basic => Profile::Basic,
        };
        let config = LoginConfig { domain: crate::domains::DEFAULT_DOMAIN.to_owned(), profile, keys };
        Ok(Some(match url {
            StoreUrl::Memory => Arc::new(LoginGuard::new(config, EmbeddedLogin::new(), clock.clone())),
            StoreUrl::Redis(redis) => {
                let store = RedisLogin::open(&(**redis).clone().response_timeout(deadline * PATIENCE));
                let store = store.map_err(|error| Failure::usage(with_causes(&error)))?;
                let twin = LocalTwin::new(store, self.instances);
                Arc::new(LoginGuard::new(config, twin, clock.clone()))
            }
        }))
    }
}
