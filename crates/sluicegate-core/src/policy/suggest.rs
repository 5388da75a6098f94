//! "Did you mean": the known word that was probably meant.

/// Words further apart than this many edits are not suggested.
const MAX_EDITS: usize = 2;
/// Words longer than this, in bytes, are not compared: the comparison is quadratic.
const MAX_LEN: usize = 64;

/// The closest of the known words, if one is close.
pub fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if typed.len() > MAX_LEN {
        return None;
    }
    let normal = typed.to_ascii_lowercase().replace(['-', ' '], "_");
    let scored = known.into_iter().map(|word| (strsim::osa_distance(&normal, word), word));
    let (edits, word) = scored.min_by_key(|(edits, _)| *edits)?;
    (edits <= MAX_EDITS && edits < word.len().div_ceil(2)).then_some(word)
}

/// The hint that names it.
pub fn did_you_mean(word: &str) -> String {
    format!("did you mean `{word}`?")
}
