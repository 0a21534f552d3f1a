//! Cost of a simulated network with the real transports: packet events per second of one core's time.
//!
//! Flows with unlimited data share a 20 Mbit/s bottleneck for a simulated minute: DCCP from a packet ring, with and
//! without late choice, and TCP from a send buffer. A packet event is a packet's entry into a link, or its arrival at a
//! node.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::time::{ClockId, clock_gettime};
use timeous_choice::Age;
use timeous_cm::Kind;
use timeous_core::{Duration, Instant, Rate, Rng};
use timeous_host::sources::Bulk;
use timeous_host::{Dccp, DccpSettings, Feed, Machine, Sink, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit};
use timeous_net::sim::{Network, NodeId};

const PORT: u16 = 5_000;
/// Payload that fits into a packet of either transport, in bytes.
const CHUNK: usize = 1_000;
const ROUNDS: usize = 5;
const SIMULATED: Duration = Duration::from_secs(60);

fn computed() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn address(side: u8, number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, side, number).into()
}

type Flow = fn(&mut Network<Machine>, NodeId, NodeId, SocketAddr, u64);

fn dccp(network: &mut Network<Machine>, from: NodeId, to: NodeId, remote: SocketAddr, seed: u64) {
    call(network, from, to, remote, seed, Stream::new(Bulk::endless(CHUNK)));
}

/// The late choice scans the whole queue for each packet; a live stream's queue is short.
fn dccp_by_age(network: &mut Network<Machine>, from: NodeId, to: NodeId, remote: SocketAddr, seed: u64) {
    let choice = Box::new(Age::new(Duration::from_secs(1)));
    call(network, from, to, remote, seed, Stream::new(Bulk::endless(CHUNK)).choice(choice).slots(64));
}

fn call(network: &mut Network<Machine>, from: NodeId, to: NodeId, remote: SocketAddr, seed: u64, stream: Stream) {
    network.with_host(to, |_, host| {
        let own = host.add_manager(Kind::Aimd);
        let listener = Dccp::listener(|| Stream::new(Sink), DccpSettings::default(), Rng::from_seed(seed));
        host.add(PORT, own, listener);
    });
    network.with_host(from, |_, host| {
        let own = host.add_manager(Kind::Aimd);
        host.add(PORT, own, Dccp::caller(remote, stream, DccpSettings::default(), Rng::from_seed(seed + 1)));
    });
}

fn tcp(network: &mut Network<Machine>, from: NodeId, to: NodeId, remote: SocketAddr, seed: u64) {
    network.with_host(to, |_, host| {
        let own = host.add_manager(Kind::NewReno);
        host.add(PORT, own, Tcp::listener(Feed::none, timeous_tcp::Config::default(), Rng::from_seed(seed)));
    });
    network.with_host(from, |now, host| {
        let own = host.add_manager(Kind::NewReno);
        let socket = Socket::new(Bulk::endless(CHUNK));
        let caller = Tcp::caller(remote, now, socket, timeous_tcp::Config::default(), Rng::from_seed(seed + 1));
        host.add(PORT, own, caller);
    });
}

fn dumbbell(pairs: u8, flow: Flow) -> Network<Machine> {
    let mut network = Network::new(1);
    let bottleneck = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(20_000)),
        delay: Duration::from_millis(20),
        queue: Limit::Packets(100),
        ..LinkConfig::default()
    };
    let machine = |side| move |number| (address(side, number), Machine::new(address(side, number)));
    let access = LinkConfig::default();
    let (left, right) = ((0..pairs).map(machine(1)), (0..pairs).map(machine(2)));
    let shape = network.dumbbell(left, right, &access, bottleneck.clone(), bottleneck);
    for (number, (from, to)) in shape.left.into_iter().zip(shape.right).enumerate() {
        let remote = SocketAddr::new(address(2, number as u8), PORT);
        flow(&mut network, from, to, remote, 2 * number as u64);
    }
    network
}

fn run(pairs: u8, flow: Flow) -> f64 {
    let mut network = dumbbell(pairs, flow);
    let start = computed();
    network.run_until(Instant::ZERO + SIMULATED);
    network.tally().events as f64 / (computed() - start)
}

fn main() {
    println!("{:<32}{:>8}{:>10}", "flows", "M/s", "ns each");
    let kinds: [(&str, Flow); 3] = [("DCCP", dccp), ("DCCP, choice by age of 64", dccp_by_age), ("TCP", tcp)];
    for (name, flow) in kinds {
        for pairs in [1, 4, 16] {
            let mut rates: Vec<f64> = (0..ROUNDS).map(|_| run(pairs, flow)).collect();
            rates.sort_by(f64::total_cmp);
            let rate = rates[ROUNDS / 2];
            println!("{:<32}{:>8.2}{:>10.0}", format!("{pairs} {name}"), rate / 1e6, 1e9 / rate);
        }
    }
}
