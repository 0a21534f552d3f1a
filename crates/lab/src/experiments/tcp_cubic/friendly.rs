//! Reno and CUBIC, each alone on a short path with loss: their average windows (RFC 9438 §4.3, and
//! table 2 of §5.1).

use timeous_cm::Kind;

use super::super::fault::Fault;
use super::super::tcp_formula;
use super::super::tcp_formula::{Cell, Measured, Pattern, Variant};
use crate::experiment::{Bound, Choice, Claim, Extent, Rows, Run, Table, mean, setup};

/// Round-trip time in milliseconds, as in the RFC's table 2.
const RTT: u64 = 10;
/// Loss rates of the path.
const LOSSES: [f64; 3] = [0.001, 0.003, 0.01];
/// Accepted ratio of the average windows to each other and to the RFC's: the same as for a TCP's
/// rate elsewhere.
const PASS: Bound = Bound::Within(0.85, 1.15);
const AIM: Bound = Bound::Within(0.95, 1.05);

/// Both controllers over one path.
#[derive(serde::Serialize)]
pub(super) struct Pair {
    loss: f64,
    pattern: Pattern,
    reno: Vec<Measured>,
    cubic: Vec<Measured>,
}

impl Pair {
    fn ratio(&self) -> f64 {
        window(&self.cubic) / window(&self.reno)
    }

    /// Returns the expected window of both: figure 3 with α = 1 and β = 0.5, from which table 2 is
    /// computed.
    fn expected(&self) -> f64 {
        (1.5 / self.loss).sqrt()
    }
}

/// Returns the average window in packets: packets sent per round trip.
fn window(flows: &[Measured]) -> f64 {
    mean(flows.iter().map(|flow| flow.rate() * RTT as f64 / 1e3))
}

pub(super) fn run(run: &Run<'_>, fault: Option<Fault>) -> Vec<Pair> {
    let flows = |controller, pattern, loss| {
        let fault = fault.filter(|_| controller == Kind::Cubic);
        let cell = move |seed| Cell { variant: Variant::Default, controller, fault, rtt: RTT, loss, pattern, seed };
        // Regular losses are deterministic: one seed suffices.
        let seeds = if pattern == Pattern::Regular { 1 } else { run.seeds as usize };
        let cells: Vec<Cell> = run.seeds().take(seeds).map(cell).collect();
        run.each("each alone", &cells, tcp_formula::flow)
    };
    let mut pairs = Vec::new();
    let is_least = run.extent == Extent::Least;
    // No bound is about random losses.
    let patterns = if is_least { &[Pattern::Regular][..] } else { &[Pattern::Regular, Pattern::Random] };
    for &pattern in patterns {
        for &loss in if is_least { &LOSSES[1..] } else { &LOSSES } {
            let (reno, cubic) = (flows(Kind::NewReno, pattern, loss), flows(Kind::Cubic, pattern, loss));
            pairs.push(Pair { loss, pattern, reno, cubic });
        }
    }
    pairs
}

pub(super) fn table(pairs: &[Pair]) -> Table {
    let lost = |pair: &&Pair| match pair.pattern {
        Pattern::Regular => "every so manieth",
        Pattern::Random => "by chance",
    };
    Rows::of(pairs)
        .column("lost", lost)
        .column("loss, %", |pair| pair.loss * 100.0)
        .number("both by figure 3, packets", 1, |pair| pair.expected())
        .number("NewReno, packets", 1, |pair| window(&pair.reno))
        .number("CUBIC, packets", 1, |pair| window(&pair.cubic))
        .number("CUBIC / NewReno", 2, |pair| pair.ratio())
        .table("Average windows, each alone, round trip 10 ms")
}

pub(super) fn claims(pairs: &[Pair]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for pair in pairs {
        let percent = pair.loss * 100.0;
        let (ratio, own) = (pair.ratio(), window(&pair.cubic) / pair.expected());
        let paper = "1: \"approximately the same average window size\" (§4.3)";
        if pair.pattern == Pattern::Regular {
            let what = format!("average window of CUBIC over NewReno's, {percent} % lost evenly");
            claims.push(Claim::number(what, paper, 3, ratio).pass(PASS).aim(AIM));
            let what = format!("average window of CUBIC over that of figure 3, {percent} % lost evenly");
            claims.push(Claim::number(what, "1 (§4.3, table 2 of §5.1)", 3, own).pass(PASS).aim(AIM));
        } else {
            // The RFC's model does not cover random losses.
            let what = format!("average window of CUBIC over NewReno's, {percent} % lost by chance");
            claims.push(Claim::number(what, paper, 3, ratio));
        }
    }
    claims
}

pub(super) fn choices() -> Vec<Choice> {
    setup! {
        paper "round trip, each alone": "10 ms" => "§5.1, table 2";
        paper "loss, each alone": "as many packets between any two that are lost"
            => "§5: \"the number of packets between two successive packet losses is always 1/p\"";
        ours "loss by chance, beside that": "each packet independently" => "what most paths are thought to be like";
    }
}
