//! What people take for one name is one name.

use sluicegate_core::login::{MAX_NAME_LEN, Name};

/// As django-defender #248 and #90, rack-attack #493 and videoq #451 report: blanks and case gave fresh counters.
#[test]
fn blanks_case_and_invisible_characters_make_no_other_name() {
    let one = Name::new("bob").unwrap();
    for same in
        ["bob ", " bob", "BOB", "b ob", "Bob\t", "b\u{ad}ob", "b\u{200d}o\u{fe0f}b", "\u{ff42}ob", "bob\0"]
    {
        assert_eq!(Name::new(same).unwrap(), one, "{same:?}");
    }
}

/// As navidrome's pull request 6185 and onetimesecret's 3939 report: the limiter folded more or less than the login.
#[test]
fn composed_and_decomposed_spellings_are_one_name_and_other_letters_are_others() {
    assert_eq!(Name::new("Ame\u{301}lie").unwrap(), Name::new("am\u{e9}lie").unwrap());
    assert_ne!(Name::new("\u{e5}sa").unwrap(), Name::new("asa").unwrap());
    assert_eq!(
        Name::new("\u{39f}\u{394}\u{39f}\u{3a3}").unwrap(),
        Name::new("\u{3bf}\u{3b4}\u{3bf}\u{3c2}").unwrap()
    );
}

#[test]
fn a_name_has_an_end_and_may_be_empty() {
    assert!(Name::new(&"x".repeat(MAX_NAME_LEN)).is_ok());
    assert!(Name::new(&"x".repeat(MAX_NAME_LEN + 1)).is_err());
    // One character of three bytes that NFKC makes eighteen of.
    assert!(Name::new(&"\u{fdfa}".repeat(100)).is_err());
    assert_eq!(Name::new(" \u{200b}").unwrap().as_str(), "");
}
