//! A live encoder that follows its stream's advice, over a link whose rate falls to a third and comes back.

mod judge;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use judge::{Course, Frame, Sample, Verdict, judge, read_frames, read_samples};
use timeous::clock;
use timeous::core::units::{parse_duration, parse_rate};
use timeous::core::{Duration, Instant, Rate};
use timeous_testbed::report::plot::{Lines, Series};

use crate::error::DemoError;
use crate::process::{Process, free_ports, is_open, set_by_signals};
use crate::tool::{self, SOON, listening_at, time};

/// Drives a live encoder over a link whose rate falls to a third and comes back
///
/// Writes two plots and prints what was found. Exit code 1: a promise does not hold.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdaptArgs {
    /// Where plots and records go
    #[arg(long, value_name = "DIR", default_value = "adapt-out")]
    out: PathBuf,
    /// The link's rate before it falls, and after it has come back
    #[arg(long, value_name = "RATE", default_value = "1.2M", value_parser = parse_rate)]
    rate: Rate,
    /// The link's delay, each way
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = parse_duration)]
    delay: Duration,
    /// The link's queue, as the emulator takes it
    #[arg(long, value_name = "LIMIT", default_value = "100ms")]
    queue: String,
    /// From the encoder to playout
    #[arg(long, value_name = "TIME", default_value = "400ms", value_parser = parse_duration)]
    latency: Duration,
    /// Duration of each of the three parts
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    part: Duration,
    /// The encoder, as `timeous send --adapt` takes it
    #[arg(long, value_name = "ENCODER", default_value = "x264")]
    encoder: String,
    /// Source to encode
    #[arg(long, value_name = "SOURCE", default_value = "test")]
    source: String,
    /// More for the stream's URI at both ends, such as ccid=3
    #[arg(long, value_name = "KEYS")]
    stream: Option<String>,
}

/// Time before the first part is counted, for the stream to settle.
const WARM_UP: Duration = Duration::from_secs(5);

/// Runs the demonstration; returns whether all its promises hold.
///
/// # Errors
/// [`DemoError`] if it could not be run.
pub(crate) fn run(args: &AdaptArgs) -> Result<bool, DemoError> {
    fs::create_dir_all(&args.out).map_err(DemoError::file(&args.out))?;
    let stop = set_by_signals()?;
    let began = Stage { args, tool: &tool::path()?, stop: &stop }.run()?;
    let course = Course {
        full: args.rate,
        low: Rate::from_bps(args.rate.as_bps() / 3),
        begins: began,
        falls: began + WARM_UP + args.part,
        returns: began + WARM_UP + args.part * 2,
        ends: began + WARM_UP + args.part * 3,
        latency: args.latency,
    };
    let read = |name: &str| fs::read_to_string(args.out.join(name)).map_err(DemoError::file(&args.out.join(name)));
    let bad = |name: &'static str| move |why: String| DemoError::record(Path::new(name), why);
    let samples = read_samples(&read(STATS)?).map_err(bad(STATS))?;
    let frames = read_frames(&read(JOURNAL)?, &read(FRAMES)?).map_err(bad(JOURNAL))?;
    for (name, plot) in plots(&course, &samples, &frames) {
        let path = args.out.join(name);
        fs::write(&path, plot.draw()?).map_err(DemoError::file(&path))?;
    }
    let verdicts = judge(&course, &samples, &frames);
    for Verdict { what, found, bound, holds } in &verdicts {
        println!("{:<8}{what}: {found} ({bound})", if *holds { "holds" } else { "BROKEN" });
    }
    Ok(verdicts.iter().all(|verdict| verdict.holds))
}

const STATS: &str = "sender-stats.json";
const JOURNAL: &str = "journal.csv";
const FRAMES: &str = "frames.csv";
const TRACE: &str = "link.txt";

/// Inputs of a run.
struct Stage<'a> {
    args: &'a AdaptArgs,
    tool: &'a Path,
    stop: &'a AtomicBool,
}

impl Stage<'_> {
    /// Runs it; returns the wall-clock time at which the link began.
    fn run(self) -> Result<Instant, DemoError> {
        let Self { args, stop, .. } = self;
        let [port] = free_ports()?;
        self.write_trace()?;
        let link = self.words(&format!(
            "emulate --listen 127.0.0.1:0 --to 127.0.0.1:{port} --delay {delay} --back-delay {delay} --queue {} --seed 1",
            args.queue,
            delay = time(args.delay),
        ));
        let mut emulator = self.start("emulator", [link, vec!["--trace".to_owned(), self.path(TRACE)]].concat())?;
        let entry = emulator.wait_until(SOON, stop, |emulator| Ok(listening_at(&emulator.output_so_far()?)))?;
        // It prints this line when it has begun.
        let began = clock::now() + clock::unix_offset();
        let query = args.stream.as_ref().map(|stream| format!("&{stream}")).unwrap_or_default();
        let latency = time(args.latency);
        let receiving = format!("recv timeous://127.0.0.1:{port}?mode=listener&latency={latency}&reconnect=off{query}");
        let sink = [self.path("received.h264"), "--frames".to_owned(), self.path(FRAMES), "--quiet".to_owned()];
        let mut receiver = self.start("receiver", [self.words(&receiving), sink.to_vec()].concat())?;
        receiver.wait_until(SOON, stop, |_| Ok(is_open(port)?.then_some(())))?;
        let uri = format!("timeous://127.0.0.1:{}?latency={latency}&reconnect=off{query}", entry.port());
        let records = ["--journal".to_owned(), self.path(JOURNAL), "--stats".to_owned(), self.path(STATS)];
        let encoder = ["--adapt".to_owned(), args.encoder.clone()];
        let sending = ["send".to_owned(), args.source.clone(), uri];
        let options = self.words("--stats-interval 100ms --quiet");
        let words = [sending.to_vec(), encoder.to_vec(), records.to_vec(), options].concat();
        let mut sender = self.start("sender", words)?;
        let end = began + WARM_UP + args.part * 3;
        let over = |_: &Process| Ok((clock::now() + clock::unix_offset() >= end).then_some(()));
        sender.wait_until(WARM_UP + args.part * 3 + SOON, stop, over)?;
        sender.interrupt();
        sender.wait(SOON, stop)?;
        receiver.wait(SOON, stop)?;
        emulator.interrupt();
        emulator.wait(SOON, stop)?;
        Ok(began)
    }

    fn write_trace(&self) -> Result<(), DemoError> {
        let kbps = self.args.rate.as_bps() as f64 / 1e3;
        let [falls, returns] = [1, 2].map(|parts| (WARM_UP + self.args.part * parts).as_secs_f64());
        let path = self.args.out.join(TRACE);
        let steps = format!("0 {kbps}\n{falls} {}\n{returns} {kbps}\n", kbps / 3.0);
        fs::write(&path, steps).map_err(DemoError::file(&path))
    }

    fn start(&self, name: &str, words: Vec<String>) -> Result<Process, DemoError> {
        Process::start(&format!("the {name}"), self.tool, &words, &self.args.out.join(format!("{name}.log")))
    }

    fn path(&self, name: &str) -> String {
        self.args.out.join(name).to_string_lossy().into_owned()
    }

    fn words(&self, text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }
}

/// Plots of the rates, and of the resulting queue and delay.
fn plots<'a>(course: &Course, samples: &[Sample], frames: &[Frame]) -> [(&'static str, Lines<'a>); 2] {
    let x = |at: Instant| at.saturating_since(course.begins).as_secs_f64() - WARM_UP.as_secs_f64();
    let kbps = |rate: Rate| rate.as_bps() as f64 / 1e3;
    let steps = [(course.begins, course.full), (course.falls, course.low), (course.returns, course.full)];
    let ends = [course.falls, course.returns, course.ends];
    let link = steps.iter().zip(ends).flat_map(|(&(from, rate), to)| [(x(from), kbps(rate)), (x(to), kbps(rate))]);
    let within = |at: Instant| at >= course.begins && at <= course.ends;
    let seen: Vec<&Sample> = samples.iter().filter(|sample| within(sample.at)).collect();
    let asked = seen.iter().map(|sample| (x(sample.at), kbps(sample.asked)));
    let made = judge::encoded(frames).into_iter().map(|(at, rate)| (x(at), kbps(rate)));
    let rates = Lines {
        title: "The encoder over a link that falls to a third and comes back",
        x: "time, s",
        y: "kbit/s",
        series: vec![
            Series::new("link", link.collect()),
            Series::new("asked of the encoder", asked.collect()),
            Series::new("encoded, in the last second", made.collect()),
        ],
    };
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let came = frames.iter().filter_map(|frame| Some((x(frame.captured), millis(frame.completed? - frame.captured))));
    let bound = [course.begins, course.ends].map(|at| (x(at), millis(course.latency)));
    let wait = |sample: &&Sample, bytes: u64| (x(sample.at), millis(sample.asked.time_for(bytes)));
    let queue = seen.iter().map(|sample| wait(sample, sample.queued));
    let max = seen.iter().filter_map(|sample| Some(wait(sample, sample.max?)));
    let delays = Lines {
        title: "From encoder to receiver, and what waits in the send buffer",
        x: "time, s",
        y: "ms",
        series: vec![
            Series::new("latency asked for", bound.to_vec()),
            Series::new("delay of each frame", came.collect()),
            Series::new("send buffer, at the encoder's rate", queue.collect()),
            Series::new("Max_Th", max.collect()),
        ],
    };
    [("adapt-rate.svg", rates), ("adapt-delay.svg", delays)]
}
