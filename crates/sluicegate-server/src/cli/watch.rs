//! Policies and assignments, read again when they change.
//!
//! The files are looked at a few times a second, by their content. That sees every way in which a file is changed (in
//! place, by a rename, by the swapped links of a Kubernetes volume, on a network file system), where notifications miss
//! some, and a file that is half written is not taken for whole: a change is taken once two looks have seen the same.
//! What a server says is whole, and taken at once.

use std::{
    collections::HashMap,
    fmt::Display,
    fs,
    future::pending,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

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

use super::{
    kept::Kept,
    origin::Origin,
    sources::{SAMPLE, read_text},
};
use crate::{
    descriptors::{self, DescriptorDomain, Unserved},
    http::Reload,
    import::Source,
    running::{Control, Misfit, Rejected, Written},
};

/// How often the files are looked at. Reading a policy of usual size takes microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Where it stands what is in force; without a policy, the sample is.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) policies: Vec<PathBuf>,
    /// A folder of files as Envoy's rate limit service reads them.
    pub(super) descriptors: Option<PathBuf>,
    pub(super) assignments: Option<Origin>,
    /// Where the assignments in force are kept for a start without their source.
    pub(super) kept: Option<Kept>,
}

/// What they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Texts {
    policies: Vec<String>,
    /// Each with the name of its file.
    descriptors: Vec<(String, String)>,
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
    /// The server that has the assignments was not heard yet.
    #[error("{0}")]
    Unheard(String),
    /// It says what it was not asked for.
    #[error("`{name}`: the assignments are for the domain `{domain}`")]
    OtherDomain { name: String, domain: String },
    /// A file for Envoy's rate limit service cannot be served as it is.
    #[error(transparent)]
    Unserved(#[from] Unserved),
    /// They do not fit together.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

impl Files {
    /// Reads all of them.
    pub(super) fn read(&self) -> Result<Texts, Unusable> {
        Ok(Texts {
            policies: self.policies.iter().map(|path| read_file(path)).collect::<Result<_, _>>()?,
            descriptors: self.descriptors.as_deref().map_or(Ok(Vec::new()), read_folder)?,
            assignments: self.assignments.as_ref().map(Origin::read).transpose()?,
        })
    }

    /// Whether there are none of which any could change.
    fn is_nothing(&self) -> bool {
        self.policies.is_empty() && self.descriptors.is_none() && self.assignments.is_none()
    }

    /// What the texts mean.
    pub(super) fn parse(&self, texts: &Texts) -> Result<Written, Unusable> {
        let mistaken = |path: &Path| mistaken(path.display().to_string());
        let policies = self.policies.iter().zip(&texts.policies);
        let policies = policies.map(|(path, text)| Policy::parse(text).map_err(mistaken(path)));
        let mut policies = policies.collect::<Result<Vec<_>, _>>()?;
        let sources = texts.descriptors.iter().map(|(name, text)| Source { name, text });
        let mut trees = HashMap::new();
        for DescriptorDomain { policy, tree } in descriptors::read(&sources.collect::<Vec<_>>())? {
            trees.insert(policy.domain().to_owned(), tree);
            policies.push(policy);
        }
        if policies.is_empty() {
            policies.push(Policy::parse(SAMPLE).map_err(mistaken(Path::new("sample.yaml")))?);
        }
        let assignments = self.assignments.as_ref().zip(texts.assignments.as_ref());
        let assignments = assignments.map(|(origin, text)| origin.parse_text(text)).transpose()?;
        Ok(Written { policies, assignments, trees })
    }

    async fn read_aside(&self) -> Result<Texts, Unusable> {
        let files = self.clone();
        let read = tokio::task::spawn_blocking(move || files.read()).await;
        read.unwrap_or_else(|error| {
            Err(Unusable::Unreadable { path: "the files".to_owned(), error: io::Error::other(error) })
        })
    }
}

impl Origin {
    fn read(&self) -> Result<String, Unusable> {
        match self {
            Self::File(path) => read_file(path),
            Self::Remote(remote) => remote
                .text()
                .ok_or_else(|| Unusable::Unheard(remote.problem().unwrap_or_else(|| remote.name.clone()))),
        }
    }

    fn parse_text(&self, text: &str) -> Result<Assignments, Unusable> {
        let name = match self {
            Self::File(path) => path.display().to_string(),
            Self::Remote(remote) => remote.speaker(),
        };
        let assignments = Assignments::parse(text).map_err(mistaken(name))?;
        match self {
            // Whoever may write the assignments of one domain may not write those of another.
            Self::Remote(remote) if remote.domain != assignments.domain() => {
                Err(Unusable::OtherDomain { name: remote.speaker(), domain: assignments.domain().to_owned() })
            }
            _ => Ok(assignments),
        }
    }
}

fn read_file(path: &Path) -> Result<String, Unusable> {
    read_text(path).map_err(|error| Unusable::Unreadable { path: path.display().to_string(), error })
}

/// The YAML files of a folder by their names, without those of folders in it, and without hidden ones.
fn read_folder(folder: &Path) -> Result<Vec<(String, String)>, Unusable> {
    let unreadable = |error| Unusable::Unreadable { path: folder.display().to_string(), error };
    let paths = fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
    });
    let mut paths = paths.map_err(unreadable)?;
    let is_yaml = |path: &Path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let is_hidden =
        |path: &Path| path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    paths.retain(|path| is_yaml(path) && !is_hidden(path) && path.is_file());
    paths.sort();
    let named = |path: PathBuf| Ok((path.display().to_string(), read_file(&path)?));
    paths.into_iter().map(named).collect()
}

fn mistaken(path: String) -> impl FnOnce(PolicyError) -> Unusable {
    move |error| Unusable::Mistaken { path, error }
}

/// Keeps what is in force up to date with where it stands.
pub(super) struct Watch<S, C> {
    files: Files,
    control: Arc<Control<S, C>>,
    hangup: Signal,
    reloads: mpsc::Receiver<Reload>,
    /// What was tried last, for better or worse: it is not tried again by itself.
    tried: Texts,
    /// Assignments that have come into force and are not kept yet.
    unkept: Option<String>,
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
        let unkept = texts.assignments.clone();
        Ok(Self { files, control, hangup, reloads, tried: texts, unkept, seen: None })
    }

    /// Watches for ever.
    pub(super) async fn run(mut self) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.keep().await;
            tokio::select! {
                _ = looks.tick() => self.look().await,
                () = said(&self.files) => self.hear(),
                _ = self.hangup.recv() => drop(self.reload().await),
                Some(reply) = self.reloads.recv() => drop(reply.send(self.reload().await)),
            }
        }
    }

    async fn keep(&mut self) {
        if let (Some(kept), Some(text)) = (&self.files.kept, self.unkept.take()) {
            kept.write(text).await;
        }
    }

    /// Takes a change that the last look saw as well.
    async fn look(&mut self) {
        if self.files.is_nothing() {
            return;
        }
        let read = self.files.read_aside().await;
        self.tell_unread(read.as_ref().err());
        match read {
            Ok(texts) if self.tried == texts => self.seen = None,
            Ok(texts) if self.seen.as_ref() == Some(&texts) => drop(self.take(texts)),
            Ok(texts) => self.seen = Some(texts),
            Err(_) => {}
        }
    }

    /// Takes what a server has said, with the policies as they were.
    fn hear(&mut self) {
        let Some(Origin::Remote(remote)) = &self.files.assignments else { return };
        let texts = Texts { assignments: remote.text(), ..self.tried.clone() };
        if texts != self.tried {
            drop(self.take(texts));
        }
    }

    /// Says once that something cannot be read, and once that it can be again. A file that is away for a moment is one
    /// that is being replaced, but nobody can tell which will come back.
    fn tell_unread(&self, error: Option<&Unusable>) {
        let unheard = match &self.files.assignments {
            Some(Origin::Remote(remote)) => remote.problem(),
            _ => None,
        };
        let why = error.map(ToString::to_string).or(unheard);
        let is_news = self.control.unread(why.clone());
        match why {
            Some(error) if is_news => {
                tracing::error!(error, "what was written cannot be read: what is in force stays");
            }
            None if is_news => tracing::info!("what was written can be read again"),
            _ => {}
        }
    }

    /// Reads all and takes what it holds, changed or not.
    async fn reload(&mut self) -> Result<u64, Rejected> {
        if let Some(Origin::Remote(remote)) = &self.files.assignments {
            remote.look().await;
        }
        let read = self.files.read_aside().await;
        self.tell_unread(read.as_ref().err());
        self.take(read.map_err(|error| Rejected(error.to_string()))?)
    }

    /// All of it comes into force, or nothing.
    fn take(&mut self, texts: Texts) -> Result<u64, Rejected> {
        self.seen = None;
        let written = self.files.parse(&texts);
        self.tried = texts;
        let taken = written.and_then(|written| Ok(self.control.replace(written)?));
        match taken {
            Ok(version) => {
                self.unkept = self.tried.assignments.clone();
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

/// Waits until a server has said something new; for ever, if none is asked.
async fn said(files: &Files) {
    match &files.assignments {
        Some(Origin::Remote(remote)) => remote.changed().await,
        _ => pending().await,
    }
}
