//! dbat-throughput: throughput of a live stream beside FTP and web traffic (Hasan et al. §4.1,
//! figures 7 to 9).

use timeous_testbed::report::plot::Series;

use super::dbat::setup::{RTT, STREAM, choices, notes};
use super::dbat::{
    self, Cell, Outcome, PAPERS, Ranking, SetupDifference, StreamTransport, Streams, WITHOUT_DBAT, WITHOUT_FTP,
    WITHOUT_RANGE,
};
use super::goddard::RATES;
use super::goddard::server::RateChangeCause;
use crate::experiment::{Chart, Claim, Experiment, Figure, Findings, Forms, Metric, Run, RunError, metric, sabotages};

/// Orders while FTP is active, after its end, and over the stream's whole time.
const BESIDE_FTP: Ranking = Ranking { what: "kbit/s from 30 to 200 s", digits: 0, rises: true, value: stream };
const AFTER_FTP: Ranking =
    Ranking { what: "kbit/s from 200 to 240 s", digits: 0, rises: true, value: Outcome::rate_after_ftp };
const ALL: Ranking = Ranking { what: "kbit/s from 30 to 240 s", digits: 0, rises: true, value: Outcome::mean_rate };
const METRICS: [Metric<Outcome>; 4] = [
    metric("stream, kbit/s", 0, stream),
    metric("FTP, kbit/s", 0, |outcome| outcome.shares().1),
    metric("stream, of its fair share", 2, share),
    metric("stream from 30 to 240 s, kbit/s", 0, Outcome::mean_rate),
];
/// Rate changes by cause.
const SWITCHES: [Metric<Outcome>; 4] = [
    metric("by the player", 1, |outcome| switches(outcome, RateChangeCause::Player)),
    metric("told of a queue", 1, |outcome| switches(outcome, RateChangeCause::Queue)),
    metric("told of room", 1, |outcome| switches(outcome, RateChangeCause::Room)),
    metric("media rate, kbit/s", 0, media_rate),
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dbat-throughput",
    title: "What a live stream gets beside FTP and web traffic",
    source: "Hasan et al. §4.1, figures 7 to 9",
    paper: "Over TCP the stream gets less than its fair share; over TFRC it shares the link equally with FTP; with DBAT \
            it gets more",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "30 s",
    sabotages: &[NO_DBAT, NO_FTP, NO_RANGE],
    run,
};

sabotages! {
    NO_DBAT = WITHOUT_DBAT[0], WITHOUT_DBAT[1] => ["kbit/s from 200 to 240 s"];
    NO_FTP = WITHOUT_FTP[0], WITHOUT_FTP[1] => ["TCP's stream is below its fair share"];
    NO_RANGE = WITHOUT_RANGE[0], WITHOUT_RANGE[1] => ["to the letter: share of TCP's rate"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let (streams, today) = dbat::run(run, SetupDifference::PAPER, &[RTT]);
    let table = |streams: &Streams, with| {
        let title = format!("From 30 to 200 s, {with}: mean of the seeds, least and most");
        streams.rows().axis("way", |cell| cell.way.name()).spreads(&METRICS).table(&title)
    };
    let title = format!("Changes of the rate, {}: mean of the seeds, least and most", dbat::NS2);
    let switches = streams.rows().axis("way", |cell| cell.way.name()).spreads(&SWITCHES).table(&title);
    let figures = [(StreamTransport::Tcp, 7), (StreamTransport::Tfrc, 8), (StreamTransport::Dbat, 9)];
    let figures = figures.into_iter().map(|(way, number)| over_time(&streams, way, number));
    Ok(Findings {
        setup: choices(&[RTT]),
        figures: figures.chain([levels(&streams)]).collect::<Result<_, _>>()?,
        tables: vec![
            table(&streams, dbat::NS2),
            table(&today, dbat::TODAY),
            switches,
            BESIDE_FTP.with_aparts(run, RTT),
        ],
        claims: claims(&streams, &today),
        notes: notes(),
        data: streams.numbers(&METRICS),
    })
}

/// Returns the stream's throughput relative to its fair share while FTP is active.
fn share(outcome: &Outcome) -> f64 {
    let (stream, ftp) = outcome.shares();
    2.0 * stream / (stream + ftp)
}

fn stream(outcome: &Outcome) -> f64 {
    outcome.shares().0
}

fn switches(outcome: &Outcome, by: RateChangeCause) -> f64 {
    outcome.switches.iter().filter(|switch| switch.by == by).count() as f64
}

/// Returns the mean rate of the media, weighted by playing time, in kbit/s.
fn media_rate(outcome: &Outcome) -> f64 {
    let seconds = |level: usize| 8e3 / RATES[level].as_bps() as f64;
    let time: f64 = outcome.made.iter().map(|made| seconds(made.level)).sum();
    outcome.made.len() as f64 * 8.0 / time
}

fn claims(streams: &Streams, today: &Streams) -> Vec<Claim> {
    let order = |order: Ranking| order.claim("TCP < TFRC < DBAT", &order.spreads(streams, SetupDifference::PAPER, RTT));
    let [fair, tfrcs] = [StreamTransport::Tcp, StreamTransport::Tfrc]
        .map(|way| streams.stats(&Cell { apart: SetupDifference::PAPER, way, rtt: RTT }, share));
    let mean = |way| streams.mean(&Cell { apart: SetupDifference::PAPER, way, rtt: RTT }, stream);
    let letter = mean(StreamTransport::PaperDbat) / mean(StreamTransport::Tcp);
    let mut claims = vec![
        order(BESIDE_FTP),
        order(AFTER_FTP),
        order(ALL),
        Claim::order("TCP's stream is below its fair share", "below", format!("{fair:.2}"), fair.mean < 1.0),
        Claim::mean("TFRC's stream over its fair share", "about 1", 2, tfrcs),
        BESIDE_FTP.letter("TCP < TFRC < DBAT", streams, SetupDifference::PAPER, RTT),
        Claim::new("to the letter: share of TCP's rate", "above 1", format!("{letter:.2}"), letter).pass(1.0..),
    ];
    claims.extend(BESIDE_FTP.today(today, RTT));
    claims
}

fn over_time(streams: &Streams, way: StreamTransport, number: u32) -> Result<Figure, RunError> {
    let series = streams.first(|cell| cell.way == way).map(|outcome| {
        [Series::new("stream", outcome.stream_by_second()), Series::new("FTP", outcome.ftp_by_second())]
    });
    let title = format!("Throughput with {} (figure {number})", way.name());
    Chart { title: &title, x: "time, s", y: "kbit/s", caption: "A second at a time, the first seed." }
        .draw(series.into_iter().flatten())
}

/// Plots the media's rate over time.
fn levels(streams: &Streams) -> Result<Figure, RunError> {
    let line = |way: StreamTransport| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for switch in streams.first(|cell| cell.way == way).into_iter().flat_map(|outcome| &outcome.switches) {
            let at = switch.at.as_nanos() as f64 / 1e9;
            points.extend(points.last().map(|&(_, before)| (at, before)));
            points.push((at, RATES[switch.level].as_bps() as f64 / 1e3));
        }
        points.extend(points.last().map(|&(_, last)| (STREAM[1].as_nanos() as f64 / 1e9, last)));
        Series::new(way.name(), points)
    };
    let caption = "What streamer and player chose, the first seed.";
    Chart { title: "The rate of the media", x: "time, s", y: "kbit/s", caption }.draw(PAPERS.map(line))
}
