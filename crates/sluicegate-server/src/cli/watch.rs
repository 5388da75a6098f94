//! Policies and assignments from files, read again when they change.
//!
//! The files are looked at a few times a second, by their content. That sees every way in which a file is changed (in
//! place, by a rename, by the swapped links of a Kubernetes volume, on a network file system), where notifications miss
//! some, and a file that is half written is not taken for whole: a change is taken once two looks have seen the same.

use std::{fmt::Display, io, path::PathBuf, sync::Arc, time::Duration};

use sluicegate::{
    Clock, Store,
    core::{
        Policy,
        policy::{Assignments, PolicyError},
    },
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::sources::{SAMPLE, read_text};
use crate::{
    http::Reload,
    running::{Control, Misfit, Rejected, Written},
};

/// How often the files are looked at. Reading a policy of usual size takes microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Files that hold what is in force; without a policy, the sample is.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    pub(super) policies: Vec<PathBuf>,
    pub(super) assignments: Option<PathBuf>,
}

/// What the files hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Texts {
    policies: Vec<String>,
    assignments: Option<String>,
}

/// Files that cannot be put into force.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// One of them cannot be read.
    #[error("`{path}`: cannot be read: {error}")]
    Unreadable { path: String, error: io::Error },
    /// One of them has mistakes.
    #[error("`{path}`: {error}")]
    Mistaken { path: String, error: PolicyError },
    /// They do not fit together.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

impl Files {
    /// Reads all of them.
    pub(super) fn read(&self) -> Result<Texts, Unusable> {
        let read = |path: &PathBuf| {
            let path_text = path.display().to_string();
            read_text(path).map_err(|error| Unusable::Unreadable { path: path_text, error })
        };
        Ok(Texts {
            policies: self.policies.iter().map(read).collect::<Result<_, _>>()?,
            assignments: self.assignments.as_ref().map(read).transpose()?,
        })
    }

    /// What the texts mean.
    pub(super) fn parse(&self, texts: &Texts) -> Result<Written, Unusable> {
        let mistaken = |path: &PathBuf| {
            let path = path.display().to_string();
            move |error| Unusable::Mistaken { path, error }
        };
        let policies = self.policies.iter().zip(&texts.policies);
        let policies = policies.map(|(path, text)| Policy::parse(text).map_err(mistaken(path)));
        let mut policies = policies.collect::<Result<Vec<_>, _>>()?;
        if policies.is_empty() {
            policies.push(Policy::parse(SAMPLE).map_err(mistaken(&PathBuf::from("sample.yaml")))?);
        }
        let assignments = self.assignments.as_ref().zip(texts.assignments.as_ref());
        let assignments =
            assignments.map(|(path, text)| Assignments::parse(text).map_err(mistaken(path))).transpose()?;
        Ok(Written { policies, assignments })
    }

    async fn read_aside(&self) -> Result<Texts, Unusable> {
        let files = self.clone();
        let read = tokio::task::spawn_blocking(move || files.read()).await;
        read.unwrap_or_else(|error| {
            Err(Unusable::Unreadable { path: "the files".to_owned(), error: io::Error::other(error) })
        })
    }
}

/// Keeps what is in force up to date with the files.
pub(super) struct Watch<S, C> {
    files: Files,
    control: Arc<Control<S, C>>,
    hangup: Signal,
    reloads: mpsc::Receiver<Reload>,
    /// What was tried last, for better or worse: it is not tried again by itself.
    tried: Option<Texts>,
    /// What the last look saw, if it was new.
    seen: Option<Texts>,
}

impl<S: Store + Clone, C: Clock + Clone> Watch<S, C> {
    /// A watch over files whose texts are in force.
    pub(super) fn new(
        files: Files,
        texts: Texts,
        control: Arc<Control<S, C>>,
        reloads: mpsc::Receiver<Reload>,
    ) -> io::Result<Self> {
        let hangup = signal(SignalKind::hangup())?;
        Ok(Self { files, control, hangup, reloads, tried: Some(texts), seen: None })
    }

    /// Watches for ever.
    pub(super) async fn run(mut self) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => self.look().await,
                _ = self.hangup.recv() => drop(self.reload().await),
                Some(reply) = self.reloads.recv() => drop(reply.send(self.reload().await)),
            }
        }
    }

    /// Takes a change that the last look saw as well.
    async fn look(&mut self) {
        if self.files.policies.is_empty() && self.files.assignments.is_none() {
            return;
        }
        match self.files.read_aside().await {
            Ok(texts) if self.tried.as_ref() == Some(&texts) => self.seen = None,
            Ok(texts) if self.seen.as_ref() == Some(&texts) => drop(self.take(texts)),
            Ok(texts) => self.seen = Some(texts),
            Err(error) => {
                // A file that is away for a moment is one that is being replaced; one that stays away is told once.
                self.reject(&error);
            }
        }
    }

    /// Reads the files and takes what they hold, changed or not.
    async fn reload(&mut self) -> Result<u64, Rejected> {
        match self.files.read_aside().await {
            Ok(texts) => self.take(texts),
            Err(error) => Err(self.reject(&error)),
        }
    }

    /// All of it comes into force, or nothing.
    fn take(&mut self, texts: Texts) -> Result<u64, Rejected> {
        self.seen = None;
        let written = self.files.parse(&texts);
        self.tried = Some(texts);
        let taken = written.and_then(|written| Ok(self.control.replace(written)?));
        match taken {
            Ok(version) => {
                tracing::info!(version, "the policies were read again and are in force");
                Ok(version)
            }
            Err(error) => Err(self.reject(&error)),
        }
    }

    fn reject(&self, error: &impl Display) -> Rejected {
        let why = Rejected(error.to_string());
        if self.control.reject(&why) {
            tracing::error!(error = %why, "the policies are not taken: those in force stay");
        }
        why
    }
}
