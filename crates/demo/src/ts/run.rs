//! One run of the comparison: a link, its receiver and sender, and datagrams by the film's program clock.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use timeous::clock;
use timeous::core::Instant;
use timeous_testbed::machine::sleep_until;

use super::decoded::Decoded;
use super::film::Film;
use super::judge::{Judgement, judge};
use crate::arrivals::read_socket;
use crate::chain::{Chain, ChainInputs, DATAGRAM, PathKind};
use crate::compared::{Tool, ToolOptions};
use crate::error::DemoError;
use crate::link::LinkName;

/// Inputs of a run.
#[derive(Clone, Debug)]
pub(super) struct RunInputs<'a> {
    /// The tool `timeous`.
    pub(super) timeous: &'a Path,
    /// Directory of records and logs.
    pub(super) raw: &'a Path,
    pub(super) film: &'a Film,
    /// Options of both ends.
    pub(super) terms: ToolOptions,
    /// Set to end all runs.
    pub(super) stop: &'a AtomicBool,
}

impl RunInputs<'_> {
    /// Sends the film by a tool over a link with a seed. `name` is the prefix of its files.
    ///
    /// # Errors
    /// A program is missing, or fails.
    pub(super) fn run(&self, tool: Tool, way: (LinkName, u64), name: &str) -> Result<Judgement, DemoError> {
        let Self { timeous, raw, film, ref terms, stop } = *self;
        let inputs = ChainInputs { timeous, raw, length: film.length(), rate: film.rate(), terms: terms.clone(), stop };
        let chain = inputs.start(tool, PathKind::Link(way.0, way.1), name)?;
        let has_ended = AtomicBool::new(false);
        let (entered, came) = thread::scope(|scope| {
            let came = scope.spawn(|| read_socket(&chain.sink, &has_ended));
            let entered = self.feed(&chain);
            if entered.is_ok() {
                sleep_until(clock::now() + inputs.rest());
            }
            has_ended.store(true, Ordering::Relaxed);
            (entered, came.join().expect("reading does not panic"))
        });
        drop(chain);
        let path = raw.join(format!("{name}.ts"));
        fs::write(&path, &came.bytes).map_err(DemoError::file(&path))?;
        Ok(judge(film, &entered?, &came, &Decoded::by_ffmpeg(&path)?))
    }

    /// Sends each datagram at its time; returns the time at which each went in.
    fn feed(&self, chain: &Chain) -> Result<Vec<Instant>, DemoError> {
        let mut entered = Vec::new();
        for (datagram, time) in self.film.bytes.chunks(DATAGRAM).zip(&self.film.times) {
            sleep_until(chain.begin + *time);
            if self.stop.load(Ordering::Relaxed) {
                return Err(DemoError::Interrupted);
            }
            chain.input.send(datagram).map_err(DemoError::file(Path::new("the sender's input")))?;
            entered.push(clock::now());
        }
        Ok(entered)
    }
}
