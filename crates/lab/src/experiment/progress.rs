//! Progress of an experiment: a bar on a terminal, plain lines otherwise. Always on standard error.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Progress display of experiments.
#[derive(Debug)]
pub(crate) struct Progress {
    bars: MultiProgress,
    show: OutputMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputMode {
    Bars,
    Lines,
    #[cfg(test)]
    Nothing,
}

/// A task with steps; finished when dropped.
#[derive(Debug)]
pub(crate) struct Task {
    what: String,
    steps: u64,
    done: AtomicU64,
    bar: Option<ProgressBar>,
    lines: bool,
}

impl Progress {
    /// Bars if standard error is a terminal, lines otherwise.
    pub(crate) fn new() -> Self {
        let show = if stderr().is_terminal() { OutputMode::Bars } else { OutputMode::Lines };
        Self { bars: MultiProgress::new(), show }
    }

    /// Shows nothing.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self { bars: MultiProgress::new(), show: OutputMode::Nothing }
    }

    /// Prints a message.
    pub(crate) fn say(&self, text: &str) {
        match self.show {
            OutputMode::Bars => drop(self.bars.println(text)),
            OutputMode::Lines => eprintln!("{text}"),
            #[cfg(test)]
            OutputMode::Nothing => (),
        }
    }

    /// Starts a task with `steps` steps.
    pub(crate) fn task(&self, what: &str, steps: u64) -> Task {
        let bar = (self.show == OutputMode::Bars).then(|| {
            let bar = self.bars.add(ProgressBar::new(steps));
            let template = "{spinner} {msg:40} {bar:24} {pos:>4}/{len}  {elapsed:>4}";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message(what.to_owned());
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
            bar
        });
        let lines = self.show == OutputMode::Lines;
        if lines {
            eprintln!("{what}");
        }
        Task { what: what.to_owned(), steps, done: AtomicU64::new(0), bar, lines }
    }
}

impl Task {
    /// Notes a finished step.
    pub(crate) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        // One line per quarter, to keep logs short.
        let quarter = |done: u64| done * 4 / self.steps.max(1);
        if self.lines && self.steps >= 4 && quarter(done) > quarter(done - 1) {
            eprintln!("{}: {done} of {}", self.what, self.steps);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
