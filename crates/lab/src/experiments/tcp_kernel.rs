//! tcp-kernel: our TCP against the kernel's: identical bytes, and a rate like the kernel's against
//! itself.

mod conditions;
mod kernel;
pub(crate) mod network;
mod recovery;
mod summary;
mod transfer;
mod userspace;

#[cfg(test)]
mod tests;

use std::thread;

use crate::tun::TcpConfig;
use rustix::process::setpriority_process;
use timeous::core::Duration;

use crate::experiment::{About, Bound, Choice, Claim, Experiment, Findings, Forms, LabError, Run, Table};
use conditions::Condition;
use network::{SYSCTLS, TestNetwork};
use summary::{Summary, spread};
use transfer::{Direction, Outcome, Plan, Stack, transfer};

/// Bytes per transfer.
const LEN: usize = 10_000_000;
/// Longest duration of a transfer; most take a tenth of it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Highest priority, as a `nice` value.
const MOST_FAVOURED: i32 = -20;
/// Accepted ratio of our rate to the kernel's: 20 % to either side.
const NEAR: Bound = Bound::Within(0.8, 1.2);

/// Experiment tcp-kernel.
pub(crate) struct TcpKernel;

impl Experiment for TcpKernel {
    fn about(&self) -> About {
        About {
            name: "tcp-kernel",
            title: "Our TCP and the kernel's talk to each other, as fast as the kernel's to itself",
            source: "no paper: what a TCP that is compared with has to show first",
            paper: "nothing; the kernel is what is compared with",
            forms: Forms::Real,
            seeds: 7,
            takes: "real 8 min, as root",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        // A thread's priority applies to it and to the threads that it starts.
        let measured = || {
            let favoured = setpriority_process(None, MOST_FAVOURED).is_ok();
            measure(run, favoured)
        };
        thread::scope(|scope| scope.spawn(measured).join()).expect("a run does not panic")
    }
}

fn measure(run: &Run<'_>, favoured: bool) -> Result<Findings, LabError> {
    let conditions = conditions::all();
    let task =
        run.progress.task("transfers", conditions.iter().map(|condition| 4 * condition.runs(run.seeds) as u64).sum());
    let mut found = Vec::new();
    for condition in &conditions {
        for way in [Direction::Right, Direction::Left] {
            let mut runs = [Vec::new(), Vec::new()];
            for seed in run.seeds().take(condition.runs(run.seeds)) {
                // Stacks alternate, so that other load on the machine affects both.
                for (stack, runs) in [Stack::Kernel, Stack::Timeous].into_iter().zip(&mut runs) {
                    runs.push(one(condition, stack, way, seed)?);
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

fn one(condition: &Condition, stack: Stack, way: Direction, seed: u64) -> Result<TransferResult, LabError> {
    let tcp = TcpConfig::default();
    let links = condition.links();
    let plan = Plan { stack, way, is_called: false, len: LEN, links, seed, tcp, patience: PATIENCE, capture: None };
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
        let runs = |runs: &[TransferResult]| runs.iter().map(summary::record).collect::<Vec<_>>();
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
        Claim::new(&format!("{}: our rate over the kernel's", compared.name()), "", measured, ratio).pass(NEAR)
    });
    [bytes].into_iter().chain(near).collect()
}

fn rates(found: &[ConditionResults]) -> Table {
    let head = ["path", "kernel, Mbit/s", "least to most", "ours, Mbit/s", "least to most", "ours over kernel"];
    let mut table = Table::new("Median rates of 10 MB", &head);
    for compared in found {
        let [kernel, ours] = [&compared.kernel, &compared.ours].map(|runs| Summary::of(runs, LEN));
        let median = |summary: &Summary| format!("{:.2}", summary.median);
        table.row([
            compared.name(),
            median(&kernel),
            spread(&kernel),
            median(&ours),
            spread(&ours),
            format!("{:.3}", ours.median / kernel.median),
        ]);
    }
    table
}

/// Builds a table of the senders' loss recovery: means, for kernel to kernel, then with our stack
/// at one end.
fn repairs(found: &[ConditionResults]) -> Table {
    let head = ["path", "packets lost", "packets sent", "timeouts", "probes", "recoveries", "undone"];
    let mut table = Table::new("The sender: kernel to kernel / with our stack at one end, means", &head);
    for compared in found {
        let link = usize::from(compared.way == Direction::Left);
        let means = |what: &dyn Fn(&Outcome) -> u64| {
            let mean = |runs: &[TransferResult]| {
                let values: Vec<u64> = runs.iter().flatten().map(what).collect();
                values.iter().sum::<u64>() as f64 / values.len() as f64
            };
            format!("{:.1} / {:.1}", mean(&compared.kernel), mean(&compared.ours))
        };
        table.row([
            compared.name(),
            means(&|outcome| outcome.links[link].losses + outcome.links[link].queue_drops),
            means(&|outcome| outcome.links[link].packets_in),
            means(&|outcome| outcome.repairs.timeouts),
            means(&|outcome| outcome.repairs.probes),
            means(&|outcome| outcome.repairs.recoveries),
            means(&|outcome| outcome.repairs.undone),
        ]);
    }
    table
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

fn setup(conditions: &[Condition], seeds: u32, favoured: bool) -> Result<Vec<Choice>, LabError> {
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
    let values: Vec<String> = values.collect::<Result<_, LabError>>()?;
    let set = SYSCTLS.map(|(name, value)| format!("{} = {value}", short(name)));
    let mut setup = vec![
        Choice::ours(
            "topology",
            "namespaces A and B, the emulated router between them; our stack on a TUN device in A, which forwards",
            "both stacks send over the same link, with the same seeds",
        ),
        Choice::ours("link", conditions::LINK, "a loss of 5 % takes long; so the whole ends in minutes"),
        Choice::ours("kernel", format!("Linux {}", network.sysctl("kernel/osrelease")?), "the machine's"),
        Choice::ours("the kernel is set to", set.join(", "), "the same algorithm as ours; no memory between runs"),
        Choice::ours("the kernel has", values.join(", "), "its defaults"),
        Choice::ours("our TCP", "NewReno; SACK, timestamps, RACK, tail loss probe", "its default is what Linux does"),
        Choice::ours(
            "priority",
            if favoured { "nice -20: the emulator, and all ends" } else { "as any program" },
            "our TCP has to be woken for each packet, the kernel's has not: other programs would meet ours only",
        ),
        Choice::ours(
            "runs",
            format!("{} with losses, {} without", conditions[1].runs(seeds), conditions[0].runs(seeds)),
            "the median of rates that losses make random",
        ),
        Choice::ours("time of a transfer", "from the call to the last byte", "alike for both"),
    ];
    setup.extend(conditions.iter().map(|condition| Choice::ours(condition.name, condition.what, "each way")));
    Ok(setup)
}
