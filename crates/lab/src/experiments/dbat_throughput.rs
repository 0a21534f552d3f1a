//! dbat-throughput: throughput of a live stream beside FTP and web traffic (Hasan et al. §4.1,
//! figures 7 to 9).

use serde_json::json;

use super::dbat::setup::{RTT, STREAM, choices, notes};
use super::dbat::{self, Outcome, PAPERS, Ranking, SetupDifference, Spread, StreamTransport};
use super::goddard::RATES;
use super::goddard::server::RateChangeCause;
use crate::experiment::{About, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

/// Orders while FTP is active, and over the stream's whole time.
const BESIDE_FTP: Ranking = Ranking { what: "kbit/s from 30 to 200 s", digits: 0, rises: true, value: stream };
const ALL: Ranking = Ranking { what: "kbit/s from 30 to 240 s", digits: 0, rises: true, value: Outcome::mean_rate };

pub(crate) struct DbatThroughput;

impl Experiment for DbatThroughput {
    fn about(&self) -> About {
        About {
            name: "dbat-throughput",
            title: "What a live stream gets beside FTP and web traffic",
            source: "Hasan et al. §4.1, figures 7 to 9",
            paper: "Over TCP the stream gets less than its fair share; over TFRC it shares the link equally with FTP; with DBAT \
                    it gets more",
            forms: Forms::Virtual,
            seeds: 10,
            takes: "30 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let outcomes = dbat::run(run, SetupDifference::PAPER, &[RTT]);
        let today = dbat::run(run, SetupDifference::TODAY, &[RTT]);
        let mut figures = Vec::new();
        for (way, number) in [(StreamTransport::Tcp, 7), (StreamTransport::Tfrc, 8), (StreamTransport::Dbat, 9)] {
            figures.push(over_time(&outcomes, way, number)?);
        }
        figures.push(levels(&outcomes)?);
        let aparts = BESIDE_FTP.with_aparts(run, RTT);
        Ok(Findings {
            setup: choices(&[RTT]),
            tables: vec![table(&outcomes, dbat::NS2), table(&today, dbat::TODAY), switches(&outcomes), aparts],
            figures,
            claims: [
                claims(&outcomes),
                vec![BESIDE_FTP.today(&BESIDE_FTP.spreads(&today, SetupDifference::TODAY, RTT))],
            ]
            .concat(),
            notes: notes(),
            data: data(&outcomes),
        })
    }
}

/// Returns the stream's throughput relative to its fair share while FTP is active.
fn share(outcome: &Outcome) -> f64 {
    let (stream, ftp) = outcome.shares();
    2.0 * stream / (stream + ftp)
}

fn stream(outcome: &Outcome) -> f64 {
    outcome.shares().0
}

fn table(outcomes: &[Outcome], with: &str) -> Table {
    let head = ["way", "stream, kbit/s", "FTP, kbit/s", "stream, of its fair share", "stream from 30 to 240 s, kbit/s"];
    let title = format!("From 30 to 200 s, {with}: mean of the seeds, least and most");
    let mut table = Table::new(&title, &head);
    for way in StreamTransport::ALL {
        let spread = |value: fn(&Outcome) -> f64| Spread::over(outcomes, way, RTT, value);
        table.row([
            way.name().to_owned(),
            format!("{:.0}", spread(stream)),
            format!("{:.0}", spread(|outcome| outcome.shares().1)),
            format!("{:.2}", spread(share)),
            format!("{:.0}", spread(Outcome::mean_rate)),
        ]);
    }
    table
}

/// Builds a table of rate changes by cause.
fn switches(outcomes: &[Outcome]) -> Table {
    let head = ["way", "by the player", "told of a queue", "told of room", "media rate, kbit/s"];
    let title = format!("Changes of the rate, {}: mean of the seeds, least and most", dbat::NS2);
    let mut table = Table::new(&title, &head);
    for way in StreamTransport::ALL {
        let count = |by: RateChangeCause| {
            let of = move |outcome: &Outcome| outcome.switches.iter().filter(|switch| switch.by == by).count() as f64;
            format!("{:.1}", Spread::over(outcomes, way, RTT, of))
        };
        let mean = Spread::over(outcomes, way, RTT, media_rate);
        table.row([
            way.name().to_owned(),
            count(RateChangeCause::Player),
            count(RateChangeCause::Queue),
            count(RateChangeCause::Room),
            format!("{mean:.0}"),
        ]);
    }
    table
}

/// Returns the mean rate of the media, weighted by playing time, in kbit/s.
fn media_rate(outcome: &Outcome) -> f64 {
    let seconds = |level: usize| 8e3 / RATES[level].as_bps() as f64;
    let time: f64 = outcome.made.iter().map(|made| seconds(made.level)).sum();
    outcome.made.len() as f64 * 8.0 / time
}

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let order =
        |order: Ranking| order.claim("TCP < TFRC < DBAT", &order.spreads(outcomes, SetupDifference::PAPER, RTT));
    let [fair, tfrcs] =
        [StreamTransport::Tcp, StreamTransport::Tfrc].map(|way| Spread::over(outcomes, way, RTT, share));
    vec![
        order(BESIDE_FTP),
        order(ALL),
        Claim::order("TCP's stream is below its fair share", "below", format!("{fair:.2}"), fair.mean < 1.0),
        Claim::new("TFRC's stream over its fair share", "about 1", format!("{tfrcs:.2}"), tfrcs.mean),
    ]
}

fn first(outcomes: &[Outcome], way: StreamTransport) -> Option<&Outcome> {
    outcomes.iter().find(|outcome| outcome.way == way)
}

fn over_time(outcomes: &[Outcome], way: StreamTransport, number: u32) -> Result<Figure, LabError> {
    let shown = first(outcomes, way);
    let series = shown.map(|outcome| {
        vec![Series::new("stream", outcome.stream_by_second()), Series::new("FTP", outcome.ftp_by_second())]
    });
    let title = format!("Throughput with {} (figure {number})", way.name());
    let lines = Lines { title: &title, x: "time, s", y: "kbit/s", series: series.unwrap_or_default() };
    Ok(Figure::new(lines.draw()?, "A second at a time, the first seed."))
}

/// Plots the media's rate over time.
fn levels(outcomes: &[Outcome]) -> Result<Figure, LabError> {
    let line = |way: StreamTransport| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for switch in first(outcomes, way).map(|outcome| outcome.switches.as_slice()).unwrap_or_default() {
            let at = switch.at.as_nanos() as f64 / 1e9;
            points.extend(points.last().map(|&(_, before)| (at, before)));
            points.push((at, RATES[switch.level].as_bps() as f64 / 1e3));
        }
        points.extend(points.last().map(|&(_, last)| (STREAM[1].as_nanos() as f64 / 1e9, last)));
        Series::new(way.name(), points)
    };
    let series = PAPERS.map(line).to_vec();
    let lines = Lines { title: "The rate of the media", x: "time, s", y: "kbit/s", series };
    Ok(Figure::new(lines.draw()?, "What streamer and player chose, the first seed."))
}

fn data(outcomes: &[Outcome]) -> serde_json::Value {
    let run = |outcome: &Outcome| {
        let (stream, ftp) = outcome.shares();
        json!({ "way": outcome.way, "stream_kbps": stream, "ftp_kbps": ftp, "all_kbps": outcome.mean_rate() })
    };
    json!({ "runs": outcomes.iter().map(run).collect::<Vec<_>>() })
}
