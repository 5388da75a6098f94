//! Numbers for people.

/// A number with commas between its thousands.
pub(crate) fn grouped(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let first = (digits.len() + 2) % 3 + 1;
    let commas = |index: usize| index >= first && (index - first).is_multiple_of(3);
    let spaced = |(index, digit)| if commas(index) { format!(",{digit}") } else { String::from(digit) };
    digits.chars().enumerate().map(spaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        let cases =
            [(0_u64, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")];
        for (number, expected) in cases {
            assert_eq!(grouped(number), expected);
        }
    }
}
