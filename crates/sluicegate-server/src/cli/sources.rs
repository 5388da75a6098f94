//! What a decision is made from: policy files and a store. Shared by every verb that decides.

use std::{fs, path::PathBuf};

use sluicegate::core::Policy;

use super::Failure;
use crate::{
    causes::with_causes,
    domains::Domains,
    store::{AnyClock, AnyStore, StoreUrl},
};

/// The policy of a server that was given none.
const SAMPLE: &str = include_str!("sample.yaml");

/// Flags of every verb that decides.
#[derive(Debug, clap::Args)]
pub(super) struct Sources {
    /// A policy file; give it again for each further domain. Without any, a sample policy holds.
    #[arg(long = "policy", env = "SLUICEGATE_POLICY", value_delimiter = ',', value_name = "FILE")]
    policies: Vec<PathBuf>,
    /// Where counts are kept: `memory`.
    #[arg(
        long,
        env = "SLUICEGATE_STORE",
        default_value = "memory",
        value_name = "STORE",
        hide_env_values = true
    )]
    store: StoreUrl,
}

impl Sources {
    /// Reads the policies and opens the store.
    pub(super) fn open(&self) -> Result<Domains<AnyStore, AnyClock>, Failure> {
        let policies = self.policies()?;
        let (store, clock) = AnyStore::open(&self.store);
        Domains::new(policies, &store, &clock)
            .map_err(|error| Failure::usage(error).hint("give each policy file a `domain` of its own"))
    }

    /// The policies of the files, or the sample.
    pub(super) fn policies(&self) -> Result<Vec<Policy>, Failure> {
        if self.policies.is_empty() {
            tracing::info!("no `--policy` is given: a sample policy holds");
            return Policy::parse(SAMPLE).map(|policy| vec![policy]).map_err(Failure::usage);
        }
        self.policies.iter().map(read).collect()
    }
}

fn read(path: &PathBuf) -> Result<Policy, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("cannot read `{}`: {}", path.display(), with_causes(&error)))
    })?;
    Policy::parse(&text).map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
}
