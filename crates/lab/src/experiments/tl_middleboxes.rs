//! tl-middleboxes: what middleboxes make of segments that are sent again with other data (McQuistin §4.2).

use serde_json::json;
use timeous_host::Meddling;
use timeous_net::link::Loss;

use super::tl::choices;
use super::tl::measure::mean;
use super::tl::trial::{Offers, Protocol, Trial, link};
use crate::experiment::{About, Bound, Choice, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

const PROTOCOLS: [Protocol; 3] = [Protocol::ToTcp, Protocol::ToTcpTimed, Protocol::BothTimed];
const MEDDLINGS: [Meddling; 7] = [
    Meddling::Pass,
    Meddling::CachedOriginal,
    Meddling::Silence,
    Meddling::Reset,
    Meddling::Split,
    Meddling::Merge,
    Meddling::Rewrite,
];
const COUNT: u64 = 5_000;
const LOSS: f64 = 0.08;

pub(crate) struct TlMiddleboxes;

fn name(meddling: Meddling) -> &'static str {
    match meddling {
        Meddling::Pass => "passes",
        Meddling::CachedOriginal => "sends the original again",
        Meddling::Silence => "swallows",
        Meddling::Reset => "resets",
        Meddling::Split => "cuts in two",
        Meddling::Merge => "joins two",
        Meddling::Rewrite => "changes numbers",
    }
}

/// What one stream showed.
#[derive(Clone, Copy, Debug)]
struct Measured {
    meddling: Meddling,
    protocol: Protocol,
    in_time: f64,
    came: f64,
    /// Of the last tenth of what was offered, percent.
    last: f64,
    changed: u64,
    refused: bool,
    connections: u32,
    corrupt: u64,
}

impl Experiment for TlMiddleboxes {
    fn about(&self) -> About {
        About {
            name: "tl-middleboxes",
            title: "Middleboxes and segments that are sent again with other data",
            source: "McQuistin §4.2; Honda et al. 2011",
            paper: "One path of one ISP let them pass; Honda et al. saw them pass, replaced by the original, swallowed, and answered with a \
                    reset",
            forms: Forms::Virtual,
            seeds: 5,
            takes: "10 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut trials = Vec::new();
        for meddling in MEDDLINGS {
            for protocol in PROTOCOLS {
                trials.extend(run.seeds().map(|seed| {
                    let way = link(Loss::Bernoulli { p: LOSS });
                    Trial { protocol, offers: Offers::Cadence(COUNT), way, meddling, seed }
                }));
            }
        }
        findings(&run.each("streams", &trials, measure))
    }
}

fn measure(trial: &Trial) -> Measured {
    let outcome = trial.run();
    let share = |came: &[Option<_>]| 100.0 * came.iter().flatten().count() as f64 / came.len().max(1) as f64;
    let last = &outcome.arrived[outcome.arrived.len() * 9 / 10..];
    Measured {
        meddling: trial.meddling,
        protocol: trial.protocol,
        in_time: 100.0 * outcome.in_time_share(),
        came: share(&outcome.arrived),
        last: share(last),
        changed: outcome.statistics.replaced + outcome.statistics.padded,
        refused: outcome.changes_refused,
        connections: outcome.connections,
        corrupt: outcome.corrupt,
    }
}

/// The mean over the seeds.
fn of(measured: &[Measured], meddling: Meddling, protocol: Protocol, value: impl Fn(&Measured) -> f64) -> f64 {
    let these = measured.iter().filter(|one| one.meddling == meddling && one.protocol == protocol);
    mean(&these.map(value).collect::<Vec<_>>())
}

fn findings(measured: &[Measured]) -> Result<Findings, LabError> {
    let head = [
        "a middlebox that",
        "protocol",
        "came, %",
        "in time, %",
        "of the last tenth, came, %",
        "segments changed",
        "found out, of all streams, %",
        "connections",
    ];
    let mut table = Table::new("Streams of 5000 datagrams at 8 % loss, the mean over the seeds", &head);
    for meddling in MEDDLINGS {
        for protocol in PROTOCOLS {
            let cell = |value: fn(&Measured) -> f64| format!("{:.1}", of(measured, meddling, protocol, value));
            table.row([
                name(meddling).to_owned(),
                protocol.name().to_owned(),
                cell(|one| one.came),
                cell(|one| one.in_time),
                cell(|one| one.last),
                cell(|one| one.changed as f64),
                format!("{:.0}", 100.0 * of(measured, meddling, protocol, |one| f64::from(u8::from(one.refused)))),
                cell(|one| f64::from(one.connections)),
            ]);
        }
    }
    let line = |protocol| {
        let each = MEDDLINGS.into_iter().enumerate();
        each.map(|(n, meddling)| (n as f64, of(measured, meddling, protocol, |one| one.in_time))).collect()
    };
    let series = PROTOCOLS.map(|protocol| Series::new(protocol.name(), line(protocol))).to_vec();
    let lines =
        Lines { title: "In time through middleboxes", x: "middlebox, in the order of the table", y: "%", series };
    let data: Vec<_> = measured
        .iter()
        .map(|one| {
            json!({ "middlebox": name(one.meddling), "protocol": one.protocol.name(), "came": one.came, "in_time": one.in_time,
                    "last": one.last, "changed": one.changed, "refused": one.refused, "connections": one.connections })
        })
        .collect();
    Ok(Findings {
        setup: setup(),
        tables: vec![table],
        figures: vec![Figure::new(lines.draw()?, "0: it passes everything.")],
        claims: claims(measured),
        notes: vec![
            "In virtual time only; on the real kernel's TCP it was not run.".to_owned(),
            "Where the original is sent again, acknowledgements say that the replacement arrived. It did not: what took another's place \
             is lost there, and only what has a deadline ever does."
                .to_owned(),
        ],
        data: json!({ "streams": data }),
    })
}

fn setup() -> Vec<Choice> {
    let mut all = choices();
    all.extend([
        Choice::paper("middleboxes", "pass, cached original, silence, reset", "§4.2"),
        Choice::ours("besides", "cutting, joining (5 ms), other sequence numbers", "Honda et al. saw those, too"),
        Choice::ours("sent", "5000 datagrams at 8 % loss", "hundreds of retransmissions"),
        Choice::ours(
            "after a reset",
            "the program calls again, and nothing is changed when it is sent again",
            "a connection cannot outlive a reset; a TCP of unchanged segments does not meet one",
        ),
        Choice::ours(
            "goes on where TCP would",
            "of the last tenth of the datagrams as many come as over the same path without changes, within 5 %",
            "what was lost until the path was found out is lost",
        ),
    ]);
    all
}

fn claims(measured: &[Measured]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for meddling in MEDDLINGS {
        let these = || measured.iter().filter(|one| one.meddling == meddling);
        let corrupt: u64 = these().map(|one| one.corrupt).sum();
        let what = format!("It {}: datagrams delivered that were not as they were offered, or twice", name(meddling));
        claims.push(Claim::new(&what, "—", corrupt.to_string(), corrupt as f64).pass(Bound::AtMost(0.0)));
        let last = |protocol| of(measured, meddling, protocol, |one| one.last);
        for protocol in [Protocol::ToTcpTimed, Protocol::BothTimed] {
            let share = last(protocol) / last(Protocol::ToTcp);
            let what = format!(
                "It {}: the last tenth with {}, as a share of that without changes",
                name(meddling),
                protocol.name()
            );
            let said = format!("{share:.3}: {:.1} and {:.1} %", last(protocol), last(Protocol::ToTcp));
            claims.push(Claim::new(&what, "goes on", said, share).pass(Bound::AtLeast(0.95)));
        }
    }
    let changed = |meddling| of(measured, meddling, Protocol::BothTimed, |one| one.changed as f64);
    let what = "Segments changed, where they pass: with none, nothing would be shown";
    claims.push(
        Claim::new(what, "—", format!("{:.0}", changed(Meddling::Pass)), changed(Meddling::Pass))
            .pass(Bound::AtLeast(10.0)),
    );
    claims
}
