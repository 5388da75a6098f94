//! Which fields of a log line become which attributes.

use std::str::FromStr;

/// `attribute=.field`, of which `time=.field` is the time; nested fields are `.outer.inner`.
///
/// ```
/// use sluicegate_server::replay::Mapping;
/// let mapping: Mapping = "user=.auth.user".parse()?;
/// assert_eq!((mapping.attribute.as_str(), mapping.path.len()), ("user", 2));
/// assert!("user".parse::<Mapping>().is_err());
/// # Ok::<(), sluicegate_server::replay::fields::MalformedMapping>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The attribute, or `time`.
    pub attribute: String,
    /// The names of the field, from the outermost.
    pub path: Vec<String>,
}

/// A text that maps nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a mapping is written `attribute=.field`")]
pub struct MalformedMapping;

impl FromStr for Mapping {
    type Err = MalformedMapping;

    fn from_str(text: &str) -> Result<Self, MalformedMapping> {
        let (attribute, path) = text.split_once('=').ok_or(MalformedMapping)?;
        let path = path.strip_prefix('.').ok_or(MalformedMapping)?;
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        if attribute.is_empty() || path.iter().any(String::is_empty) {
            return Err(MalformedMapping);
        }
        Ok(Self { attribute: attribute.to_owned(), path })
    }
}

/// The attribute of a mapping that is the time.
const TIME: &str = "time";

/// All mappings. Without any, a format's usual ones hold.
#[derive(Clone, Debug, Default)]
pub struct FieldMap {
    /// Where the time is; `None`: where the format usually has it.
    pub(super) time: Option<Vec<String>>,
    pub(super) attributes: Vec<Mapping>,
}

impl FieldMap {
    /// Of mappings; of two for one attribute the last holds.
    pub fn new(mappings: impl IntoIterator<Item = Mapping>) -> Self {
        let mut map = Self::default();
        for mapping in mappings {
            if mapping.attribute == TIME {
                map.time = Some(mapping.path);
            } else {
                map.attributes.push(mapping);
            }
        }
        map
    }
}
