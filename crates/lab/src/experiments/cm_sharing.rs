//! cm-sharing: repeated fetches of a file, each over a new connection (Andersen et al. §4.3, figure
//! 7).

mod real;

use std::net::IpAddr;
use std::ops::RangeInclusive;

use timeous::core::{AduMeta, Duration, Instant, Rate, Rng};
use timeous_cm::{Kind, Manager};
use timeous_host::{Application, Handle, Machine, ManagerId, Outlet, SendBuffer, Socket, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit};
use timeous_net::sim::{Network, NodeId};
use timeous_tcp::Config;

use super::machines::{Machines, address};
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Findings, Forms, Grid, Rows, Run, RunError, Sabotage, cross, mean, sabotages,
    setup, values,
};

/// Least time saved by later fetches against those without shared state, as a share.
const PASS: f64 = 0.4;
/// Target for that share.
const AIM: f64 = 0.6;

/// Durations of the fetches of one client in milliseconds.
type Clients = Grid<SharedState, Vec<f64>>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-sharing",
    title: "A file fetched nine times, each time by a new connection",
    source: "Andersen et al. §4.3, figure 7",
    paper: "Later fetches are 40 % faster where the server's connections share what is known of the path",
    forms: Forms::Both,
    seeds: 5,
    takes: "1 s; real 40 s, as root, built with the feature bpf",
    sabotages: &[UNSHARED, FORGOTTEN],
    run,
};

sabotages! {
    UNSHARED = "unshared", "each connection has a manager of its own" => [LATER, FIRST, THEN];
    FORGOTTEN = "forgotten", "the restarted manager is told nothing" => [FIRST];
}

const LATER: &str = "fetches 2 to 9 with one manager: by which share they are faster";
const FIRST: &str = "the first fetch after the restart";
const THEN: &str = "the fetches after that";

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    if run.real {
        return real::run(run);
    }
    let clients: Clients = run.grid("clients", SharedState::ALL, |memory, seed| trial(*memory, seed, run.sabotage));
    let took = |memory, number: usize| took(&clients, memory, number);
    let chart = Chart {
        title: "Nine fetches of 128 kB, each by a new connection",
        x: "fetch",
        y: "time, ms",
        caption: "As figure 7 of the paper: what the server's connections share makes later fetches faster.",
    };
    let point = |&(memory, number): &(SharedState, usize)| (number as f64, took(memory, number));
    Ok(Findings {
        setup: choices(),
        tables: vec![
            Rows::of(1..=FETCHES)
                .column("fetch", usize::to_string)
                .each(
                    SharedState::ALL,
                    |memory| format!("{}, ms", memory.name()),
                    |&number, &memory| format!("{:.0}", took(memory, number)),
                )
                .table("Time from the call to the last byte, mean of the seeds"),
        ],
        figures: vec![chart.of(cross(SharedState::ALL, 1..=FETCHES), |of| of.0.name().to_owned(), point)?],
        claims: claims(&clients),
        notes: Vec::new(),
        data: clients.data(),
    })
}

/// Returns the mean over the seeds for one fetch, counted from one.
fn took(clients: &Clients, memory: SharedState, number: usize) -> f64 {
    clients.mean(&memory, |took| took[number - 1])
}

fn claims(clients: &Clients) -> Vec<Claim> {
    // Share of the time saved against the same fetches without sharing.
    let faster = |memory, than, numbers: RangeInclusive<usize>| {
        let of = |memory| mean(numbers.clone().map(|number| took(clients, memory, number)));
        1.0 - of(memory) / of(than)
    };
    let claim = |what: &str, value: f64| Claim::number(what, "0.40", 3, value).pass(PASS..).aim(AIM..);
    let later = faster(SharedState::Shared, SharedState::Fresh, 2..=FETCHES);
    let first = faster(SharedState::Restart, SharedState::Fresh, RESTART..=RESTART);
    let then = faster(SharedState::Restart, SharedState::Fresh, RESTART + 1..=FETCHES);
    let ten = faster(SharedState::Shared, SharedState::FreshTen, 2..=FETCHES);
    let what = "fetches 2 to 9 with one manager beside NewReno from ten packets, which did not exist then";
    vec![claim(LATER, later), claim(FIRST, first), claim(THEN, then), Claim::number(what, "", 3, ten)]
}

fn choices() -> Vec<Choice> {
    setup! {
        paper "file": "{} kB, fetched {FETCHES} times", FILE >> 10 => "§4.3";
        paper "interval": "{} ms from call to call", EVERY.as_millis() => "§4.3, figure 7";
        paper "round trip": "{} ms", RTT.as_millis() => "§4.3";
        ours "path": "{} Mbit/s, no loss", RATE.as_bps() / 1_000_000
            => "the paper's was the vBNS, between Ethernets of 100 Mbit/s";
        ours "time": "from the call (SYN) to the last byte, the handshake and a request of 200 bytes in it"
            => "what a user waits";
        ours "controller": "the manager's own, beginning with 4 380 bytes (RFC 3390)"
            => "for the shared and for the fresh managers";
        ours "restart": "the manager is thrown away; the next is told what the old one had learnt, as the path store \
            keeps it" => "an age of zero: a process that is replaced";
        ours "jitter": "± {} ms each way", JITTER.as_millis() => "no path is without";
        ours "by seed": "jitter, and when the first fetch begins" => "nothing else is random here";
    }
}

/// File size in bytes.
const FILE: usize = 128 << 10;
const FETCHES: usize = 9;
/// Time from the start of one fetch to the start of the next.
const EVERY: Duration = Duration::from_millis(500);
const RTT: Duration = Duration::from_millis(75);
const RATE: Rate = Rate::from_bps(100_000_000);
/// Random variation of a packet's delay, to either side.
const JITTER: Duration = Duration::from_millis(2);
/// Fetch before which the server restarts, if it does.
const RESTART: usize = 5;
const PORT: u16 = 80;
/// Server's send buffer: it holds the whole file, so that the application is no limit.
const BUFFER: SendBuffer = SendBuffer::Fixed(1 << 20);

values! {
    /// State that the server's connections share.
    enum SharedState {
        /// None: each connection has a manager of its own, as in a kernel.
        Fresh = "a manager for each connection",
        /// One manager for all connections.
        Shared = "one manager",
        /// One manager, whose process restarts; the next one loads the path store.
        Restart = "one manager, restarted before fetch 5",
        /// None, with today's initial window of ten packets and NewReno.
        FreshTen = "each alone, NewReno from ten packets",
    }
}

impl SharedState {
    fn kind(self) -> Kind {
        if self == Self::FreshTen { Kind::NewReno } else { Kind::Aimd }
    }
}

/// Runs a trial; returns the duration of each fetch in milliseconds, from the connect call on.
fn trial(memory: SharedState, seed: u64, sabotage: Option<Sabotage>) -> Vec<f64> {
    let memory = match memory {
        SharedState::Shared | SharedState::Restart if sabotage == Some(UNSHARED) => SharedState::Fresh,
        other => other,
    };
    let mut rng = Rng::from_seed(seed);
    let mut network = Network::new(rng.next_u64());
    let (client, server) = (address(0, 1), address(0, 2));
    let nodes = (network.machine(client), network.machine(server));
    let way = LinkConfig {
        capacity: Capacity::Fixed(RATE),
        queue: Limit::Packets(1_000),
        delay: RTT / 2,
        jitter: Jitter { spread: JITTER, ..Jitter::default() },
        ..LinkConfig::default()
    };
    network.connect(nodes.0, nodes.1, way.clone(), way);
    let first = Instant::ZERO + Duration::from_nanos(rng.below(EVERY.as_nanos()));
    let mut shared = network.with_host(nodes.1, |_, machine| machine.add_manager(memory.kind()));
    let (mut calls, mut listeners) = (Vec::new(), Vec::new());
    for number in 0..FETCHES {
        let start = first + EVERY * number as u64;
        network.run_until(start);
        if memory == SharedState::Restart && number + 1 == RESTART {
            let remembers = sabotage != Some(FORGOTTEN);
            shared = restart(&mut network, nodes.1, (shared, &listeners), memory.kind(), remembers);
        }
        let manager = match memory {
            SharedState::Shared | SharedState::Restart => shared,
            SharedState::Fresh | SharedState::FreshTen => {
                network.with_host(nodes.1, |_, machine| machine.add_manager(memory.kind()))
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
    took.collect()
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
    (network.place(client, 5_000 + number as u16, Kind::NewReno, caller), listener)
}

/// Restarts the server's process: its connections end, and the next manager gets the stored path
/// state.
fn restart(
    network: &mut Network<Machine>,
    server: NodeId,
    (manager, listeners): (ManagerId, &[Handle<Tcp>]),
    kind: Kind,
    remembers: bool,
) -> ManagerId {
    network.with_host(server, |now, machine| {
        listeners.iter().for_each(|&listener| machine.agent_mut(listener).abort(now));
    });
    network.run_until(network.now());
    network.with_host(server, |_, machine| {
        let mut next = Manager::from(kind);
        while let Some((destination, learnt)) = machine.manager_mut(manager).poll_learnt() {
            if remembers {
                next.recall(destination, learnt, Duration::ZERO);
            }
        }
        machine.add_manager_of(next)
    })
}

/// Bytes of a request.
const REQUEST: usize = 200;

/// Client that sends its request as soon as it can.
#[derive(Debug, Default)]
struct RequestClient {
    asked: bool,
}

impl Application for RequestClient {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        if !self.asked {
            let meta = AduMeta { enqueued: now, ..AduMeta::default() };
            outlet.send(meta, &[b'?'; REQUEST]).expect("an empty buffer takes a request");
            self.asked = true;
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Server that sends the file after a request.
#[derive(Debug)]
struct FileServer {
    left: usize,
    asked: bool,
}

impl FileServer {
    fn new(len: usize) -> Self {
        Self { left: len, asked: false }
    }
}

impl Application for FileServer {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        while self.asked && self.left > 0 {
            let len = self.left.min(8 << 10);
            let meta = AduMeta { enqueued: now, ..AduMeta::default() };
            if outlet.send(meta, &vec![0; len]).is_err() {
                return;
            }
            self.left -= len;
            if self.left == 0 {
                outlet.finish();
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_received(&mut self, _: Instant, _: &[u8]) {
        self.asked = true;
    }
}
