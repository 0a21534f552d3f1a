//! Lines for people: what happens to a stream, each told once, on standard error.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use timeous::clock;
use timeous::core::{Duration, Instant};

/// Lines of one kind are told at most this often; what came between is counted.
const INTERVAL: Duration = Duration::from_secs(5);

/// Tells a line. On a terminal it takes the place of the line of progress, which is drawn anew below it.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let mut stderr = std::io::stderr().lock();
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    // Where nobody can read it any more, there is nobody to tell.
    let _ = writeln!(stderr, "{clear}timeous: {text}");
}

/// Lines that would come often, such as of packets that are refused: each kind at its first time, and then now and then.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    kinds: BTreeMap<String, Told>,
}

#[derive(Debug)]
struct Told {
    next: Instant,
    untold: u64,
}

impl Limited {
    /// Kinds that are told apart: who makes up new ones is told of no more.
    const MOST: usize = 64;

    /// Tells of one more of this kind.
    pub(crate) fn tell(&mut self, kind: &str) {
        self.tell_as(kind, kind);
    }

    /// The same in words that are not always alike.
    pub(crate) fn tell_as(&mut self, kind: &str, words: &str) {
        if let Some(line) = self.line(kind, words, clock::now()) {
            tell(line);
        }
    }

    fn line(&mut self, kind: &str, words: &str, now: Instant) -> Option<String> {
        let Some(told) = self.kinds.get_mut(kind) else {
            if self.kinds.len() >= Self::MOST {
                return None;
            }
            self.kinds.insert(kind.to_owned(), Told { next: now + INTERVAL, untold: 0 });
            return Some(words.to_owned());
        };
        told.untold += 1;
        if now < told.next {
            return None;
        }
        told.next = now + INTERVAL;
        let count = std::mem::take(&mut told.untold);
        Some(format!("{words} ({count} more)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_often_is_told_now_and_then_with_its_count() {
        let mut limited = Limited::default();
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        assert_eq!(limited.line("late", "late", at(0)).as_deref(), Some("late"));
        assert_eq!(limited.line("late", "late", at(1)), None);
        assert_eq!(limited.line("lost", "lost", at(1)).as_deref(), Some("lost"));
        assert_eq!(limited.line("late", "late again", at(6)).as_deref(), Some("late again (2 more)"));
    }
}
