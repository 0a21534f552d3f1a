//! One connection with a scripted peer: injects packets, advances time, checks packets sent.

use std::collections::VecDeque;

use timeous_cm::Manager;
use timeous_core::{Duration, Ecn, Instant, PathState, RecvMeta, Rng, Transport};
use timeous_dccp::{
    Body, Ccid, Config, Connection, Encapsulation, Event, Feature, Header, Opt, Packet, PacketType, Seq, ServiceCode,
    Side, packet,
};

use crate::pair::{SERVICE, outstanding, target};
use crate::source::Script;

pub(crate) const LOCAL: u16 = 5_000;
pub(crate) const PEER: u16 = 7_000;
/// The first number of the connection under test, and of its peer.
pub(crate) const ISS: u64 = 1_000;
pub(crate) const ISR: u64 = 90_000;

/// A packet that the connection sent.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) header: Header,
    bytes: Vec<u8>,
    pub(crate) ecn: Ecn,
}

impl Seen {
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes, Encapsulation::Udp).unwrap()
    }

    pub(crate) fn ack(&self) -> u64 {
        self.header.ack().unwrap().value()
    }

    pub(crate) fn seq(&self) -> u64 {
        self.header.seq.value()
    }

    pub(crate) fn has(&self, opt: Opt<'_>) -> bool {
        self.packet().options().any(|item| item.unwrap().opt == opt)
    }

    /// Reset code and data.
    #[track_caller]
    pub(crate) fn reset(&self) -> (u8, [u8; 3]) {
        let Body::Reset { code, data, .. } = self.header.body else { panic!("{self:?}") };
        (code.number(), data)
    }
}

pub(crate) struct Timeline {
    pub(crate) now: Instant,
    /// Time for which each packet waits on this host.
    pub(crate) waited: Duration,
    pub(crate) connection: Connection,
    pub(crate) source: Script,
    cm: Manager,
    out: VecDeque<Seen>,
    pub(crate) events: VecDeque<Event>,
    next_seq: u64,
    /// Whether the peer refuses to send and to get Ack Vectors.
    refuses_vectors: bool,
}

impl Timeline {
    fn new(connection: Connection) -> Self {
        let mut line = Self {
            now: Instant::ZERO,
            waited: Duration::ZERO,
            connection,
            source: Script::default(),
            cm: Manager::default(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            next_seq: ISR,
            refuses_vectors: false,
        };
        line.drain();
        line
    }

    fn config() -> Config {
        Config { initial_seq: Some(Seq::new(ISS)), sequence_window: 100, ..Config::default() }
    }

    /// A client in REQUEST, whose Request waits to be expected.
    pub(crate) fn client() -> Self {
        Self::client_with(Self::config())
    }

    fn client_with(config: Config) -> Self {
        let mut rng = Rng::from_seed(1);
        Self::new(Connection::connect(Instant::ZERO, config, target(LOCAL, PEER), &mut rng))
    }

    /// A client in OPEN that sends and receives with `ccid`, over 100 ms there and back. The peer sends Ack Vectors, or not.
    #[track_caller]
    pub(crate) fn open_with(ccid: Ccid, vectors: bool) -> Self {
        let mut line = Self::client_with(Self::config().with_ccids(&[ccid]));
        let request = line.expect(PacketType::Request);
        line.now += Duration::from_millis(100);
        line.refuses_vectors = !vectors;
        line.send_agreeing(Body::Response { ack: request.header.seq, service: SERVICE }, &request);
        let ack = line.expect(PacketType::Ack);
        line.send(Body::Ack { ack: ack.header.seq });
        line.start()
    }

    /// A server in LISTEN.
    pub(crate) fn server() -> Self {
        let (mut rng, destination) = (Rng::from_seed(1), target(0, 0).destination);
        Self::new(Connection::listen(Instant::ZERO, Self::config(), LOCAL, &[SERVICE], destination, &mut rng))
    }

    /// A client in OPEN: the peer has sent ISR and ISR + 1.
    #[track_caller]
    pub(crate) fn open_client() -> Self {
        let mut line = Self::client();
        let request = line.expect(PacketType::Request);
        line.send_agreeing(Body::Response { ack: request.header.seq, service: SERVICE }, &request);
        let ack = line.expect(PacketType::Ack);
        line.send(Body::Ack { ack: ack.header.seq });
        line.start()
    }

    /// A server in OPEN: the peer has sent ISR, ISR + 1 and ISR + 2.
    #[track_caller]
    pub(crate) fn open_server() -> Self {
        let mut line = Self::server();
        let vectors = Feature::SendAckVector.number();
        let wants = [Side::L, Side::R].map(|side| Opt::Change { side, feature: vectors, values: &[1] });
        line.send_with(Body::Request { service: SERVICE }, &wants, b"");
        let response = line.expect(PacketType::Response);
        line.send_agreeing(Body::Ack { ack: response.header.seq }, &response);
        let ack = line.expect(PacketType::Ack);
        line.send(Body::Ack { ack: ack.header.seq });
        line.start()
    }

    /// Past the handshake.
    #[track_caller]
    fn start(mut self) -> Self {
        assert!(!self.connection.features().is_negotiating());
        self.expect_nothing();
        self.pass(Duration::from_millis(1));
        self.events.clear();
        self
    }

    pub(crate) fn path(&self) -> PathState {
        self.cm.query(self.connection.flow().unwrap()).unwrap()
    }

    pub(crate) fn outstanding(&self) -> u64 {
        outstanding(&self.connection, &self.cm)
    }

    pub(crate) fn send_request(&mut self, service: ServiceCode) {
        self.send(Body::Request { service });
    }

    /// The peer's next packet.
    pub(crate) fn send(&mut self, body: Body) {
        self.send_with(body, &[], b"");
    }

    pub(crate) fn send_with(&mut self, body: Body, options: &[Opt<'_>], payload: &[u8]) {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.send_at(seq, body, options, payload);
    }

    /// The peer's next packet, agreeing to all that `seen` asks for.
    pub(crate) fn send_agreeing(&mut self, body: Body, seen: &Seen) {
        let packet = seen.packet();
        let confirms: Vec<Opt<'_>> = packet
            .options()
            .filter_map(|item| {
                let Opt::Change { side, feature, values } = item.unwrap().opt else { return None };
                let refused = self.refuses_vectors && feature == Feature::SendAckVector.number();
                let width = Feature::from_number(feature).map_or(1, Feature::width);
                let values = if refused { &[0] } else { &values[..width] };
                Some(Opt::Confirm { side: if side == Side::L { Side::R } else { Side::L }, feature, values })
            })
            .collect();
        self.send_with(body, &confirms, b"");
    }

    /// A packet of the peer's with a number of its own.
    pub(crate) fn send_at(&mut self, seq: u64, body: Body, options: &[Opt<'_>], payload: &[u8]) {
        self.send_header(&Header::new(PEER, LOCAL, Seq::new(seq), body), options, payload, Ecn::NotEct);
    }

    pub(crate) fn send_header(&mut self, header: &Header, options: &[Opt<'_>], payload: &[u8], ecn: Ecn) {
        let mut bytes = Vec::new();
        let start = packet::begin(header, options, &mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        packet::finish(&mut bytes, start, Encapsulation::Udp).unwrap();
        self.send_bytes(&bytes, ecn);
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8], ecn: Ecn) {
        let meta = RecvMeta { ecn, waited: self.waited };
        self.connection.handle_datagram(self.now, &mut self.cm, bytes, meta).unwrap();
        self.drain();
    }

    /// The number that the peer's next packet will have.
    pub(crate) fn peer_seq(&self) -> u64 {
        self.next_seq
    }

    pub(crate) fn close(&mut self) {
        self.connection.close(self.now).unwrap();
        self.drain();
    }

    pub(crate) fn drain(&mut self) {
        let mut bytes = Vec::new();
        while let Some(transmit) =
            self.connection.poll_transmit(self.now, &mut self.cm, &mut self.source, &mut bytes).unwrap()
        {
            let header = Packet::parse(&bytes, Encapsulation::Udp).unwrap().header;
            let bytes = std::mem::take(&mut bytes);
            self.out.push_back(Seen { at: self.now, header, bytes, ecn: transmit.ecn });
        }
        self.events.extend(std::iter::from_fn(|| self.connection.poll_event()));
    }

    /// Lets time pass, with every timer going off when it is due.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = [self.connection.poll_timeout().unwrap(), self.cm.poll_timeout()].into_iter().flatten().min();
            let Some(at) = next.filter(|&at| at <= end) else { break };
            self.now = self.now.max(at);
            self.cm.handle_timeout(self.now);
            self.connection.handle_timeout(self.now, &mut self.cm).unwrap();
            self.drain();
        }
        self.now = end;
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, packet: PacketType) -> Seen {
        let seen = self.out.pop_front().unwrap_or_else(|| panic!("{packet} was expected, nothing came"));
        assert_eq!(seen.header.packet_type(), packet, "{seen:?}");
        seen
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        assert!(self.out.is_empty(), "{:?}", self.out);
    }

    pub(crate) fn take(&mut self) -> Vec<Seen> {
        self.out.drain(..).collect()
    }
}
