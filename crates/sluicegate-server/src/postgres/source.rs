//! The assignments of a domain, read again when their version is another.

use std::{fmt, sync::Arc};

use sluicegate::core::policy::MAX_ASSIGNMENTS;
use tokio::{sync::Notify, time::timeout};
use tokio_postgres::{Client, IsolationLevel, Row, Transaction, error::SqlState};

use super::{
    connection::{ConnectError, Live, PATIENCE},
    url::PostgresUrl,
};

const VERSION: &str = "SELECT version::text FROM sluicegate.domain WHERE domain = $1";
const SIZE: &str = "SELECT count(*), coalesce(sum(octet_length(assignee) + octet_length(tier)), 0)::bigint \
                    FROM sluicegate.assignment WHERE domain = $1";
const ROWS: &str = "SELECT attribute, assignee, tier, \
                    to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') \
                    FROM sluicegate.assignment WHERE domain = $1 ORDER BY attribute, assignee, until NULLS FIRST";

/// The assignments of a domain in their tables. They are only ever read, on a connection of its own; a look costs one
/// short query until their version is another.
pub struct Source {
    url: PostgresUrl,
    max_len: usize,
    told: Arc<Notify>,
    live: Option<Live>,
    version: Option<String>,
}

/// Why there are no assignments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refused to answer, or went away.
    #[error("the server did not answer")]
    Query(#[from] tokio_postgres::Error),
    /// It took too long.
    #[error("the server did not answer within {} s", PATIENCE.as_secs())]
    Slow,
    /// The tables are not there.
    #[error("the database has no tables of sluicegate: `sluicegate migrate` makes them")]
    NoTables,
    /// Nothing was ever written for the domain. That is not the same as an empty list.
    #[error("there were never any assignments of the domain `{0}`")]
    Missing(String),
    /// There are more rows than anyone reads. They were not fetched.
    #[error("there are {0} assignments, and at most {MAX_ASSIGNMENTS} are allowed")]
    TooMany(i64),
    /// The rows are longer than anyone reads. They were not fetched.
    #[error("the assignments have {len} bytes, and at most {max_len} are read")]
    TooLong {
        /// Their length, in bytes.
        len: i64,
        /// The bound.
        max_len: usize,
    },
}

impl Source {
    /// The assignments that a URL means, at most `max_len` bytes of them. It connects when it is read.
    pub fn new(url: PostgresUrl, max_len: usize) -> Self {
        Self { url, max_len, told: Arc::default(), live: None, version: None }
    }

    /// Woken when a change is told, on a connection that a read has made. A notice can be lost with its connection:
    /// whoever waits for one looks now and then all the same.
    pub fn told(&self) -> Arc<Notify> {
        self.told.clone()
    }

    /// The assignments as the text of a file, if their version is another than that of those that were read last.
    ///
    /// # Errors
    /// [`SourceError`] if there are none that can be read. The next call begins anew.
    pub async fn read(&mut self) -> Result<Option<String>, SourceError> {
        let mut live = match self.live.take().filter(|live| !live.has_ended()) {
            Some(live) => live,
            None => self.connect().await?,
        };
        // A connection on which an answer is late is not kept.
        let read = timeout(PATIENCE, self.changed(&mut live.client)).await.map_err(|_| SourceError::Slow)?;
        self.live = Some(live);
        let Some((version, text)) = read? else { return Ok(None) };
        self.version = Some(version);
        Ok(Some(text))
    }

    async fn connect(&self) -> Result<Live, SourceError> {
        let live = Live::connect(&self.url, &self.told).await?;
        let listening = timeout(PATIENCE, live.client.batch_execute("LISTEN sluicegate")).await;
        listening.map_err(|_| SourceError::Slow)??;
        Ok(live)
    }

    /// The version and the text, if they are new.
    async fn changed(&self, client: &mut Client) -> Result<Option<(String, String)>, SourceError> {
        let asked = client.query_opt(VERSION, &[&self.url.domain]).await.map_err(no_tables)?;
        if self.version.is_some() && asked.map(|row| row.try_get(0)).transpose()? == self.version {
            return Ok(None);
        }
        // One look at all three, so that they belong together.
        let look = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        self.all(&look.start().await?).await.map(Some)
    }

    async fn all(&self, look: &Transaction<'_>) -> Result<(String, String), SourceError> {
        let domain = &self.url.domain;
        let version = look.query_opt(VERSION, &[domain]).await?;
        let version = version.ok_or_else(|| SourceError::Missing(domain.clone()))?.try_get(0)?;
        let size = look.query_one(SIZE, &[domain]).await?;
        let (count, len): (i64, i64) = (size.try_get(0)?, size.try_get(1)?);
        if usize::try_from(count).is_ok_and(|count| count > MAX_ASSIGNMENTS) {
            return Err(SourceError::TooMany(count));
        }
        if usize::try_from(len).is_ok_and(|len| len > self.max_len) {
            return Err(SourceError::TooLong { len, max_len: self.max_len });
        }
        let rows = look.query(ROWS, &[domain]).await?;
        let lines = rows.iter().map(line).collect::<Result<String, _>>()?;
        let list = if lines.is_empty() { " []\n".to_owned() } else { format!("\n{lines}") };
        Ok((version, format!("version: 1\ndomain: {}\nassignments:{list}", quoted(domain))))
    }
}

fn no_tables(error: tokio_postgres::Error) -> SourceError {
    match error.code() {
        Some(code) if *code == SqlState::UNDEFINED_TABLE => SourceError::NoTables,
        _ => error.into(),
    }
}

/// A row as an entry of a file of assignments.
fn line(row: &Row) -> Result<String, SourceError> {
    let (attribute, assignee, tier): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let until: Option<&str> = row.try_get(3)?;
    let until = until.map(|until| format!(", until: {}", quoted(until))).unwrap_or_default();
    Ok(format!("- {{ {}: {}, tier: {}{until} }}\n", quoted(attribute), quoted(assignee), quoted(tier)))
}

/// A text in quotes, as YAML reads it back: whatever it holds, it ends where it ends.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        ' '..='~' | '\u{a0}'..='\u{d7ff}' if letter != '\u{feff}' => letter.to_string(),
        _ => format!("\\U{:08X}", u32::from(letter)),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("url", &self.url.to_string()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::core::{
        Micros,
        policy::{Assignments, PolicyError},
    };

    use super::*;

    #[test]
    fn every_text_is_read_back_as_it_was() -> Result<(), PolicyError> {
        let texts = [
            "",
            " a ",
            "\"\\\"",
            "a: b, c # d",
            "\n- { org: x, tier: y }\n",
            "\u{7f}\u{85}\u{2028}\u{feff}",
            "né€𝄞\u{ffff}\t",
        ];
        for assignee in texts {
            let entry = format!("- {{ user: {}, tier: pro }}", quoted(assignee));
            let all = Assignments::parse(&format!("version: 1\nassignments:\n{entry}\n"))?;
            let user = [("user", assignee)].into_iter().collect();
            assert_eq!((all.len(), all.tier(&user, Micros::new(0))), (1, Some("pro")), "{entry}");
        }
        Ok(())
    }
}
