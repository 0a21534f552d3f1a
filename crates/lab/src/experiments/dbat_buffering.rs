//! dbat-buffering: share of time that a live stream's player spends buffering (Hasan et al. §4.4,
//! table 1).

use serde_json::json;
use timeous_testbed::report::plot::Series;

use super::dbat::setup::{RTTS, choices, notes};
use super::dbat::{self, Cell, Outcome, PAPERS, Ranking, SetupDifference, StreamTransport, Streams, WITHOUT_DBAT};
use crate::experiment::{
    Chart, Claim, Experiment, Extent, Figure, Findings, Forms, Metric, Run, RunError, Sorted, Stats, Table, metric,
    sabotages,
};

/// The paper's percentages at 20, 150 and 450 ms.
const PAPER: [(StreamTransport, [f64; 3]); 3] = [
    (StreamTransport::Tcp, [0.39, 10.46, 37.80]),
    (StreamTransport::Tfrc, [0.84, 1.12, 4.44]),
    (StreamTransport::Dbat, [0.43, 1.01, 4.13]),
];
/// Largest accepted percentage of DBAT, by round-trip time in milliseconds.
const PASS: [(u64, f64); 2] = [(150, 1.01), (450, 4.13)];
/// Round-trip times at which the paper has its order, and the compared values.
const ORDERS: [(u64, Ranking); 2] = [
    (150, Ranking { what: "150 ms, % of the time buffering", ..BUFFERING }),
    (450, Ranking { what: "450 ms, % of the time buffering", ..BUFFERING }),
];
const BUFFERING: Ranking = Ranking { what: "% of the time buffering", digits: 2, rises: false, value: all };
/// Target percentage at each round-trip time.
const AIM: f64 = 0.1;
/// Metrics of a real run beside the table's.
const REAL: [Metric<Outcome>; 5] = [
    metric("kbit/s from 30 to 200 s", 0, |outcome| outcome.shares().0),
    metric("FTP, kbit/s", 0, |outcome| outcome.shares().1),
    metric("p50, ms", 0, |outcome| latency(outcome, 50.0)),
    metric("p99, ms", 0, |outcome| latency(outcome, 99.0)),
    metric("lost packets", 0, |outcome| outcome.lost().all() as f64),
];
/// Metrics of a run, for programs.
const METRICS: [Metric<Outcome>; 4] = [
    metric("buffering, %", 2, all),
    metric("of it at the start, %", 2, start_up),
    metric("when the buffer ran empty, %", 2, again),
    metric("times it did", 1, |outcome| outcome.rebuffered() as f64),
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dbat-buffering",
    title: "Time that a live stream spends buffering",
    source: "Hasan et al. §4.4, table 1",
    paper: "At round trips of 20, 150 and 450 ms, TCP spends 0.39, 10.46 and 37.80 % of the time buffering, TFRC 0.84, \
            1.12 and 4.44 %, and TFRC with DBAT 0.43, 1.01 and 4.13 %",
    forms: Forms::BothBySeed,
    seeds: 10,
    takes: "1 min; real 20 min, as root",
    sabotages: &[NO_DBAT],
    run,
};

sabotages! {
    NO_DBAT = WITHOUT_DBAT[0], WITHOUT_DBAT[1] => [
            "150 ms, % of the time buffering: TFRC's over DBAT's",
            "to the letter: 150 ms, % of the time buffering: TFRC's over DBAT's",
        ];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    if run.real {
        return over_kernel(run);
    }
    let (streams, today) =
        dbat::run(run, SetupDifference::PAPER_KB, if run.extent == Extent::Least { &RTTS[1..2] } else { &RTTS });
    let aparts = dbat::run_apart(run, &SetupDifference::OF_TCP, &RTTS);
    Ok(Findings {
        setup: choices(&RTTS),
        tables: vec![table(&streams, dbat::NS2), table(&today, dbat::TODAY), taken_away(&aparts)],
        figures: vec![figure(&streams, SetupDifference::PAPER_KB)?],
        claims: claims(&streams, &aparts, &today),
        notes: notes(),
        data: json!({ "runs": streams.numbers(&METRICS), "taken_away": aparts.numbers(&METRICS) }),
    })
}

/// Runs the streams over real sockets.
fn over_kernel(run: &Run<'_>) -> Result<Findings, RunError> {
    let streams = dbat::real::run(run, &RTTS)?;
    let others = streams.rows().axis("round trip, ms", |cell| cell.rtt).axis("way", |cell| cell.way.name());
    let others = others.spreads(&REAL).table("Of the same streams: mean of the seeds, least and most");
    Ok(Findings {
        setup: choices(&RTTS).into_iter().chain(dbat::real::choices()).collect(),
        tables: vec![table(&streams, "over the kernel's TCP"), others],
        figures: vec![figure(&streams, SetupDifference::TODAY)?],
        claims: papers_claims(&streams, SetupDifference::TODAY),
        data: json!({ "runs": streams.numbers(&METRICS), "others": streams.numbers(&REAL) }),
        ..Findings::default()
    })
}

/// Returns the percentage of time spent buffering, in total.
fn all(outcome: &Outcome) -> f64 {
    100.0 * outcome.buffering().0
}

/// Returns the percentage of time spent in the initial buffering.
fn start_up(outcome: &Outcome) -> f64 {
    let (all, again) = outcome.buffering();
    100.0 * (all - again)
}

/// Returns the percentage of time spent buffering, without the initial buffering.
fn again(outcome: &Outcome) -> f64 {
    100.0 * outcome.buffering().1
}

fn latency(outcome: &Outcome, percent: f64) -> f64 {
    outcome.latencies().into_iter().map(|(_, latency)| latency).collect::<Sorted>().nearest(percent)
}

fn paper(way: StreamTransport, rtt: u64) -> Option<f64> {
    let (_, at) = PAPER.iter().find(|(of, _)| *of == way)?;
    at.get(RTTS.iter().position(|&of| of == rtt)?).copied()
}

fn table(streams: &Streams, with: &str) -> Table {
    let rows = streams.rows().axis("round trip, ms", |cell| cell.rtt).axis("way", |cell| cell.way.name());
    rows.spreads(&METRICS[..1])
        .axis("paper, %", |cell| paper(cell.way, cell.rtt).map_or("–".to_owned(), |is| format!("{is:.2}")))
        .spreads(&METRICS[1..])
        .column("seeds in which it never did", |at| at.outcomes.iter().filter(|one| one.rebuffered() == 0).count())
        .table(&format!("Time spent buffering, {with}: mean of the seeds, least and most"))
}

fn taken_away(streams: &Streams) -> Table {
    let title = "With today's TCP, and something of it or of the setup taken away: mean of the first five seeds, least and most";
    let head = ["with", "round trip, ms", "TCP, %", "TFRC, %", "TFRC, DBAT, %", "the paper's order"];
    let mut table = Table::new(title, &head);
    for (name, apart) in SetupDifference::OF_TCP {
        for rtt in tested_rtts(streams, apart) {
            let [tcp, tfrc, dbat, _] = BUFFERING.cells(&BUFFERING.spreads(streams, apart, rtt));
            let order = is_the_papers(rtt, &BUFFERING.spreads(streams, apart, rtt));
            let order = if order { "yes" } else { "no" }.to_owned();
            table.row([name.to_owned(), rtt.to_string(), tcp, tfrc, dbat, order]);
        }
    }
    table
}

/// Returns whether the means have the paper's order: at 20 ms TCP is least.
fn is_the_papers(rtt: u64, [tcp, tfrc, dbat]: &[Stats; 3]) -> bool {
    let is_above = |a: &Stats, b: &Stats| a.mean > b.mean;
    is_above(tfrc, dbat) && if rtt == RTTS[0] { is_above(dbat, tcp) } else { is_above(tcp, tfrc) }
}

/// Returns the round trips that were run.
fn tested_rtts(streams: &Streams, apart: SetupDifference) -> impl Iterator<Item = u64> {
    RTTS.into_iter().filter(move |rtt| streams.has_run(|cell| (cell.apart, cell.rtt) == (apart, *rtt)))
}

/// Returns the claim about the order at the shortest round trip.
fn shortest(streams: &Streams, apart: SetupDifference) -> Claim {
    let spreads = BUFFERING.spreads(streams, apart, RTTS[0]);
    let what = format!("{} ms, % of the time buffering: TFRC most, then DBAT, TCP least", RTTS[0]);
    let measured = spreads.map(|spread| format!("{:.2}", spread.mean)).join(", ");
    Claim::order(what, &papers(RTTS[0]), measured, is_the_papers(RTTS[0], &spreads))
}

/// Returns the claim about TFRC with DBAT and without.
fn below_tfrc(streams: &Streams, apart: SetupDifference, rtt: u64, way: StreamTransport) -> Claim {
    let [tfrc, dbat] = [StreamTransport::Tfrc, way].map(|way| streams.stats(&Cell { apart, way, rtt }, all));
    let claim = BUFFERING.over(("TFRC's", "DBAT's"), "yes", [&[tfrc], &[dbat]]);
    let letter = if way == StreamTransport::PaperDbat { "to the letter: " } else { "" };
    Claim { what: format!("{letter}{rtt} ms, {}", claim.what), ..claim }
}

/// Returns the claim about rebuffering alone; none where no buffer ran empty again, which has no order. A tie is in order.
fn apart_from_start(streams: &Streams, apart: SetupDifference, rtt: u64) -> Option<Claim> {
    let means = PAPERS.map(|way| streams.mean(&Cell { apart, way, rtt }, again));
    if means.iter().all(|mean| *mean == 0.0) {
        return None;
    }
    let what = format!(
        "{rtt} ms, % of the time rebuffering, without the start: DBAT no more than TFRC, and TFRC no more than TCP"
    );
    // A mean of zeros may be negative.
    let measured = means.map(|mean| format!("{:.2}", mean + 0.0)).join(", ");
    Some(Claim::order(what, "not apart", measured, means[0] >= means[1] && means[1] >= means[2]))
}

/// Returns the paper's means in their order.
fn papers(rtt: u64) -> String {
    PAPERS.map(|way| paper(way, rtt).map_or_else(String::new, |percent| format!("{percent:.2}"))).join(" > ")
}

fn tested_orders(streams: &Streams, apart: SetupDifference) -> impl Iterator<Item = (u64, Ranking)> {
    ORDERS.into_iter().filter(move |(rtt, _)| tested_rtts(streams, apart).any(|run| run == *rtt))
}

fn orders(streams: &Streams, apart: SetupDifference) -> Vec<Claim> {
    tested_orders(streams, apart)
        .map(|(rtt, order)| order.claim(&papers(rtt), &order.spreads(streams, apart, rtt)))
        .collect()
}

/// Returns the claims about the paper's table.
fn papers_claims(streams: &Streams, apart: SetupDifference) -> Vec<Claim> {
    let mut claims = orders(streams, apart);
    let rtts = || tested_rtts(streams, apart);
    claims.extend(rtts().filter(|rtt| *rtt == RTTS[0]).map(|_| shortest(streams, apart)));
    let orders = tested_orders(streams, apart);
    claims.extend(orders.map(|(rtt, order)| order.letter(&papers(rtt), streams, apart, rtt)));
    for way in [StreamTransport::Dbat, StreamTransport::PaperDbat] {
        claims.extend(rtts().map(|rtt| below_tfrc(streams, apart, rtt, way)));
    }
    claims.extend(rtts().filter_map(|rtt| apart_from_start(streams, apart, rtt)));
    for rtt in rtts() {
        let says = paper(StreamTransport::Dbat, rtt).map(|percent| format!("{percent:.2}")).unwrap_or_default();
        let dbat = |value: fn(&Outcome) -> f64| streams.stats(&Cell { apart, way: StreamTransport::Dbat, rtt }, value);
        let claim = Claim::mean(format!("{rtt} ms: DBAT's time buffering, %"), &says, 2, dbat(all)).aim(..=AIM);
        let pass = PASS.iter().find(|(of, _)| *of == rtt);
        claims.push(pass.map_or(claim.clone(), |&(_, pass)| claim.pass(..=pass)));
        let what = format!("{rtt} ms: of it because the buffer ran empty, %");
        claims.push(Claim::mean(what, "", 2, dbat(|outcome| again(outcome).max(0.0))).aim(..=AIM));
    }
    claims
}

fn claims(streams: &Streams, aparts: &Streams, today: &Streams) -> Vec<Claim> {
    let mut claims = papers_claims(streams, SetupDifference::PAPER_KB);
    let with = "with Goddard's TcpApp, too, where what a full buffer refuses is late and not lost";
    let by_tcp_app = orders(aparts, SetupDifference::NS2_ALL).into_iter();
    claims.extend(by_tcp_app.map(|claim| Claim { what: format!("{}; {with}", claim.what), ..claim }));
    claims.extend(ORDERS.into_iter().filter_map(|(rtt, order)| order.today(today, rtt)));
    claims
}

fn figure(streams: &Streams, apart: SetupDifference) -> Result<Figure, RunError> {
    let ours = |way: StreamTransport| {
        let at = |rtt: u64| (rtt as f64, streams.mean(&Cell { apart, way, rtt }, all));
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
