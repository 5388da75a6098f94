//! Tokens that clients say to be let in: `authorization: Bearer …` (RFC 6750).

use std::fmt;

use subtle::{Choice, ConstantTimeEq};

/// What stands before a token, in any case.
const SCHEME: &str = "bearer ";

/// The tokens that a door knows. Without any, it lets everybody in.
#[derive(Clone, Default)]
pub struct Tokens(Vec<String>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.0.len())
    }
}

impl FromIterator<String> for Tokens {
    fn from_iter<T: IntoIterator<Item = String>>(tokens: T) -> Self {
        Self(tokens.into_iter().collect())
    }
}

impl Tokens {
    /// Whether what a client says holds one of them. All are compared, each in constant time, so that nobody learns one
    /// byte by byte.
    pub(crate) fn admit(&self, authorization: Option<&[u8]>) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let said = authorization.and_then(|said| said.split_at_checked(SCHEME.len()));
        let said = said.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME.as_bytes()));
        let Some((_, said)) = said else { return false };
        let known = |found: Choice, token: &String| found | token.as_bytes().ct_eq(said);
        self.0.iter().fold(Choice::from(0), known).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_tokens_is_known_and_nothing_else() {
        let tokens: Tokens = ["first".to_owned(), "second".to_owned()].into_iter().collect();
        for said in ["Bearer first", "bearer second", "BEARER first"] {
            assert!(tokens.admit(Some(said.as_bytes())), "{said}");
        }
        for said in
            ["", "first", "Bearer", "Bearer ", "Bearer firs", "Bearer first ", "Bearer third", "Basic first"]
        {
            assert!(!tokens.admit(Some(said.as_bytes())), "{said}");
        }
        assert!(!tokens.admit(None));
        assert!(Tokens::default().admit(None) && Tokens::default().admit(Some(b"anything")));
    }
}
