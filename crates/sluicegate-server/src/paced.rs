//! Words that are said at most once a second: a line per request would fill a disk at the very time in which the log
//! is needed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Paces one kind of line.
#[derive(Debug, Default)]
pub(crate) struct Paced {
    /// The second of the last line.
    last_s: AtomicU64,
    /// What was left unsaid since then.
    unsaid: AtomicU64,
}

impl Paced {
    /// Whether to say it now, and then how often it was left unsaid.
    pub(crate) fn due(&self, now_s: u64) -> Option<u64> {
        if self.last_s.swap(now_s, Ordering::Relaxed) == now_s {
            self.unsaid.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.unsaid.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_a_second_with_what_was_left_unsaid() {
        let paced = Paced::default();
        assert_eq!([7, 7, 7, 8].map(|now_s| paced.due(now_s)), [Some(0), None, None, Some(2)]);
    }
}
