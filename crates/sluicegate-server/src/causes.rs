//! Errors for people.

use std::error::Error;

/// An error with its causes, as one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
