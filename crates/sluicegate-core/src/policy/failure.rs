//! `on_store_failure` and `headroom`: what a limit does when its store cannot decide.

use super::{
    file::{Field, LimitFile},
    problem::Problem,
    resolve::{Choices, choice},
    tree::Value,
};
use crate::{
    rule::Rule,
    share::{Headroom, OnStoreFailure},
};

/// The words of `on_store_failure`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Word {
    #[default]
    Local,
    Allow,
    Deny,
}

pub(super) const WORDS: Choices<Word> =
    Choices(&[("local", Word::Local), ("allow", Word::Allow), ("deny", Word::Deny)]);

/// Digits after the point that a headroom may have: it is kept in thousandths.
const DECIMALS: usize = 3;

/// What the two fields say together.
pub(super) fn on_store_failure(file: &LimitFile) -> Result<OnStoreFailure, Problem> {
    let word = choice(file.on_store_failure.as_ref(), &WORDS)?;
    match (word, &file.headroom) {
        (Word::Local, None) => Ok(OnStoreFailure::default()),
        (Word::Local, Some(field)) => Ok(OnStoreFailure::Local { headroom: headroom(field)? }),
        (Word::Allow, None) => Ok(OnStoreFailure::Allow),
        (Word::Deny, None) => Ok(OnStoreFailure::Deny),
        (Word::Allow | Word::Deny, Some(field)) => {
            let what = "`headroom` has no effect unless `on_store_failure` is `local`";
            Err(Problem::new(field.name_place, what).hint("remove one of the two"))
        }
    }
}

/// A headroom, read digit by digit: nothing is rounded.
fn headroom(field: &Field) -> Result<Headroom, Problem> {
    let expected = "a number from 0.01 to 100, with at most three decimals";
    let number = match &field.node.value {
        Value::Whole(number) => number.to_string(),
        // The shortest text that means this number is the one that was typed, but for zeros at its end.
        Value::Float(number) => number.to_string(),
        _ => return Err(field.must_be(expected)),
    };
    let headroom = permille(&number).and_then(Headroom::from_permille);
    headroom.ok_or_else(|| {
        Problem::new(field.node.place, format!("`headroom` must be {expected}, not `{number}`"))
    })
}

/// The thousandths of a decimal number.
fn permille(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > DECIMALS {
        return None;
    }
    format!("{whole}{decimals:0<DECIMALS$}").parse().ok()
}

/// A headroom above one must leave the limit exact. Two fields that do not go together are told of elsewhere.
pub(super) fn check_headroom(file: &LimitFile, rule: &Rule) -> Result<(), Problem> {
    let (Ok(OnStoreFailure::Local { headroom }), Some(field)) = (on_store_failure(file), &file.headroom)
    else {
        return Ok(());
    };
    rule.check_headroom(headroom).map_err(|error| {
        let problem = Problem::new(field.node.place, format!("with this `headroom` {error}"));
        problem.hint("take a smaller `headroom`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_read_without_rounding() {
        let cases = [
            ("1", Some(1_000)),
            ("1.5", Some(1_500)),
            ("0.01", Some(10)),
            ("0.333", Some(333)),
            ("2.675", Some(2_675)),
            ("100", Some(100_000)),
            ("0.0005", None),
            ("-1", None),
            ("inf", None),
            ("99999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(permille(text), expected, "{text}");
        }
    }
}
