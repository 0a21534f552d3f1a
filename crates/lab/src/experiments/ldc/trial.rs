//! Trial: one stream over the link, and the arrival time of each of its packets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_choice::Layers;
use timeous_cm::Kind;
use timeous_host::{Arrivals, Feed, Journal, Machine, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_net::sim::Network;
use timeous_tcp::{Config, EcnMode};

use super::setup::{BYTES, DELAY, LAYERS, LOSS, QUEUE, SECONDS, SIZE, first_way};
use super::source::LayeredSource;

/// Sender of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sender {
    /// Send buffer of a socket.
    Plain,
    /// Packet ring with late choice.
    LateChoice,
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) sender: Sender,
    pub(crate) rate: Rate,
    /// Time from the arrival of the first packet to its playout.
    pub(crate) start_up: Duration,
    pub(crate) seed: u64,
}

/// Outcome of a trial, within the 60 s and until the last playout.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ViewerOutcome {
    pub(crate) sender: Sender,
    pub(crate) kbps: u64,
    pub(crate) start_up: u64,
    pub(crate) seed: u64,
    /// Bytes that arrived in the 60 s.
    pub(crate) received: u64,
    /// Bytes that arrived until the last playout, and bytes among them that were in time.
    pub(crate) arrived: u64,
    pub(crate) in_time: u64,
    /// Share of each layer's bytes that were in time.
    pub(crate) layers: [f64; LAYERS],
    /// For each packet, its second of the stream, and its lateness for playout in seconds; negative
    /// if early.
    #[serde(skip)]
    pub(crate) lateness: Vec<(u64, f64)>,
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 6_000;
/// Bytes of IP's and TCP's headers, without options.
const HEADERS: usize = 40;
/// Start of the stream: its connection is open by then.
const BEGIN: Duration = Duration::from_secs(5);

/// Runs a trial.
pub(crate) fn run(trial: &Trial) -> ViewerOutcome {
    let mut rng = Rng::from_seed(trial.seed ^ trial.rate.as_bps() << 20);
    let mut network = Network::new(rng.next_u64());
    let (from, to) = (network.add_host(HERE, Machine::new(HERE)), network.add_host(THERE, Machine::new(THERE)));
    let way = LinkConfig {
        capacity: Capacity::Fixed(trial.rate),
        queue: Limit::Packets(QUEUE),
        delay: DELAY,
        ..LinkConfig::default()
    };
    let back = LinkConfig { delay: DELAY, ..LinkConfig::default() };
    network.connect(from, to, LinkConfig { loss: Loss::Bernoulli { p: LOSS }, ..way }, back);

    let begin = Instant::ZERO + BEGIN;
    let source = LayeredSource::new(begin, trial.start_up + first_way(trial.rate, SIZE + HEADERS));
    let feed: Feed = match trial.sender {
        Sender::Plain => Socket::new(source).into(),
        Sender::LateChoice => Stream::new(source).slots(4_096).choice(Box::new(Layers::default())).into(),
    };
    let config = Config { mss: SIZE as u16, timestamps: false, ecn: EcnMode::Off, ..Config::default() };
    let listener = Tcp::listener(Feed::none, config.clone(), rng.fork());
    let caller = Tcp::caller(SocketAddr::new(THERE, PORT), Instant::ZERO, feed, config, rng.fork());
    let receiver = network.with_host(to, |_, machine| {
        let own = machine.add_manager(Kind::NewReno);
        machine.add(PORT, own, listener)
    });
    let sender = network.with_host(from, |_, machine| {
        let own = machine.add_manager(Kind::NewReno);
        machine.add(9_000, own, caller)
    });
    network.run_until(begin + Duration::from_secs(SECONDS) + trial.start_up);

    let opened = "a connection over a link that loses one packet in twenty is open after five seconds";
    let journal = network.host(from).agent(sender).session().expect(opened).journal();
    let arrivals = network.host(to).agent(receiver).session().expect(opened).arrivals();
    view(trial, begin, journal, arrivals)
}

fn view(trial: &Trial, begin: Instant, journal: &Journal, arrivals: &Arrivals) -> ViewerOutcome {
    let arrived = of_those_that_left(journal, arrivals);
    let first = arrived.first().map_or(begin, |(_, at)| *at);
    let mut viewed = ViewerOutcome {
        sender: trial.sender,
        kbps: trial.rate.as_bps() / 1_000,
        start_up: trial.start_up.as_millis() / 1_000,
        seed: trial.seed,
        received: arrivals.bytes_between(begin, begin + Duration::from_secs(SECONDS)),
        arrived: 0,
        in_time: 0,
        layers: [0.0; LAYERS],
        lateness: Vec::new(),
    };
    for (seq, at) in arrived {
        let meta = journal.adus()[seq].meta;
        let second = meta.enqueued.saturating_since(begin);
        let playout = first + trial.start_up + second;
        viewed.arrived += SIZE as u64;
        if at <= playout {
            viewed.in_time += SIZE as u64;
            viewed.layers[usize::from(meta.substream.0)] += SIZE as f64 / (SECONDS * BYTES) as f64;
        }
        let late = at.saturating_since(playout).as_secs_f64() - playout.saturating_since(at).as_secs_f64();
        viewed.lateness.push((second.as_millis() / 1_000, late));
    }
    viewed
}

/// Returns number and complete arrival of each ADU that left: the byte stream holds them in the
/// order of their numbers.
fn of_those_that_left(journal: &Journal, arrivals: &Arrivals) -> Vec<(usize, Instant)> {
    let left = journal.adus().iter().enumerate().filter(|(_, adu)| !adu.left.is_empty());
    let mut pieces = arrivals.list().iter();
    let (mut come, mut end, mut at) = (0, 0, Instant::ZERO);
    let mut arrived = Vec::new();
    for (seq, adu) in left {
        end += adu.len as u64;
        while come < end {
            let Some(piece) = pieces.next() else { return arrived };
            come += piece.len as u64;
            at = piece.at;
        }
        arrived.push((seq, at));
    }
    arrived
}
