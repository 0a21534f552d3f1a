//! Lines on standard error about a sink, at most one every few seconds.

use timeous::clock;
use timeous::core::{Duration, Instant};

/// Shortest time from one line about trouble to the next.
const BETWEEN: Duration = Duration::from_secs(10);

/// What has been said about a sink.
#[derive(Debug, Default)]
pub(super) struct Told {
    at: Option<Instant>,
    /// Whether the last trouble was told.
    open: bool,
}

impl Told {
    /// Tells about trouble, unless there was a line about it a moment ago.
    pub(super) fn trouble(&mut self, line: &str) {
        let now = clock::now();
        self.open = self.at.is_none_or(|at| now.saturating_since(at) >= BETWEEN);
        if self.open {
            self.at = Some(now);
            eprintln!("timeous: {line}");
        }
    }

    /// Tells that the trouble is over, if it was told.
    pub(super) fn recovery(&mut self, line: &str) {
        if std::mem::take(&mut self.open) {
            eprintln!("timeous: {line}");
        }
    }
}
