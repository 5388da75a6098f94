//! Lines of a file of any size, each bounded.

use std::io::{self, BufRead, Read};

/// The longest line, in bytes: a log line is a few hundred, and whatever is longer is none.
const MAX_LINE_LEN: u64 = 64 * 1024;

/// What comes next.
pub(super) enum Line<'l> {
    Text(&'l str),
    /// A line that is no text.
    Bad(&'static str),
    End,
}

/// Reads line by line into one buffer.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), number: 0, bytes: 0 }
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn next_line(&mut self) -> io::Result<Line<'_>> {
        self.buffer.clear();
        let read = self.input.by_ref().take(MAX_LINE_LEN).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(Line::End);
        }
        self.number += 1;
        self.count(read);
        let whole = self.buffer.last() == Some(&b'\n');
        if !whole && self.skip_rest()? {
            return Ok(Line::Bad("it is longer than 65,536 bytes"));
        }
        Ok(std::str::from_utf8(&self.buffer)
            .map_or(Line::Bad("it is not UTF-8"), |text| Line::Text(text.trim_end())))
    }

    /// Passes over what is left of a line; answers whether there was anything.
    fn skip_rest(&mut self) -> io::Result<bool> {
        let mut any = false;
        loop {
            let chunk = self.input.fill_buf()?;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(chunk.len(), |end| end + 1);
            if length == 0 {
                return Ok(any);
            }
            any = true;
            self.input.consume(length);
            self.count(length);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}
