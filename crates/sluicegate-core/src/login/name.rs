//! Names as they are counted: what a person takes for one name is one name.

use std::fmt;

use unicode_normalization::UnicodeNormalization;

/// The most bytes of a name, before and after it is folded.
pub const MAX_NAME_LEN: usize = 320;

/// A name in its one spelling: compatibility forms composed (NFKC), case folded, without spaces and invisible
/// characters. It may be empty, which is a name like any other.
///
/// ```
/// use sluicegate_core::login::Name;
/// let name = Name::new(" BOB@Example.org\u{200b} ")?;
/// assert_eq!(name.as_str(), "bob@example.org");
/// assert_eq!(Name::new("Stra\u{df}e")?, Name::new("STRASSE")?);
/// # Ok::<(), sluicegate_core::login::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

/// A name that is too long to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has at most {MAX_NAME_LEN} bytes")]
pub struct NameError;

impl Name {
    /// The one spelling of a presented name.
    ///
    /// # Errors
    /// [`NameError`] if it is longer than [`MAX_NAME_LEN`].
    pub fn new(presented: &str) -> Result<Self, NameError> {
        if presented.len() > MAX_NAME_LEN {
            return Err(NameError);
        }
        let visible = |c: &char| !c.is_whitespace() && !is_invisible(*c);
        let composed: String = presented.nfkc().filter(visible).collect();
        let folded: String = caseless::default_case_fold_str(&composed).nfkc().filter(visible).collect();
        if folded.len() > MAX_NAME_LEN { Err(NameError) } else { Ok(Self(folded)) }
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Characters that no reader sees: controls, joiners, direction marks, variation selectors, tags, fillers (the
/// property `Default_Ignorable_Code_Point` of the Unicode Character Database, DerivedCoreProperties.txt).
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}
