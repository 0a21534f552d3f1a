//! Trial: the stream by one transport, beside FTP and web traffic.

use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rng};
use timeous_cm::Kind;
use timeous_dccp::{Ccid, Config as DccpConfig};
use timeous_host::sources::{Bulk, Web};
use timeous_host::{Dccp, DccpSettings, Feed, Handle, Machine, SendBuffer, Socket, Stream, Tcp, Udp};
use timeous_net::LinkConfig;
use timeous_net::link::Limit;
use timeous_net::sim::{Dumbbell, Network, NodeId};

use super::super::goddard::message::PACKET;
use super::super::goddard::player::{Player, PlayerRules};
use super::super::goddard::probe::{Probe, ProbeRequester, ProbeResponder};
use super::super::goddard::server::{BUFFER, Server};
use super::super::machines::{self, Machines};
use super::differences::SetupDifference;
use super::outcome::Outcome;
use super::setup::{ACCESS, AFTER, FTP, RATE, STREAM, StreamTransport, queue};
use crate::experiment::{Extent, Grid, Run};

/// Outcomes of streams by transport, round-trip time and difference of the setup.
pub(crate) type Streams = Grid<Cell, Outcome>;

/// Phrases for titles: the paper's TCP, or today's.
pub(crate) const NS2: &str = "with ns-2's TCP";
pub(crate) const TODAY: &str = "with today's TCP";

/// Runs every transport at each of these round-trip times (milliseconds) for each seed, with the paper's TCP and with
/// today's.
pub(crate) fn run(run: &Run<'_>, paper: SetupDifference, rtts: &[u64]) -> (Streams, Streams) {
    let broken = broken(run);
    let of = |what, aparts: &[SetupDifference]| {
        let cells = Cell::all(aparts, rtts, &StreamTransport::ALL);
        run.grid(what, cells, |cell, seed| run_cell(cell, seed, broken))
    };
    // No bound is about today's TCP.
    let today = if run.extent == Extent::Least { &[][..] } else { &[SetupDifference::TODAY] };
    (of("streams", &[paper]), of("streams beside today's TCP", today))
}

/// Name and description of the sabotage of all these experiments.
pub(crate) const WITHOUT_DBAT: [&str; 2] = ["no-dbat", "the stream with DBAT is sent without it"];

/// Name and description of the sabotage of §3.2's other half.
pub(crate) const WITHOUT_RANGE: [&str; 2] = ["no-range", "TFRC is not asked to keep to the stream's rate"];

/// Name and description of the sabotage of `dbat-throughput`.
pub(crate) const WITHOUT_FTP: [&str; 2] = ["no-ftp", "FTP ends before the stream begins"];

/// Returns the parts that this run breaks on purpose.
pub(super) fn broken(run: &Run<'_>) -> Broken {
    let is = |name: &str| run.sabotage.is_some_and(|sabotage| sabotage.name == name);
    Broken { without_dbat: is(WITHOUT_DBAT[0]), without_ftp: is(WITHOUT_FTP[0]), without_range: is(WITHOUT_RANGE[0]) }
}

/// Parts of a trial that are broken on purpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    without_dbat: bool,
    without_ftp: bool,
    without_range: bool,
}

/// Send buffer that only DBAT's thresholds limit, in packets: the greatest rate's `Max_Th` at 450 ms is 216.
const OWN_BUFFER: usize = 512;

/// Time by which FTP's connection is open.
const OPEN: Duration = Duration::from_secs(2);

/// Ports of the stream, at streamer and player.
const STREAMER: u16 = 5_004;
const PLAYER: u16 = 6_000;
/// Port of the packet pairs.
const PAIRS: u16 = 7_000;
/// Port of FTP and web traffic.
const OTHERS: u16 = 8_000;

/// Parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Cell {
    /// Differences from today's TCP and our setup.
    pub(crate) apart: SetupDifference,
    /// Round-trip time in milliseconds.
    pub(crate) rtt: u64,
    pub(crate) way: StreamTransport,
}

impl Cell {
    /// Returns all combinations.
    pub(crate) fn all(aparts: &[SetupDifference], rtts: &[u64], ways: &[StreamTransport]) -> Vec<Self> {
        let of = |apart| rtts.iter().flat_map(move |&rtt| ways.iter().map(move |&way| Self { apart, rtt, way }));
        aparts.iter().flat_map(|&apart| of(apart)).collect()
    }
}

/// Both ends of the stream.
enum StreamEnds {
    Tcp(Handle<Tcp>, Handle<Tcp>),
    Dccp(Handle<Dccp>, Handle<Dccp>),
}

/// Network with three pairs of hosts: for the stream, FTP, and the web.
struct Topology {
    network: Network<Machine>,
    net: Dumbbell,
    rng: Rng,
    apart: SetupDifference,
}

fn address(side: u8, pair: u8, port: u16) -> SocketAddr {
    SocketAddr::new(machines::address(side, pair + 1), port)
}

impl Topology {
    fn new(seed: u64, rtt: u64, apart: SetupDifference) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut network = Network::new(rng.next_u64());
        let access = LinkConfig::with_delay(ACCESS);
        let forward = LinkConfig::with_delay(Duration::from_millis(rtt / 2).saturating_sub(ACCESS * 2))
            .with_rate(RATE, Limit::Packets(queue(rtt)));
        let back = LinkConfig { queue: Limit::Packets(usize::MAX), ..forward.clone() };
        let net = network.pairs(3, &access, forward, back);
        Self { network, net, rng, apart }
    }

    /// Adds a TCP to a host, under the trial's own manager for TCP.
    fn add_tcp(&mut self, node: NodeId, port: u16, agent: Tcp) -> Handle<Tcp> {
        self.network.place(node, port, self.apart.manager(), agent)
    }

    /// Adds the FTP flow; returns both ends, the receiving one last.
    fn ftp(&mut self) -> (Handle<Tcp>, Handle<Tcp>) {
        let (from, to) = (self.net.left[1], self.net.right[1]);
        let source = Socket::new(Bulk::endless(PACKET));
        let caller = Tcp::caller(address(2, 1, OTHERS), FTP[0], source, self.apart.tcp(), self.rng.fork());
        let listener = Tcp::listener(Feed::none, self.apart.tcp(), self.rng.fork());
        (self.add_tcp(from, OTHERS, caller), self.add_tcp(to, OTHERS, listener))
    }

    fn web(&mut self) {
        let (from, to) = (self.net.left[2], self.net.right[2]);
        let users = Web::new(self.apart.web(), Instant::ZERO, PACKET, self.rng.fork());
        let dialer = Tcp::dialer(address(2, 2, OTHERS), users, self.apart.tcp(), self.rng.fork());
        let listener = Tcp::listener(Feed::none, self.apart.tcp(), self.rng.fork()).forgetting();
        self.add_tcp(from, OTHERS, dialer);
        self.add_tcp(to, OTHERS, listener);
    }

    /// Adds streamer and player, and the packet pairs between them.
    fn stream(&mut self, way: StreamTransport, broken: Broken) -> StreamEnds {
        let (from, to) = (self.net.left[0], self.net.right[0]);
        let probe = Probe::default();
        self.network.place(from, PAIRS, Kind::NewReno, Udp::sender(address(2, 0, PAIRS), ProbeResponder::default()));
        self.network.place(
            to,
            PAIRS,
            Kind::NewReno,
            Udp::sender(address(1, 0, PAIRS), ProbeRequester::new(probe.clone())),
        );
        let (apart, remote) = (self.apart, address(1, 0, STREAMER));
        let SetupDifference { by_pair, first, content, .. } = apart;
        let rules = PlayerRules { by_pair, blind: apart.blind && way == StreamTransport::Tcp, first, content };
        let player = Player::new(probe, rules);
        let server = move || {
            let server = Server::new(STREAM[1]).sending_on(apart.sends_on).counting_flight(apart.counts_flight);
            server.shifted(apart.shifted && way == StreamTransport::Tcp)
        };
        if way == StreamTransport::Tcp {
            let feed = move || {
                let buffer = SendBuffer::Fixed((BUFFER * PACKET) as u64);
                Socket::new(server()).buffer(buffer).into()
            };
            let listener = Tcp::listener(feed, self.apart.tcp(), self.rng.fork());
            let caller = Tcp::caller(remote, STREAM[0], Socket::new(player), self.apart.tcp(), self.rng.fork());
            let streamer = self.add_tcp(from, STREAMER, listener);
            return StreamEnds::Tcp(streamer, self.add_tcp(to, PLAYER, caller));
        }
        let connection = DccpConfig { mps: PACKET + DccpConfig::HEADER_ROOM, ecn: false, ..DccpConfig::default() };
        // The player sends few requests: at a rate that idle periods halve, one could take a
        // minute.
        let (streams, asks) = (vec![Ccid::Ccid3], vec![Ccid::Ccid2]);
        let settings = |ccids: &[Ccid], peer_ccids: &[Ccid]| {
            let (ccids, peer_ccids) = (ccids.to_vec(), peer_ccids.to_vec());
            let connection = DccpConfig { ccids, peer_ccids, ..connection.clone() };
            DccpSettings { connection, start: STREAM[0], dccp_port: STREAMER, ..DccpSettings::default() }
        };
        let is_dbat = !matches!(way, StreamTransport::Tcp | StreamTransport::Tfrc);
        let capacity = if apart.own_buffer && is_dbat { OWN_BUFFER } else { BUFFER };
        let stream = move || {
            // The ring has more slots than the buffer has places: the streamer itself limits the
            // queue.
            let stream = Stream::new(server().buffering(capacity)).slots(2 * capacity as u32);
            match way.dbat(!broken.without_range).filter(|_| !broken.without_dbat) {
                Some(dbat) => stream.choice(dbat),
                None => stream,
            }
        };
        let listener = Dccp::listener(stream, settings(&streams, &asks), self.rng.fork());
        let caller = Dccp::caller(remote, Stream::new(player), settings(&asks, &streams), self.rng.fork());
        let streamer = self.network.place(from, STREAMER, Kind::Tfrc, listener);
        StreamEnds::Dccp(streamer, self.network.place(to, PLAYER, Kind::NewReno, caller))
    }

    /// Returns streamer and player.
    fn applications(&self, ends: &StreamEnds) -> (&Server, &Player) {
        let (left, right) = (self.network.host(self.net.left[0]), self.network.host(self.net.right[0]));
        let found = match *ends {
            StreamEnds::Tcp(streamer, player) => (
                left.agent(streamer).session().and_then(|session| session.application()),
                right.agent(player).session().and_then(|session| session.application()),
            ),
            StreamEnds::Dccp(streamer, player) => (
                left.agent(streamer).session().and_then(|session| session.application()),
                right.agent(player).session().and_then(|session| session.application()),
            ),
        };
        (found.0.expect("the player has called"), found.1.expect("the player has called"))
    }
}

/// Runs a trial.
pub(super) fn run_cell(cell: &Cell, seed: u64, broken: Broken) -> Outcome {
    let mut topology = Topology::new(seed, cell.rtt, cell.apart);
    topology.web();
    let ftp = topology.ftp();
    let ends = topology.stream(cell.way, broken);
    topology.network.run_until(if broken.without_ftp { FTP[0] + OPEN } else { FTP[1] });
    let (from, to) = (topology.net.left[1], topology.net.right[1]);
    topology.network.with_host(from, |now, machine| machine.agent_mut(ftp.0).abort(now));
    topology.network.run_until(STREAM[1] + AFTER);
    let (server, player) = topology.applications(&ends);
    let ftp = topology.network.host(to).agent(ftp.1).session().expect("FTP has called");
    Outcome {
        made: server.made().to_vec(),
        switches: server.switches().to_vec(),
        received: player.received().to_vec(),
        pauses: player.pauses().to_vec(),
        ftp: ftp.arrivals().list().iter().map(|arrival| (arrival.at, arrival.len as u64)).collect(),
    }
}
