//! One run: a link, a receiver behind it, a sender before it, until the stream has ended.

use std::fs::{self, File};
use std::io::{BufReader, IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use timeous::core::Duration;

use super::capture;
use super::judge::{Approach, Evidence, Judgement, judge};
use super::plan::{self, Files, Setting};
use crate::error::DemoError;
use crate::journal::{read_received, read_sent};
use crate::process::{Process, is_open};
use crate::tool::{SOON, listening_at};

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Starting the programs.
    Starting,
    /// Sending the video.
    Streaming,
    /// The sender has ended; the receiver may still receive.
    Ending,
    /// Evaluating the records.
    Judging,
}

/// A finished and evaluated run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    /// Its evaluation.
    pub(crate) judgement: Judgement,
    /// Its records.
    pub(crate) evidence: Evidence,
    /// Its files.
    pub(crate) files: Files,
    /// Command lines of its programs.
    pub(crate) commands: Vec<String>,
}

/// Inputs of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage<'a> {
    /// The tool `timeous`.
    pub(crate) tool: &'a Path,
    /// Settings of link and stream.
    pub(crate) setting: &'a Setting,
    /// Output directory.
    pub(crate) out: &'a Path,
    /// Set to end all runs.
    pub(crate) stop: &'a AtomicBool,
}

impl Stage<'_> {
    /// Runs an approach, with its receiver at this free port.
    ///
    /// # Errors
    /// [`DemoError`] if a program fails or its records cannot be evaluated. No program is left behind.
    pub(crate) fn run(self, approach: Approach, port: u16, tell: impl Fn(Phase)) -> Result<Run, DemoError> {
        let files = Files::new(self.out, approach);
        tell(Phase::Starting);
        let Stage { setting, stop, .. } = self;
        let mut emulator = self.start("emulator", approach, &files, &plan::emulator(setting, &files, port))?;
        let entry = emulator.wait_until(SOON, stop, |emulator| Ok(listening_at(&emulator.output_so_far()?)))?;
        // The receiver does not overwrite the video of an earlier run, and creates none without a frame.
        if files.video.exists() {
            fs::remove_file(&files.video).map_err(DemoError::file(&files.video))?;
        }
        let words = plan::receiver(setting, approach, &files, port);
        let mut receiver = self.start("receiver", approach, &files, &words)?;
        receiver.wait_until(SOON, stop, |_| Ok(is_open(port)?.then_some(())))?;
        let words = plan::sender(setting, approach, &files, entry.port());
        let mut sender = self.start("sender", approach, &files, &words)?;

        tell(Phase::Streaming);
        sender.wait(setting.limit, stop)?;
        tell(Phase::Ending);
        receiver.wait(SOON, stop)?;
        emulator.interrupt();
        emulator.wait(SOON, stop)?;

        tell(Phase::Judging);
        let evidence = gather(approach, &files, port)?;
        let judgement = judge(approach, setting.latency, &evidence)
            .map_err(|contradiction| DemoError::record(&files.journal, contradiction))?;
        let commands = [&emulator, &receiver, &sender].map(|process| process.command().to_owned()).to_vec();
        Ok(Run { judgement, evidence, files, commands })
    }

    fn start(self, program: &str, approach: Approach, files: &Files, words: &[String]) -> Result<Process, DemoError> {
        let name = format!("the {program} of the run {}", approach.name());
        Process::start(&name, self.tool, words, &files.log(program))
    }
}

fn gather(approach: Approach, files: &Files, port: u16) -> Result<Evidence, DemoError> {
    let sent = read_sent(open(&files.journal)?).map_err(|error| DemoError::record(&files.journal, error))?;
    let received = read_received(open(&files.frames)?).map_err(|error| DemoError::record(&files.frames, error))?;
    let passages = capture::read(open(&files.capture)?, plan::wire(approach), port)
        .map_err(|error| DemoError::record(&files.capture, error))?;
    Ok(Evidence { sent, received, passages })
}

fn open(path: &PathBuf) -> Result<BufReader<File>, DemoError> {
    File::open(path).map(BufReader::new).map_err(DemoError::file(path))
}

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
