//! Results as tables, plots and data.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use timeous::core::{Duration, Instant};
use timeous_testbed::bound::Bound;
use timeous_testbed::report::columns::columns;
use timeous_testbed::report::plot::{Bar, Bars};
use timeous_testbed::report::{Page, markdown};
use timeous_testbed::{RunError, mean};

use crate::capture::SentDatagram;
use crate::judge::ReceivedDatagram;
use crate::links::{LinkName, Setting};
use crate::peer::Peer;
use crate::trace::Trace;
use crate::trial::{Outcome, RunResults};

/// Result of a run, for people and programs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    link: &'static str,
    seed: u64,
    peer: String,
    timeous: bool,
    /// Reason why there is no result, or a partial one.
    problem: Option<String>,
    frames: usize,
    in_time: usize,
    decodable: usize,
    /// Delay quantiles of complete frames: 50, 95, 99 %.
    delay_ms: Option<[f64; 3]>,
    /// Bytes on the link per byte of the trace.
    wire_share: f64,
    back_bytes: u64,
    /// Datagrams sent after their deadline; `None` if the headers could not be read.
    left_late: Option<usize>,
    /// Longest time after its deadline at which a datagram was sent.
    latest_ms: f64,
    duplicates: usize,
    beside_bps: Option<u64>,
}

impl Row {
    /// Creates the row of a run.
    pub(crate) fn new(link: LinkName, seed: u64, peer: &Peer, trace: &Trace, outcome: &Outcome, of: &Setting) -> Self {
        let bytes = of.rate.bytes_in(of.length).max(1);
        let mut row = Self {
            link: link.name(),
            seed,
            peer: peer.name.clone(),
            timeous: peer.is_timeous(),
            problem: None,
            frames: trace.frames.len(),
            in_time: 0,
            decodable: 0,
            delay_ms: None,
            wire_share: 0.0,
            back_bytes: 0,
            left_late: None,
            latest_ms: 0.0,
            duplicates: 0,
            beside_bps: None,
        };
        match outcome {
            Outcome::Missing(path) => row.problem = Some(format!("not installed: {}", path.display())),
            Outcome::NoConnection => row.problem = Some("no connection".to_owned()),
            Outcome::Ran(ran) => row.fill(ran, bytes, of.deadline),
        }
        row
    }

    fn fill(&mut self, ran: &RunResults, bytes: u64, deadline: Duration) {
        let RunResults { judgement, seen, beside, broke, .. } = ran;
        let delay = |quantile| judgement.delay(quantile);
        self.problem = broke.then(|| "a program ended before the run did".to_owned());
        (self.in_time, self.decodable) = (judgement.in_time, judgement.decodable);
        self.delay_ms = (|| Some([delay(0.5)?, delay(0.95)?, delay(0.99)?]))();
        (self.wire_share, self.back_bytes) = (seen.forward as f64 / bytes as f64, seen.back);
        self.left_late = (!seen.left.is_empty()).then_some(seen.late);
        let over = |left: &SentDatagram| left.at.saturating_since(left.header.at + deadline).as_secs_f64() * 1e3;
        self.latest_ms = seen.left.iter().map(over).fold(0.0, f64::max);
        self.duplicates = judgement.duplicates;
        self.beside_bps = beside.map(|rate| rate.as_bps());
    }

    fn share(&self) -> f64 {
        self.decodable as f64 / self.frames.max(1) as f64
    }

    /// Whether there are results: a run without a connection is reported, but not counted.
    fn ran(&self) -> bool {
        self.delay_ms.is_some() || self.problem.is_none()
    }
}

/// All results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary<'a> {
    /// Settings requested for all.
    pub(crate) asked: Setting,
    /// Number of seeds.
    pub(crate) seeds: u64,
    /// Links, in order; at least one.
    pub(crate) courses: &'a [LinkRuns],
    /// All runs.
    pub(crate) rows: &'a [Row],
    /// Number of frames of the trace.
    pub(crate) frames: usize,
}

const HEAD: [&str; 10] = [
    "peer",
    "decodable in time",
    "of the bound",
    "least … most",
    "whole in time",
    "p50, ms",
    "p95, ms",
    "bytes sent / trace",
    "left after deadline",
    "beside it",
];

impl Summary<'_> {
    fn of(&self, course: &LinkRuns, peer: &Peer) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.link == course.link.name() && row.peer == peer.name).collect()
    }

    /// Mean share of decodable frames, if there are results.
    fn share(&self, course: &LinkRuns, peer: &Peer) -> Option<f64> {
        let rows: Vec<_> = self.of(course, peer).into_iter().filter(|row| row.ran()).collect();
        (!rows.is_empty()).then(|| mean(rows.iter().map(|row| row.share())))
    }

    /// Upper bound of the share of decodable frames.
    fn bound(&self, course: &LinkRuns) -> f64 {
        course.bound.value as f64 / self.frames.max(1) as f64
    }

    fn what(&self, course: &LinkRuns) -> String {
        let (name, what, bound) = (course.link.name(), course.link.what(), self.bound(course) * 100.0);
        format!("{name}: {what} (at most {bound:.1} %)")
    }

    fn table(&self, course: &LinkRuns) -> Vec<Vec<String>> {
        let mut peers: Vec<&Peer> = course.peers.iter().collect();
        let share = |peer: &Peer| self.share(course, peer).unwrap_or(-1.0);
        peers.sort_by(|a, b| share(b).total_cmp(&share(a)));
        let bound = self.bound(course);
        peers.into_iter().map(|peer| cells(&peer.title, &self.of(course, peer), bound)).collect()
    }

    /// Setup of the peers; differences between links are in the tables.
    fn peers(&self) -> &[Peer] {
        &self.courses[0].peers
    }

    fn setup(&self) -> String {
        let Setting { rate, length, deadline, rtt } = self.asked;
        format!(
            "Stream {rate} for {:.1} s, deadline {} ms, round trip {} ms, {} seed(s); means over them. The bound of a \
             link: what a schedule that knows its rates in advance could make decodable in time, if nothing were lost, \
             nothing went beside it and headers had no length.",
            length.as_secs_f64(),
            deadline.as_millis(),
            rtt.as_millis(),
            self.seeds
        )
    }

    /// Formats the results as text.
    pub(crate) fn text(&self) -> String {
        let mut text = self.setup() + "\n";
        for course in self.courses {
            let _ = write!(text, "\n{}\n{}", self.what(course), columns(&HEAD, &self.table(course)));
        }
        let _ = writeln!(text, "\nSetup");
        for peer in self.peers() {
            let _ = writeln!(text, "  {}: {} ({})", peer.name, peer.title, peer.advice);
        }
        text
    }

    /// Formats the results as an HTML page.
    ///
    /// # Errors
    /// A plot that cannot be drawn.
    pub(crate) fn page(&self) -> Result<String, RunError> {
        let mut page = Page::new("Timeous beside real peers");
        page.paragraph(&self.setup());
        for course in self.courses {
            page.heading(&self.what(course));
            let bar = |peer: &Peer| {
                let value = self.share(course, peer)? * 100.0;
                Some(Bar { name: peer.name.clone(), value })
            };
            let bars: Vec<Bar> = course.peers.iter().filter_map(bar).collect();
            if !bars.is_empty() {
                let plot = Bars { title: course.link.name(), y: "frames decodable in time, %", bars };
                page.figure(&plot.draw()?, "The mean over the seeds.");
            }
            page.table(&HEAD, &self.table(course));
        }
        page.heading("Setup");
        let row = |peer: &Peer| [&peer.name, &peer.title, &peer.advice].map(Clone::clone).to_vec();
        page.table(&["name", "peer", "setup by"], &self.peers().iter().map(row).collect::<Vec<_>>());
        page.link("peers.json", "Every run as JSON");
        page.paragraph(
            "raw/: each run's capture (pcapng), journeys of its datagrams (CSV), and what its programs said.",
        );
        Ok(page.html())
    }

    /// Formats the share of decodable frames of each peer over each link in Markdown, for the documentation.
    pub(crate) fn markdown(&self) -> String {
        let links = self.courses.iter().map(|course| format!("`{}`", course.link.name()));
        let head: Vec<String> = std::iter::once("Frames decodable in time, %".to_owned()).chain(links).collect();
        let bounds = self.courses.iter().map(|course| format!("{:.1}", self.bound(course) * 100.0));
        let mut rows: Vec<Vec<String>> = vec![std::iter::once("at most".to_owned()).chain(bounds).collect()];
        for peer in self.peers() {
            let shares = self.courses.iter().map(|course| range(&self.of(course, peer)));
            rows.push(std::iter::once(peer.title.clone()).chain(shares).collect());
        }
        markdown::table(&head, &rows)
    }

    /// Formats the results as JSON, for programs.
    pub(crate) fn json(&self) -> String {
        let Setting { rate, length, deadline, rtt } = self.asked;
        let of_links = |value: &dyn Fn(&LinkRuns) -> f64| -> BTreeMap<_, _> {
            self.courses.iter().map(|course| (course.link.name(), value(course))).collect()
        };
        let whole = serde_json::json!({
            "stream_bps": rate.as_bps(),
            "seconds": length.as_secs_f64(),
            "deadline_ms": deadline.as_secs_f64() * 1e3,
            "rtt_ms": rtt.as_secs_f64() * 1e3,
            "rtts_ms": of_links(&|course| course.setting.rtt.as_secs_f64() * 1e3),
            "bounds": of_links(&|course| self.bound(course)),
            "runs": self.rows,
        });
        serde_json::to_string_pretty(&whole).expect("names, numbers and texts are JSON") + "\n"
    }

    /// Broken promises of Timeous: ahead of every peer on every link, and no datagram sent late.
    pub(crate) fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for row in self.rows.iter().filter(|row| row.timeous) {
            if let Some(late @ 1..) = row.left_late {
                let Row { peer, link, seed, latest_ms, .. } = row;
                broken.push(format!(
                    "{link}, seed {seed}: {late} of {peer} left after the deadline, by {latest_ms:.1} ms"
                ));
            }
        }
        for course in self.courses {
            let own = course.peers.iter().find(|peer| peer.name == "timeous");
            let Some(share) = own.and_then(|own| self.share(course, own)) else { continue };
            for peer in course.peers.iter().filter(|peer| !peer.is_timeous()) {
                if let Some(other) = self.share(course, peer).filter(|other| *other > share) {
                    let percent = [share, other].map(|share| share * 100.0);
                    let [own, other] = percent;
                    broken.push(format!(
                        "{}: ahead of {}: {own:.1} % against {other:.1} %",
                        course.link.name(),
                        peer.title
                    ));
                }
            }
        }
        broken
    }
}

fn cells(title: &str, rows: &[&Row], bound: f64) -> Vec<String> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let ran: Vec<&&Row> = rows.iter().filter(|row| row.ran()).collect();
    let problems: Vec<&str> = rows.iter().filter_map(|row| row.problem.as_deref()).collect();
    let told = |problem: &&str| format!("{title}: {problem} ({} of {} runs)", problems.len(), rows.len());
    let name = problems.last().map_or_else(|| title.to_owned(), told);
    if ran.is_empty() {
        return [vec![name], vec!["–".to_owned(); HEAD.len() - 1]].concat();
    }
    let of = |value: fn(&Row) -> f64| mean(ran.iter().map(|row| value(row)));
    let shares = || ran.iter().map(|row| row.share());
    let delay = |index: usize| {
        let known: Vec<f64> = ran.iter().filter_map(|row| Some(row.delay_ms?[index])).collect();
        if known.is_empty() { "–".to_owned() } else { format!("{:.0}", mean(known.into_iter())) }
    };
    let late: Option<usize> = ran.iter().map(|row| row.left_late).sum();
    let beside: Option<u64> = ran.iter().map(|row| row.beside_bps).sum();
    vec![
        name,
        percent(mean(shares())),
        percent(mean(shares()) / bound.max(f64::MIN_POSITIVE)),
        format!("{} … {}", percent(shares().fold(1.0, f64::min)), percent(shares().fold(0.0, f64::max))),
        percent(of(|row| row.in_time as f64 / row.frames.max(1) as f64)),
        delay(0),
        delay(1),
        format!("{:.2}", of(|row| row.wire_share)),
        late.map_or_else(|| "encrypted".to_owned(), |late| late.to_string()),
        beside.map_or_else(String::new, |bps| format!("{:.2} Mbit/s", bps as f64 / 1e6 / ran.len() as f64)),
    ]
}

/// Formats the mean share in percent, with the least and the most where they differ by half a point.
fn range(rows: &[&Row]) -> String {
    let shares = || rows.iter().filter(|row| row.ran()).map(|row| row.share() * 100.0);
    let (least, most) = (shares().fold(100.0, f64::min), shares().fold(0.0, f64::max));
    match shares().next() {
        None => "–".to_owned(),
        Some(_) if most - least < 0.5 => format!("{:.1}", mean(shares())),
        Some(_) => format!("{:.1} ({least:.1}–{most:.1})", mean(shares())),
    }
}

/// Formats the journey of each datagram as CSV: times in microseconds from the beginning of the trace.
pub(crate) fn journeys(trace: &Trace, ran: &RunResults) -> String {
    let mut left: BTreeMap<(u32, u16), (Instant, u32, u32)> = BTreeMap::new();
    for one in &ran.seen.left {
        let entry = left.entry((one.header.frame, one.header.piece)).or_insert((one.at, 0, 0));
        (entry.1, entry.2) = (entry.1 + 1, entry.2 + u32::from(one.dropped));
    }
    let mut came: BTreeMap<(u32, u16), Instant> = BTreeMap::new();
    for ReceivedDatagram { header, at } in &ran.came {
        came.entry((header.frame, header.piece)).or_insert(*at);
    }
    let since = |at: Instant| at.saturating_since(ran.begin).as_micros().to_string();
    let mut text =
        "frame,kind,references,piece,bytes,handed_over,left,times_sent,times_dropped,came,frame_decodable\n".to_owned();
    for (frame, shown) in trace.frames.iter().zip(&ran.judgement.shown) {
        let references = frame.references.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        for (piece, bytes) in frame.pieces() {
            let (left, came) = (left.get(&(frame.id, piece)), came.get(&(frame.id, piece)));
            let (sent, dropped) = left.map_or((0, 0), |left| (left.1, left.2));
            let (left, came) = (left.map(|left| since(left.0)), came.map(|at| since(*at)));
            let (id, kind, at) = (frame.id, char::from(frame.kind), frame.at.as_micros());
            let [left, came] = [left, came].map(Option::unwrap_or_default);
            let _ =
                writeln!(text, "{id},{kind},{references},{piece},{bytes},{at},{left},{sent},{dropped},{came},{shown}");
        }
    }
    text
}

/// Common parts of a link's runs.
#[derive(Clone, Debug)]
pub(crate) struct LinkRuns {
    /// The link.
    pub(crate) link: LinkName,
    /// Settings of all runs over the link.
    pub(crate) setting: Setting,
    /// Peers, set up for these settings; the same over every link, in the same order.
    pub(crate) peers: Vec<Peer>,
    /// Upper bound of decodable frames.
    pub(crate) bound: Bound,
}
