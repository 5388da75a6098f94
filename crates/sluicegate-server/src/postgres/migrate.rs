//! The tables, and how they come to be.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use tokio_postgres::Client;

use super::{
    connection::{ConnectError, Live},
    url::PostgresUrl,
};

/// Held while tables are made: two that begin at once make them once.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7813564281653417)";
const KNOWN: &str = "CREATE SCHEMA IF NOT EXISTS sluicegate; \
                     CREATE TABLE IF NOT EXISTS sluicegate.migration \
                     (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())";
/// How long all of it may take: it may have to wait for others that use the tables.
const PATIENCE: Duration = Duration::from_secs(60);

/// A step from nothing to the tables of this release. A step that was released is never changed; it only adds, so that
/// servers of the release before read what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its number and name.
    pub name: &'static str,
    /// What it does.
    pub sql: &'static str,
}

/// All steps, in order.
pub const MIGRATIONS: [Migration; 1] =
    [Migration { name: "0001-assignments", sql: include_str!("migrations/0001-assignments.sql") }];

/// Tables that were not made; the database is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refused a step.
    #[error("the tables cannot be made")]
    Refused(#[from] tokio_postgres::Error),
    /// It took too long.
    #[error("the tables were not made within {} s", PATIENCE.as_secs())]
    Slow,
}

/// Makes the steps that the database has not seen, all of them or none. Answers which.
///
/// # Errors
/// [`MigrateError`] if the database stays as it was.
pub async fn migrate(url: &PostgresUrl) -> Result<Vec<Migration>, MigrateError> {
    let mut live = Live::connect(url, &Arc::default()).await?;
    let made = timeout(PATIENCE, make(&mut live.client)).await;
    Ok(made.map_err(|_| MigrateError::Slow)??)
}

async fn make(client: &mut Client) -> Result<Vec<Migration>, tokio_postgres::Error> {
    let step = client.transaction().await?;
    step.batch_execute(LOCK).await?;
    step.batch_execute(KNOWN).await?;
    let rows = step.query("SELECT name FROM sluicegate.migration", &[]).await?;
    let seen = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    let new: Vec<Migration> =
        MIGRATIONS.into_iter().filter(|migration| !seen.iter().any(|seen| seen == migration.name)).collect();
    for migration in &new {
        step.batch_execute(migration.sql).await?;
        step.execute("INSERT INTO sluicegate.migration (name) VALUES ($1)", &[&migration.name]).await?;
    }
    step.commit().await?;
    Ok(new)
}
