//! Progress on a terminal, or plain lines where there is none.

use std::io::{IsTerminal, stderr};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use timeous::core::Duration;

use super::judge::Approach;
use super::run::Phase;

/// The progress of all runs.
#[derive(Debug)]
pub(crate) struct Progress {
    bars: MultiProgress,
    terminal: bool,
}

/// The progress of a run.
#[derive(Debug)]
pub(crate) struct Line {
    approach: Approach,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of runs that stream so long.
    pub(crate) fn new(duration: Duration) -> Self {
        eprintln!("three runs at the same time, of a video of {:.0} s", duration.as_secs_f64());
        Self { bars: MultiProgress::new(), terminal: stderr().is_terminal() }
    }

    /// A line for a run.
    pub(crate) fn line(&self, approach: Approach) -> Line {
        let bar = self.terminal.then(|| {
            let bar = self.bars.add(ProgressBar::new_spinner());
            let template = "{spinner} {prefix:20} {elapsed:>4}  {msg}";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_prefix(approach.title());
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
            bar
        });
        Line { approach, bar }
    }
}

impl Line {
    /// Tells where the run stands.
    pub(crate) fn tell(&self, phase: Phase) {
        let words = match phase {
            Phase::Starting => "starting a link, a receiver and a sender",
            Phase::Streaming => "streaming",
            Phase::Ending => "sent; waiting for the receiver",
            Phase::Judging => "judging",
        };
        match &self.bar {
            Some(bar) => bar.set_message(words),
            None => eprintln!("{}: {words}", self.approach.title()),
        }
    }

    /// The run has ended.
    pub(crate) fn end(&self, how: &'static str) {
        match &self.bar {
            Some(bar) => bar.finish_with_message(how),
            None => eprintln!("{}: {how}", self.approach.title()),
        }
    }
}
