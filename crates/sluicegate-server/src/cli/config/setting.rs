//! One setting: what it is by now, and where that was said.

use std::fmt;

use clap::{Arg, ArgMatches, parser::ValueSource};

use super::super::{origin::Origin, sources::Unread};
use crate::store::StoreUrl;

/// A flag of the server's by the name of its key.
#[derive(Clone, Debug)]
pub(in super::super) struct Setting {
    pub(super) key: String,
    pub(super) value: Shown,
    pub(super) said: Said,
}

/// A value as anyone may see it.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    /// There is none.
    Unset,
    /// As it was given.
    Whole(Vec<String>),
    /// Without its secret.
    Partly(String),
    /// All of it is secret.
    Hidden,
}

/// Where a value was said.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Flag,
    Environment(String),
    File,
    Default,
}

/// The key that a flag has in the file.
pub(super) fn key(flag: &Arg) -> String {
    flag.get_long().unwrap_or_default().replace('-', "_")
}

impl Setting {
    /// What a flag is by now; `None` if the verb does not have it.
    pub(super) fn of(flag: &Arg, verb: &ArgMatches, of_file: impl Fn(&str) -> bool) -> Option<Self> {
        let (id, key) = (flag.get_id().as_str(), key(flag));
        verb.try_contains_id(id).ok()?;
        let said = match verb.value_source(id) {
            Some(ValueSource::CommandLine) if of_file(&key) => Said::File,
            Some(ValueSource::CommandLine) => Said::Flag,
            Some(ValueSource::EnvVariable) => {
                let name = flag.get_env().unwrap_or_default();
                Said::Environment(name.to_string_lossy().into_owned())
            }
            _ => Said::Default,
        };
        let raw = verb.get_raw(id).into_iter().flatten();
        let values: Vec<_> = raw.map(|value| value.to_string_lossy().into_owned()).collect();
        let is_secret = flag.is_hide_env_values_set();
        Some(Self { value: shown(&key, values, is_secret), key, said })
    }
}

fn shown(key: &str, values: Vec<String>, is_secret: bool) -> Shown {
    let Some(first) = values.first() else { return Shown::Unset };
    if !is_secret {
        return Shown::Whole(values);
    }
    let safe = match key {
        "store" => first.parse::<StoreUrl>().ok().map(|store| store.to_string()),
        "config_source" => Origin::parse(&Unread::from(first.as_str())).ok().map(|origin| origin.to_string()),
        _ => None,
    };
    match safe {
        Some(_) if holds_no_secret(first) => Shown::Whole(values),
        Some(safe) => Shown::Partly(safe),
        None => Shown::Hidden,
    }
}

/// Whether a URL that can be read names neither a user nor a password: those stand before an `@`, or in options.
fn holds_no_secret(url: &str) -> bool {
    let url = url.to_ascii_lowercase();
    !["@", "pass", "user", "%"].iter().any(|sign| url.contains(sign))
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File => f.write_str("file"),
            Self::Default => f.write_str("default"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown can be read back, unless something is left out of it.
    #[test]
    fn a_url_without_a_secret_is_shown_as_it_was_written() {
        let shown = |key: &str, url: &str| shown(key, vec![url.to_owned()], true);
        for url in
            ["redis://127.0.0.1:17379", "redis+cluster://h", "redis+sentinel://h/m", "unix:///run/redis.sock"]
        {
            assert!(matches!(shown("store", url), Shown::Whole(values) if values == [url]), "{url}");
        }
        for url in
            ["redis://u:s3cret@h", "redis://:s3cret@h:1/2", "redis+sentinel://h/m?sentinel_password=s3cret"]
        {
            assert!(matches!(shown("store", url), Shown::Partly(safe) if !safe.contains("s3cret")), "{url}");
        }
        let source = "postgres://h/db?sslmode=verify-full&domain=api";
        assert!(matches!(shown("config_source", source), Shown::Whole(values) if values == [source]));
    }
}
