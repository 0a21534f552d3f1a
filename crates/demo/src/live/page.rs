//! The demonstration's HTML page: summary, command, table, plots, videos side by side.

use timeous::core::Duration;
use timeous_testbed::report::lanes::{Class, Lane, Lanes};
use timeous_testbed::report::plot::{Bar, Bars, Lines, PlotError, Series, cumulative};
use timeous_testbed::report::{Page, Video};

use super::judge::{EvaluatedFrame, Judgement, Outcome};
use super::plan::Setting;
use super::run::Run;
use super::table;
use crate::tool::time;

/// Outcomes, in the order of their classes below.
const OUTCOMES: [Outcome; 4] = [Outcome::InTime, Outcome::Late, Outcome::Lost, Outcome::GivenUp];
const CLASSES: [Class; 4] = [
    Class { name: "in time", height: 100 },
    Class { name: "late", height: 70 },
    Class { name: "lost", height: 45 },
    Class { name: "given up", height: 20 },
];

/// Contents of the page besides the runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageContent<'a> {
    /// Settings of link and stream.
    pub(crate) setting: &'a Setting,
    /// Playing time of the video.
    pub(crate) duration: Duration,
    /// Broken promises.
    pub(crate) broken: &'a [String],
    /// Command that repeats the run.
    pub(crate) command: &'a str,
    /// The original video, then the video of each run.
    pub(crate) videos: &'a [Video],
}

/// Writes the page.
///
/// # Errors
/// [`PlotError`] if a plot cannot be drawn. One without data is left out, and the page says so.
pub(crate) fn write(story: &PageContent<'_>, runs: &[Run]) -> Result<String, PlotError> {
    let judgements: Vec<&Judgement> = runs.iter().map(|run| &run.judgement).collect();
    let mut page = Page::new("Timeous: a live video over an emulated link");
    introduce(&mut page, story);
    let rows: Vec<Vec<String>> = judgements.iter().map(|judgement| table::cells(&judgement.row)).collect();
    page.heading("The figures").table(&table::HEAD, &rows);
    page.paragraph(&format!(
        "A frame is in time if all of it was at the receiver within {} of its capture, by the sender's clock. It is \
         decodable if, besides, the frames that it refers to had been given out. Delays are from capture to \
         completion, of all frames of which everything came at any time. The last two columns are counted in the capture \
         of the link: packets that it dropped, and packets that entered it after the deadline of their frame.",
        time(story.setting.latency)
    ));
    figure(&mut page, decodable(&judgements), "Frames that could be shown in time.")?;
    page.heading("What one sees").videos(story.videos);
    page.paragraph("All begin at the same moment. Where a frame is missing, the picture before it stands still.");
    page.heading("What became of each frame");
    for judgement in &judgements {
        let title = judgement.row.run.title();
        let caption = format!("{title}: each mark is a frame, at the time of its capture.");
        figure(&mut page, lanes(judgement, story.duration), &caption)?;
    }
    page.heading("Delay");
    let latency = story.setting.latency;
    let caption = "The share of all captured frames that were whole at the receiver so long after their capture.";
    figure(&mut page, distribution(&judgements, latency), caption)?;
    let caption = "The delay of each frame that was completed, by its capture.";
    figure(&mut page, over_time(&judgements, latency), caption)?;
    let caption = "How long packets that the link delivered were on it: its own delay, and the wait in its queue.";
    figure(&mut page, on_link(&judgements), caption)?;
    page.heading("How it was done");
    for run in runs {
        page.paragraph(&format!("{}: three processes, a link, a receiver, a sender.", run.judgement.row.run.title()));
        page.listing(&run.commands.iter().map(|words| format!("timeous {words}")).collect::<Vec<_>>().join("\n"));
    }
    Ok(page.html())
}

fn introduce(page: &mut Page, story: &PageContent<'_>) {
    let Setting { rate, delay, queue, latency, seed, .. } = story.setting;
    page.paragraph(&format!(
        "A camera's picture, {:.0} s of H.264, goes live from a sender to a receiver over an emulated link of {rate}, \
         {} each way, with a queue of {queue}. What is older than {} is of no use. Three times: as RTP over UDP at the \
         rate of the video; with congestion control behind a plain queue; with Timeous, where the sender chooses what \
         leaves at the instant at which congestion control lets it leave.",
        story.duration.as_secs_f64(),
        time(*delay),
        time(*latency),
    ));
    page.paragraph(&format!("To repeat it (random losses, if any, come from seed {seed}):")).listing(story.command);
    match story.broken {
        [] => page.paragraph("All promises of the demonstration hold."),
        broken => page.paragraph(&format!("Promises that do not hold: {}.", broken.join("; "))),
    };
}

fn figure(page: &mut Page, drawn: Result<String, PlotError>, caption: &str) -> Result<(), PlotError> {
    match drawn {
        Ok(svg) => page.figure(&svg, caption),
        Err(PlotError::NoData) => page.paragraph(&format!("(Nothing to draw.) {caption}")),
        Err(error) => return Err(error),
    };
    Ok(())
}

fn lanes(judgement: &Judgement, duration: Duration) -> Result<String, PlotError> {
    let class = |frame: &EvaluatedFrame| OUTCOMES.iter().position(|outcome| *outcome == frame.outcome);
    let mut kinds: Vec<_> = judgement.frames.iter().map(|frame| frame.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let lane = |kind| {
        let frames = judgement.frames.iter().filter(|frame| frame.kind == kind);
        let marks = frames.filter_map(|frame| Some((frame.at.as_secs_f64(), class(frame)?)));
        Lane { name: format!("{kind:?}").to_uppercase(), marks: marks.collect() }
    };
    let lanes = kinds.into_iter().map(lane).collect();
    let mark = duration.as_secs_f64() / judgement.frames.len().max(1) as f64;
    Lanes { title: judgement.row.run.title(), x: "captured at, s", classes: &CLASSES, lanes, mark }.draw()
}

fn decodable(judgements: &[&Judgement]) -> Result<String, PlotError> {
    let bar = |judgement: &&Judgement| Bar {
        name: judgement.row.run.title().to_owned(),
        value: judgement.row.decodable_in_time as f64,
    };
    Bars { title: "Decodable in time", y: "frames", bars: judgements.iter().map(bar).collect() }.draw()
}

/// One line per run.
fn lines(judgements: &[&Judgement], points: impl Fn(&Judgement) -> Vec<(f64, f64)>) -> Vec<Series> {
    judgements.iter().map(|judgement| Series::new(judgement.row.run.title(), points(judgement))).collect()
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Distribution of delays, up to twice the latency.
fn distribution(judgements: &[&Judgement], latency: Duration) -> Result<String, PlotError> {
    let bound = milliseconds(latency * 2);
    let mut series = lines(judgements, |judgement| {
        let delay = |frame: &EvaluatedFrame| frame.delay.map_or(f64::INFINITY, milliseconds);
        let mut points = cumulative(&judgement.frames.iter().map(delay).collect::<Vec<_>>());
        points.retain(|(delay, _)| *delay <= bound);
        let end = points.last().map(|(_, share)| (bound, *share));
        points.extend(end);
        points
    });
    if series.iter().any(|series| !series.points.is_empty()) {
        let at = milliseconds(latency);
        series.push(Series::new("latency", vec![(at, 0.0), (at, 1.0)]));
    }
    Lines { title: "Distribution of delays", x: "from capture to completion, ms", y: "share of frames", series }.draw()
}

fn over_time(judgements: &[&Judgement], latency: Duration) -> Result<String, PlotError> {
    let mut series = lines(judgements, |judgement| {
        let point = |frame: &EvaluatedFrame| Some((frame.at.as_secs_f64(), frame.delay?.as_secs_f64()));
        judgement.frames.iter().filter_map(point).collect()
    });
    let times = || series.iter().flat_map(|series| &series.points).map(|(at, _)| *at);
    let bound = latency.as_secs_f64();
    let bound: Vec<_> =
        times().reduce(f64::min).into_iter().chain(times().reduce(f64::max)).map(|at| (at, bound)).collect();
    series.push(Series::new("latency", bound));
    Lines { title: "Delay over time", x: "captured at, s", y: "from capture to completion, s", series }.draw()
}

fn on_link(judgements: &[&Judgement]) -> Result<String, PlotError> {
    let series = lines(judgements, |judgement| {
        let point = |(at, delay): &(Duration, Duration)| (at.as_secs_f64(), milliseconds(*delay));
        judgement.on_link.iter().map(point).collect()
    });
    Lines { title: "On the link", x: "entered at, s", y: "from end to end of the link, ms", series }.draw()
}

#[cfg(test)]
mod tests {
    use timeous::core::{Instant, Rate};

    use super::super::judge::{Approach, Evidence, judge};
    use super::super::plan::Files;
    use super::*;
    use crate::journal::{Kind, RtpId, SentPacket};

    /// A run of which nothing arrived.
    fn empty(approach: Approach) -> Run {
        let packet = SentPacket {
            id: RtpId { timestamp: 1, sequence: 1 },
            kind: Kind::Idr,
            bytes: 1_000,
            captured: Instant::from_nanos(1),
            deadline: None,
            given_up: false,
        };
        let evidence = Evidence { sent: vec![packet], received: Vec::new(), passages: Vec::new() };
        let judgement = judge(approach, Duration::from_secs(1), &evidence).unwrap();
        let files = Files::new(std::path::Path::new("out"), approach);
        Run { judgement, evidence, files, commands: vec!["send <this>".to_owned()] }
    }

    #[test]
    fn a_page_about_nothing_is_still_a_page() {
        let setting = Setting {
            clip: "clip.h264".into(),
            rate: Rate::from_kbps(1_140),
            delay: Duration::from_millis(40),
            queue: "100ms".to_owned(),
            latency: Duration::from_secs(1),
            seed: 3,
            packets: 1,
            limit: Duration::from_secs(1),
        };
        let story = PageContent {
            setting: &setting,
            duration: Duration::from_secs(18),
            broken: &["one".to_owned(), "two".to_owned()],
            command: "timeous-demo --seed 3",
            videos: &[Video { path: Err("no frame came".to_owned()), caption: "Timeous".to_owned() }],
        };
        let html = write(&story, &Approach::ALL.map(empty)).unwrap();
        for text in [
            "1.14 Mbit/s",
            "timeous-demo --seed 3",
            "do not hold: one; two.",
            "no frame came",
            "(Nothing to draw.)",
            "timeous send &lt;this&gt;",
        ] {
            assert!(html.contains(text), "{text} in {html}");
        }
        for approach in Approach::ALL {
            assert!(html.contains(approach.title()));
        }
    }
}
