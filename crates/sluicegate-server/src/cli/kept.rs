//! The assignments that were in force last, on disk: for a start while their source is away.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::sources::read_text;

/// A file that holds a copy. It has one writer.
#[derive(Clone, Debug)]
pub(super) struct Kept(pub(super) PathBuf);

impl Kept {
    /// The copy.
    pub(super) fn read(&self) -> io::Result<String> {
        read_text(&self.0)
    }

    /// Replaces the copy. Whenever the machine stops, the file holds the old text or the new one. A failure is told, and
    /// changes nothing about what is in force.
    pub(super) async fn write(&self, text: String) {
        let file = self.0.clone();
        let written = tokio::task::spawn_blocking(move || replace(&file, &text)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            let file = self.0.display();
            tracing::error!(%error, %file, "the assignments cannot be kept: a start without their source would fail");
        }
    }
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut aside = OsString::from(file);
    aside.push(".new");
    // It tells who the customers are, which is nobody else's business.
    let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    new.write_all(text.as_bytes())?;
    new.sync_all()?;
    fs::rename(&aside, file)
}
