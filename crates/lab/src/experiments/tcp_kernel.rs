//! tcp-kernel: our TCP against the kernel's: identical bytes, and a rate like the kernel's against
//! itself.

mod kernel;
#[cfg(test)]
mod tests;
mod transfer;
mod userspace;

use std::thread;

use rustix::process::setpriority_process;
use timeous::core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss, Reorder};
use timeous_testbed::network::{Links, SYSCTLS, TestNetwork};
use timeous_testbed::tun::TcpConfig;
use transfer::{Direction, Outcome, Plan, Stack, Summary, spread, transfer};

use crate::experiment::{
    Bound, Choice, Claim, Experiment, Findings, Forms, Rows, Run, RunError, Table, mean, sabotages, setup,
};

/// Bytes per transfer.
const LEN: usize = 10_000_000;
/// Longest duration of a transfer; most take a tenth of it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Highest priority, as a `nice` value.
const MOST_FAVOURED: i32 = -20;
/// Accepted ratio of our rate to the kernel's: 20 % to either side.
const NEAR: Bound = Bound::Within(0.8, 1.2);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcp-kernel",
    title: "Our TCP and the kernel's talk to each other, as fast as the kernel's to itself",
    source: "no paper: what a TCP that is compared with has to show first",
    paper: "nothing; the kernel is what is compared with",
    forms: Forms::Real,
    seeds: 7,
    takes: "real 8 min, as root",
    sabotages: &[SMALL_SEGMENTS, CORRUPT],
    run,
};

sabotages! {
    SMALL_SEGMENTS = "small-segments", "segments of our TCP, and those to it, carry 100 bytes"
        => ["no loss, to the kernel: our rate", "no loss, from the kernel: our rate"];
    CORRUPT = "corrupt", "a byte that our TCP sends is another one"
        => ["the bytes that arrive are those that were sent"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    // A thread's priority applies to it and to the threads that it starts.
    let measured = || {
        let favoured = setpriority_process(None, MOST_FAVOURED).is_ok();
        measure(run, favoured)
    };
    thread::scope(|scope| scope.spawn(measured).join()).expect("a run does not panic")
}

fn measure(run: &Run<'_>, favoured: bool) -> Result<Findings, RunError> {
    let conditions = all_conditions();
    let task =
        run.progress.task("transfers", conditions.iter().map(|condition| 4 * condition.runs(run.seeds) as u64).sum());
    let mut found = Vec::new();
    for condition in &conditions {
        for way in [Direction::Right, Direction::Left] {
            let mut runs = [Vec::new(), Vec::new()];
            for seed in run.seeds().take(condition.runs(run.seeds)) {
                // Stacks alternate, so that other load on the machine affects both.
                for (stack, runs) in [Stack::Kernel, Stack::Timeous].into_iter().zip(&mut runs) {
                    runs.push(one(run, condition, stack, way, seed)?);
                    task.step();
                }
            }
            let [kernel, ours] = runs;
            found.push(ConditionResults { condition: condition.name, way, kernel, ours });
        }
    }
    let mut findings = Findings { setup: setup(&conditions, run.seeds, favoured)?, ..Findings::default() };
    findings.claims = claims(&found);
    findings.tables = vec![rates(&found), repairs(&found)];
    findings.notes = failures(&found);
    findings.data = found.iter().map(ConditionResults::record).collect();
    Ok(findings)
}

/// Outcome of a transfer, or the reason why it was not finished.
type TransferResult = Result<Outcome, String>;

fn one(
    run: &Run<'_>,
    condition: &Condition,
    stack: Stack,
    way: Direction,
    seed: u64,
) -> Result<TransferResult, RunError> {
    let mut tcp = TcpConfig::default();
    if run.breaks(SMALL_SEGMENTS) {
        tcp.mss = 100;
    }
    let plan = Plan {
        stack,
        way,
        is_called: false,
        len: LEN,
        links: condition.links(),
        seed,
        tcp,
        corrupts: run.breaks(CORRUPT),
        patience: PATIENCE,
        capture: None,
    };
    Ok(transfer("tcp", &plan)?.map_err(|error| error.to_string()))
}

/// Transfers under one condition in one direction.
struct ConditionResults {
    condition: &'static str,
    way: Direction,
    kernel: Vec<TransferResult>,
    ours: Vec<TransferResult>,
}

impl ConditionResults {
    fn name(&self) -> String {
        let way = match self.way {
            Direction::Right => "to the kernel",
            Direction::Left => "from the kernel",
        };
        format!("{}, {way}", self.condition)
    }

    fn record(&self) -> serde_json::Value {
        let runs = |runs: &[TransferResult]| runs.iter().map(transfer::record).collect::<Vec<_>>();
        serde_json::json!({ "what": self.name(), "kernel": runs(&self.kernel), "ours": runs(&self.ours) })
    }
}

/// Returns claims: identical bytes everywhere, and a median rate within 20 % of the kernel's.
fn claims(found: &[ConditionResults]) -> Vec<Claim> {
    let all = || found.iter().flat_map(|compared| &compared.ours);
    let same = all().filter(|tried| tried.as_ref().is_ok_and(|outcome| outcome.same)).count();
    let measured = format!("{same} of {}", all().count());
    let bytes = Claim::order("the bytes that arrive are those that were sent", "", measured, same == all().count());
    let near = found.iter().map(|compared| {
        let [kernel, ours] = [&compared.kernel, &compared.ours].map(|runs| Summary::of(runs, LEN));
        let ratio = ours.median / kernel.median;
        let measured = format!("{ratio:.2} ({:.1} Mbit/s beside {:.1})", ours.median, kernel.median);
        Claim::new(format!("{}: our rate over the kernel's", compared.name()), "", measured, ratio).pass(NEAR)
    });
    [bytes].into_iter().chain(near).collect()
}

fn rates(found: &[ConditionResults]) -> Table {
    let rates = |compared: &ConditionResults| [&compared.kernel, &compared.ours].map(|runs| Summary::of(runs, LEN));
    Rows::of(found.iter().map(|compared| (compared, rates(compared))))
        .column("path", |(compared, _)| compared.name())
        .number("kernel, Mbit/s", 2, |(_, [kernel, _])| kernel.median)
        .column("least to most", |(_, [kernel, _])| spread(kernel))
        .number("ours, Mbit/s", 2, |(_, [_, ours])| ours.median)
        .column("least to most", |(_, [_, ours])| spread(ours))
        .number("ours over kernel", 3, |(_, [kernel, ours])| ours.median / kernel.median)
        .table("Median rates of 10 MB")
}

/// Builds a table of the senders' loss recovery: means, for kernel to kernel, then with our stack
/// at one end.
fn repairs(found: &[ConditionResults]) -> Table {
    let means = |compared: &ConditionResults, what: &dyn Fn(&Outcome) -> u64| {
        let mean = |runs: &[TransferResult]| mean(runs.iter().flatten().map(|outcome| what(outcome) as f64));
        format!("{:.1} / {:.1}", mean(&compared.kernel), mean(&compared.ours))
    };
    let links = |compared: &ConditionResults, what: fn(&timeous_net::Counters) -> u64| {
        let link = usize::from(compared.way == Direction::Left);
        means(compared, &|outcome| what(&outcome.links[link]))
    };
    Rows::of(found)
        .column("path", |of| of.name())
        .column("packets lost", |of| links(of, |link| link.losses + link.queue_drops))
        .column("packets sent", |of| links(of, |link| link.packets_in))
        .column("timeouts", |of| means(of, &|outcome| outcome.repairs.timeouts))
        .column("probes", |of| means(of, &|outcome| outcome.repairs.probes))
        .column("recoveries", |of| means(of, &|outcome| outcome.repairs.recoveries))
        .column("undone", |of| means(of, &|outcome| outcome.repairs.undone))
        .table("The sender: kernel to kernel / with our stack at one end, means")
}

fn failures(found: &[ConditionResults]) -> Vec<String> {
    let of = |compared: &ConditionResults| {
        let named = |who: &str, runs: &[TransferResult]| -> Vec<String> {
            let failed = runs.iter().filter_map(|tried| tried.as_ref().err());
            failed.map(|why| format!("{}, {who}: not finished: {why}", compared.name())).collect()
        };
        [named("kernel to kernel", &compared.kernel), named("ours", &compared.ours)].concat()
    };
    found.iter().flat_map(of).collect()
}

fn setup(conditions: &[Condition], seeds: u32, favoured: bool) -> Result<Vec<Choice>, RunError> {
    // This bed only serves to read the kernel's settings.
    let network = TestNetwork::make("tcp", &conditions[0].links(), 0, None)?;
    let asked = [
        "net/ipv4/tcp_sack",
        "net/ipv4/tcp_dsack",
        "net/ipv4/tcp_timestamps",
        "net/ipv4/tcp_window_scaling",
        "net/ipv4/tcp_recovery",
        "net/ipv4/tcp_early_retrans",
        "net/ipv4/tcp_frto",
        "net/ipv4/tcp_ecn",
        "net/ipv4/tcp_rmem",
        "net/ipv4/tcp_wmem",
    ];
    let short = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let values = asked.iter().map(|name| Ok(format!("{} = {}", short(name), network.sysctl(name)?)));
    let values: Vec<String> = values.collect::<Result<_, RunError>>()?;
    let set = SYSCTLS.map(|(name, value)| format!("{} = {value}", short(name)));
    let mut setup = setup! {
        ours "topology": "namespaces A and B, the emulated router between them; our stack on a TUN device in A, which \
            forwards" => "both stacks send over the same link, with the same seeds";
        ours "link": "{}", LINK => "a loss of 5 % takes long; so the whole ends in minutes";
        ours "kernel": "Linux {}", network.sysctl("kernel/osrelease")? => "the machine's";
        ours "the kernel is set to": "{}", set.join(", ") => "the same algorithm as ours; no memory between runs";
        ours "the kernel has": "{}", values.join(", ") => "its defaults";
        ours "our TCP": "NewReno; SACK, timestamps, RACK, tail loss probe" => "its default is what Linux does";
        ours "priority": "{}", if favoured { "nice -20: the emulator, and all ends" } else { "as any program" }
            => "our TCP has to be woken for each packet, the kernel's has not: other programs would meet ours only";
        ours "runs": "{} with losses, {} without", conditions[1].runs(seeds), conditions[0].runs(seeds)
            => "the median of rates that losses make random";
        ours "time of a transfer": "from the call to the last byte" => "alike for both";
    };
    setup.extend(conditions.iter().map(|condition| Choice::ours(condition.name, condition.what, "each way")));
    Ok(setup)
}

/// Description of the link.
const LINK: &str = "40 Mbit/s, 2 ms, a drop-tail queue of 100 packets, each way";

/// Path with one impairment.
#[derive(Clone, Debug)]
struct Condition {
    /// Short name.
    name: &'static str,
    /// Full description.
    what: &'static str,
    link: LinkConfig,
}

/// Number of runs for a path without random losses, whose rate hardly varies.
const FEW: usize = 3;

impl Condition {
    /// Returns the number of runs out of `seeds`: random losses make rates random.
    fn runs(&self, seeds: u32) -> usize {
        let runs = seeds as usize;
        if self.link.loss == Loss::None { runs.min(FEW) } else { runs }
    }

    /// Returns the links of the path.
    fn links(&self) -> Links {
        Links { forward: self.link.clone(), back: self.link.clone() }
    }
}

fn link() -> LinkConfig {
    LinkConfig::with_delay(Duration::from_millis(2)).with_rate(Rate::from_kbps(40_000), Limit::Packets(100))
}

/// Returns all conditions.
fn all_conditions() -> Vec<Condition> {
    let lossy = |p| link().with_loss(Loss::Bernoulli { p });
    let reorder = Reorder { share: 0.01, by: Some(Duration::from_millis(2)) };
    vec![
        Condition { name: "no loss", what: "nothing but the queue drops packets", link: link() },
        Condition { name: "1 % loss", what: "of the packets, each for itself", link: lossy(0.01) },
        Condition { name: "5 % loss", what: "of the packets, each for itself", link: lossy(0.05) },
        Condition {
            name: "reordering",
            what: "1 % of the packets are held back by 2 ms: six or seven others overtake them at this rate",
            link: LinkConfig { reorder, ..link() },
        },
        Condition {
            name: "duplication",
            what: "1 % of the packets arrive twice",
            link: LinkConfig { duplicate: 0.01, ..link() },
        },
    ]
}
