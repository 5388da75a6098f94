//! `sluicegate policy schema`.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use crate::schema;

/// Prints the schema.
pub(super) fn run() -> ExitCode {
    // Nobody may be reading.
    let _ = stdout().write_all(format!("{:#}\n", schema::policy()).as_bytes());
    ExitCode::SUCCESS
}
