//! cm-cpu: processor time and throughput of the kernel's TCP with its window from the Congestion
//! Manager (Andersen et al. §4.1, figures 4 and 5).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Barrier;
use std::thread;

use rustix::process::setpriority_process;
use serde_json::json;
use timeous::core::{Duration, Instant};
use timeous_engine::clock;
use timeous_net::emulator::Namespace;
use timeous_testbed::machine::{Call, stay_on, two_processors, veth};
use timeous_testbed::process::Clock;

use super::managed::Managed;
use crate::experiment::{
    Choice, Claim, Experiment, Findings, Forms, Rows, Run, RunError, Sorted, sabotages, setup, values,
};

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

values! {
    /// Congestion control of a connection.
    enum CongestionControl {
        /// Kernel's Reno, the baseline.
        Reno = "Reno",
        Managed = "TCP/CM",
        /// Kernel's Reno once more: shows the noise between two identical setups.
        Again = "Reno again",
        Cubic = "CUBIC",
    }
}

impl CongestionControl {
    fn congestion_control(self, managed: &Managed) -> &str {
        match self {
            Self::Reno | Self::Again => "reno",
            Self::Cubic => "cubic",
            Self::Managed => managed.name(),
        }
    }
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-cpu",
    title: "The kernel's TCP with its window from the Congestion Manager costs what it did",
    source: "Andersen et al. §4.1, figures 4 and 5",
    paper: "at most 0.5 % less throughput, and for long connections slightly less than 1 % more CPU",
    forms: Forms::Real,
    seeds: 1,
    takes: "real 2 min, as root, built with the feature bpf",
    sabotages: &[TWICE],
    run,
};

sabotages! {
    TWICE = "twice", "TCP/CM sends all bytes twice"
        => ["1000 MB: throughput lost, %", "1000 MB: more CPU, %", "100 MB: throughput lost, %", "100 MB: more CPU, %"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let measured = || {
        // A thread's priority applies to it and to the threads that it starts.
        let favoured = setpriority_process(None, MOST_FAVOURED).is_ok();
        measure(run).map(|rounds| findings(&rounds, favoured))
    };
    std::thread::scope(|scope| scope.spawn(measured).join()).expect("a run does not panic")
}

/// Costs of one round, in the order of [`CongestionControl::ALL`].
type Round = [Cost; CongestionControl::ALL.len()];

fn measure(run: &Run<'_>) -> Result<Vec<(Size, Vec<Round>)>, RunError> {
    let managed = Managed::load()?;
    let wire = TestLink::make()?;
    let of_size = |size: Size| {
        let rounds = run.rounds(&size.name(), size.rounds, CongestionControl::ALL, |way| {
            // Each connection begins without the path state of the previous one.
            managed.forget()?;
            let times = if way == CongestionControl::Managed && run.breaks(TWICE) { 2 } else { 1 };
            wire.transfer(way.congestion_control(&managed), times * size.bytes)
        });
        Ok((size, rounds?))
    };
    SIZES.into_iter().map(of_size).collect()
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
        let of = |round: &Round, who: CongestionControl| of(&round[who as usize]);
        let ratios = rounds.iter().map(|round| of(round, who) / of(round, CongestionControl::Reno)).collect::<Sorted>();
        let (least, most) = ratios.median_interval();
        Self { median: ratios.nearest(50.0), least, most }
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
    let median = |rounds: &[Round], who: CongestionControl, of: fn(&Cost) -> Duration| {
        rounds.iter().map(|round| of(&round[who as usize]).as_secs_f64()).collect::<Sorted>().after(50)
    };
    let rows = measured.iter().flat_map(|(size, rounds)| CongestionControl::ALL.map(|who| (size, rounds, who)));
    let table = Rows::of(rows)
        .column("bytes, who", |(size, _, who)| format!("{}, {}", size.name(), who.name()))
        .number("rate, Gbit/s", 2, |(size, rounds, who)| {
            size.bytes as f64 * 8e-9 / median(rounds, *who, |cost| cost.took)
        })
        .number("CPU, ms", 2, |(_, rounds, who)| median(rounds, *who, |cost| cost.cpu) * 1e3)
        .column("throughput", |(_, rounds, who)| throughput(rounds, *who).percent())
        .column("CPU", |(_, rounds, who)| cpu(rounds, *who).percent())
        .table("Against Reno: medians of the rounds, and between what bounds they are with 95 % certainty");
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
    let certain = |what: &str| format!("{name}: {what} at least, with 95 % certainty, %");
    vec![
        Claim::new(format!("{name}: throughput lost, %"), "≤ 0.5", throughput.percent(), less(throughput.median))
            .pass(..=2.0),
        Claim::new(format!("{name}: more CPU, %"), "< 1", cpu.percent(), -less(cpu.median)).pass(..=3.0),
        Claim::number(certain("throughput lost"), "", 2, less(throughput.most)).aim(..=0.0),
        Claim::number(certain("more CPU"), "", 2, -less(cpu.least)).aim(..=0.0),
    ]
}

fn choices(favoured: bool) -> Vec<Choice> {
    let rounds = SIZES.map(|size| format!("{} × {}", size.rounds, size.name()));
    setup! {
        paper "connections": "one at a time, from a few megabytes to a gigabyte" => "§4.1, ttcp";
        ours "path": "a veth pair between two namespaces, 1500 bytes, offloads as they are"
            => "the paper's Ethernet was saturated at 100 Mbit/s; here the processors are the limit, and each cost \
            shows";
        ours "compared": "the kernel's Reno, the same again, and its CUBIC"
            => "the second tells how far equals are apart";
        ours "rounds": "{}", rounds.join(", ") => "each of all four, in turn; ratios are of one round";
        ours "CPU": "of the process: sender, receiver, and what the kernel does in their names"
            => "softirqs run in the name of whom they interrupt; both ends are this process, each on a processor of \
            its own";
        ours "paths": "forgotten after each connection" => "otherwise TCP/CM would begin with the window before";
        ours "priority": "{}", if favoured { "nice -20" } else { "as any program" } => "other programs disturb less";
    }
}

/// The receiver's address.
const RIGHT: &str = "10.79.0.2";
/// Buffer for one write or read, in bytes.
const CHUNK: usize = 256 << 10;

/// Cost of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Time from the first byte written to the last one received.
    took: Duration,
    /// Processor time over all processors.
    cpu: Duration,
}

/// Two network namespaces and a veth pair between them.
struct TestLink {
    left: Namespace,
    right: Namespace,
    /// Processors of the sender and the receiver.
    processors: [Option<usize>; 2],
}

impl TestLink {
    /// Builds namespaces and links.
    fn make() -> Result<Self, RunError> {
        let [left, right] = veth("cpu", &[["10.79.0.1", RIGHT]], true)?;
        Ok(Self { left, right, processors: two_processors() })
    }

    /// Sends `bytes` over one connection with this congestion control.
    fn transfer(&self, congestion_control: &str, bytes: usize) -> Result<Cost, RunError> {
        let address = format!("{RIGHT}:0").parse().expect("an address and a port");
        let call = Call { congestion_control, ..Call::default() };
        let (sending, receiving) = call.open(&self.left, &self.right, address)?;
        let [at_sender, at_receiver] = self.processors;
        // Both threads are running before the clock starts.
        let ready = Barrier::new(2);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                stay_on(at_receiver);
                ready.wait();
                receive(&receiving)
            });
            let sender = scope.spawn(|| {
                stay_on(at_sender);
                ready.wait();
                let begin = (clock::now(), Clock::PROCESS.read());
                send(&sending, bytes).map(|()| begin)
            });
            let begun = sender.join().expect("a sender does not panic");
            let (received, ended, used) = receiver.join().expect("a receiver does not panic")?;
            let (began, before) = begun?;
            if received != bytes {
                return Err(RunError::Machine(format!("{received} of {bytes} bytes arrived over a veth pair")));
            }
            Ok(Cost { took: ended.saturating_since(began), cpu: used.saturating_sub(before) })
        })
    }
}

fn send(mut stream: &TcpStream, bytes: usize) -> Result<(), RunError> {
    let chunk = vec![0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(CHUNK);
        stream.write_all(&chunk[..len]).map_err(RunError::system("send over a veth pair"))?;
        left -= len;
    }
    stream.shutdown(Shutdown::Write).map_err(RunError::system("end a connection"))
}

fn receive(mut stream: &TcpStream) -> Result<(usize, Instant, Duration), RunError> {
    let (mut buffer, mut received) = (vec![0; CHUNK], 0);
    loop {
        match stream.read(&mut buffer).map_err(RunError::system("receive over a veth pair"))? {
            0 => return Ok((received, clock::now(), Clock::PROCESS.read())),
            len => received += len,
        }
    }
}
