//! Results of streams through middleboxes, and the bounds.

use serde_json::json;
use timeous_host::MiddleboxBehaviour;

use super::super::tl::measure::mean;
use super::super::tl::trial::Protocol;
use crate::experiment::{Bound, Choice, Claim, Figure, Findings, LabError, Table};
use crate::report::plot::{Lines, Series};

pub(super) const BEHAVIOURS: [MiddleboxBehaviour; 7] = [
    MiddleboxBehaviour::Pass,
    MiddleboxBehaviour::CachedOriginal,
    MiddleboxBehaviour::Silence,
    MiddleboxBehaviour::Reset,
    MiddleboxBehaviour::Split,
    MiddleboxBehaviour::Merge,
    MiddleboxBehaviour::Rewrite,
];

pub(super) fn name(behaviour: MiddleboxBehaviour) -> &'static str {
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
pub(super) struct Measured {
    pub(super) behaviour: MiddleboxBehaviour,
    pub(super) protocol: Protocol,
    pub(super) in_time: f64,
    pub(super) came: f64,
    /// Share of the last tenth of the offered datagrams, in percent.
    pub(super) last: f64,
    pub(super) changed: u64,
    pub(super) refused: bool,
    pub(super) connections: u32,
    pub(super) corrupt: u64,
}

/// Returns the mean over the seeds.
fn of(
    measured: &[Measured],
    behaviour: MiddleboxBehaviour,
    protocol: Protocol,
    value: impl Fn(&Measured) -> f64,
) -> f64 {
    let these = measured.iter().filter(|one| one.behaviour == behaviour && one.protocol == protocol);
    mean(&these.map(value).collect::<Vec<_>>())
}

/// Formats minimum and maximum of `last` over the seeds.
fn least_to_most(measured: &[Measured], behaviour: MiddleboxBehaviour, protocol: Protocol) -> String {
    let these =
        || measured.iter().filter(|one| one.behaviour == behaviour && one.protocol == protocol).map(|one| one.last);
    let least = these().fold(f64::INFINITY, f64::min);
    format!("{least:.1} to {:.1}", these().fold(f64::NEG_INFINITY, f64::max))
}

/// Builds the findings for streams by these protocols.
pub(super) fn findings(
    measured: &[Measured],
    protocols: &[Protocol],
    title: &str,
    setup: Vec<Choice>,
) -> Result<Findings, LabError> {
    let head = [
        "a middlebox that",
        "protocol",
        "came, %",
        "in time, %",
        "of the last tenth, came, %",
        "least to most",
        "segments changed",
        "found out, of all streams, %",
        "connections",
    ];
    let mut table = Table::new(title, &head);
    for behaviour in BEHAVIOURS {
        for &protocol in protocols {
            let cell = |value: fn(&Measured) -> f64| format!("{:.1}", of(measured, behaviour, protocol, value));
            table.row([
                name(behaviour).to_owned(),
                protocol.name().to_owned(),
                cell(|one| one.came),
                cell(|one| one.in_time),
                cell(|one| one.last),
                least_to_most(measured, behaviour, protocol),
                cell(|one| one.changed as f64),
                format!("{:.0}", 100.0 * of(measured, behaviour, protocol, |one| f64::from(u8::from(one.refused)))),
                cell(|one| f64::from(one.connections)),
            ]);
        }
    }
    let line = |protocol| {
        let each = BEHAVIOURS.into_iter().enumerate();
        each.map(|(n, behaviour)| (n as f64, of(measured, behaviour, protocol, |one| one.in_time))).collect()
    };
    let series = protocols.iter().map(|&protocol| Series::new(protocol.name(), line(protocol))).collect();
    let lines =
        Lines { title: "In time through middleboxes", x: "middlebox, in the order of the table", y: "%", series };
    let data: Vec<_> = measured
        .iter()
        .map(|one| {
            json!({ "middlebox": name(one.behaviour), "protocol": one.protocol.name(), "came": one.came, "in_time": one.in_time,
                    "last": one.last, "changed": one.changed, "refused": one.refused, "connections": one.connections })
        })
        .collect();
    Ok(Findings {
        setup,
        tables: vec![table],
        figures: vec![Figure::new(lines.draw()?, "0: it passes everything.")],
        claims: claims(measured, protocols),
        notes: vec![
            "Where the original is sent again, acknowledgements say that the replacement arrived. It did not: what took another's place \
             is lost there, and only what has a deadline ever does."
                .to_owned(),
            spread(measured, protocols),
        ],
        data: json!({ "streams": data }),
    })
}

/// Returns a note on the variation of `last` without a middlebox, and on results over whole
/// streams.
fn spread(measured: &[Measured], protocols: &[Protocol]) -> String {
    let [first, .., last] = protocols else { return String::new() };
    let passing = |protocol| {
        let these =
            measured.iter().filter(move |one| one.behaviour == MiddleboxBehaviour::Pass && one.protocol == protocol);
        these.map(|one| one.last)
    };
    let shares: Vec<f64> = passing(*last).zip(passing(*first)).map(|(with, without)| with / without).collect();
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let whole =
        |behaviour| of(measured, behaviour, *last, |one| one.came) / of(measured, behaviour, *first, |one| one.came);
    let by_whole = BEHAVIOURS.into_iter().min_by(|one, other| whole(*one).total_cmp(&whole(*other)));
    let by_whole = by_whole.expect("there is a middlebox");
    format!(
        "A last tenth is short. Where everything passes it is {least:.3} to {most:.3} with {}, as a share of that without changes, seed by \
         seed. Of whole streams the least is {:.3} (the middlebox {}). What is given up as late has not come, while what is sent all the same \
         has, however late: in time is what counts.",
        last.name(),
        whole(by_whole),
        name(by_whole),
    )
}

fn claims(measured: &[Measured], protocols: &[Protocol]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for behaviour in BEHAVIOURS {
        let these = || measured.iter().filter(|one| one.behaviour == behaviour);
        let corrupt: u64 = these().map(|one| one.corrupt).sum();
        let what = format!("It {}: datagrams delivered that were not as they were offered, or twice", name(behaviour));
        claims.push(Claim::new(&what, "—", corrupt.to_string(), corrupt as f64).pass(Bound::AtMost(0.0)));
        let last = |protocol| of(measured, behaviour, protocol, |one| one.last);
        for &protocol in protocols[1..].iter().filter(|protocol| **protocol != Protocol::Tcp) {
            let share = last(protocol) / last(protocols[0]);
            let what = format!(
                "It {}: the last tenth with {}, as a share of that without changes",
                name(behaviour),
                protocol.name()
            );
            let said = format!("{share:.3}: {:.1} and {:.1} %", last(protocol), last(protocols[0]));
            claims.push(Claim::new(&what, "goes on", said, share).pass(Bound::AtLeast(0.95)));
        }
    }
    let last = *protocols.last().expect("there is a protocol");
    let changed = |behaviour| of(measured, behaviour, last, |one| one.changed as f64);
    let what = "Segments changed, where they pass: with none, nothing would be shown";
    claims.push(
        Claim::new(what, "—", format!("{:.0}", changed(MiddleboxBehaviour::Pass)), changed(MiddleboxBehaviour::Pass))
            .pass(Bound::AtLeast(10.0)),
    );
    claims
}
