//! Client that fetches a file repeatedly, and path state that the server keeps between fetches.

use std::net::{IpAddr, Ipv4Addr};

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::{Kind, Manager};
use timeous_host::{Handle, Machine, ManagerId, SendBuffer, Socket, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit};
use timeous_net::sim::{Network, NodeId};
use timeous_tcp::Config;

use super::server::{FileServer, RequestClient};

/// File size in bytes.
pub(super) const FILE: usize = 128 << 10;
pub(super) const FETCHES: usize = 9;
/// Time from the start of one fetch to the start of the next.
pub(super) const EVERY: Duration = Duration::from_millis(500);
pub(super) const RTT: Duration = Duration::from_millis(75);
pub(super) const RATE: Rate = Rate::from_bps(100_000_000);
/// Random variation of a packet's delay, to either side.
pub(super) const JITTER: Duration = Duration::from_millis(2);
/// Fetch before which the server restarts, if it does.
pub(super) const RESTART: usize = 5;
const PORT: u16 = 80;
/// Server's send buffer: it holds the whole file, so that the application is no limit.
const BUFFER: SendBuffer = SendBuffer::Fixed(1 << 20);

/// State that the server's connections share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SharedState {
    /// None: each connection has a manager of its own, as in a kernel.
    Fresh,
    /// None, with today's initial window of ten packets and NewReno.
    FreshTen,
    /// One manager for all connections.
    Shared,
    /// One manager, whose process restarts; the next one loads the path store.
    Restart,
}

impl SharedState {
    pub(super) const ALL: [Self; 4] = [Self::Fresh, Self::Shared, Self::Restart, Self::FreshTen];

    /// Returns the name for output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fresh => "a manager for each connection",
            Self::FreshTen => "each alone, NewReno from ten packets",
            Self::Shared => "one manager",
            Self::Restart => "one manager, restarted before fetch 5",
        }
    }

    fn kind(self) -> Kind {
        if self == Self::FreshTen { Kind::NewReno } else { Kind::Aimd }
    }
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) memory: SharedState,
    pub(super) seed: u64,
}

/// Duration of each fetch in milliseconds, from the connect call on.
pub(super) struct Outcome {
    pub(super) memory: SharedState,
    pub(super) seed: u64,
    pub(super) took: Vec<f64>,
}

impl Trial {
    pub(super) fn run(&self) -> Outcome {
        let mut rng = Rng::from_seed(self.seed);
        let mut network = Network::new(rng.next_u64());
        let (client, server) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
        let nodes = (network.add_host(client, Machine::new(client)), network.add_host(server, Machine::new(server)));
        let way = LinkConfig {
            capacity: Capacity::Fixed(RATE),
            queue: Limit::Packets(1_000),
            delay: RTT / 2,
            jitter: Jitter { spread: JITTER, ..Jitter::default() },
            ..LinkConfig::default()
        };
        network.connect(nodes.0, nodes.1, way.clone(), way);
        let first = Instant::ZERO + Duration::from_nanos(rng.below(EVERY.as_nanos()));
        let mut shared = network.with_host(nodes.1, |_, machine| machine.add_manager(self.memory.kind()));
        let (mut calls, mut listeners) = (Vec::new(), Vec::new());
        for number in 0..FETCHES {
            let start = first + EVERY * number as u64;
            network.run_until(start);
            if self.memory == SharedState::Restart && number + 1 == RESTART {
                shared = restart(&mut network, nodes.1, (shared, &listeners), self.memory.kind());
            }
            let manager = match self.memory {
                SharedState::Shared | SharedState::Restart => shared,
                SharedState::Fresh | SharedState::FreshTen => {
                    network.with_host(nodes.1, |_, machine| machine.add_manager(self.memory.kind()))
                }
            };
            let (call, listener) = fetch(&mut network, nodes, (server, number), manager, &mut rng);
            calls.push((start, call));
            listeners.push(listener);
        }
        network.run_until(first + EVERY * (FETCHES as u64 + 4));
        let machine = network.host(nodes.0);
        let took = calls.into_iter().map(|(start, call)| {
            let arrivals = machine.agent(call).session().map(|session| session.arrivals());
            let whole = arrivals.filter(|arrivals| arrivals.total() == FILE as u64);
            let end = whole.and_then(|arrivals| arrivals.list().last()).map(|last| last.at);
            end.map_or(f64::INFINITY, |end| 1e3 * end.saturating_since(start).as_secs_f64())
        });
        Outcome { memory: self.memory, seed: self.seed, took: took.collect() }
    }
}

/// Starts a fetch at a port of its own.
fn fetch(
    network: &mut Network<Machine>,
    (client, server): (NodeId, NodeId),
    (address, number): (IpAddr, usize),
    manager: ManagerId,
    rng: &mut Rng,
) -> (Handle<Tcp>, Handle<Tcp>) {
    let port = PORT + number as u16;
    let config = Config::default();
    let serve = || Socket::new(FileServer::new(FILE)).buffer(BUFFER).into();
    let listener = Tcp::listener(serve, config.clone(), rng.fork());
    let listener = network.with_host(server, |_, machine| machine.add(port, manager, listener));
    let caller =
        Tcp::caller((address, port).into(), network.now(), Socket::new(RequestClient::default()), config, rng.fork());
    let call = network.with_host(client, |_, machine| {
        let own = machine.add_manager(Kind::NewReno);
        machine.add(5_000 + number as u16, own, caller)
    });
    (call, listener)
}

/// Restarts the server's process: its connections end, and the next manager gets the stored path
/// state.
fn restart(
    network: &mut Network<Machine>,
    server: NodeId,
    (manager, listeners): (ManagerId, &[Handle<Tcp>]),
    kind: Kind,
) -> ManagerId {
    network.with_host(server, |now, machine| {
        listeners.iter().for_each(|&listener| machine.agent_mut(listener).abort(now));
    });
    network.run_until(network.now());
    network.with_host(server, |_, machine| {
        let mut next = Manager::new(kind.constructor());
        while let Some((destination, learnt)) = machine.manager_mut(manager).poll_learnt() {
            next.recall(destination, learnt, Duration::ZERO);
        }
        machine.add_manager_of(next)
    })
}
