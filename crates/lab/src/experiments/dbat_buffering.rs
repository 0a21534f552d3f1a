//! dbat-buffering: share of time that a live stream's player spends buffering (Hasan et al. §4.4,
//! table 1).

use serde_json::json;
use timeous_testbed::report::plot::Series;

use super::dbat::setup::{RTTS, choices, notes};
use super::dbat::{self, Cell, Outcome, PAPERS, Ranking, SetupDifference, StreamTransport, Streams, WITHOUT_DBAT};
use crate::experiment::{
    Chart, Claim, Experiment, Extent, Figure, Findings, Forms, Metric, Run, RunError, Table, metric, sabotages,
};

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
/// Metrics of a run, for programs.
const METRICS: [Metric<Outcome>; 3] = [
    metric("buffering, %", 2, all),
    metric("of it when the buffer ran empty, %", 2, again),
    metric("times it did", 0, |outcome| outcome.rebuffered() as f64),
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dbat-buffering",
    title: "Time that a live stream spends buffering",
    source: "Hasan et al. §4.4, table 1",
    paper: "At round trips of 20, 150 and 450 ms, TCP spends 0.39, 10.46 and 37.80 % of the time buffering, TFRC 0.84, \
            1.12 and 4.44 %, and TFRC with DBAT 0.43, 1.01 and 4.13 %",
    forms: Forms::Virtual,
    seeds: 10,
    takes: "1 min",
    sabotages: &[NO_DBAT],
    run,
};

sabotages! {
    NO_DBAT = WITHOUT_DBAT[0], WITHOUT_DBAT[1] => ["450 ms, % of the time buffering: TCP most, then TFRC, DBAT least"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let (streams, today) = dbat::run(run, if run.extent == Extent::Least { &RTTS[2..] } else { &RTTS });
    let aparts = dbat::run_apart(run, &SetupDifference::OF_TCP, &LONG);
    Ok(Findings {
        setup: choices(&RTTS),
        tables: vec![table(&streams, dbat::NS2), table(&today, dbat::TODAY), taken_away(&aparts)],
        figures: vec![figure(&streams)?],
        claims: claims(&streams, &aparts, &today),
        notes: notes(),
        data: json!({ "runs": streams.numbers(&METRICS), "taken_away": aparts.numbers(&METRICS) }),
    })
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

fn table(streams: &Streams, with: &str) -> Table {
    let rows = streams.rows().axis("round trip, ms", |cell| cell.rtt).axis("way", |cell| cell.way.name());
    rows.spreads(&METRICS[..1])
        .axis("paper, %", |cell| paper(cell.way, cell.rtt).map_or("–".to_owned(), |is| format!("{is:.2}")))
        .spreads(&METRICS[1..2])
        .spread("times it did", 1, METRICS[2].value)
        .column("seeds in which it never did", |at| at.outcomes.iter().filter(|one| one.rebuffered() == 0).count())
        .table(&format!("Time spent buffering, {with}: mean of the seeds, least and most"))
}

fn taken_away(streams: &Streams) -> Table {
    let title = "With today's TCP, and something of it or of the setup taken away: mean of the first five seeds, least and most";
    let head = ["with", "round trip, ms", "TCP, %", "TFRC, %", "TFRC, DBAT, %", "the paper's order"];
    let mut table = Table::new(title, &head);
    for (name, apart) in SetupDifference::OF_TCP {
        for (rtt, order) in ORDERS {
            let cells = order.cells(&order.spreads(streams, apart, rtt));
            table.row([name.to_owned(), rtt.to_string()].into_iter().chain(cells));
        }
    }
    table
}

/// Returns the paper's means in their order.
fn papers(rtt: u64) -> String {
    PAPERS.map(|way| paper(way, rtt).map_or_else(String::new, |percent| format!("{percent:.2}"))).join(" > ")
}

fn claims(streams: &Streams, aparts: &Streams, today: &Streams) -> Vec<Claim> {
    let order = |streams, apart| {
        ORDERS.map(|(rtt, order)| order.claim(&papers(rtt), &order.spreads(streams, apart, rtt))).to_vec()
    };
    let mut claims = order(streams, SetupDifference::PAPER);
    claims.extend(ORDERS.map(|(rtt, order)| order.letter(&papers(rtt), streams, rtt)));
    for rtt in RTTS {
        let says = paper(StreamTransport::Dbat, rtt).map(|percent| format!("{percent:.2}")).unwrap_or_default();
        let dbat = |value: fn(&Outcome) -> f64| {
            streams.stats(&Cell { apart: SetupDifference::PAPER, way: StreamTransport::Dbat, rtt }, value)
        };
        let claim = Claim::mean(format!("{rtt} ms: DBAT's time buffering, %"), &says, 2, dbat(all)).aim(..=AIM);
        let pass = PASS.iter().find(|(of, _)| *of == rtt);
        claims.push(pass.map_or(claim.clone(), |&(_, pass)| claim.pass(..=pass)));
        let what = format!("{rtt} ms: of it because the buffer ran empty, %");
        claims.push(Claim::mean(what, "", 2, dbat(again)).aim(..=AIM));
    }
    let with = "with Goddard's TcpApp, too, where what a full buffer refuses is late and not lost";
    let by_tcp_app = order(aparts, SetupDifference::NS2_ALL).into_iter();
    claims.extend(by_tcp_app.map(|claim| Claim { what: format!("{}; {with}", claim.what), ..claim }));
    claims.extend(ORDERS.map(|(rtt, order)| order.today(today, rtt)));
    claims
}

fn figure(streams: &Streams) -> Result<Figure, RunError> {
    let ours = |way: StreamTransport| {
        let at = |rtt: u64| (rtt as f64, streams.mean(&Cell { apart: SetupDifference::PAPER, way, rtt }, all));
        Series::new(way.name(), RTTS.map(at).to_vec())
    };
    let theirs = |(way, percent): &(StreamTransport, [f64; 3])| {
        let points = RTTS.iter().map(|&rtt| rtt as f64).zip(percent.iter().copied()).collect();
        Series::new(&format!("{}, the paper's", way.name()), points)
    };
    let caption = "Means of the seeds, and table 1.";
    Chart { title: "Time spent buffering", x: "round trip, ms", y: "% of 210 s", caption }
        .draw(PAPERS.map(ours).into_iter().chain(PAPER.iter().map(theirs)))
}
