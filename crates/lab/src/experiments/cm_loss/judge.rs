//! Comparison of both throughputs at each loss rate, with standard errors.

use serde_json::json;

use super::flow::{FlowController, LOSSES, LOST, Measured, QUEUE, WARM_UP};
use crate::experiment::{Bound, Choice, Claim, Figure, Findings, LabError, Table};
use crate::report::plot::{Lines, Series};

/// Accepted difference in throughput at each point, as a share.
const PASS: f64 = 0.10;
/// Target for that difference.
const AIM: f64 = 0.03;
/// Standard errors shown to either side.
const ERRORS: f64 = 2.0;

/// Mean over seeds.
#[derive(Clone, Copy, Debug)]
struct Mean {
    value: f64,
    /// Its standard error; NaN with one seed.
    error: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|v| (v - value) * (v - value)).sum();
        Self { value, error: (squares / (count - 1.0) / count).sqrt() }
    }
}

/// Results at one loss rate.
struct Point {
    loss: f64,
    plain: Mean,
    managed: Mean,
    timeouts: [f64; 2],
}

impl Point {
    fn of(loss: f64, measured: &[Measured]) -> Self {
        let mean = |side: FlowController, what: fn(&Measured) -> f64| {
            let of = measured.iter().filter(|m| m.side == side && m.loss == loss);
            Mean::of(&of.map(what).collect::<Vec<_>>())
        };
        Self {
            loss,
            plain: mean(FlowController::Plain, |m| m.throughput),
            managed: mean(FlowController::Managed, |m| m.throughput),
            timeouts: FlowController::ALL.map(|side| mean(side, |m| m.timeouts).value),
        }
    }

    /// Returns the throughput of TCP/CM divided by TCP's.
    fn ratio(&self) -> Mean {
        let value = self.managed.value / self.plain.value;
        let shares = [self.managed, self.plain].map(|mean| mean.error / mean.value);
        Mean { value, error: value * shares[0].hypot(shares[1]) }
    }
}

/// Formats an error as `± 1.2`; empty with a single seed.
fn spread(error: f64, digits: usize) -> String {
    if error.is_finite() { format!(" ± {:.digits$}", ERRORS * error) } else { String::new() }
}

pub(super) fn findings(measured: &[Measured]) -> Result<Findings, LabError> {
    let points: Vec<Point> = LOSSES.iter().map(|&loss| Point::of(loss, measured)).collect();
    Ok(Findings {
        setup: choices(),
        tables: vec![table(&points)],
        figures: vec![figure(&points)?],
        claims: points.iter().map(claim).collect(),
        notes: notes(),
        data: json!({ "flows": measured }),
    })
}

fn table(points: &[Point]) -> Table {
    let head = ["loss, %", "TCP, kbit/s", "TCP/CM, kbit/s", "TCP/CM over TCP", "timeouts a minute, TCP", "TCP/CM"];
    let mut table = Table::new("Throughput (± two standard errors over the seeds)", &head);
    for point in points {
        let rate = |mean: Mean| format!("{:.0}{}", mean.value, spread(mean.error, 0));
        let ratio = point.ratio();
        table.row([
            format!("{}", 100.0 * point.loss),
            rate(point.plain),
            rate(point.managed),
            format!("{:.3}{}", ratio.value, spread(ratio.error, 3)),
            format!("{:.2}", point.timeouts[0]),
            format!("{:.2}", point.timeouts[1]),
        ]);
    }
    table
}

fn figure(points: &[Point]) -> Result<Figure, LabError> {
    let line = |name: &str, of: &dyn Fn(&Point) -> f64| {
        Series::new(name, points.iter().map(|point| (100.0 * point.loss, of(point) / 1e3)).collect())
    };
    let lines = Lines {
        title: "Throughput of TCP and TCP/CM against loss",
        x: "packets that the path loses, %",
        y: "throughput, Mbit/s",
        series: vec![
            line(FlowController::Plain.name(), &|point| point.plain.value),
            line(FlowController::Managed.name(), &|point| point.managed.value),
        ],
    };
    Ok(Figure::new(
        lines.draw()?,
        "10 Mbit/s, 60 ms round trip. As figure 3 of the paper: two curves that should be one.",
    ))
}

fn claim(point: &Point) -> Claim {
    let what = format!("throughput of TCP/CM over that of TCP at {} % loss", 100.0 * point.loss);
    let ratio = point.ratio();
    let measured = format!("{:.3}{}", ratio.value, spread(ratio.error, 3));
    Claim::new(&what, "1: the same curve", measured, ratio.value)
        .pass(Bound::Within(1.0 - PASS, 1.0 + PASS))
        .aim(Bound::Within(1.0 - AIM, 1.0 + AIM))
}

fn choices() -> Vec<Choice> {
    vec![
        Choice::paper("path", "10 Mbit/s, 60 ms round trip, 0 to 5 % loss", "figure 3"),
        Choice::paper(
            "controllers",
            "TCP/CM: the manager's own, AIMD that counts bytes; TCP: NewReno of RFC 5681",
            "§4: the paper compares the CM's AIMD with byte counting to the kernel's own congestion control",
        ),
        Choice::ours(
            "TCP",
            "one code for both: SACK, RACK, tail loss probes, delayed acknowledgements",
            "what differs is who controls congestion",
        ),
        Choice::ours("loss", "of each data packet independently", "the paper does not say how its loss was made"),
        Choice::ours(
            "queue",
            format!("{QUEUE} packets, drop-tail"),
            "a round trip's worth; without losses of the path it is what drops",
        ),
        Choice::ours(
            "counted",
            format!("after {} s, until the path has lost about {LOST} packets, 40 to 150 s", WARM_UP.as_secs_f64()),
            "slow start would count the more the shorter a transfer is; a mean over too few losses says little",
        ),
        Choice::ours(
            "seeds",
            "the path's losses, and the connection's numbers",
            "the mean of the seeds is judged, its standard error shown",
        ),
    ]
}

fn notes() -> Vec<String> {
    vec![
        "What is left of a difference at much loss is pacing: the manager spreads a window of a few packets over the round \
         trip, and a receiver that acknowledges every other segment answers the first of a pair later than if both had \
         come together. Without the pace both curves are the same to the third digit."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_knows_its_error_if_there_are_two() {
        let mean = Mean::of(&[1.0, 3.0]);
        assert_eq!((mean.value, mean.error), (2.0, 1.0));
        assert_eq!((spread(mean.error, 1), spread(Mean::of(&[1.0]).error, 1)), (" ± 2.0".to_owned(), String::new()));
    }
}
