//! dbat-latency: latency of a live stream's packets (Hasan et al. §4.2, figures 10 to 12).

use serde_json::json;

use super::dbat::setup::{RTT, choices, notes};
use super::dbat::spread::quantile;
use super::dbat::{self, Outcome, PAPERS, Ranking, SetupDifference, Spread, StreamTransport};
use crate::experiment::{About, Bound, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

const ORDER: Ranking = Ranking { what: "p99 − p50, ms", digits: 0, rises: false, value: swing };

pub(crate) struct DbatLatency;

impl Experiment for DbatLatency {
    fn about(&self) -> About {
        About {
            name: "dbat-latency",
            title: "How long a live stream's packets are under way",
            source: "Hasan et al. §4.2, figures 10 to 12",
            paper: "With TCP the latency \"sometimes varies almost by two seconds\"; with TFRC much less, and least with DBAT",
            forms: Forms::Virtual,
            seeds: 10,
            takes: "30 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let outcomes = dbat::run(run, SetupDifference::PAPER, &[RTT]);
        let today = dbat::run(run, SetupDifference::TODAY, &[RTT]);
        let aparts = ORDER.with_aparts(run, RTT);
        Ok(Findings {
            setup: choices(&[RTT]),
            tables: vec![table(&outcomes, dbat::NS2), table(&today, dbat::TODAY), aparts],
            figures: vec![figure(&outcomes)?],
            claims: [claims(&outcomes), vec![ORDER.today(&ORDER.spreads(&today, SetupDifference::TODAY, RTT))]]
                .concat(),
            notes: notes(),
            data: data(&outcomes),
        })
    }
}

/// Returns the latency below which a share of the packets lies, in milliseconds.
fn below(outcome: &Outcome, share: f64) -> f64 {
    quantile(outcome.latencies().into_iter().map(|(_, latency)| latency).collect(), share)
}

/// Returns the 99th percentile minus the median, in milliseconds.
fn swing(outcome: &Outcome) -> f64 {
    below(outcome, 0.99) - below(outcome, 0.5)
}

/// Returns the largest latency difference between consecutive packets, in milliseconds.
fn largest_step(outcome: &Outcome) -> f64 {
    let latencies = outcome.latencies();
    latencies.windows(2).map(|pair| (pair[1].1 - pair[0].1).abs()).fold(0.0, f64::max)
}

fn table(outcomes: &[Outcome], with: &str) -> Table {
    let head = ["way", "packets", "p50, ms", "p95, ms", "p99, ms", "most, ms", "p99 − p50, ms", "greatest leap, ms"];
    let title = format!("From the hand-over to the player, {with}: mean of the seeds, least and most");
    let mut table = Table::new(&title, &head);
    for way in StreamTransport::ALL {
        let spread = |value: fn(&Outcome) -> f64| format!("{:.0}", Spread::over(outcomes, way, RTT, value));
        table.row([
            way.name().to_owned(),
            spread(|outcome| outcome.received.len() as f64),
            spread(|outcome| below(outcome, 0.5)),
            spread(|outcome| below(outcome, 0.95)),
            spread(|outcome| below(outcome, 0.99)),
            spread(|outcome| below(outcome, 1.0)),
            spread(swing),
            spread(largest_step),
        ]);
    }
    table
}

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let spreads = ORDER.spreads(outcomes, SetupDifference::PAPER, RTT);
    let [_, _, dbat] = spreads;
    let leaps = Spread::over(outcomes, StreamTransport::Tcp, RTT, largest_step);
    vec![
        ORDER.claim("TCP > TFRC > DBAT", &spreads),
        Claim::new("DBAT's p99 over its median, ms", "", format!("{dbat:.0}"), dbat.mean)
            .aim(Bound::AtMost(RTT as f64)),
        Claim::new("TCP's greatest leap from packet to packet, ms", "almost 2000", format!("{leaps:.0}"), leaps.mean),
    ]
}

/// Returns the largest latency in each half second.
fn worst(outcome: &Outcome) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (at, latency) in outcome.latencies() {
        let slot = (at * 2.0).floor() / 2.0 + 0.25;
        match points.last_mut() {
            Some(last) if last.0 == slot => last.1 = last.1.max(latency),
            _ => points.push((slot, latency)),
        }
    }
    points
}

fn figure(outcomes: &[Outcome]) -> Result<Figure, LabError> {
    let line = |way: StreamTransport| {
        let shown = outcomes.iter().find(|outcome| outcome.way == way);
        Series::new(way.name(), shown.map(worst).unwrap_or_default())
    };
    let series = PAPERS.map(line).to_vec();
    let lines = Lines { title: "Latency (figures 10 to 12)", x: "time, s", y: "latency, ms", series };
    Ok(Figure::new(lines.draw()?, "The worst of each half second, the first seed."))
}

fn data(outcomes: &[Outcome]) -> serde_json::Value {
    let run = |outcome: &Outcome| {
        let at = |share| below(outcome, share);
        json!({ "way": outcome.way, "p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99), "most_ms": at(1.0) })
    };
    json!({ "runs": outcomes.iter().map(run).collect::<Vec<_>>() })
}
