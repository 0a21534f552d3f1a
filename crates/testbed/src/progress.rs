//! Progress of an experiment: a bar on a terminal, plain lines otherwise. Always on standard error.

use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Progress display of experiments.
#[derive(Debug)]
pub struct Progress {
    bars: MultiProgress,
    show: OutputMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputMode {
    Bars,
    Lines,
    Nothing,
}

/// A task with steps; finished when dropped.
#[derive(Debug)]
pub struct Task {
    what: String,
    steps: u64,
    done: AtomicU64,
    bar: Option<ProgressBar>,
    lines: bool,
}

impl Default for Progress {
    /// Bars if standard error is a terminal, lines otherwise.
    fn default() -> Self {
        let show = if stderr().is_terminal() { OutputMode::Bars } else { OutputMode::Lines };
        Self { bars: MultiProgress::new(), show }
    }
}

impl Progress {
    /// Calls `work` with the number and each of `items` on so many threads. Results are in the order of the items.
    ///
    /// # Errors
    /// The first error, which ends the rest.
    pub fn all<I: Sync, T: Send, E: Send>(
        &self,
        what: &str,
        items: &[I],
        threads: usize,
        work: impl Fn(usize, &I) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let task = self.task(what, items.len() as u64);
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
        let worker = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { break };
                let result = work(index, item);
                if result.is_err() {
                    next.store(items.len(), Ordering::Relaxed);
                }
                done.lock().expect("no worker panics while it holds the results").push((index, result));
                task.step();
            }
        };
        thread::scope(|scope| (0..threads.min(items.len())).for_each(|_| drop(scope.spawn(worker))));
        let mut done = done.into_inner().expect("no worker panics while it holds the results");
        done.sort_unstable_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Shows nothing: for tests.
    pub fn silent() -> Self {
        Self { bars: MultiProgress::new(), show: OutputMode::Nothing }
    }

    /// Prints a message.
    pub fn say(&self, text: &str) {
        match self.show {
            OutputMode::Bars => drop(self.bars.println(text)),
            OutputMode::Lines => eprintln!("{text}"),
            OutputMode::Nothing => (),
        }
    }

    /// Starts a task with `steps` steps.
    pub fn task(&self, what: &str, steps: u64) -> Task {
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
    pub fn step(&self) {
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
