//! A live camera by Timeous and by SRT, over the same links, with the same latency: frames, and their delay.

mod clip;
mod idle;
mod judge;
mod run;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use clip::Clip;
use judge::Judgement;
use run::RunInputs;
use table::Row;
use timeous::core::Duration;
use timeous::core::units::parse_duration;
use timeous_testbed::Progress;

use crate::chain::PathKind;
use crate::compared::{self, Ends, Tool, ToolOptions};
use crate::error::DemoError;
use crate::link::LinkName;
use crate::{process, report};

/// Streams a live camera by Timeous and by SRT over seven links, and compares frames and delay
///
/// Both tools run at the same time, each over a link of its own with the same seed, with default settings and the same
/// latency. Needs `ffmpeg` and `srt-live-transmit`. Exit code 1, with --idle: the latency is above its bound.
#[derive(Args, Clone, Debug)]
pub(crate) struct CameraArgs {
    /// Where tables, records and logs go
    #[arg(long, value_name = "DIR", default_value = "camera-out")]
    out: PathBuf,
    /// Duration of the film, in seconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// First seed of the links' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of consecutive seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Latency of both tools
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    latency: Duration,
    /// Which links, such as clean,loss; all unless given
    #[arg(long, value_name = "LINKS", value_delimiter = ',', value_enum)]
    links: Vec<LinkName>,
    /// In place of the comparison: the latency of Timeous itself over an idle link, with playout=immediate
    #[arg(long, conflicts_with_all = ["links", "seeds"])]
    idle: bool,
    /// More for the URIs of Timeous at both ends, such as controller=bbr
    #[arg(long, value_name = "KEYS")]
    stream: Option<String>,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

/// Links of the comparison.
const LINKS: [LinkName; 7] = [
    LinkName::Clean,
    LinkName::Far,
    LinkName::Loss,
    LinkName::Bursts,
    LinkName::Jitter,
    LinkName::Outage,
    LinkName::Narrow,
];
/// Slices of each frame in the idle runs.
const SLICES: [u32; 2] = [1, 4];

/// Runs the comparison; returns whether all bounds hold.
///
/// # Errors
/// A program is missing, or fails.
pub(crate) fn run(args: &CameraArgs, progress: &Progress) -> Result<bool, DemoError> {
    let timeous = crate::tool::path()?;
    let raw = args.out.join("raw");
    fs::create_dir_all(&raw).map_err(DemoError::file(&raw))?;
    let stop = process::set_by_signals()?;
    let stage = Stage { args, timeous: &timeous, raw: &raw, stop: &stop, progress };
    if args.idle {
        let rows = stage.idle()?;
        report::write(&args.out, args.json, "idle", &rows, &idle::HEAD, idle::Row::cells)?;
        let broken: Vec<String> = rows.iter().filter_map(idle::Row::broken).collect();
        broken.iter().for_each(|bound| eprintln!("does not hold: {bound}"));
        return Ok(broken.is_empty());
    }
    compared::check_installed()?;
    let rows = stage.compare()?;
    report::write(&args.out, args.json, "camera", &rows, &table::HEAD, Row::cells)?;
    Ok(true)
}

#[derive(Clone, Copy)]
struct Stage<'a> {
    args: &'a CameraArgs,
    timeous: &'a Path,
    raw: &'a Path,
    stop: &'a AtomicBool,
    progress: &'a Progress,
}

impl Stage<'_> {
    fn take<'a>(&'a self, clip: &'a Clip, is_immediate: bool) -> RunInputs<'a> {
        let keys = self.args.stream.as_deref().map(|keys| format!("&{keys}")).unwrap_or_default();
        let terms = ToolOptions { latency: self.args.latency, is_immediate, keys, ends: Ends::ByteStream };
        RunInputs { timeous: self.timeous, raw: self.raw, clip, terms, stop: self.stop }
    }

    fn idle(&self) -> Result<Vec<idle::Row>, DemoError> {
        let task = self.progress.task("idle", SLICES.len() as u64);
        let run = |slices: u32| {
            let clip = Clip::make(self.raw, self.args.seconds, slices)?;
            let way = PathKind::Idle(idle::DELAY);
            let run = self.take(&clip, true).run(Tool::Timeous, way, &format!("idle-{slices}"))?;
            task.step();
            Ok(idle::Row::new(slices, &run))
        };
        SLICES.into_iter().map(run).collect()
    }

    fn compare(&self) -> Result<Vec<Row>, DemoError> {
        let clip = Clip::make(self.raw, self.args.seconds, 1)?;
        let links = if self.args.links.is_empty() { LINKS.as_slice() } else { &self.args.links };
        let task = self.progress.task("camera", links.len() as u64 * self.args.seeds);
        let mut rows = Vec::new();
        for &link in links {
            let mut runs = Tool::ALL.map(|_| Vec::new());
            for seed in (0..self.args.seeds).map(|more| self.args.seed.wrapping_add(more)) {
                let both = self.both(&clip, link, seed)?;
                runs.iter_mut().zip(both).for_each(|(runs, run)| runs.push(run));
                task.step();
            }
            rows.extend(Tool::ALL.into_iter().zip(&runs).map(|(tool, runs)| Row::new(link, tool, runs)));
        }
        Ok(rows)
    }

    /// Runs both tools at the same time. The first that fails ends the other.
    fn both(&self, clip: &Clip, link: LinkName, seed: u64) -> Result<Vec<Judgement>, DemoError> {
        let take = self.take(clip, false);
        process::all_at_once(Tool::ALL, self.stop, |tool| {
            take.run(tool, PathKind::Link(link, seed), &format!("{}-{seed}-{}", link.name(), tool.name()))
        })
    }
}
