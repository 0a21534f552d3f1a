//! cm-cpu: processor time and throughput of the kernel's TCP with its window from the Congestion
//! Manager (Andersen et al. §4.1, figures 4 and 5).

mod transfer;

use rustix::process::setpriority_process;
use serde_json::json;
use timeous::core::Duration;

use super::managed::Managed;
use crate::experiment::{About, Bound, Choice, Claim, Experiment, Findings, Forms, LabError, Run, Table};
use transfer::{Cost, TestLink};

pub(crate) struct CmCpu;

/// Bytes per connection, and number of rounds.
const SIZES: [Size; 3] = [
    Size { bytes: 10_000_000, rounds: 150 },
    Size { bytes: 100_000_000, rounds: 60 },
    Size { bytes: 1_000_000_000, rounds: 24 },
];
/// Highest priority, as a `nice` value.
const MOST_FAVOURED: i32 = -20;

#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: usize,
    rounds: usize,
}

impl Size {
    fn name(self) -> String {
        format!("{} MB", self.bytes / 1_000_000)
    }
}

/// Congestion control of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CongestionControl {
    /// Kernel's Reno, the baseline.
    Reno,
    /// Kernel's Reno once more: shows the noise between two identical setups.
    Again,
    Cubic,
    Managed,
}

impl CongestionControl {
    const ALL: [Self; 4] = [Self::Reno, Self::Managed, Self::Again, Self::Cubic];

    fn name(self) -> &'static str {
        match self {
            Self::Reno => "Reno",
            Self::Again => "Reno again",
            Self::Cubic => "CUBIC",
            Self::Managed => "TCP/CM",
        }
    }

    fn congestion_control(self, managed: &Managed) -> &str {
        match self {
            Self::Reno | Self::Again => "reno",
            Self::Cubic => "cubic",
            Self::Managed => managed.name(),
        }
    }
}

impl Experiment for CmCpu {
    fn about(&self) -> About {
        About {
            name: "cm-cpu",
            title: "The kernel's TCP with its window from the Congestion Manager costs what it did",
            source: "Andersen et al. §4.1, figures 4 and 5",
            paper: "at most 0.5 % less throughput, and for long connections slightly less than 1 % more CPU",
            forms: Forms::Real,
            seeds: 1,
            takes: "real 2 min, as root, built with the feature bpf",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let measured = || {
            // A thread's priority applies to it and to the threads that it starts.
            let favoured = setpriority_process(None, MOST_FAVOURED).is_ok();
            measure(run).map(|rounds| findings(&rounds, favoured))
        };
        std::thread::scope(|scope| scope.spawn(measured).join()).expect("a run does not panic")
    }
}

/// Costs of one round, in the order of [`CongestionControl::ALL`].
type Round = [Cost; CongestionControl::ALL.len()];

fn measure(run: &Run<'_>) -> Result<Vec<(Size, Vec<Round>)>, LabError> {
    let managed = Managed::load()?;
    let wire = TestLink::make()?;
    let mut measured = Vec::new();
    for size in SIZES {
        let task = run.progress.task(&size.name(), size.rounds as u64);
        let mut rounds = Vec::new();
        for number in 0..size.rounds {
            let mut round = [Cost::default(); CongestionControl::ALL.len()];
            // The order rotates, so that each is first equally often: other load on the machine
            // affects all alike.
            for place in 0..CongestionControl::ALL.len() {
                let index = (number + place) % CongestionControl::ALL.len();
                // Each connection begins without the path state of the previous one.
                managed.forget()?;
                round[index] = wire.transfer(CongestionControl::ALL[index].congestion_control(&managed), size.bytes)?;
            }
            rounds.push(round);
            task.step();
        }
        measured.push((size, rounds));
    }
    Ok(measured)
}

/// Ratio of two kinds over all rounds: median, and its 95 % confidence interval.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    median: f64,
    least: f64,
    most: f64,
}

impl Ratio {
    fn of(rounds: &[Round], who: CongestionControl, of: impl Fn(&Cost) -> f64) -> Self {
        let index = |who: CongestionControl| {
            CongestionControl::ALL.iter().position(|&other| other == who).expect("all are in the list")
        };
        let (who, base) = (index(who), index(CongestionControl::Reno));
        let mut ratios: Vec<f64> = rounds.iter().map(|round| of(&round[who]) / of(&round[base])).collect();
        ratios.sort_by(f64::total_cmp);
        let n = ratios.len() as f64;
        // By order statistics: the number of n values below the median is binomial.
        let off = 1.96 * n.sqrt() / 2.0;
        let at = |place: f64| ratios[place.round().clamp(0.0, n - 1.0) as usize];
        Self { median: at((n - 1.0) / 2.0), least: at((n - 1.0) / 2.0 - off), most: at((n - 1.0) / 2.0 + off) }
    }

    fn percent(self) -> String {
        let Self { median, least, most } = self;
        let of = |ratio: f64| 100.0 * (ratio - 1.0);
        format!("{:+.2} % ({:+.2} to {:+.2})", of(median), of(least), of(most))
    }
}

fn throughput(rounds: &[Round], who: CongestionControl) -> Ratio {
    Ratio::of(rounds, who, |cost| 1.0 / cost.took.as_secs_f64())
}

fn cpu(rounds: &[Round], who: CongestionControl) -> Ratio {
    Ratio::of(rounds, who, |cost| cost.cpu.as_secs_f64())
}

fn findings(measured: &[(Size, Vec<Round>)], favoured: bool) -> Findings {
    let mut table = Table::new(
        "Against Reno: medians of the rounds, and between what bounds they are with 95 % certainty",
        &["bytes, who", "rate, Gbit/s", "CPU, ms", "throughput", "CPU"],
    );
    for (size, rounds) in measured {
        for (index, who) in CongestionControl::ALL.into_iter().enumerate() {
            let median = |of: fn(&Cost) -> Duration| {
                let mut values: Vec<f64> = rounds.iter().map(|round| of(&round[index]).as_secs_f64()).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            table.row([
                format!("{}, {}", size.name(), who.name()),
                format!("{:.2}", size.bytes as f64 * 8e-9 / median(|cost| cost.took)),
                format!("{:.2}", median(|cost| cost.cpu) * 1e3),
                throughput(rounds, who).percent(),
                cpu(rounds, who).percent(),
            ]);
        }
    }
    let record = |(size, rounds): &(Size, Vec<Round>)| {
        let costs = |round: &Round| round.map(|cost| json!([cost.took.as_secs_f64(), cost.cpu.as_secs_f64()]));
        json!({ "bytes": size.bytes, "rounds": rounds.iter().map(costs).collect::<Vec<_>>() })
    };
    Findings {
        setup: choices(favoured),
        tables: vec![table],
        claims: measured.iter().rev().flat_map(|(size, rounds)| claims(*size, rounds)).collect(),
        data: json!({ "who": CongestionControl::ALL.map(CongestionControl::name), "seconds_and_cpu": measured.iter().map(record).collect::<Vec<_>>() }),
        ..Findings::default()
    }
}

/// Returns claims about the longest connections, as in the paper; the shorter ones are only shown.
fn claims(size: Size, rounds: &[Round]) -> Vec<Claim> {
    let name = size.name();
    let (throughput, cpu) = (throughput(rounds, CongestionControl::Managed), cpu(rounds, CongestionControl::Managed));
    let less = |ratio: f64| 100.0 * (1.0 - ratio);
    let claims = vec![
        Claim::new(&format!("{name}: throughput lost, %"), "≤ 0.5", throughput.percent(), less(throughput.median))
            .pass(Bound::AtMost(2.0)),
        Claim::new(&format!("{name}: more CPU, %"), "< 1", cpu.percent(), -less(cpu.median)).pass(Bound::AtMost(3.0)),
        Claim::new(
            &format!("{name}: throughput lost at least, with 95 % certainty, %"),
            "",
            format!("{:.2}", less(throughput.most)),
            less(throughput.most),
        )
        .aim(Bound::AtMost(0.0)),
        Claim::new(
            &format!("{name}: more CPU at least, with 95 % certainty, %"),
            "",
            format!("{:.2}", -less(cpu.least)),
            -less(cpu.least),
        )
        .aim(Bound::AtMost(0.0)),
    ];
    claims
}

fn choices(favoured: bool) -> Vec<Choice> {
    let rounds = SIZES.map(|size| format!("{} × {}", size.rounds, size.name()));
    vec![
        Choice::paper("connections", "one at a time, from a few megabytes to a gigabyte", "§4.1, ttcp"),
        Choice::ours(
            "path",
            "a veth pair between two namespaces, 1500 bytes, offloads as they are",
            "the paper's Ethernet was saturated at 100 Mbit/s; here the processors are the limit, and each cost shows",
        ),
        Choice::ours(
            "compared",
            "the kernel's Reno, the same again, and its CUBIC",
            "the second tells how far equals are apart",
        ),
        Choice::ours("rounds", rounds.join(", "), "each of all four, in turn; ratios are of one round"),
        Choice::ours(
            "CPU",
            "of the process: sender, receiver, and what the kernel does in their names",
            "softirqs run in the name of whom they interrupt; both ends are this process, each on a processor of its own",
        ),
        Choice::ours("paths", "forgotten after each connection", "otherwise TCP/CM would begin with the window before"),
        Choice::ours("priority", if favoured { "nice -20" } else { "as any program" }, "other programs disturb less"),
    ]
}
