//! The main demonstration: live video over a link of half its rate, sent by plain UDP, by a plain queue and by Timeous.

mod capture;
mod judge;
mod page;
mod plan;
mod run;
mod table;
mod video;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use judge::{Approach, Row, broken_promises};
use plan::Setting;
use run::{Progress, Run, Stage};
use timeous::core::units::{parse_duration, parse_rate};
use timeous::core::{Duration, Rate};
use timeous_net::link::Limit;
use timeous_testbed::report::Video;
use video::Clip;

use crate::error::DemoError;
use crate::process;
use crate::tool::{self, time};

/// Options of the main demonstration.
#[derive(Args, Clone, Debug)]
pub(crate) struct LiveArgs {
    /// Directory of the page and its files
    #[arg(long, value_name = "DIR", default_value = "demo-out")]
    out: PathBuf,
    /// The video, as raw H.264
    #[arg(long, value_name = "FILE", default_value = "assets/clip.h264")]
    clip: PathBuf,
    /// The link's rate, such as 1.5M; half of the video's unless given
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,
    /// The link's delay, each way
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = parse_duration)]
    delay: Duration,
    /// The link's queue: a time (100ms), packets (30p) or bytes (64k)
    #[arg(long, value_name = "LIMIT", default_value = "100ms", value_parser = parse_queue)]
    queue: String,
    /// From capture to playout
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    latency: Duration,
    /// Seed of the link's randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

fn parse_queue(text: &str) -> Result<String, String> {
    text.parse::<Limit>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Approximate bytes of video per packet.
const PAYLOAD: u64 = 1_000;
/// Time limit of a run, besides the time that the whole video needs on the link.
const SLACK: Duration = Duration::from_secs(30);

/// Runs the demonstration; returns whether all its promises hold.
///
/// # Errors
/// [`DemoError`] if it could not be run.
pub(crate) fn run(args: &LiveArgs) -> Result<bool, DemoError> {
    let tool = tool::path()?;
    let clip = Clip::read(&args.clip)?;
    let setting = setting(args, &clip);
    let logs = plan::logs(&args.out);
    fs::create_dir_all(&logs).map_err(DemoError::file(&logs))?;
    let stop = process::set_by_signals()?;
    let stage = Stage { tool: &tool, setting: &setting, out: &args.out, stop: &stop };
    let runs = run_all(stage, clip.duration)?;

    let rows: Vec<Row> = runs.iter().map(|run| run.judgement.row.clone()).collect();
    let broken = broken_promises(&rows, setting.latency);
    let videos = write_videos(&args.out, &clip, &runs)?;
    let story = page::PageContent {
        setting: &setting,
        duration: clip.duration,
        broken: &broken,
        command: &command(args, &setting),
        videos: &videos,
    };
    let page = args.out.join("index.html");
    fs::write(&page, page::write(&story, &runs)?).map_err(DemoError::file(&page))?;
    if args.json {
        let outcome = table::Outcome::new(setting.rate, setting.latency, setting.seed, &rows, &broken);
        println!("{}", serde_json::to_string_pretty(&outcome).expect("names, numbers and texts are JSON"));
    } else {
        print!("{}", table::text(&rows));
        println!("\nThe page: {}", page.display());
    }
    for promise in &broken {
        eprintln!("does not hold: {promise}");
    }
    Ok(broken.is_empty())
}

fn setting(args: &LiveArgs, clip: &Clip) -> Setting {
    let rate = args.rate.unwrap_or_else(|| Rate::from_bps(clip.rate().as_bps() / 2));
    // Headers and congestion control leave some of the link unused.
    let limit = clip.duration.max(rate.time_for(clip.bytes) * 2) + args.latency + SLACK;
    Setting {
        clip: clip.path.clone(),
        rate,
        delay: args.delay,
        queue: args.queue.clone(),
        latency: args.latency,
        seed: args.seed,
        packets: clip.bytes / PAYLOAD + clip.frames.len() as u64,
        limit,
    }
}

/// Command line that repeats the run.
fn command(args: &LiveArgs, setting: &Setting) -> String {
    format!(
        "cargo build --release -p timeous-cli -p timeous-demo\n\
         target/release/timeous-demo --clip {} --rate {} --delay {} --queue {} --latency {} --seed {} --out {}",
        setting.clip.display(),
        setting.rate.as_bps(),
        time(setting.delay),
        setting.queue,
        time(setting.latency),
        setting.seed,
        args.out.display(),
    )
}

/// Runs all approaches at the same time, each over a link of its own. The first that fails ends the others.
fn run_all(stage: Stage<'_>, duration: Duration) -> Result<Vec<Run>, DemoError> {
    let ports: [u16; Approach::ALL.len()] = process::free_ports()?;
    let progress = Progress::new(duration);
    process::all_at_once(Approach::ALL.into_iter().zip(ports), stage.stop, |(approach, port)| {
        let line = progress.line(approach);
        let run = stage.run(approach, port, |phase| line.tell(phase));
        line.end(if run.is_ok() { "done" } else { "failed" });
        run
    })
}

fn write_videos(out: &Path, clip: &Clip, runs: &[Run]) -> Result<Vec<Video>, DemoError> {
    let of_run = |run: &Run| {
        let row = &run.judgement.row;
        let caption = format!("{}: {} of {} frames", row.run.title(), row.decodable_in_time, row.frames);
        (
            format!("{}.mp4", row.run.name()),
            caption,
            video::received(&run.files, &run.evidence.sent, &run.evidence.received),
        )
    };
    let original = ("original.mp4".to_owned(), "As it was sent".to_owned(), video::original(clip));
    let videos = [original].into_iter().chain(runs.iter().map(of_run));
    videos.map(|(name, caption, made)| write_video(out, name, caption, made)).collect()
}

/// Writes a video; a missing one is noted on the page and is no failure.
fn write_video(
    out: &Path,
    name: String,
    caption: String,
    made: Result<Vec<u8>, video::VideoError>,
) -> Result<Video, DemoError> {
    let path = match made {
        Ok(bytes) => {
            let path = out.join(&name);
            fs::write(&path, bytes).map_err(DemoError::file(&path))?;
            Ok(name)
        }
        Err(why) => Err(format!("No video: {why}")),
    };
    Ok(Video { path, caption })
}
