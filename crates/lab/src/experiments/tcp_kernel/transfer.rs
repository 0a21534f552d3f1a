//! One transfer over a bed of its own, between the kernel's TCP at the right and either stack at the left.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::path::Path;
use std::thread;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_engine::clock;
use timeous_engine::tun::{EcnMode, TcpConfig, TcpStatistics, TunHost};
use timeous_net::Counters;

use super::bed::{Bed, Links, OURS, machine};
use super::counted::{self, Repairs};
use super::kernel::{self, Arrived};
use super::ours::Ours;
use crate::experiment::LabError;

/// Where the kernel at the right is called.
const RIGHT: &str = "10.77.0.2:5000";
/// Where our stack at the left is called.
const PORT: u16 = 5_000;

/// Whose TCP stands at the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// The kernel's.
    Kernel,
    /// Ours, on a TUN device.
    Timeous,
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the left.
    Right,
    /// From the right.
    Left,
}

/// What is to be transferred, over what.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) stack: Stack,
    pub(super) way: Way,
    /// The right calls the left, which is ours, rather than the other way round.
    pub(super) is_called: bool,
    pub(super) len: usize,
    pub(super) links: Links,
    pub(super) seed: u64,
    /// Of our stack, if it is that.
    pub(super) tcp: TcpConfig,
    /// Give up after this.
    pub(super) patience: Duration,
    pub(super) capture: Option<&'a Path>,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Whether the bytes that came are those that were sent.
    pub(super) same: bool,
    /// From the call to the last byte.
    pub(super) took: Duration,
    /// What the links counted, forward and back.
    pub(super) links: [Counters; 2],
    /// What our end counted, if it is one.
    pub(super) ours: Option<TcpStatistics>,
    /// What the sender did, whichever stack it is.
    pub(super) repairs: Repairs,
}

impl Outcome {
    /// At which rate the content came.
    pub(super) fn rate(&self, len: usize) -> Rate {
        Rate::from_bytes_in(len as u64, self.took)
    }
}

/// Bytes that no mistake makes by itself.
pub(super) fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut content = vec![0; len];
    Rng::from_seed(seed).fill(&mut content);
    content
}

/// Makes a bed named `name`, and transfers. The inner error says why the transfer was not finished.
pub(super) fn transfer(name: &str, plan: &Plan<'_>) -> Result<Result<Outcome, io::Error>, LabError> {
    let bed = Bed::make(name, &plan.links, plan.seed, plan.capture)?;
    if plan.tcp.ecn == EcnMode::Request {
        bed.request_ecn()?;
    }
    let mut host = match plan.stack {
        Stack::Kernel => None,
        Stack::Timeous => Some(bed.host(plan.tcp.clone(), plan.seed)?),
    };
    if let Some(host) = host.as_mut().filter(|_| plan.is_called) {
        host.listen(PORT);
    }
    let content = content(plan.seed, plan.len);
    let transfer = Transfer { bed: &bed, plan, content: &content };
    let begun = clock::now();
    let arrived = transfer.run(host.as_mut(), begun + plan.patience)?;
    let sender = match plan.way {
        Way::Right => &bed.left,
        Way::Left => &bed.right,
    };
    let kernels = sender.within(counted::by_kernel).map_err(machine)?;
    let kernels = kernels.map_err(LabError::system("read what the kernel counts"))?;
    let links = bed.end()?;
    Ok(arrived.map(|(arrived, ours)| {
        let own = ours.as_ref().filter(|_| plan.way == Way::Right).map(|ours| Repairs {
            timeouts: ours.timeouts,
            probes: ours.tail_probes,
            recoveries: ours.recoveries,
            undone: 0,
        });
        Outcome { same: arrived.same, took: arrived.at - begun, links, ours, repairs: own.unwrap_or(kernels) }
    }))
}

struct Transfer<'a> {
    bed: &'a Bed,
    plan: &'a Plan<'a>,
    content: &'a [u8],
}

impl Transfer<'_> {
    /// Both ends' parts; what has arrived, and what our end counted.
    fn run(
        &self,
        host: Option<&mut TunHost>,
        deadline: Instant,
    ) -> Result<io::Result<(Arrived, Option<TcpStatistics>)>, LabError> {
        let to: SocketAddrV4 = RIGHT.parse().expect("an address");
        let listener = self.bed.right.within(|| TcpListener::bind(to)).map_err(machine)?;
        let listener = listener.map_err(LabError::system("listen"))?;
        thread::scope(|scope| {
            let right = scope.spawn(|| self.at_right(&listener, deadline));
            let left = match host {
                Some(host) => self.ours(host, to, deadline),
                None => {
                    let work = || self.kernels(to, deadline).map(|arrived| (arrived, None));
                    self.bed.left.within(work).map_err(machine)?
                }
            };
            let right = right.join().expect("the right does not panic");
            Ok(left.and_then(|(left, ours)| Ok((left.or(right?).expect("one of the two receives"), ours))))
        })
    }

    /// The right's part; what has arrived there, if it is the one that receives.
    fn at_right(&self, listener: &TcpListener, deadline: Instant) -> io::Result<Option<Arrived>> {
        let stream = match self.plan.is_called {
            false => kernel::accept(listener, deadline)?,
            true => {
                let ours = SocketAddr::new(OURS.into(), PORT);
                self.bed.right.within(|| kernel::connect(ours, deadline)).map_err(io::Error::other)??
            }
        };
        match self.plan.way {
            Way::Right => kernel::receive(stream, self.content, deadline).map(Some),
            Way::Left => kernel::send(stream, self.content, deadline).map(|()| None),
        }
    }

    /// The left's part, by the kernel.
    fn kernels(&self, to: SocketAddrV4, deadline: Instant) -> io::Result<Option<Arrived>> {
        let stream = kernel::connect(to.into(), deadline)?;
        match self.plan.way {
            Way::Right => kernel::send(stream, self.content, deadline).map(|()| None),
            Way::Left => kernel::receive(stream, self.content, deadline).map(Some),
        }
    }

    /// The left's part, by our stack.
    fn ours(
        &self,
        host: &mut TunHost,
        to: SocketAddrV4,
        deadline: Instant,
    ) -> io::Result<(Option<Arrived>, Option<TcpStatistics>)> {
        let mut ours = Ours { host, deadline, statistics: TcpStatistics::default() };
        let id = if self.plan.is_called { ours.accept()? } else { ours.connect(to)? };
        let arrived = match self.plan.way {
            Way::Right => ours.send(id, self.content).map(|()| None)?,
            Way::Left => ours.receive(id, self.content).map(Some)?,
        };
        ours.finish(id)?;
        Ok((arrived, Some(ours.statistics)))
    }
}
