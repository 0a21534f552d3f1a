//! Benchmark of the simulator: packet events per second of CPU time on one core.
//!
//! A packet event is the entry of a packet into a link, or its arrival at a node; a packet that crosses two links makes
//! four. The hosts do next to nothing, so that the network itself is what is measured.

use std::collections::VecDeque;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::time::{ClockId, clock_gettime};
use timeous_core::{Duration, Ecn, Instant, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, CodelConfig, Limit, Loss, QueueKind, RedConfig};
use timeous_net::sim::{Host, LinkId, Network, NodeId, Packet, Protocol};

/// Runs of each network; the median counts.
const ROUNDS: usize = 7;
/// Minimum number of packet events per run.
const EVENTS: u64 = 1_000_000;

/// CPU time of this thread, which depends less on the machine's other load than wall-clock time.
fn computed() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Sends each packet back to where it came from, and packets of its own at an interval if it has one.
struct Echo {
    address: SocketAddr,
    peer: SocketAddr,
    back: VecDeque<Packet>,
    every: Option<Duration>,
    next: Instant,
}

impl Echo {
    fn new(number: usize, peer: usize) -> Self {
        let (address, peer) = (address(number), address(peer));
        Self { address, peer, back: VecDeque::new(), every: None, next: Instant::FAR_FUTURE }
    }

    fn fresh(&self) -> Packet {
        Packet::new(Protocol::Udp, self.address, self.peer, Ecn::Ect0, vec![0; 972])
    }
}

impl Host for Echo {
    fn handle_packet(&mut self, _: Instant, mut packet: Packet) {
        if self.every.is_none() {
            (packet.source, packet.destination) = (packet.destination, packet.source);
            self.back.push_back(packet);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(every) = self.every
            && self.next <= now
        {
            self.next += every;
            self.back.push_back(self.fresh());
        }
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Packet> {
        self.back.pop_front()
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.every.map(|_| self.next)
    }
}

fn address(number: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(0x0a00_0001 + number as u32)), 9)
}

fn link(mbps: u64, delay: u64) -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(1_000 * mbps)),
        delay: Duration::from_millis(delay),
        ..LinkConfig::default()
    }
}

/// Initial load of a host.
#[derive(Clone, Copy)]
enum Load {
    /// Number of packets that go back and forth for ever.
    Window(usize),
    /// Interval between packets; the peer keeps them.
    Interval(Duration),
}

fn begin(network: &mut Network<Echo>, from: NodeId, load: Load) {
    network.with_host(from, |now, host| match load {
        Load::Window(packets) => host.back = (0..packets).map(|_| host.fresh()).collect(),
        Load::Interval(every) => (host.every, host.next) = (Some(every), now),
    });
}

fn dumbbell(pairs: usize, bottleneck: LinkConfig, load: Load) -> Network<Echo> {
    let mut network = Network::new(1);
    let host = |number: usize| (address(number).ip(), Echo::new(number, (number + pairs) % (2 * pairs)));
    let (left, right) = ((0..pairs).map(host), (pairs..2 * pairs).map(host));
    let shape = network.dumbbell(left, right, &link(1_000, 1), bottleneck.clone(), bottleneck);
    shape.left.iter().for_each(|from| begin(&mut network, *from, load));
    network
}

fn chain(links: usize, load: Load) -> Network<Echo> {
    let mut network = Network::new(1);
    let ends = [(address(0).ip(), Echo::new(0, 1)), (address(1).ip(), Echo::new(1, 0))];
    let [first, last] = ends;
    let shape = network.chain(first, last, &vec![link(100, 1); links]);
    begin(&mut network, shape.first, load);
    network
}

/// A tree of routers, eight below each, with hosts below the lowest; each host talks to the one half way round.
fn tree(levels: u32, load: Load) -> Network<Echo> {
    let mut network = Network::new(1);
    let mut row = vec![network.add_router()];
    let hosts = 8usize.pow(levels);
    for level in 1..=levels {
        let mut below = Vec::new();
        for number in 0..8usize.pow(level) {
            let node = match level == levels {
                true => network.add_host(address(number).ip(), Echo::new(number, (number + hosts / 2) % hosts)),
                false => network.add_router(),
            };
            network.connect(row[number / 8], node, link(1_000, 1), link(1_000, 1));
            below.push(node);
        }
        row = below;
    }
    row[..hosts / 2].iter().for_each(|from| begin(&mut network, *from, load));
    network
}

/// Runs until there were enough events; returns events per second.
fn run(mut network: Network<Echo>) -> f64 {
    // Warm-up: route computation and the first growth of the queues are not measured.
    network.run_until(Instant::ZERO + Duration::from_millis(50));
    let before = network.tally().events;
    let start = computed();
    let mut until = network.now();
    while network.tally().events - before < EVENTS {
        until += Duration::from_millis(10);
        network.run_until(until);
    }
    let rate = (network.tally().events - before) as f64 / (computed() - start);
    black_box(&network);
    rate
}

fn report(name: &str, build: impl Fn() -> Network<Echo>) {
    let mut rates: Vec<f64> = (0..ROUNDS).map(|_| run(build())).collect();
    rates.sort_by(f64::total_cmp);
    let rate = rates[ROUNDS / 2];
    println!("{name:<62}{:>8.2}{:>10.0}", rate / 1e6, 1e9 / rate);
}

fn first_link(network: &Network<Echo>) -> LinkId {
    network.links().next().expect("there is a link").0
}

fn main() {
    println!("{:<62}{:>8}{:>10}", "network", "M/s", "ns each");
    let to_and_fro = Load::Window(20);
    report("two hosts, one link each way, 20 packets to and fro", || chain(1, to_and_fro));
    report("chain of 10 links", || chain(10, to_and_fro));
    report("dumbbell, 16 pairs, 20 packets each to and fro", || dumbbell(16, link(100, 10), to_and_fro));
    report("tree, 512 hosts, 2 packets each to and fro", || tree(3, Load::Window(2)));
    let fast = Load::Interval(Duration::from_micros(1_000));
    report("dumbbell, 16 pairs at 8 Mbit/s each, half of it dropped", || {
        dumbbell(16, LinkConfig { queue: Limit::Packets(50), ..link(64, 10) }, fast)
    });
    let red = QueueKind::Red(RedConfig { ecn: false, ..RedConfig::default() });
    report("the same, RED", || dumbbell(16, LinkConfig { kind: red, ..link(64, 10) }, fast));
    let codel = QueueKind::Codel(CodelConfig { ecn: false, ..CodelConfig::default() });
    report("the same, CoDel", || dumbbell(16, LinkConfig { kind: codel, ..link(64, 10) }, fast));
    let loss = Loss::Bernoulli { p: 0.01 };
    report("dumbbell, 16 pairs at 8 Mbit/s each, 1 % lost", || {
        dumbbell(16, LinkConfig { loss, ..link(1_000, 10) }, fast)
    });
    report("dumbbell, to and fro, journeys written down", || {
        let mut network = dumbbell(16, link(100, 10), to_and_fro);
        network.record_journeys();
        network
    });
    report("dumbbell, to and fro, bottleneck captured and sampled each ms", || {
        let mut network = dumbbell(16, link(100, 10), to_and_fro);
        let bottleneck = first_link(&network);
        network.capture(bottleneck, std::io::sink()).expect("a sink takes everything");
        network.sample_link(bottleneck, Duration::from_millis(1));
        network
    });
}
