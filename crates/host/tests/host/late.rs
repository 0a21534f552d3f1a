//! Late choice over TCP: no torn or duplicate datagram is ever delivered, and middleboxes see valid TCP.

use std::collections::BTreeSet;

use timeous_choice::Deadlines;
use timeous_cm::Kind;
use timeous_core::{AduMeta, AduSeq, Duration, Fate, Instant, LateChoice, PathState, Queue, Rng};
use timeous_host::sources::{Cbr, OnFull};
use timeous_host::{
    Application, Feed, Handle, Machine, Middlebox, MiddleboxBehaviour, Outlet, Socket, Stream, Tcp, TcpSession,
    TcpStatus, stamp,
};
use timeous_net::LinkConfig;
use timeous_net::link::{Jitter, Loss};
use timeous_net::sim::{Host, Network, NodeId, Packet};
use timeous_seal::Secret;
use timeous_tcp::{CloseReason, Config, LossDetection, Receiving, Segment, Sending};

use crate::support::{PORT, at, left, link, ms, remote, right};

/// Late choice that finds each sent datagram worth a retransmission at random.
struct Fickle {
    rng: Rng,
    worth: f64,
}

impl LateChoice for Fickle {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        Deadlines.choose(now, path, queue);
    }

    fn is_worth_repeating(&mut self, _: Instant, _: &PathState, _: &AduMeta) -> bool {
        self.rng.chance(self.worth)
    }
}

/// A source of packets with random lengths, some without a deadline.
struct Offers {
    rng: Rng,
    next: Instant,
    left: u32,
    payload: Vec<u8>,
}

impl Application for Offers {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        while self.next <= now && self.left > 0 {
            self.next = now + Duration::from_micros(self.rng.below(20_000));
            let len = 8 + self.rng.below(1_200) as usize;
            let deadline = self.rng.chance(0.8).then(|| now + Duration::from_millis(self.rng.below(400)));
            stamp::write(outlet.next_seq(), len, &mut self.payload);
            let meta = AduMeta { enqueued: now, deadline, ..AduMeta::default() };
            let _full = outlet.send(meta, &self.payload);
            self.left -= 1;
        }
        if self.left == 0 {
            outlet.finish();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }
}

/// Records what it receives.
#[derive(Default)]
struct Keeper(Vec<Vec<u8>>);

impl Application for Keeper {
    fn run(&mut self, _: Instant, _: &mut dyn Outlet) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_received(&mut self, _: Instant, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
}

type Box = Middlebox<Machine>;

/// A sender behind a middlebox, and a receiver.
struct World {
    network: Network<Box>,
    ends: (NodeId, NodeId),
    agents: (Handle<Tcp>, Handle<Tcp>),
}

impl World {
    fn new(
        seed: u64,
        stream: Stream,
        config: &Config,
        way: LinkConfig,
        behaviour: MiddleboxBehaviour,
        unordered: bool,
    ) -> Self {
        Self::between(seed, stream, (config, config.clone()), way, behaviour, unordered)
    }

    /// Creates a world whose receiver has settings of its own.
    fn between(
        seed: u64,
        stream: Stream,
        (config, receiver): (&Config, Config),
        way: LinkConfig,
        behaviour: MiddleboxBehaviour,
        unordered: bool,
    ) -> Self {
        let mut network = Network::new(seed);
        let here = network.add_host(left(1), Middlebox::new(Machine::new(left(1)), behaviour));
        let there = network.add_host(right(1), Middlebox::new(Machine::new(right(1)), MiddleboxBehaviour::Pass));
        let back = LinkConfig { loss: Loss::None, ..way.clone() };
        network.connect(here, there, way, back);
        let receiving = if unordered { Receiving::Unordered } else { Receiving::Stream };
        let receiver = Config { receiving, ..receiver };
        let listener = network.with_host(there, |_, host| {
            let host = host.host_mut();
            let own = host.add_manager(Kind::NewReno);
            let feed = || Feed::from(Socket::new(Keeper::default()));
            host.add(PORT, own, Tcp::listener(feed, receiver, Rng::from_seed(seed)).expecting_records())
        });
        let caller = network.with_host(here, |_, host| {
            let host = host.host_mut();
            let own = host.add_manager(Kind::NewReno);
            let tcp = Tcp::caller(remote(1), Instant::ZERO, stream, config.clone(), Rng::from_seed(seed + 1));
            host.add(9_000, own, tcp)
        });
        Self { network, ends: (here, there), agents: (caller, listener) }
    }

    fn sender(&self) -> &TcpSession {
        self.network.host(self.ends.0).host().agent(self.agents.0).session().unwrap()
    }

    fn receiver(&self) -> &TcpSession {
        self.network.host(self.ends.1).host().agent(self.agents.1).session().unwrap()
    }

    fn delivered(&self) -> &[Vec<u8>] {
        &self.receiver().application::<Keeper>().unwrap().0
    }
}

fn offers(seed: u64, worth: f64) -> Stream {
    let rng = Rng::from_seed(seed);
    let offers = Offers { rng: rng.clone(), next: Instant::ZERO, left: 400, payload: Vec::new() };
    Stream::new(offers).choice(std::boxed::Box::new(Fickle { rng, worth }))
}

/// Checks that every delivered datagram was offered, is whole, and is delivered once. Returns their numbers.
fn check_delivered(world: &World, what: &str) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    let mut offered = Vec::new();
    for bytes in world.delivered() {
        let seq = stamp::read(bytes).unwrap_or(AduSeq(u64::MAX));
        let adu = world.sender().journal().adu(seq).unwrap_or_else(|| panic!("{what}: nobody offered {seq:?}"));
        stamp::write(seq, adu.len, &mut offered);
        assert!(*bytes == offered, "{what}: {seq:?} is torn");
        assert!(numbers.insert(seq.0), "{what}: {seq:?} came twice");
    }
    numbers
}

#[test]
fn nothing_torn_is_ever_delivered_and_nothing_twice() {
    let (replaced, padded, _) = over_all_paths(false, None);
    assert!(replaced > 100 && padded > 100, "{replaced} replaced, {padded} padded: the test tests nothing");
}

#[test]
fn with_bundling_nothing_torn_is_delivered_and_nothing_twice_either() {
    let (replaced, padded, bundles) = over_all_paths(true, None);
    let what = format!("{replaced} replaced, {padded} padded, {bundles} bundles: the test tests nothing");
    assert!(replaced > 100 && padded > 100 && bundles > 50, "{what}");
}

#[test]
fn encrypted_nothing_torn_is_delivered_and_nothing_twice_either() {
    let (replaced, padded, bundles) = over_all_paths(true, Some(Secret::new([7; 32])));
    let what = format!("{replaced} replaced, {padded} padded, {bundles} bundles: the test tests nothing");
    assert!(replaced > 100 && padded > 100 && bundles > 50, "{what}");
}

/// Without the right secret at the receiver, everything is acknowledged and nothing delivered.
#[test]
fn encrypted_records_are_read_with_the_same_secret_only() {
    for (unordered, right) in [(false, true), (false, false), (true, true), (true, false)] {
        let secret = |byte| Some(Secret::new([byte; 32]));
        let config = Config { sending: Sending::LateChoice, secret: secret(1), ..Config::default() };
        let receiver = Config { secret: secret(if right { 1 } else { 2 }), ..config.clone() };
        let stream = periodic(1.0, ms(60_000));
        let way = link(5_000, 30, 100);
        let mut world = World::between(7, stream, (&config, receiver), way, MiddleboxBehaviour::Pass, unordered);
        world.network.run_until(at(60_000));
        assert_eq!(world.sender().journal().count(Fate::Acked), 1_500);
        assert_eq!(check_delivered(&world, "encrypted").len(), if right { 1_500 } else { 0 });
    }
}

/// Returns the numbers of places replaced by another datagram, of places padded, and of bundles.
fn over_all_paths(bundling: bool, secret: Option<Secret>) -> (u64, u64, u64) {
    let behaviours = [
        MiddleboxBehaviour::Pass,
        MiddleboxBehaviour::Split,
        MiddleboxBehaviour::Merge,
        MiddleboxBehaviour::CachedOriginal,
        MiddleboxBehaviour::Silence,
        MiddleboxBehaviour::Rewrite,
    ];
    let (mut replaced, mut padded, mut bundles) = (0, 0, 0);
    for seed in 0..48_u64 {
        let mut rng = Rng::from_seed(seed * 7);
        let behaviour = behaviours[seed as usize % behaviours.len()];
        let config = Config {
            sending: Sending::LateChoice,
            bundling,
            secret: secret.clone(),
            sack: rng.chance(0.8),
            timestamps: rng.chance(0.8),
            tail_loss_probe: rng.chance(0.7),
            loss_detection: if rng.chance(0.7) { LossDetection::Rack } else { LossDetection::DupThresh },
            ..Config::default()
        };
        let spread = ms(rng.below(20));
        let jitter = Jitter { spread, reorders: rng.chance(0.5), ..Jitter::default() };
        let loss = Loss::Bernoulli { p: rng.unit() * 0.2 };
        let way = LinkConfig { loss, jitter, ..link(1 + rng.below(3_000), 30, 60) };
        let unordered = rng.chance(0.7);
        let what = format!("seed {seed}, {behaviour:?}");
        let mut world = World::new(seed, offers(seed, rng.unit()), &config, way, behaviour, unordered);
        world.network.run_until(at(600_000));
        let delivered = check_delivered(&world, &what);
        let sender = world.sender();
        replaced += sender.statistics().replaced;
        padded += sender.statistics().padded;
        bundles += sender.statistics().bundles;
        for adu in sender.journal().adus() {
            let seq = adu.meta.seq.0;
            assert!(adu.fate.is_some(), "{what}: {seq} has no fate");
            // If a middlebox sends its cached original, the acknowledgement counts for the replacement.
            let is_believed = behaviour != MiddleboxBehaviour::CachedOriginal || adu.meta.deadline.is_none();
            if adu.fate == Some(Fate::Acked) && is_believed && sender.status() == FINISHED {
                assert!(delivered.contains(&seq), "{what}: {seq} was acknowledged and never came");
            }
            if adu.meta.deadline.is_none()
                && sender.status() == FINISHED
                && !adu.left.is_empty()
                && behaviour != MiddleboxBehaviour::Silence
            {
                let is_open = adu.fate == Some(Fate::Lost);
                assert!(delivered.contains(&seq) || is_open, "{what}: {seq}, which never goes stale, is missing");
            }
        }
    }
    (replaced, padded, bundles)
}

const FINISHED: TcpStatus = TcpStatus::Closed(CloseReason::Finished);

/// Records the headers of sent segments.
struct Tapped {
    host: Machine,
    headers: Vec<(Instant, u32, Option<u32>, usize, u16, u8)>,
}

impl Host for Tapped {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        self.host.handle_packet(now, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.host.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let packet = self.host.poll_transmit(now)?;
        let segment = Segment::parse_trusted(&packet.payload).unwrap();
        let header = segment.header;
        let ack = header.ack.map(|ack| ack.value());
        let entry = (now, header.seq.value(), ack, segment.payload.len(), header.window, header.flags.bits());
        self.headers.push(entry);
        Some(packet)
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.host.poll_timeout()
    }
}

#[test]
fn to_everybody_on_the_way_it_is_tcp() {
    for seed in 0..6 {
        // Encrypted on each second path.
        let secret = (seed % 2 == 1).then(|| Secret::new([7; 32]));
        let run = |worth, unordered| {
            let mut network = Network::new(seed);
            let tapped = |address| Tapped { host: Machine::new(address), headers: Vec::new() };
            let (here, there) =
                (network.add_host(left(1), tapped(left(1))), network.add_host(right(1), tapped(right(1))));
            let way = LinkConfig { loss: Loss::Bernoulli { p: 0.03 }, ..link(2_000, 25, 40) };
            network.connect(here, there, way.clone(), LinkConfig { loss: Loss::None, ..way });
            let config = Config { sending: Sending::LateChoice, secret: secret.clone(), ..Config::default() };
            let receiving = if unordered { Receiving::Unordered } else { Receiving::Stream };
            network.with_host(there, |_, host| {
                let own = host.host.add_manager(Kind::Cubic);
                let config = Config { receiving, ..config.clone() };
                host.host.add(PORT, own, Tcp::listener(Feed::none, config, Rng::from_seed(seed)))
            });
            let caller = network.with_host(here, |_, host| {
                let own = host.host.add_manager(Kind::Cubic);
                // The source always has data, all of one length.
                let source =
                    Cbr::new(Duration::from_micros(1), 600, OnFull::Wait).with_latency(Duration::from_secs(60));
                let choice = Fickle { rng: Rng::from_seed(seed), worth };
                let stream = Stream::new(source).choice(std::boxed::Box::new(choice)).slots(64);
                host.host.add(
                    9_000,
                    own,
                    Tcp::caller(remote(1), Instant::ZERO, stream, config, Rng::from_seed(seed + 9)),
                )
            });
            network.run_until(at(15_000));
            let replaced = network.host(here).host.agent(caller).session().unwrap().statistics().replaced;
            (network.host(here).headers.clone(), network.host(there).headers.clone(), replaced)
        };
        let plain = run(1.0, false);
        let late = run(0.0, true);
        assert_eq!(plain.2, 0);
        assert!(late.2 > 20, "{} replaced: the test tests nothing", late.2);
        assert!(plain.0.len() > 1_000);
        assert!(plain.0 == late.0, "seed {seed}: the sender's segments differ");
        assert!(plain.1 == late.1, "seed {seed}: the receiver's segments differ");
    }
}

fn periodic(worth: f64, latency: Duration) -> Stream {
    let source = Cbr::new(ms(10), 500, OnFull::Skip).with_latency(latency).for_packets(1_500);
    Stream::new(source).choice(std::boxed::Box::new(Fickle { rng: Rng::from_seed(3), worth }))
}

#[test]
fn a_path_that_swallows_changed_segments_is_found_out_and_the_stream_goes_on() {
    let config = Config { sending: Sending::LateChoice, ..Config::default() };
    let way = LinkConfig { loss: Loss::Bernoulli { p: 0.03 }, ..link(5_000, 30, 100) };
    let mut world = World::new(5, periodic(0.0, ms(300)), &config, way, MiddleboxBehaviour::Silence, true);
    world.network.run_until(at(120_000));
    assert!(world.sender().changes_refused(), "it was told");
    assert_eq!(world.sender().status(), FINISHED);
    check_delivered(&world, "silence");
    let last = world.receiver().arrivals().list().iter().filter_map(|arrival| arrival.seq).max().unwrap();
    assert!(last.0 > 1_490, "the stream went on to its end: {last:?}");
}

#[test]
fn without_a_reason_nothing_changes_and_everything_arrives_out_of_order_or_not() {
    for unordered in [false, true] {
        let config = Config { sending: Sending::LateChoice, ..Config::default() };
        let way = LinkConfig { loss: Loss::Bernoulli { p: 0.05 }, ..link(5_000, 30, 100) };
        let mut world = World::new(6, periodic(1.0, ms(60_000)), &config, way, MiddleboxBehaviour::Pass, unordered);
        world.network.run_until(at(120_000));
        assert_eq!((world.sender().statistics().replaced, world.sender().statistics().padded), (0, 0));
        assert_eq!(check_delivered(&world, "plain").len(), 1_500);
        assert_eq!(world.sender().journal().count(Fate::Acked), 1_500);
        let order: Vec<_> = world.receiver().arrivals().list().iter().map(|arrival| arrival.seq.unwrap().0).collect();
        assert_eq!(order.is_sorted(), !unordered);
    }
}

/// Bundles carry data as it was first sent, so that no middlebox sees an inconsistent stream; losses repaired by them are found by missing
/// DSACKs.
#[test]
fn a_thin_stream_with_bundling_is_consistent_to_all_middleboxes_and_hides_no_loss() {
    for behaviour in [
        MiddleboxBehaviour::Pass,
        MiddleboxBehaviour::Split,
        MiddleboxBehaviour::CachedOriginal,
        MiddleboxBehaviour::Silence,
        MiddleboxBehaviour::Reset,
    ] {
        let config = Config { sending: Sending::LateChoice, bundling: true, ..Config::default() };
        let run = |loss| {
            let way = LinkConfig { loss, ..link(5_000, 12, 100) };
            let mut world = World::new(7, periodic(1.0, ms(60_000)), &config, way, behaviour, true);
            world.network.run_until(at(120_000));
            assert_eq!(world.sender().status(), FINISHED);
            assert_eq!(check_delivered(&world, "bundling").len(), 1_500, "{behaviour:?}");
            assert_eq!(world.network.host(world.ends.0).inconsistent(), 0, "{behaviour:?}");
            *world.sender().statistics()
        };
        let clean = run(Loss::None);
        assert!(clean.bundles > 1_000, "{behaviour:?}: {clean:?}");
        assert_eq!((clean.hidden_losses, clean.retransmissions), (0, 0), "{behaviour:?}: {clean:?}");
        let lossy = run(Loss::Bernoulli { p: 0.03 });
        assert!(lossy.bundles > 500, "{behaviour:?}: {lossy:?}");
        // A segment split between two datagrams looks as if each had come by itself.
        assert!(lossy.hidden_losses > 10 || behaviour == MiddleboxBehaviour::Split, "{behaviour:?}: {lossy:?}");
    }
}

#[test]
fn a_reset_by_a_middlebox_is_told_as_what_it_is() {
    let config = Config { sending: Sending::LateChoice, ..Config::default() };
    let way = LinkConfig { loss: Loss::Bernoulli { p: 0.03 }, ..link(5_000, 30, 100) };
    let mut world = World::new(5, periodic(0.0, ms(300)), &config, way, MiddleboxBehaviour::Reset, true);
    world.network.run_until(at(120_000));
    assert_eq!(world.sender().status(), TcpStatus::Closed(CloseReason::Reset));
    assert_eq!(world.receiver().status(), TcpStatus::Closed(CloseReason::Reset));
    assert!(world.sender().statistics().replaced + world.sender().statistics().padded > 0);
    check_delivered(&world, "reset");
}
