//! MPEG-TS with audio by Timeous and by SRT, over the same links: pictures, audio, delay, continuity.

mod decoded;
mod film;
mod judge;
mod packets;
mod run;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use film::{Codecs, Film};
use judge::Judgement;
use run::RunInputs;
use table::Row;
use timeous::core::Duration;
use timeous::core::units::parse_duration;
use timeous_testbed::Progress;

use crate::compared::{self, Ends, Tool, ToolOptions};
use crate::error::DemoError;
use crate::link::LinkName;
use crate::{process, report};

/// Streams MPEG-TS with audio by Timeous and by SRT over six links, and compares pictures, audio and delay
///
/// Both tools run at the same time, each over a link of its own with the same seed, with default settings and the same
/// latency, and with UDP at both ends. Needs `ffmpeg` and `srt-live-transmit`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TsArgs {
    /// Where tables, records and logs go
    #[arg(long, value_name = "DIR", default_value = "ts-out")]
    out: PathBuf,
    /// Duration of the film, in seconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Codecs of the film: h264, h265 or mpeg2 with aac, ac3 or mp2
    #[arg(long, value_name = "VIDEO+AUDIO", default_value = "h264+aac")]
    codecs: Codecs,
    /// First seed of the links' randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of consecutive seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Latency of both tools
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    latency: Duration,
    /// Which links, such as clean,loss; all of the table unless given
    #[arg(long, value_name = "LINKS", value_delimiter = ',', value_enum)]
    links: Vec<LinkName>,
    /// More for the URIs of Timeous at both ends, such as controller=bbr
    #[arg(long, value_name = "KEYS")]
    stream: Option<String>,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

/// Links of the comparison.
const LINKS: [LinkName; 6] =
    [LinkName::Clean, LinkName::Far, LinkName::Loss, LinkName::Bursts, LinkName::Narrow, LinkName::Half];

/// Runs the comparison; there are no bounds, so that it holds in any case.
///
/// # Errors
/// A program is missing, or fails.
pub(crate) fn run(args: &TsArgs, progress: &Progress) -> Result<bool, DemoError> {
    let timeous = crate::tool::path()?;
    let raw = args.out.join("raw");
    fs::create_dir_all(&raw).map_err(DemoError::file(&raw))?;
    let stop = process::set_by_signals()?;
    compared::check_installed()?;
    let film = Film::make(&raw, args.seconds, args.codecs)?;
    let stage = Stage { args, timeous: &timeous, raw: &raw, film: &film, stop: &stop };
    let rows = stage.compare(progress)?;
    report::write(&args.out, args.json, "ts", &rows, &table::HEAD, Row::cells)?;
    Ok(true)
}

#[derive(Clone, Copy)]
struct Stage<'a> {
    args: &'a TsArgs,
    timeous: &'a Path,
    raw: &'a Path,
    film: &'a Film,
    stop: &'a AtomicBool,
}

impl Stage<'_> {
    fn compare(&self, progress: &Progress) -> Result<Vec<Row>, DemoError> {
        let links = if self.args.links.is_empty() { LINKS.as_slice() } else { &self.args.links };
        let task = progress.task("ts", links.len() as u64 * self.args.seeds);
        let mut rows = Vec::new();
        for &link in links {
            let mut runs = Tool::ALL.map(|_| Vec::new());
            for seed in (0..self.args.seeds).map(|more| self.args.seed.wrapping_add(more)) {
                let both = self.both(link, seed)?;
                runs.iter_mut().zip(both).for_each(|(runs, run)| runs.push(run));
                task.step();
            }
            rows.extend(Tool::ALL.into_iter().zip(&runs).map(|(tool, runs)| Row::new(link, tool, runs)));
        }
        Ok(rows)
    }

    /// Runs both tools at the same time. The first that fails ends the other.
    fn both(&self, link: LinkName, seed: u64) -> Result<Vec<Judgement>, DemoError> {
        let keys = self.args.stream.as_deref().map(|keys| format!("&{keys}")).unwrap_or_default();
        let terms = ToolOptions { latency: self.args.latency, is_immediate: false, keys, ends: Ends::TransportStream };
        let inputs = RunInputs { timeous: self.timeous, raw: self.raw, film: self.film, terms, stop: self.stop };
        process::all_at_once(Tool::ALL, self.stop, |tool| {
            inputs.run(tool, (link, seed), &format!("{}-{seed}-{}", link.name(), tool.name()))
        })
    }
}
