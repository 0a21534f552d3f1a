//! Test networks: two machines, or a dumbbell of several pairs, with a bottleneck between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous_cm::Kind;
use timeous_core::{AduMeta, Duration, FrameId, Instant, LateChoice, Priority, Rate, Rng};
use timeous_host::{Application, Dccp, DccpSettings, Machine, Sink, Stream};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_net::sim::{LinkId, Network, NodeId};

pub(crate) const PORT: u16 = 6_511;

pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn left(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 1, n).into()
}

pub(crate) fn right(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 2, n).into()
}

pub(crate) fn remote(n: u8) -> SocketAddr {
    SocketAddr::new(right(n), PORT)
}

/// Returns a bottleneck link: rate in kbit/s, delay in milliseconds, queue in packets.
pub(crate) fn link(kbps: u64, delay: u64, queue: usize) -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(kbps)),
        delay: ms(delay),
        queue: Limit::Packets(queue),
        ..LinkConfig::default()
    }
}

pub(crate) fn lossy(config: LinkConfig, p: f64) -> LinkConfig {
    LinkConfig { loss: Loss::Bernoulli { p }, ..config }
}

/// Pairs of machines around one bottleneck: `lefts[n]` and `rights[n]` form a pair.
pub(crate) struct Dumbbell {
    pub(crate) network: Network<Machine>,
    pub(crate) lefts: Vec<NodeId>,
    pub(crate) rights: Vec<NodeId>,
    pub(crate) bottleneck: LinkId,
}

impl Dumbbell {
    pub(crate) fn new(seed: u64, pairs: u8, bottleneck: LinkConfig) -> Self {
        Self::behind(seed, pairs, &LinkConfig::default(), bottleneck)
    }

    /// Builds a dumbbell with such access links between the machines and the bottleneck.
    pub(crate) fn behind(seed: u64, pairs: u8, access: &LinkConfig, bottleneck: LinkConfig) -> Self {
        let mut network = Network::new(seed);
        let (west, east) = (network.add_router(), network.add_router());
        let back = LinkConfig { loss: Loss::None, ..bottleneck.clone() };
        let (bottleneck, _) = network.connect(west, east, bottleneck, back);
        let access = || access.clone();
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for n in 1..=pairs {
            let node = network.add_host(left(n), Machine::new(left(n)));
            network.connect(node, west, access(), access());
            lefts.push(node);
            let node = network.add_host(right(n), Machine::new(right(n)));
            network.connect(node, east, access(), access());
            rights.push(node);
        }
        Self { network, lefts, rights, bottleneck }
    }
}

/// Sends a stream over DCCP with repair through `bottleneck`, for `millis`. Returns its frames in order: metadata, and whether each came
/// whole by the deadline of its last part, with all that it refers to.
pub(crate) fn frames_shown(
    seed: u64,
    bottleneck: LinkConfig,
    source: impl Application + 'static,
    choice: Box<dyn LateChoice>,
    millis: u64,
) -> Vec<(AduMeta, bool)> {
    let mut net = Dumbbell::new(seed, 1, bottleneck);
    let listener = net.network.with_host(net.rights[0], |_, host| {
        let own = host.add_manager(Kind::Live);
        host.add(PORT, own, Dccp::listener(|| Stream::new(Sink), DccpSettings::default(), Rng::from_seed(seed ^ 1)))
    });
    let caller = net.network.with_host(net.lefts[0], |_, host| {
        let own = host.add_manager(Kind::Live);
        let stream = Stream::new(source).choice(choice).repair(Priority(1));
        host.add(9_000, own, Dccp::caller(remote(1), stream, DccpSettings::default(), Rng::from_seed(seed)))
    });
    net.network.run_until(at(millis));
    let sender = net.network.host(net.lefts[0]).agent(caller).session().unwrap();
    let receiver = net.network.host(net.rights[0]).agent(listener).session().unwrap();
    let adus = sender.journal().adus();
    let came = receiver.arrivals().first_by_seq(adus.len());
    // Each frame by its number: its deadline, and when the last of it came.
    let mut frames: BTreeMap<FrameId, (AduMeta, Option<Instant>)> = BTreeMap::new();
    for (adu, at) in adus.iter().zip(came) {
        let (meta, last) = frames.entry(adu.meta.frame).or_insert((adu.meta, at));
        meta.deadline = meta.deadline.max(adu.meta.deadline);
        *last = last.zip(at).map(|(last, at)| last.max(at));
    }
    let mut shown = BTreeMap::new();
    for (frame, (meta, last)) in &frames {
        let is_in_time = last.is_some_and(|last| !meta.is_expired(last));
        let has_references = meta.references.iter().all(|reference| shown.get(&reference) == Some(&true));
        shown.insert(*frame, is_in_time && has_references);
    }
    frames.into_iter().map(|(frame, (meta, _))| (meta, shown[&frame])).collect()
}
