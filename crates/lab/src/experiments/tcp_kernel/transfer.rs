//! One transfer over a bed of its own, between the kernel's TCP at the right and either stack at the left.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_engine::clock;
use timeous_net::Counters;

use super::bed::{Bed, Links, machine};
use super::kernel::{self, Arrived};
use crate::experiment::LabError;

/// Where the kernel at the right is.
const RIGHT: &str = "10.77.0.2:5000";

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
    pub(super) len: usize,
    pub(super) links: Links,
    pub(super) seed: u64,
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
    let to: SocketAddr = RIGHT.parse().expect("an address");
    let listener = bed.right.within(|| TcpListener::bind(to)).map_err(machine)?;
    let listener = listener.map_err(LabError::system("listen"))?;
    let content = content(plan.seed, plan.len);
    let begun = clock::now();
    let deadline = begun + plan.patience;
    let arrived = thread::scope(|scope| {
        let right = scope.spawn(|| -> io::Result<Option<Arrived>> {
            let stream = kernel::accept(&listener, deadline)?;
            match plan.way {
                Way::Right => kernel::receive(stream, &content, deadline).map(Some),
                Way::Left => kernel::send(stream, &content, deadline).map(|()| None),
            }
        });
        let left = at_left(&bed, plan, to, &content, deadline)?;
        let right = right.join().expect("the right does not panic");
        Ok::<_, LabError>(left.and_then(|left| Ok(left.or(right?).expect("one of the two receives"))))
    })?;
    let links = bed.end()?;
    Ok(arrived.map(|arrived| Outcome { same: arrived.same, took: arrived.at - begun, links }))
}

/// The left's part; what has arrived there, if it is the one that receives.
fn at_left(
    bed: &Bed,
    plan: &Plan<'_>,
    to: SocketAddr,
    content: &[u8],
    deadline: Instant,
) -> Result<io::Result<Option<Arrived>>, LabError> {
    let work = || match plan.stack {
        Stack::Kernel => {
            let stream = kernel::connect(to, deadline)?;
            match plan.way {
                Way::Right => kernel::send(stream, content, deadline).map(|()| None),
                Way::Left => kernel::receive(stream, content, deadline).map(Some),
            }
        }
        Stack::Timeous => Err(io::ErrorKind::Unsupported.into()),
    };
    bed.left.within(work).map_err(machine)
}
