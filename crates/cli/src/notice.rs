//! Messages for people on standard error, limited in rate.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use timeous::clock;
use timeous::core::{Duration, Instant};

/// Minimum interval of messages of one kind; those in between are counted.
const INTERVAL: Duration = Duration::from_secs(5);

/// Prints a message. On a terminal it replaces the progress line, which is redrawn below.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    put(format_args!("{clear}timeous: {text}\n"));
}

/// Writes to standard error at once: pieces would be cut where the process ends, and mixed with those of other threads.
pub(crate) fn put(text: impl std::fmt::Display) {
    // A closed standard error is ignored.
    let _ = std::io::stderr().lock().write_all(text.to_string().as_bytes());
}

/// Prints a result to standard output, on a line of its own. A closed one is ignored: `| head` has read enough.
pub(crate) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Rate limit for messages such as on refused packets: the first of each kind is printed, then one per interval.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedMessages {
    kinds: BTreeMap<String, MessageState>,
}

#[derive(Debug)]
struct MessageState {
    next: Instant,
    suppressed: u64,
}

impl RateLimitedMessages {
    /// Most kinds that are distinguished, against senders that provoke new ones; further kinds are dropped.
    const MOST: usize = 64;

    /// Reports one more event of this kind.
    pub(crate) fn tell(&mut self, kind: &str) {
        self.tell_as(kind, kind);
    }

    /// Reports one more event of this kind, with a text that may vary.
    pub(crate) fn tell_as(&mut self, kind: &str, words: &str) {
        if let Some(line) = self.line(kind, words, clock::now()) {
            tell(line);
        }
    }

    fn line(&mut self, kind: &str, words: &str, now: Instant) -> Option<String> {
        let Some(state) = self.kinds.get_mut(kind) else {
            if self.kinds.len() >= Self::MOST {
                return None;
            }
            self.kinds.insert(kind.to_owned(), MessageState { next: now + INTERVAL, suppressed: 0 });
            return Some(words.to_owned());
        };
        state.suppressed += 1;
        if now < state.next {
            return None;
        }
        state.next = now + INTERVAL;
        let count = std::mem::take(&mut state.suppressed);
        Some(format!("{words} ({count} more)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_often_is_told_now_and_then_with_its_count() {
        let mut limited = RateLimitedMessages::default();
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        assert_eq!(limited.line("late", "late", at(0)).as_deref(), Some("late"));
        assert_eq!(limited.line("late", "late", at(1)), None);
        assert_eq!(limited.line("lost", "lost", at(1)).as_deref(), Some("lost"));
        assert_eq!(limited.line("late", "late again", at(6)).as_deref(), Some("late again (2 more)"));
    }
}
