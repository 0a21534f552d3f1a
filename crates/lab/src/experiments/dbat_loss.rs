//! dbat-loss: packet losses of a live stream, and lengths of loss bursts (Hasan et al. §4.3,
//! figures 13 to 15).

use serde_json::json;

use super::dbat::outcome::LossCounts;
use super::dbat::setup::{RTT, choices, notes};
use super::dbat::{self, Outcome, PAPERS, Ranking, SetupDifference, Spread, StreamTransport};
use crate::experiment::{About, Bound, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

const ORDER: Ranking =
    Ranking { what: "lost packets", digits: 0, rises: false, value: |outcome| outcome.lost().all() as f64 };
const RUNS: Ranking =
    Ranking { what: "runs of ten and more", digits: 1, rises: false, value: |outcome| outcome.lost().bursts as f64 };

pub(crate) struct DbatLoss;

impl Experiment for DbatLoss {
    fn about(&self) -> About {
        About {
            name: "dbat-loss",
            title: "What a live stream loses",
            source: "Hasan et al. §4.3, figures 13 to 15",
            paper: "With TCP a large number of packets is lost in bursts, with TFRC significantly fewer, with DBAT the fewest",
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

/// Returns the spread of a loss count over all runs of a transport.
fn spread(outcomes: &[Outcome], way: StreamTransport, count: fn(&LossCounts) -> u64) -> Spread {
    Spread::over(outcomes, way, RTT, |outcome| count(&outcome.lost()) as f64)
}

fn table(outcomes: &[Outcome], with: &str) -> Table {
    let head = [
        "way",
        "made",
        "lost",
        "of them: buffer full",
        "given up",
        "under way",
        "runs of ten or more",
        "longest run",
        "marked, at the sender",
    ];
    let mut table = Table::new(&format!("Lost packets, {with}: mean of the seeds, least and most"), &head);
    for way in StreamTransport::ALL {
        let count = |count: fn(&LossCounts) -> u64| format!("{:.0}", spread(outcomes, way, count));
        table.row([
            way.name().to_owned(),
            format!("{:.0}", Spread::over(outcomes, way, RTT, |outcome| outcome.made.len() as f64)),
            count(LossCounts::all),
            count(|lost| lost.full),
            count(|lost| lost.choice),
            count(|lost| lost.network),
            count(|lost| lost.bursts),
            count(|lost| lost.longest),
            count(|lost| lost.marked),
        ]);
    }
    table
}

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let order = |order: Ranking, paper: &str| order.claim(paper, &order.spreads(outcomes, SetupDifference::PAPER, RTT));
    let marked = spread(outcomes, StreamTransport::Dbat, |lost| lost.marked);
    vec![
        order(ORDER, "TCP > TFRC > DBAT"),
        order(RUNS, "\"a large number of packets are lost in bursts\" with TCP"),
        Claim::new(
            "marked packets that DBAT's sender lost, the most of the seeds",
            "",
            format!("{marked:.1}"),
            marked.most,
        )
        .aim(Bound::AtMost(0.0)),
    ]
}

fn figure(outcomes: &[Outcome]) -> Result<Figure, LabError> {
    let line = |way: StreamTransport| {
        let shown = outcomes.iter().find(|outcome| outcome.way == way);
        Series::new(way.name(), shown.map(Outcome::lost_by_second).unwrap_or_default())
    };
    let series = PAPERS.map(line).to_vec();
    let lines = Lines { title: "Lost packets (figures 13 to 15)", x: "time, s", y: "packets in a second", series };
    Ok(Figure::new(lines.draw()?, "By when they were made, the first seed."))
}

fn data(outcomes: &[Outcome]) -> serde_json::Value {
    let run = |outcome: &Outcome| json!({ "way": outcome.way, "made": outcome.made.len(), "lost": outcome.lost() });
    json!({ "runs": outcomes.iter().map(run).collect::<Vec<_>>() })
}
