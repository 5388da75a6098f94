//! Assignments that stand in tables of PostgreSQL.

mod connection;
mod migrate;
mod source;
mod tls;
mod url;

pub use connection::ConnectError;
pub use migrate::{MIGRATIONS, MigrateError, Migration, migrate};
pub use source::{Source, SourceError};
pub use url::{PostgresUrl, UrlError};
