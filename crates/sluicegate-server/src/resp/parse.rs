//! Commands from bytes: arrays of bulk strings, or inline lines as a person types them.

use std::borrow::Cow;

use smallvec::SmallVec;

/// The most words of one command.
const MAX_WORDS: usize = 256;
/// The most bytes of one command, its framing included; as the HTTP door's body.
pub(super) const MAX_COMMAND_LEN: usize = 64 * 1024;
/// The most bytes of a line that states a length: a sign, 19 digits, and the end.
const MAX_HEADER_LEN: usize = 24;

/// The words of one command, its name first. Words of inline commands may be unescaped copies.
pub(crate) type Words<'b> = SmallVec<[Cow<'b, [u8]>; 8]>;

/// One command and where the next begins. A command without words is to be passed over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'b> {
    pub(super) words: Words<'b>,
    pub(crate) end: usize,
}

/// Bytes that are no command: there is no telling where the next begins, so the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("invalid multibulk length")]
    Words,
    #[error("expected '$'")]
    NoBulk,
    #[error("invalid bulk length")]
    BulkLength,
    #[error("a bulk string does not end where its length says")]
    BulkEnd,
    #[error("unbalanced quotes in request")]
    Quotes,
    #[error("a command has at most {MAX_COMMAND_LEN} bytes and {MAX_WORDS} words")]
    TooLarge,
}

/// The first command of the buffer, `None` if it is not complete yet.
///
/// # Errors
/// [`ProtocolError`] as soon as the bytes cannot become a command any more.
pub(crate) fn parse(buffer: &[u8]) -> Result<Option<Parsed<'_>>, ProtocolError> {
    let parsed = match buffer.first() {
        None => return Ok(None),
        Some(b'*') => multibulk(buffer)?,
        Some(_) => inline(buffer)?,
    };
    match &parsed {
        Some(parsed) if parsed.end > MAX_COMMAND_LEN => Err(ProtocolError::TooLarge),
        None if buffer.len() >= MAX_COMMAND_LEN => Err(ProtocolError::TooLarge),
        _ => Ok(parsed),
    }
}

fn multibulk(buffer: &[u8]) -> Result<Option<Parsed<'_>>, ProtocolError> {
    let Some((count, mut at)) = header(buffer, 0, ProtocolError::Words)? else { return Ok(None) };
    // Redis takes an array of less than no words for an empty one.
    let count = usize::try_from(count).unwrap_or(0);
    if count > MAX_WORDS {
        return Err(ProtocolError::TooLarge);
    }
    let mut words = Words::with_capacity(count);
    for _ in 0..count {
        match buffer.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(_) => return Err(ProtocolError::NoBulk),
        }
        let Some((len, begin)) = header(buffer, at, ProtocolError::BulkLength)? else { return Ok(None) };
        let len = usize::try_from(len).map_err(|_| ProtocolError::BulkLength)?;
        if len > MAX_COMMAND_LEN {
            return Err(ProtocolError::TooLarge);
        }
        let Some(ending) = buffer.get(begin + len..begin + len + 2) else { return Ok(None) };
        if ending != b"\r\n" {
            return Err(ProtocolError::BulkEnd);
        }
        words.extend(buffer.get(begin..begin + len).map(Cow::Borrowed));
        at = begin + len + 2;
    }
    Ok(Some(Parsed { words, end: at }))
}

/// The number of a line such as `*3\r\n` that begins at `from`, and where the line after it begins.
fn header(
    buffer: &[u8],
    from: usize,
    malformed: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    let line = buffer.get(from + 1..).unwrap_or_default();
    let line = line.get(..MAX_HEADER_LEN).unwrap_or(line);
    let Some(len) = line.iter().position(|byte| *byte == b'\n') else {
        return if line.len() == MAX_HEADER_LEN { Err(malformed) } else { Ok(None) };
    };
    let digits = line.get(..len).and_then(|line| line.strip_suffix(b"\r")).ok_or(malformed)?;
    let number = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'));
    let number = number.and_then(|digits| digits.parse().ok()).ok_or(malformed)?;
    Ok(Some((number, from + 1 + len + 1)))
}

fn inline(buffer: &[u8]) -> Result<Option<Parsed<'_>>, ProtocolError> {
    let Some(len) = buffer.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = buffer.get(..len).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Ok(Some(Parsed { words: split(line)?, end: len + 1 }))
}

/// Words between blanks; quotes hold blanks, a backslash in double quotes escapes.
fn split(line: &[u8]) -> Result<Words<'_>, ProtocolError> {
    let mut words = Words::new();
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        if words.len() == MAX_WORDS {
            return Err(ProtocolError::TooLarge);
        }
        let (word, after) = match rest.first() {
            Some(quote @ (b'"' | b'\'')) => quoted(rest, *quote)?,
            _ => plain(rest)?,
        };
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

fn plain(rest: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), ProtocolError> {
    let len = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    let (word, after) = rest.split_at_checked(len).unwrap_or_default();
    if word.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        Err(ProtocolError::Quotes)
    } else {
        Ok((word.into(), after))
    }
}

fn quoted(rest: &[u8], quote: u8) -> Result<(Cow<'_, [u8]>, &[u8]), ProtocolError> {
    let (mut word, mut at) = (Vec::new(), 1);
    loop {
        match *rest.get(at).ok_or(ProtocolError::Quotes)? {
            byte if byte == quote => break,
            b'\\' => {
                let (byte, len) = escaped(rest.get(at + 1..).unwrap_or_default(), quote);
                word.push(byte);
                at += 1 + len;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
    let after = rest.get(at + 1..).unwrap_or_default();
    // A word ends at a blank: `"a"b` is two words to one reader and one to another.
    if after.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
        return Err(ProtocolError::Quotes);
    }
    Ok((Cow::Owned(word), after))
}

/// What follows a backslash: the byte that is meant, and how many bytes say so.
fn escaped(after: &[u8], quote: u8) -> (u8, usize) {
    match (quote, after) {
        (b'\'', [b'\'', ..]) => (b'\'', 1),
        (b'\'', _) | (_, []) => (b'\\', 0),
        (_, [b'n', ..]) => (b'\n', 1),
        (_, [b'r', ..]) => (b'\r', 1),
        (_, [b't', ..]) => (b'\t', 1),
        (_, [b'b', ..]) => (8, 1),
        (_, [b'a', ..]) => (7, 1),
        (_, [b'x', high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            (hex(*high) * 16 + hex(*low), 3)
        }
        (_, [other, ..]) => (*other, 1),
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A') + 10,
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on must fail")]
mod tests {
    use super::*;

    fn words(buffer: &[u8]) -> Vec<Vec<u8>> {
        let parsed = parse(buffer).expect("a command").expect("a whole one");
        assert_eq!(parsed.end, buffer.len());
        parsed.words.iter().map(|word| word.to_vec()).collect()
    }

    #[test]
    fn an_array_of_bulk_strings_is_a_command_whatever_its_bytes() {
        assert_eq!(words(b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\n\0b\r\n"), [&b"ECHO"[..], b"a\r\n\0b"]);
        assert_eq!(words(b"*1\r\n$0\r\n\r\n"), [b""]);
        assert!(words(b"*0\r\n").is_empty());
        assert!(words(b"*-1\r\n").is_empty());
    }

    #[test]
    fn an_inline_command_is_split_as_a_shell_would() {
        assert_eq!(words(b"  ping \r\n"), [b"ping"]);
        assert_eq!(words(b"ECHO \"a b\\x41\\n\\\"\"\n"), [&b"ECHO"[..], b"a bA\n\""]);
        assert_eq!(words(b"ECHO 'a\\'b\\n' c\n"), [&b"ECHO"[..], b"a'b\\n", b"c"]);
        assert!(words(b"\r\n").is_empty());
        for wrong in [&b"ECHO \"a\n"[..], b"ECHO 'a\n", b"ECHO \"a\"b\n", b"ECHO a\"b\n"] {
            assert_eq!(parse(wrong), Err(ProtocolError::Quotes));
        }
    }

    /// Cut anywhere, a command is incomplete and no error; whole, it is what it was.
    #[test]
    fn a_command_may_arrive_in_any_pieces() {
        let whole = b"*3\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$2\r\n15\r\n";
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), Ok(None), "{len}");
        }
        assert!(matches!(parse(whole), Ok(Some(_))));
    }

    /// Random bytes and random damage to commands: nothing panics, and a longer piece of the same bytes never takes back what
    /// a shorter one has said.
    #[test]
    fn what_a_parser_has_said_once_holds_for_all_that_follows() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = if random.bool() {
                (0..random.usize(..80)).map(|_| b"*$0123-\r\n\"'\\ x\xff"[random.usize(..15)]).collect()
            } else {
                encode(&random_words(&mut random))
            };
            if let Some(at) = random.usize(..=bytes.len()).checked_sub(1) {
                bytes[at] = if random.bool() { random.u8(..) } else { bytes[at] };
            }
            let whole = parse(&bytes);
            for len in 0..bytes.len() {
                match parse(&bytes[..len]) {
                    Ok(None) => {}
                    said => assert_eq!(said, whole, "seed {seed}: {} at {len}", bytes.escape_ascii()),
                }
            }
            if let Ok(Some(parsed)) = whole {
                let len: usize = parsed.words.iter().map(|word| word.len()).sum();
                assert!(parsed.end <= bytes.len() && len <= parsed.end && parsed.words.len() <= MAX_WORDS);
            }
        }
    }

    #[test]
    fn words_of_any_bytes_are_read_as_they_were_written() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2_000 {
            let written = random_words(&mut random);
            assert_eq!(words(&encode(&written)), written, "seed {seed}");
        }
    }

    fn random_words(random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
        let word = |random: &mut fastrand::Rng| {
            let len = random.usize(..12);
            std::iter::repeat_with(|| random.u8(..)).take(len).collect()
        };
        let count = random.usize(..6);
        std::iter::repeat_with(|| word(random)).take(count).collect()
    }

    fn encode(words: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    #[test]
    fn what_cannot_become_a_command_is_refused_at_once() {
        let cases: [(&[u8], ProtocolError); 10] = [
            (b"*a\r\n", ProtocolError::Words),
            (b"*+1\r\n", ProtocolError::Words),
            (b"*1\n", ProtocolError::Words),
            (b"*99999999999999999999999999", ProtocolError::Words),
            (b"*257\r\n", ProtocolError::TooLarge),
            (b"*1\r\n+OK\r\n", ProtocolError::NoBulk),
            (b"*1\r\n$-1\r\n", ProtocolError::BulkLength),
            (b"*1\r\n$1x\r\n", ProtocolError::BulkLength),
            (b"*1\r\n$2000000\r\n", ProtocolError::TooLarge),
            (b"*1\r\n$1\r\nab\r\n", ProtocolError::BulkEnd),
        ];
        for (bytes, error) in cases {
            assert_eq!(parse(bytes), Err(error), "{}", bytes.escape_ascii());
        }
        let endless = vec![b'x'; MAX_COMMAND_LEN];
        assert_eq!(parse(&endless), Err(ProtocolError::TooLarge));
    }
}
