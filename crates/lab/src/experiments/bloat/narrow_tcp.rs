//! The same cells over TCP, beside plain applications over TCP that drop what is of no use.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use timeous::core::{AduMeta, DropReason, Fate, FrameId, Instant, LateChoice, PathState, Queue, Rng};
use timeous::{Options, PolicyName};
use timeous_cm::Kind;
use timeous_host::sources::Frames;
use timeous_host::{Feed, Sink, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::Limit;
use timeous_net::sim::Network;
use timeous_tcp::{Config, Receiving, Sending};

use super::super::machines::Machines;
use super::setup::{Cell, LASTING, PACKET, WARM_UP};
use super::trial::{AFTER, BEGIN, DelayedSource, HERE, Outcome, PORT, THERE, given, outcome_by};
use crate::experiment::values;

values! {
    /// Sender over TCP.
    pub(super) enum TcpSender {
        /// Timeous over its own TCP: the plan, also in retransmissions.
        Timeous = "Timeous over TCP",
        /// Plain application that drops, over TCP with CUBIC.
        DropCubic = "tcp-drop-cubic",
        /// Plain application that drops, over TCP with BBR.
        DropBbr = "tcp-drop-bbr",
    }
}

impl TcpSender {
    fn controller(self) -> Kind {
        match self {
            Self::Timeous => Kind::Live,
            Self::DropCubic => Kind::Cubic,
            Self::DropBbr => Kind::Bbr,
        }
    }

    fn choice(self) -> Box<dyn LateChoice> {
        if self != Self::Timeous {
            return Box::new(PlainApplication::default());
        }
        let mut options = Options::default();
        options.policy = Some(PolicyName::Plan);
        options.choice()
    }
}

/// Application that keeps its data until TCP can send more, and drops what would arrive late, by half of the minimum round trip and
/// the queueing delay, and what refers to it. What TCP has is out of its reach.
#[derive(Default)]
struct PlainApplication {
    dropped: BTreeSet<FrameId>,
}

impl LateChoice for PlainApplication {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        for at in 0..queue.len() {
            let Some((meta, _)) = queue.get(at) else { continue };
            let is_broken = |frame: &FrameId| self.dropped.contains(frame);
            let reason = if meta.is_expired(now + path.one_way()) {
                DropReason::TooLate
            } else if is_broken(&meta.frame) || meta.references.iter().any(|frame| is_broken(&frame)) {
                DropReason::ReferenceLost
            } else {
                continue;
            };
            self.dropped.insert(meta.frame);
            queue.drop_at(at, reason);
        }
    }

    fn is_worth_repeating(&mut self, _: Instant, _: &PathState, _: &AduMeta) -> bool {
        true
    }

    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        if matches!(fate, Fate::Dropped(_)) {
            self.dropped.insert(meta.frame);
        }
    }
}

/// Runs a stream over a cell's link.
pub(super) fn run(cell: &Cell, seed: u64, way: TcpSender) -> Outcome {
    let (frames, rates) = given(cell, seed);
    let source = Frames::new(frames, PACKET).with_latency(cell.deadline);
    let mut rng = Rng::from_seed(seed);
    let mut network = Network::new(rng.next_u64());
    let (here, there) = (network.machine(HERE), network.machine(THERE));
    let forward = LinkConfig {
        capacity: rates.capacity(),
        queue: Limit::Bytes(cell.rate().bytes_in(cell.queue)),
        delay: cell.rtt / 2,
        loss: cell.losses.of_link(),
        ..LinkConfig::default()
    };
    network.connect(here, there, forward, LinkConfig::with_delay(cell.rtt / 2));
    let is_ours = way == TcpSender::Timeous;
    // The plain applications find all of worth, so that nothing changes: TCP takes no more from them than it sends at once.
    let receiving = if is_ours { Receiving::Unordered } else { Receiving::Stream };
    let config = Config { sending: Sending::LateChoice, receive_buffer: 1 << 20, ..Config::default() };
    let stream = Stream::new(DelayedSource::new(source)).slots(4_096).choice(way.choice());
    let caller = Tcp::caller(SocketAddr::new(THERE, PORT), Instant::ZERO, stream, config.clone(), rng.fork());
    let accepted = Config { receiving, ..config };
    let listener = Tcp::listener(|| Feed::from(Socket::new(Sink)), accepted, rng.fork()).expecting_records();
    let receiver = network.place(there, PORT, way.controller(), listener);
    let sender = network.place(here, 9_000, way.controller(), caller);
    network.run_until(Instant::ZERO + BEGIN + LASTING + AFTER);
    let sessions = (network.host(here).agent(sender).session(), network.host(there).agent(receiver).session());
    let (Some(from), Some(to)) = sessions else { return Outcome::default() };
    outcome_by(from.journal(), to.arrivals(), WARM_UP, |meta, at| meta.is_expired(at))
}
