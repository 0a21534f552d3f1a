//! tl-middleboxes: effect of middleboxes on retransmissions with changed data (McQuistin §4.2).

use std::sync::Arc;

use serde_json::json;
use timeous::core::{AduMeta, Duration, LateChoice};
use timeous_choice::Deadlines;
use timeous_host::MiddleboxBehaviour;
use timeous_net::LinkConfig;
use timeous_net::link::Loss;
use timeous_testbed::network::Links;
use timeous_testbed::report::plot::Series;

use super::over_tcp::{self, Control, Log, Offer, Plan, SenderKind};
use super::tl::offers::{INTERVAL, SIZES};
use super::tl::trial::{Broken, Offers, Protocol, Trial, link};
use super::tl::{PLAYOUT, RTT, choices, no_corruption};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Metric, Run, RunError, Stats, cross, metric,
    sabotages, setup,
};

const PROTOCOLS: [Protocol; 4] = [Protocol::ToTcp, Protocol::Both, Protocol::ToTcpTimed, Protocol::BothTimed];
const COUNT: u64 = 15_000;
const LOSS: f64 = 0.08;
/// Playout of the virtual form: a round trip takes 43 ms, so that no lost datagram can be repaired in time, and every
/// retransmission is changed.
const BRIEF: Duration = Duration::from_millis(60);
/// Least number of changed segments, among 1200 lost ones; and in the real form, where the playout leaves time for a repair.
const LEAST_CHANGED: f64 = 500.0;
const REAL_LEAST_CHANGED: f64 = 10.0;
const TITLE: &str = "Streams of 15 000 datagrams at 8 % loss, the mean over the seeds";

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tl-middleboxes",
    title: "Middleboxes and segments that are sent again with other data",
    source: "McQuistin §4.2; Honda et al. 2011",
    paper: "One path of one ISP let them pass; Honda et al. saw them pass, replaced by the original, swallowed, and answered with a \
            reset",
    forms: Forms::BothBySeed,
    seeds: 5,
    takes: "30 s; real 5 min, as root",
    sabotages: &[NO_TIMELINES, GIVES_UP, GARBLED],
    run,
};

sabotages! {
    NO_TIMELINES = "no-timelines", "senders know no deadlines" => ["Segments changed"];
    GIVES_UP = "gives-up", "after a reset the program does not call again" => ["It resets: the last tenth"];
    GARBLED = "garbled", "the receiver changes a byte of each hundredth datagram"
        => ["It passes: datagrams delivered that were not", "It resets: datagrams delivered that were not"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    if run.real {
        return run_real(run);
    }
    let is_least = run.extent == Extent::Least;
    let behaviours = if is_least { &[MiddleboxBehaviour::Pass, MiddleboxBehaviour::Reset][..] } else { &BEHAVIOURS };
    let (protocols, count) =
        if is_least { (&[PROTOCOLS[1], PROTOCOLS[3]][..], COUNT * 3 / 5) } else { (&PROTOCOLS[..], COUNT) };
    let broken = Broken {
        no_timelines: run.breaks(NO_TIMELINES),
        gives_up: run.breaks(GIVES_UP),
        garbled: run.breaks(GARBLED),
        ..Broken::default()
    };
    let streams = run.grid(
        "streams",
        cross(behaviours.iter().copied(), protocols.iter().copied()),
        |&(behaviour, protocol), seed| {
            let way = link(Loss::Bernoulli { p: LOSS });
            let offers = Offers::Cadence(count);
            measure(&Trial { protocol, offers, way, playout: BRIEF, behaviour, seed, secret: None, broken })
        },
    );
    findings(&streams, protocols, TITLE, setup(), LEAST_CHANGED)
}

fn measure(trial: &Trial) -> Measured {
    let outcome = trial.run();
    let (came, _) = shares(&outcome.arrived);
    let (_, last) = shares(&outcome.arrived_in_time());
    Measured {
        in_time: 100.0 * outcome.in_time_share(),
        came,
        last,
        changed: outcome.statistics.replaced + outcome.statistics.padded,
        refused: outcome.changes_refused,
        connections: outcome.connections,
        corrupt: outcome.corrupt,
        count: outcome.came(),
    }
}

fn setup() -> Vec<Choice> {
    let mut all = choices();
    all.retain(|choice| choice.what != "playout");
    all.extend(setup! {
        paper "middleboxes": "pass, cached original, silence, reset" => "§4.2";
        ours "besides": "cutting, joining (5 ms), other sequence numbers" => "Honda et al. saw those, too";
        ours "sent": "15 000 datagrams at 8 % loss" => "more than a thousand retransmissions";
        ours "playout": "60 ms after a datagram was handed over" => "too little for a repair, so that all of these \
            retransmissions are changed; with 150 ms 13 were";
        ours "after a reset": "the program calls again, and nothing is changed when it is sent again"
            => "a connection cannot outlive a reset; a TCP of unchanged segments does not meet one";
        ours "goes on where TCP would": "of the last tenth of the datagrams as many are in time as with the same receiver over \
            the same path without changes, within 5 %" => "what was lost until the path was found out is lost";
    });
    all
}

const BEHAVIOURS: [MiddleboxBehaviour; 7] = [
    MiddleboxBehaviour::Pass,
    MiddleboxBehaviour::CachedOriginal,
    MiddleboxBehaviour::Silence,
    MiddleboxBehaviour::Reset,
    MiddleboxBehaviour::Split,
    MiddleboxBehaviour::Merge,
    MiddleboxBehaviour::Rewrite,
];

fn name(behaviour: MiddleboxBehaviour) -> &'static str {
    match behaviour {
        MiddleboxBehaviour::Pass => "passes",
        MiddleboxBehaviour::CachedOriginal => "sends the original again",
        MiddleboxBehaviour::Silence => "swallows",
        MiddleboxBehaviour::Reset => "resets",
        MiddleboxBehaviour::Split => "cuts in two",
        MiddleboxBehaviour::Merge => "joins two",
        MiddleboxBehaviour::Rewrite => "changes numbers",
    }
}

/// Results of one stream.
#[derive(Clone, Copy, Debug)]
struct Measured {
    in_time: f64,
    came: f64,
    /// Share of the last tenth of the offered datagrams, in percent.
    last: f64,
    changed: u64,
    refused: bool,
    connections: u32,
    corrupt: u64,
    /// Datagrams that came, by number.
    count: usize,
}

/// Returns the percentages of the datagrams that came, of all and of the last tenth.
fn shares<T>(arrived: &[Option<T>]) -> (f64, f64) {
    let share = |came: &[Option<T>]| 100.0 * came.iter().flatten().count() as f64 / came.len().max(1) as f64;
    (share(arrived), share(&arrived[arrived.len() * 9 / 10..]))
}

const METRICS: [Metric<Measured>; 6] = [
    metric("came, %", 1, |one| one.came),
    metric("in time, %", 1, |one| one.in_time),
    metric("of the last tenth, %", 1, |one| one.last),
    metric("segments changed", 1, |one| one.changed as f64),
    metric("found out, of all streams, %", 0, |one| 100.0 * f64::from(u8::from(one.refused))),
    metric("connections", 1, |one| f64::from(one.connections)),
];

/// Results by middlebox and protocol.
type Streams = Grid<(MiddleboxBehaviour, Protocol), Measured>;

/// Builds the findings for streams by these protocols.
fn findings(
    streams: &Streams,
    protocols: &[Protocol],
    title: &str,
    setup: Vec<Choice>,
    least_changed: f64,
) -> Result<Findings, RunError> {
    let rows = streams.rows().axis("a middlebox that", |at| name(at.0)).axis("protocol", |at| at.1.name());
    let range = |last: Stats| format!("{:.1} to {:.1}", last.least, last.most);
    let rows = rows.means(&METRICS[..3]).column("least to most", |at| range(at.stats(|one| one.last)));
    let line = |&protocol: &Protocol| {
        let each = BEHAVIOURS.into_iter().enumerate();
        let point = |(n, behaviour)| (n as f64, streams.mean(&(behaviour, protocol), |one| one.in_time));
        Series::new(protocol.name(), each.map(point).collect())
    };
    let chart = Chart {
        title: "In time through middleboxes",
        x: "middlebox, in the order of the table",
        y: "%",
        caption: "0: it passes everything.",
    };
    let runs = streams.runs().map(|((behaviour, protocol), seed, one)| {
        json!({ "middlebox": name(*behaviour), "protocol": protocol, "seed": seed, "came": one.came, "in_time": one.in_time,
                "last": one.last, "changed": one.changed, "refused": one.refused, "connections": one.connections })
    });
    Ok(Findings {
        setup,
        tables: vec![rows.means(&METRICS[3..]).table(title)],
        figures: vec![chart.draw(protocols.iter().map(line))?],
        claims: claims(streams, protocols, least_changed),
        notes: vec![
            "Where the original is sent again, acknowledgements say that the replacement arrived. It did not: what took another's place \
             is lost there, and only what has a deadline ever does."
                .to_owned(),
            spread(streams, protocols),
        ],
        data: runs.collect(),
    })
}

/// Returns a note on the variation of `last` without a middlebox, and on results over whole
/// streams.
fn spread(streams: &Streams, protocols: &[Protocol]) -> String {
    let Some(&last) = protocols.last() else { return String::new() };
    let first = unchanged(last);
    let passing = |protocol| streams.of(move |at| *at == (MiddleboxBehaviour::Pass, protocol)).map(|one| one.last);
    let shares = Stats::of(passing(last).zip(passing(first)).map(|(with, without)| with / without));
    let came = |behaviour, protocol| streams.mean(&(behaviour, protocol), |one| one.came);
    let whole = |behaviour| came(behaviour, last) / came(behaviour, first);
    let by_whole = tested_behaviours(streams).min_by(|one, other| whole(*one).total_cmp(&whole(*other)));
    let by_whole = by_whole.expect("there is a middlebox");
    format!(
        "A last tenth is short. Where everything passes it is {:.3} to {:.3} with {}, as a share of that without changes, seed by \
         seed. Of whole streams the least is {:.3} (the middlebox {}). What is given up as late has not come, while what is sent all the same \
         has, however late: in time is what counts.",
        shares.least,
        shares.most,
        last.name(),
        whole(by_whole),
        name(by_whole),
    )
}

/// The same protocol without changes.
fn unchanged(protocol: Protocol) -> Protocol {
    if protocol == Protocol::BothTimed { Protocol::Both } else { Protocol::ToTcp }
}

fn tested_behaviours(streams: &Streams) -> impl Iterator<Item = MiddleboxBehaviour> {
    BEHAVIOURS.into_iter().filter(|behaviour| streams.has_run(|at| at.0 == *behaviour))
}

fn claims(streams: &Streams, protocols: &[Protocol], least_changed: f64) -> Vec<Claim> {
    let mut claims = Vec::new();
    for behaviour in tested_behaviours(streams) {
        let corrupt = no_corruption(streams.of(|at| at.0 == behaviour).map(|one| (one.corrupt, one.count)));
        let what = format!("It {}: {}{}", name(behaviour), corrupt.what[..1].to_lowercase(), &corrupt.what[1..]);
        claims.push(Claim { what, ..corrupt });
        let last = |protocol| streams.mean(&(behaviour, protocol), |one| one.last);
        for &protocol in protocols.iter().filter(|of| matches!(of, Protocol::ToTcpTimed | Protocol::BothTimed)) {
            let without = last(unchanged(protocol));
            let share = last(protocol) / without;
            let what = format!("the last tenth with {}, as a share of that without changes", protocol.name());
            let said = format!("{share:.3}: {:.1} and {without:.1} %", last(protocol));
            claims.push(Claim::new(format!("It {}: {what}", name(behaviour)), "goes on", said, share).pass(0.95..));
        }
    }
    let last = *protocols.last().expect("there is a protocol");
    let changed = streams.mean(&(MiddleboxBehaviour::Pass, last), |one| one.changed as f64);
    let what = "Segments changed, where they pass: with none, nothing would be shown";
    claims.push(Claim::number(what, "—", 0, changed).pass(least_changed..));
    claims
}

/// Number of datagrams: one minute.
const REAL_COUNT: u64 = 3_000;
const REAL_LOSS: f64 = 0.08;
/// Time after the stream for its last data to arrive.
const REST: Duration = Duration::from_secs(5);
/// Slots of the ring: more packets than are useful at once.
const SLOTS: u32 = 256;
/// Ways to send, and the corresponding protocols of the paper.
const WAYS: [(SenderKind, Protocol); 3] =
    [(SenderKind::Ring, Protocol::ToTcp), (SenderKind::Plain, Protocol::Tcp), (SenderKind::Late, Protocol::ToTcpTimed)];

/// # Errors
/// Missing features of the machine.
fn run_real(run: &Run<'_>) -> Result<Findings, RunError> {
    let ways = cross(BEHAVIOURS, WAYS);
    let wishes =
        cross(Control::ALL, cross(ways.collect::<Vec<_>>(), run.seeds().collect::<Vec<_>>()).collect::<Vec<_>>());
    let wishes: Vec<_> = wishes
        .map(|(control, ((behaviour, (way, protocol)), seed))| {
            (behaviour, protocol, plan(control, behaviour, way, seed))
        })
        .collect();
    let plans: Vec<Plan> = wishes.iter().map(|(.., plan)| plan.clone()).collect();
    let logs = over_tcp::all(run, &plans)?;
    let mut all = Findings::default();
    for control in Control::ALL {
        let these = wishes.iter().zip(&logs).filter(|((.., plan), _)| plan.control == control);
        let these = these.map(|((at, of, plan), log)| ((*at, *of), plan.seed, measure_real(plan, log)));
        let title =
            format!("{}: streams of {REAL_COUNT} datagrams at 8 % loss, the mean over the seeds", control.name());
        let streams = Grid::from_runs(these.collect());
        let found = findings(&streams, &WAYS.map(|(_, protocol)| protocol), &title, setup_real(), REAL_LEAST_CHANGED)?;
        all.setup = found.setup;
        all.notes = found.notes;
        all.tables.extend(found.tables);
        all.figures.extend(found.figures);
        let of_control = |claim: Claim| Claim { what: format!("{}: {}", control.name(), claim.what), ..claim };
        all.claims.extend(found.claims.into_iter().map(of_control));
        all.data[control.name()] = found.data;
    }
    Ok(all)
}

fn plan(control: Control, behaviour: MiddleboxBehaviour, way: SenderKind, seed: u64) -> Plan {
    let offer =
        |n: u64| Offer { at: INTERVAL * n, len: SIZES[(n % 2) as usize], latency: PLAYOUT, meta: AduMeta::default() };
    Plan {
        way,
        control,
        links: Links { forward: link(Loss::Bernoulli { p: REAL_LOSS }), back: LinkConfig::with_delay(RTT / 2) },
        mtu: None,
        encrypted: false,
        behaviour: Some(behaviour),
        seed,
        offers: (0..REAL_COUNT).map(offer).collect(),
        slots: SLOTS,
        choice: Arc::new(|| -> Box<dyn LateChoice> { Box::new(Deadlines) }),
        lasting: INTERVAL * REAL_COUNT + REST,
    }
}

fn measure_real(plan: &Plan, log: &Log) -> Measured {
    let in_time = |(arrived, offer): (&Option<_>, &Offer)| arrived.is_some_and(|at| at <= offer.deadline(log.begin));
    let bytes = |counts: &dyn Fn((&Option<_>, &Offer)) -> bool| {
        let these = log.arrived.iter().zip(plan.offers.iter()).filter(|&each| counts(each));
        these.map(|(_, offer)| offer.len).sum::<usize>() as f64
    };
    let (came, last) = shares(&log.arrived);
    Measured {
        in_time: 100.0 * bytes(&in_time) / bytes(&|_| true).max(1.0),
        came,
        last,
        changed: log.status.replaced + log.status.padded,
        refused: log.status.refused,
        connections: 1 + u32::from(log.status.ended),
        corrupt: log.corrupt,
        count: log.arrived.iter().flatten().count(),
    }
}

fn setup_real() -> Vec<Choice> {
    let mut all = setup! {
        paper "middleboxes": "pass, cached original, silence, reset" => "§4.2";
        ours "besides": "cutting, joining (5 ms), other sequence numbers" => "Honda et al. saw those, too";
        ours "middlebox": "that of the virtual form, between two TUN devices" => "before the link that loses";
        ours "MTU": "1500 on the sender's side of the middlebox, 3000 behind it"
            => "one that joins two segments makes a longer one, which goes on as it is";
        ours "sent": "{REAL_COUNT} datagrams, one each 20 ms, of 550 and 650 bytes in turn; 8 % loss"
            => "a minute of the paper's stream";
        ours "senders": "the ring to the kernel's queue (C); plain TCP (A); the ring into retransmissions (C, \
            timelines)" => "to a plain receiver";
        ours "after a reset": "the program calls again, and nothing is changed when it is sent again"
            => "a connection cannot outlive a reset; the receiver takes the new call also where the reset was lost on \
            its way there, as any server would (at 8 % loss that is one in twelve; it waited for the old call's end \
            at first, and got nothing more)";
        ours "goes on where TCP would": "of the last tenth of the datagrams as many come as from the ring without \
            changes, within 5 %" => "plain TCP was the reference of a first run; it brings all, however late, so that \
            what was given up as late counted against the ring, which has nothing to do with middleboxes";
    };
    all.extend(over_tcp::choices());
    all
}
