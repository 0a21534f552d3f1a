//! dbat-buffering: share of time that a live stream's player spends buffering (Hasan et al. §4.4,
//! table 1).

use serde_json::json;

use super::dbat::setup::{RTTS, choices, notes};
use super::dbat::{self, Outcome, PAPERS, Ranking, SetupDifference, Spread, StreamTransport};
use crate::experiment::{About, Bound, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

/// The paper's percentages at 20, 150 and 450 ms.
const PAPER: [(StreamTransport, [f64; 3]); 3] = [
    (StreamTransport::Tcp, [0.39, 10.46, 37.80]),
    (StreamTransport::Tfrc, [0.84, 1.12, 4.44]),
    (StreamTransport::Dbat, [0.43, 1.01, 4.13]),
];
/// Largest accepted percentage of DBAT, by round-trip time in milliseconds.
const PASS: [(u64, f64); 2] = [(150, 1.01), (450, 4.13)];
/// Round-trip times at which the order is compared, and the compared values.
const LONG: [u64; 2] = [150, 450];
const ORDERS: [(u64, Ranking); 2] = [
    (150, Ranking { what: "150 ms, % of the time buffering", ..BUFFERING }),
    (450, Ranking { what: "450 ms, % of the time buffering", ..BUFFERING }),
];
const BUFFERING: Ranking = Ranking { what: "% of the time buffering", digits: 2, rises: false, value: all };
/// Target percentage at each round-trip time.
const AIM: f64 = 0.1;

pub(crate) struct DbatBuffering;

impl Experiment for DbatBuffering {
    fn about(&self) -> About {
        About {
            name: "dbat-buffering",
            title: "Time that a live stream spends buffering",
            source: "Hasan et al. §4.4, table 1",
            paper: "At round trips of 20, 150 and 450 ms, TCP spends 0.39, 10.46 and 37.80 % of the time buffering, TFRC 0.84, \
                    1.12 and 4.44 %, and TFRC with DBAT 0.43, 1.01 and 4.13 %",
            forms: Forms::Virtual,
            seeds: 10,
            takes: "1 min",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let outcomes = dbat::run(run, SetupDifference::PAPER, &RTTS);
        let today = dbat::run(run, SetupDifference::TODAY, &RTTS);
        let aparts = dbat::run_apart(run, &SetupDifference::OF_TCP.map(|(_, apart)| apart), &LONG, &PAPERS);
        Ok(Findings {
            setup: choices(&RTTS),
            tables: vec![table(&outcomes, dbat::NS2), table(&today, dbat::TODAY), taken_away(&aparts)],
            figures: vec![figure(&outcomes)?],
            claims: [claims(&outcomes), by_tcp_app(&aparts), beside_today(&today)].concat(),
            notes: notes(),
            data: data(&outcomes, &aparts),
        })
    }
}

/// Returns the percentage of time spent buffering, in total.
fn all(outcome: &Outcome) -> f64 {
    100.0 * outcome.buffering().0
}

/// Returns the percentage of time spent buffering, without the initial buffering.
fn again(outcome: &Outcome) -> f64 {
    100.0 * outcome.buffering().1
}

fn paper(way: StreamTransport, rtt: u64) -> Option<f64> {
    let (_, at) = PAPER.iter().find(|(of, _)| *of == way)?;
    at.get(RTTS.iter().position(|&of| of == rtt)?).copied()
}

fn table(outcomes: &[Outcome], with: &str) -> Table {
    let head = [
        "round trip, ms",
        "way",
        "buffering, %",
        "paper, %",
        "of it when the buffer ran empty, %",
        "times it did",
        "seeds in which it never did",
    ];
    let title = format!("Time spent buffering, {with}: mean of the seeds, least and most");
    let mut table = Table::new(&title, &head);
    for rtt in RTTS {
        for way in StreamTransport::ALL {
            let spread = |value: fn(&Outcome) -> f64| Spread::over(outcomes, way, rtt, value);
            let of = outcomes.iter().filter(|outcome| outcome.way == way && outcome.rtt == rtt);
            table.row([
                rtt.to_string(),
                way.name().to_owned(),
                format!("{:.2}", spread(all)),
                paper(way, rtt).map_or_else(|| "–".to_owned(), |paper| format!("{paper:.2}")),
                format!("{:.2}", spread(again)),
                format!("{:.1}", spread(|outcome| outcome.rebuffered() as f64)),
                of.filter(|outcome| outcome.rebuffered() == 0).count().to_string(),
            ]);
        }
    }
    table
}

fn taken_away(outcomes: &[Outcome]) -> Table {
    let head = ["with", "round trip, ms", "TCP, %", "TFRC, %", "TFRC, DBAT, %", "the paper's order"];
    let mut table = Table::new(
        "With today's TCP, and something of it or of the setup taken away: mean of the first five seeds, least and most",
        &head,
    );
    for (name, apart) in SetupDifference::OF_TCP {
        for (rtt, order) in ORDERS {
            let spreads = order.spreads(outcomes, apart, rtt);
            let [tcp, tfrc, dbat] = spreads.map(|spread| format!("{spread:.2}"));
            let order = if order.is_the_papers(&spreads) { "yes" } else { "no" };
            table.row([name.to_owned(), rtt.to_string(), tcp, tfrc, dbat, order.to_owned()]);
        }
    }
    table
}

/// Returns the paper's means in their order.
fn papers(rtt: u64) -> String {
    PAPERS.map(|way| paper(way, rtt).map_or_else(String::new, |percent| format!("{percent:.2}"))).join(" > ")
}

/// Returns claims about order and size with ns-2's treatment of data that TCP's buffer rejects.
fn by_tcp_app(outcomes: &[Outcome]) -> Vec<Claim> {
    let claim = |(rtt, order): (u64, Ranking)| {
        let claim = order.claim(&papers(rtt), &order.spreads(outcomes, SetupDifference::NS2_ALL, rtt));
        let with = "with Goddard's TcpApp, too, where what a full buffer refuses is late and not lost";
        Claim { what: format!("{}; {with}", claim.what), ..claim }
    };
    ORDERS.map(claim).to_vec()
}

/// Returns the same orders with today's TCP, for comparison.
fn beside_today(outcomes: &[Outcome]) -> Vec<Claim> {
    ORDERS.map(|(rtt, order)| order.today(&order.spreads(outcomes, SetupDifference::TODAY, rtt))).to_vec()
}

fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let order =
        |(rtt, order): (u64, Ranking)| order.claim(&papers(rtt), &order.spreads(outcomes, SetupDifference::PAPER, rtt));
    let mut claims = ORDERS.map(order).to_vec();
    for rtt in RTTS {
        let says = paper(StreamTransport::Dbat, rtt).map(|percent| format!("{percent:.2}")).unwrap_or_default();
        let spread = Spread::over(outcomes, StreamTransport::Dbat, rtt, all);
        let what = format!("{rtt} ms: DBAT's time buffering, %");
        let mut claim = Claim::new(&what, &says, format!("{spread:.2}"), spread.mean).aim(Bound::AtMost(AIM));
        if let Some(&(_, pass)) = PASS.iter().find(|(of, _)| *of == rtt) {
            claim = claim.pass(Bound::AtMost(pass));
        }
        claims.push(claim);
        let spread = Spread::over(outcomes, StreamTransport::Dbat, rtt, again);
        let what = format!("{rtt} ms: of it because the buffer ran empty, %");
        claims.push(Claim::new(&what, "", format!("{spread:.2}"), spread.mean).aim(Bound::AtMost(AIM)));
    }
    claims
}

fn figure(outcomes: &[Outcome]) -> Result<Figure, LabError> {
    let ours = |way: StreamTransport| {
        let at = |rtt: u64| (rtt as f64, Spread::over(outcomes, way, rtt, all).mean);
        Series::new(way.name(), RTTS.map(at).to_vec())
    };
    let theirs = |(way, percent): &(StreamTransport, [f64; 3])| {
        let points = RTTS.iter().map(|&rtt| rtt as f64).zip(percent.iter().copied()).collect();
        Series::new(&format!("{}, the paper's", way.name()), points)
    };
    let series = PAPERS.map(ours).into_iter().chain(PAPER.iter().map(theirs)).collect();
    let lines = Lines { title: "Time spent buffering", x: "round trip, ms", y: "% of 210 s", series };
    Ok(Figure::new(lines.draw()?, "Means of the seeds, and table 1."))
}

fn data(outcomes: &[Outcome], aparts: &[Outcome]) -> serde_json::Value {
    let run = |outcome: &Outcome| {
        json!({
            "way": outcome.way,
            "rtt_ms": outcome.rtt,
            "buffering_percent": all(outcome),
            "empty_percent": again(outcome),
            "times_empty": outcome.rebuffered(),
        })
    };
    let name =
        |apart: SetupDifference| SetupDifference::OF_TCP.iter().find(|(_, of)| *of == apart).map(|(name, _)| *name);
    let apart = |outcome: &Outcome| json!({ "taken_away": name(outcome.apart), "run": run(outcome) });
    json!({
        "runs": outcomes.iter().map(run).collect::<Vec<_>>(),
        "taken_away": aparts.iter().map(apart).collect::<Vec<_>>(),
    })
}
