//! Trial: one bottleneck, and the rate of each flow on it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::Kind;
use timeous_host::sources::Bulk;
use timeous_host::{Feed, Handle, Machine, ManagerId, Socket, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit};
use timeous_net::sim::{Dumbbell, Network, NodeId};
use timeous_tcp::Config;

use super::super::cm::greedy::Greedy;
use super::super::cm::packet::HEADER;
use super::super::cm::receiver::{AckPolicy, Receiver};
use super::super::cm::sender::Sender;

pub(super) const RATE: Rate = Rate::from_bps(10_000_000);
pub(super) const RTT: Duration = Duration::from_millis(60);
/// Queue of the bottleneck, in packets: one round trip's worth.
pub(super) const QUEUE: usize = 50;
/// Time within which flows start.
const BEGINNING: Duration = Duration::from_secs(1);
pub(super) const WARM_UP: Duration = Duration::from_secs(20);
pub(super) const TIME: Duration = Duration::from_secs(60);
/// Time slices of the figure.
pub(super) const SLICES: u64 = 30;
/// Bytes of data per segment or datagram.
const SIZE: usize = 1_400;

/// Flows at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Case {
    /// Four TCP connections in one macroflow, beside one TCP of another host.
    One,
    /// Two TCP connections and two request-and-callback applications in one macroflow, beside one
    /// TCP.
    Mixed,
    /// Four independent TCP connections, beside one TCP.
    Apart,
    /// Four TCP connections to one host and two to another: two macroflows of one manager.
    Two,
}

/// Kind of flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowKind {
    Tcp,
    Alf,
}

impl Case {
    pub(super) const ALL: [Self; 4] = [Self::One, Self::Mixed, Self::Two, Self::Apart];

    /// Returns the name for output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => "four TCP in one macroflow, one TCP",
            Self::Mixed => "two TCP and two ALF in one macroflow, one TCP",
            Self::Apart => "four TCP that share nothing, one TCP",
            Self::Two => "four TCP in a macroflow, two in another",
        }
    }

    /// Returns the flows on either side.
    fn sides(self) -> [&'static [FlowKind]; 2] {
        use FlowKind::{Alf, Tcp};
        match self {
            Self::One | Self::Apart => [&[Tcp; 4], &[Tcp]],
            Self::Mixed => [&[Tcp, Alf, Tcp, Alf], &[Tcp]],
            Self::Two => [&[Tcp; 4], &[Tcp; 2]],
        }
    }
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) case: Case,
    pub(super) seed: u64,
}

/// Outcome of a trial: the rate of each flow on either side in each time slice, in kbit/s of data.
pub(super) struct Outcome {
    pub(super) case: Case,
    pub(super) seed: u64,
    pub(super) sides: [Vec<Vec<f64>>; 2],
}

/// Receiving end of a flow.
#[derive(Clone, Copy)]
enum FlowReceiver {
    Tcp(NodeId, Handle<Tcp>),
    Alf(NodeId, Handle<Receiver>),
}

/// Network with the flows on either side.
struct Topology {
    network: Network<Machine>,
    net: Dumbbell,
    rng: Rng,
    sides: [Vec<FlowReceiver>; 2],
}

/// Returns the address of the right host of a pair, with a port.
fn address(pair: usize, port: u16) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 2, pair as u8 + 1), port).into()
}

impl Topology {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut network = Network::new(rng.next_u64());
        let side =
            |n: u8| [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, n, host))).map(|at| (at, Machine::new(at)));
        let jitter = Jitter { spread: RATE.time_for(SIZE as u64) / 2, ..Jitter::default() };
        let access = LinkConfig { jitter, ..LinkConfig::default() };
        let forward = LinkConfig {
            capacity: Capacity::Fixed(RATE),
            queue: Limit::Packets(QUEUE),
            delay: RTT / 2,
            ..LinkConfig::default()
        };
        let back = LinkConfig { delay: RTT / 2, ..LinkConfig::default() };
        let net = network.dumbbell(side(1), side(2), &access, forward, back);
        Self { network, net, rng, sides: [Vec::new(), Vec::new()] }
    }

    fn manager(&mut self, node: NodeId, kind: Kind) -> ManagerId {
        self.network.with_host(node, |_, machine| machine.add_manager(kind))
    }

    /// Adds a flow on a side, from a host on the left to the side's own host on the right.
    fn add(&mut self, side: usize, member: FlowKind, from: NodeId, manager: ManagerId) {
        let to = self.net.right[side];
        let port = 5_000 + (10 * side + self.sides[side].len()) as u16;
        let remote = address(side, port);
        let start = Instant::ZERO + Duration::from_nanos(self.rng.below(BEGINNING.as_nanos()));
        // The receiving end sends no data, so its controller does not matter.
        let any = self.manager(to, Kind::NewReno);
        let end = match member {
            FlowKind::Tcp => {
                let config = Config { mss: SIZE as u16, timestamps: false, ..Config::default() };
                let listener = Tcp::listener(Feed::none, config.clone(), self.rng.fork());
                let source = Socket::new(Bulk::endless(SIZE));
                let caller = Tcp::caller(remote, start, source, config, self.rng.fork());
                self.network.with_host(from, |_, machine| machine.add(port, manager, caller));
                FlowReceiver::Tcp(to, self.network.with_host(to, |_, machine| machine.add(port, any, listener)))
            }
            FlowKind::Alf => {
                let len = SIZE + HEADER;
                let sender = Sender::new(remote, len, start, Duration::ZERO, Greedy { len });
                self.network.with_host(from, |_, machine| machine.add(port, manager, sender));
                let receiver = Receiver::new(AckPolicy::Soon);
                FlowReceiver::Alf(to, self.network.with_host(to, |_, machine| machine.add(port, any, receiver)))
            }
        };
        self.sides[side].push(end);
    }

    /// Returns the received bytes of data, by side and flow.
    fn received(&self) -> [Vec<u64>; 2] {
        let of = |end: &FlowReceiver| match *end {
            FlowReceiver::Tcp(node, handle) => {
                self.network.host(node).agent(handle).session().map_or(0, |session| session.arrivals().total())
            }
            FlowReceiver::Alf(node, handle) => {
                self.network.host(node).agent(handle).arrivals().len() as u64 * SIZE as u64
            }
        };
        self.sides.each_ref().map(|side| side.iter().map(of).collect())
    }
}

impl Trial {
    pub(super) fn run(&self) -> Outcome {
        let mut topology = self.topology();
        let mut sides = topology.sides.each_ref().map(|side| vec![Vec::new(); side.len()]);
        topology.network.run_until(Instant::ZERO + WARM_UP);
        for slice in 1..=SLICES {
            let before = topology.received();
            topology.network.run_until(Instant::ZERO + WARM_UP + TIME / SLICES * slice);
            for ((rates, before), after) in sides.iter_mut().zip(before).zip(topology.received()) {
                for ((rates, before), after) in rates.iter_mut().zip(before).zip(after) {
                    rates.push((8 * (after - before)) as f64 / 1e3 / (TIME / SLICES).as_secs_f64());
                }
            }
        }
        Outcome { case: self.case, seed: self.seed, sides }
    }

    fn topology(&self) -> Topology {
        let mut topology = Topology::new(self.seed);
        let (first, second) = (topology.net.left[0], topology.net.left[1]);
        let [ones, others] = self.case.sides();
        let shared = topology.manager(first, Kind::Aimd);
        for &member in ones {
            let manager = if self.case == Case::Apart { topology.manager(first, Kind::Aimd) } else { shared };
            topology.add(0, member, first, manager);
        }
        // Both macroflows of one manager start at one host; the single TCP starts at another.
        let (from, manager) =
            if self.case == Case::Two { (first, shared) } else { (second, topology.manager(second, Kind::NewReno)) };
        for &member in others {
            topology.add(1, member, from, manager);
        }
        topology
    }
}
