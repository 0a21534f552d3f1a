//! cm-programs: an unmodified program's datagrams beside a TCP connection, as they are and under `timeous run`.

use serde_json::json;
use timeous_testbed::machine::machine;
use timeous_testbed::process::tool;
use timeous_testbed::programs::{IPERF, MEASURED, QUEUE, RATE, RTT, Shares, TIME, beside_tcp};

use crate::experiment::{
    Choice, Claim, Experiment, Extent, Findings, Forms, Rows, Run, RunError, Stats, sabotages, setup, values,
};

values! {
    /// How the program runs.
    enum Way {
        AsItIs = "as it is",
        Controlled = "timeous run",
    }
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-programs",
    title: "A program's datagrams beside TCP, as they are and by the Congestion Manager",
    source: "Andersen et al. §3.3",
    paper: "a UDP socket by the Congestion Manager is friendly to TCP, and its application need not be changed much",
    forms: Forms::Real,
    seeds: 1,
    takes: "real 1 min, as root, with iperf3",
    sabotages: &[OPEN],
    run,
};

sabotages! {
    OPEN = "open", "the sender runs as it is: nothing holds its datagrams back"
        => ["timeous run: share of TCP", "timeous run: packets that the link drops"];
}

/// Rounds, of which each has both ways.
const ROUNDS: usize = 3;

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let tool = tool()?;
    let by_tool = [tool.to_str().ok_or_else(|| machine("the path of this program is not UTF-8"))?, "run", "--"];
    let rounds = if run.extent == Extent::Least { 1 } else { ROUNDS };
    let rounds = run.rounds("iperf3 beside TCP", rounds, Way::ALL, |way| {
        let under = |is_under: bool| if is_under { &by_tool[..] } else { &[] };
        let is_controlled = way == Way::Controlled;
        let [receiver, sender] = IPERF;
        beside_tcp("programs", [(under(is_controlled), receiver), (under(is_controlled && !run.breaks(OPEN)), sender)])
    })?;
    let of =
        |way: Way, what: fn(&Shares) -> f64| Stats::of(rounds.iter().map(|round| 100.0 * what(&round[way as usize])));
    let table = Rows::of(Way::ALL)
        .column("iperf3", |way| way.name())
        .column("share of TCP, %", |way| format!("{:.0}", of(*way, |shares| shares.tcp)))
        .column("of the datagrams, %", |way| format!("{:.0}", of(*way, |shares| shares.datagrams)))
        .column("dropped by the link, %", |way| format!("{:.1}", of(*way, |shares| shares.dropped)))
        .table("Shares of the link");
    let claim = |what: &str, way: Way, of_it: fn(&Shares) -> f64| {
        Claim::mean(format!("{}: {what}, %", way.name()), "", 1, of(way, of_it))
    };
    let (controlled, as_it_is) = (Way::Controlled, Way::AsItIs);
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        claims: vec![
            claim("share of TCP", controlled, |shares| shares.tcp).pass(20.0..).aim(40.0..),
            claim("share of the datagrams", controlled, |shares| shares.datagrams).pass(20.0..).aim(40.0..),
            claim("packets that the link drops", controlled, |shares| shares.dropped).pass(..=5.0).aim(..=1.0),
            claim("share of TCP, for comparison", as_it_is, |shares| shares.tcp).pass(..=20.0),
        ],
        data: json!({ "ways": Way::ALL.map(Way::name), "tcp_datagrams_dropped": rounds.iter().map(|round|
            round.map(|Shares { tcp, datagrams, dropped }| [tcp, datagrams, dropped])).collect::<Vec<_>>() }),
        ..Findings::default()
    })
}

fn choices() -> Vec<Choice> {
    setup! {
        ours "program": "{}, and at the receiver {}", IPERF[1], IPERF[0] => "five times what the link carries, and it never asks";
        ours "link": "{RATE}, {} ms round trip, a queue of {} ms", RTT.as_millis(), QUEUE.as_millis()
            => "that of the programs' tests";
        ours "TCP": "one connection of this kernel's CUBIC, which begins a second earlier" => "what a Linux host has";
        ours "time": "{} s of datagrams; TCP's share is of the last {} s", TIME.as_secs_f64(), MEASURED.as_secs_f64()
            => "the flow has found its window by then";
    }
}
