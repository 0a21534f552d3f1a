//! Messages about a slow or failed sink, limited in rate.

use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::notice::tell;

/// Minimum time between two messages about problems.
const BETWEEN: Duration = Duration::from_secs(10);

/// State of the messages about a sink.
#[derive(Debug, Default)]
pub(super) struct SinkMessages {
    at: Option<Instant>,
    /// Whether the last problem was reported.
    open: bool,
}

impl SinkMessages {
    /// Reports a problem, unless one was reported a moment ago.
    pub(super) fn trouble(&mut self, line: &str) {
        let now = clock::now();
        self.open = self.at.is_none_or(|at| now.saturating_since(at) >= BETWEEN);
        if self.open {
            self.at = Some(now);
            tell(line);
        }
    }

    /// Reports that the problem is over, if it was reported.
    pub(super) fn recovery(&mut self, line: &str) {
        if std::mem::take(&mut self.open) {
            tell(line);
        }
    }
}
