//! One transfer over a bed of its own, between the kernel's TCP at the right and either stack at
//! the left.

use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::path::Path;
use std::{io, thread};

use serde_json::{Value, json};
use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_engine::clock;
use timeous_net::Counters;
use timeous_testbed::machine::machine;
use timeous_testbed::network::{Links, OURS, TestNetwork};
use timeous_testbed::tun::{EcnMode, TcpConfig, TcpStatistics, TunHost};

use super::kernel::{self, ArrivedBytes};
use super::userspace::UserspaceConnection;
use crate::experiment::{RunError, Sorted};

/// Address at which the right kernel listens.
const RIGHT: &str = "10.77.0.2:5000";
/// Port at which our stack at the left listens.
const PORT: u16 = 5_000;

/// TCP stack at the left end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// Kernel's TCP.
    Kernel,
    /// Our TCP, on a TUN device.
    Timeous,
}

/// Direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From left to right.
    Right,
    /// From right to left.
    Left,
}

/// Parameters of a transfer.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) stack: Stack,
    pub(super) way: Direction,
    /// Whether the right end connects to our stack at the left, rather than the reverse.
    pub(super) is_called: bool,
    pub(super) len: usize,
    pub(super) links: Links,
    pub(super) seed: u64,
    /// Configuration of our stack, if it takes part.
    pub(super) tcp: TcpConfig,
    /// Whether our stack sends another byte in the middle.
    pub(super) corrupts: bool,
    /// Longest duration.
    pub(super) patience: Duration,
    pub(super) capture: Option<&'a Path>,
}

/// Outcome of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Whether the received bytes equal the sent ones.
    pub(super) same: bool,
    /// Time from the connect call to the last byte.
    pub(super) took: Duration,
    /// Counters of the links, forward and back.
    pub(super) links: [Counters; 2],
    /// Counters of our end, if it takes part.
    pub(super) ours: Option<TcpStatistics>,
    /// Loss recovery of the sender, for either stack.
    pub(super) repairs: RecoveryCounters,
}

impl Outcome {
    /// Returns the rate at which the content arrived.
    pub(super) fn rate(&self, len: usize) -> Rate {
        Rate::from_bytes_in(len as u64, self.took)
    }
}

/// Returns random content, which no error reproduces by accident.
pub(super) fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut content = vec![0; len];
    Rng::from_seed(seed).fill(&mut content);
    content
}

/// Builds a bed named `name`, and runs the transfer. The inner error is the reason why it was not
/// finished.
pub(super) fn transfer(name: &str, plan: &Plan<'_>) -> Result<Result<Outcome, io::Error>, RunError> {
    let network = TestNetwork::make(name, &plan.links, plan.seed, plan.capture)?;
    if plan.tcp.ecn == EcnMode::Request {
        network.request_ecn()?;
    }
    let mut host = match plan.stack {
        Stack::Kernel => None,
        Stack::Timeous => Some(network.host(plan.tcp.clone(), plan.seed)?),
    };
    if let Some(host) = host.as_mut().filter(|_| plan.is_called) {
        host.listen(PORT);
    }
    let content = content(plan.seed, plan.len);
    let transfer = Transfer { network: &network, plan, content: &content };
    let begun = clock::now();
    let arrived = transfer.run(host.as_mut(), begun + plan.patience)?;
    let sender = match plan.way {
        Direction::Right => &network.left,
        Direction::Left => &network.right,
    };
    let kernels = sender.within(by_kernel).map_err(machine)?;
    let kernels = kernels.map_err(RunError::system("read what the kernel counts"))?;
    let links = network.end()?;
    Ok(arrived.map(|(arrived, ours)| {
        let own = ours.as_ref().filter(|_| plan.way == Direction::Right).map(|ours| RecoveryCounters {
            timeouts: ours.timeouts,
            probes: ours.tail_probes,
            recoveries: ours.recoveries,
            undone: 0,
        });
        Outcome { same: arrived.same, took: arrived.at - begun, links, ours, repairs: own.unwrap_or(kernels) }
    }))
}

struct Transfer<'a> {
    network: &'a TestNetwork,
    plan: &'a Plan<'a>,
    content: &'a [u8],
}

impl Transfer<'_> {
    /// Runs both ends; returns the arrivals, and the counters of our end.
    fn run(
        &self,
        host: Option<&mut TunHost>,
        deadline: Instant,
    ) -> Result<io::Result<(ArrivedBytes, Option<TcpStatistics>)>, RunError> {
        let to: SocketAddrV4 = RIGHT.parse().expect("an address");
        let listener = self.network.right.within(|| TcpListener::bind(to)).map_err(machine)?;
        let listener = listener.map_err(RunError::system("listen"))?;
        thread::scope(|scope| {
            let right = scope.spawn(|| self.at_right(&listener, deadline));
            let left = match host {
                Some(host) => self.ours(host, to, deadline),
                None => {
                    let work = || self.kernels(to, deadline).map(|arrived| (arrived, None));
                    self.network.left.within(work).map_err(machine)?
                }
            };
            let right = right.join().expect("the right does not panic");
            Ok(left.and_then(|(left, ours)| Ok((left.or(right?).expect("one of the two receives"), ours))))
        })
    }

    /// Runs the right end; returns the arrivals there if it receives.
    fn at_right(&self, listener: &TcpListener, deadline: Instant) -> io::Result<Option<ArrivedBytes>> {
        let stream = match self.plan.is_called {
            false => kernel::accept(listener, deadline)?,
            true => {
                let ours = SocketAddr::new(OURS.into(), PORT);
                self.network.right.within(|| kernel::connect(ours, deadline)).map_err(io::Error::other)??
            }
        };
        match self.plan.way {
            Direction::Right => kernel::receive(stream, self.content, deadline).map(Some),
            Direction::Left => kernel::send(stream, self.content, deadline).map(|()| None),
        }
    }

    /// Runs the left end with the kernel's TCP.
    fn kernels(&self, to: SocketAddrV4, deadline: Instant) -> io::Result<Option<ArrivedBytes>> {
        let stream = kernel::connect(to.into(), deadline)?;
        match self.plan.way {
            Direction::Right => kernel::send(stream, self.content, deadline).map(|()| None),
            Direction::Left => kernel::receive(stream, self.content, deadline).map(Some),
        }
    }

    /// Runs the left end with our stack.
    fn ours(
        &self,
        host: &mut TunHost,
        to: SocketAddrV4,
        deadline: Instant,
    ) -> io::Result<(Option<ArrivedBytes>, Option<TcpStatistics>)> {
        let mut ours = UserspaceConnection { host, deadline, statistics: TcpStatistics::default() };
        let id = if self.plan.is_called { ours.accept()? } else { ours.connect(to)? };
        let arrived = match self.plan.way {
            Direction::Right if self.plan.corrupts => {
                let mut content = self.content.to_vec();
                content[self.plan.len / 2] ^= 1;
                ours.send(id, &content).map(|()| None)?
            }
            Direction::Right => ours.send(id, self.content).map(|()| None)?,
            Direction::Left => ours.receive(id, self.content).map(Some)?,
        };
        ours.finish(id)?;
        Ok((arrived, Some(ours.statistics)))
    }
}

/// Loss recovery counters that both stacks define alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecoveryCounters {
    /// Retransmission timeouts.
    pub(super) timeouts: u64,
    /// Tail loss probes.
    pub(super) probes: u64,
    /// Fast recoveries.
    pub(super) recoveries: u64,
    /// Undone window reductions after spurious losses (Linux; ours undoes none).
    pub(super) undone: u64,
}

/// Reads the counters of the calling thread's namespace, since its creation.
pub(super) fn by_kernel() -> io::Result<RecoveryCounters> {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat")?;
    let of = |name: &str| counter(&text, name);
    Ok(RecoveryCounters {
        timeouts: of("TCPTimeouts"),
        probes: of("TCPLossProbes"),
        recoveries: of("TCPSackRecovery") + of("TCPRenoRecovery"),
        undone: of("TCPDSACKUndo") + of("TCPFullUndo") + of("TCPLossUndo"),
    })
}

/// Reads a counter from pairs of lines, names and values; zero if the kernel lacks it.
fn counter(text: &str, name: &str) -> u64 {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()));
    pairs.filter(|(head, _)| *head == name).find_map(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Rates in Mbit/s. An unfinished run counts with rate zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) least: f64,
    /// Median rate; the mean of the middle two for an even number of runs.
    pub(super) median: f64,
    pub(super) most: f64,
}

impl Summary {
    /// Summarises transfers of `len` bytes.
    pub(super) fn of(runs: &[Result<Outcome, String>], len: usize) -> Self {
        let rate = |run: &Result<Outcome, String>| match run {
            Ok(outcome) => outcome.rate(len).as_bps() as f64 / 1e6,
            Err(_) => 0.0,
        };
        Self::of_rates(runs.iter().map(rate).collect())
    }

    fn of_rates(rates: Sorted) -> Self {
        Self { least: rates.percentile(0.0), median: rates.median(), most: rates.percentile(100.0) }
    }
}

/// Formats the range.
pub(super) fn spread(summary: &Summary) -> String {
    format!("{:.2} to {:.2}", summary.least, summary.most)
}

/// Returns a run as JSON.
pub(super) fn record(run: &Result<Outcome, String>) -> Value {
    match run {
        Ok(outcome) => {
            let [forward, back] = outcome.links;
            let link = |counters: timeous_net::Counters| {
                json!({
                    "packets": counters.packets_in,
                    "queue_drops": counters.queue_drops,
                    "losses": counters.losses,
                    "reordered": counters.reordered,
                    "duplicates": counters.duplicates,
                })
            };
            let repairs = outcome.repairs;
            json!({
                "same": outcome.same,
                "seconds": outcome.took.as_secs_f64(),
                "forward": link(forward),
                "back": link(back),
                "sender": {
                    "timeouts": repairs.timeouts,
                    "probes": repairs.probes,
                    "recoveries": repairs.recoveries,
                    "undone": repairs.undone,
                },
                "our_retransmissions": outcome.ours.map(|ours| ours.retransmissions),
            })
        }
        Err(why) => json!({ "failed": why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_below_its_name() {
        let text = "TcpExt: A B\nTcpExt: 1 22\nIpExt: C\nIpExt: 333\n";
        assert_eq!(["A", "B", "C", "D"].map(|name| counter(text, name)), [1, 22, 333, 0]);
    }
}
