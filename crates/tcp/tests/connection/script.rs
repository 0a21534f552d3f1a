//! One connection with a scripted peer: segments are injected, time passes, and sent segments are checked.

use std::collections::VecDeque;

use timeous_cm::{Manager, NewReno};
use timeous_core::{Duration, Ecn, Instant, Rng, Transport};
use timeous_tcp::{
    Addresses, Config, Connection, Event, Flags, Header, LossDetection, Options, SackBlock, Segment, Seq, State,
    StreamBuffer, Target, Timestamps, segment,
};

/// Initial sequence numbers of the connection under test and of its peer.
pub(crate) const ISS: u32 = 1_000;
pub(crate) const IRS: u32 = 90_000;
/// Payload of a full segment.
pub(crate) const MSS: u32 = 1_000;
pub(crate) const MS: Duration = Duration::from_millis(1);
/// RTT of most timelines.
pub(crate) const RTT: Duration = Duration::from_millis(100);

const LOCAL: ([u8; 4], u16) = ([192, 0, 2, 1], 5_000);
const PEER: ([u8; 4], u16) = ([192, 0, 2, 2], 80);

/// A segment that the connection sent.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) header: Header,
    pub(crate) options: Options,
    pub(crate) payload: Vec<u8>,
    pub(crate) ecn: Ecn,
}

impl Seen {
    /// Returns the stream offset of its data.
    pub(crate) fn offset(&self) -> u32 {
        self.header.seq.distance_from(Seq::new(ISS + 1))
    }

    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.header.flags.contains(flags)
    }

    /// Returns the offset of its acknowledgement in the peer's stream.
    pub(crate) fn acks(&self) -> u32 {
        self.header.ack.unwrap().distance_from(Seq::new(IRS + 1))
    }
}

pub(crate) struct Timeline {
    pub(crate) now: Instant,
    pub(crate) connection: Connection,
    pub(crate) source: StreamBuffer,
    pub(crate) cm: Manager,
    out: VecDeque<Seen>,
    pub(crate) events: VecDeque<Event>,
    /// Offset that the peer has sent up to, SYN not counted, and that it acknowledges.
    pub(crate) peer_sent: u32,
    pub(crate) peer_acks: u32,
    pub(crate) window: u16,
}

/// RFC 6675 without timestamps, probes and RACK; 1000 bytes in a segment.
pub(crate) fn plain() -> Config {
    Config {
        mss: MSS as u16,
        initial_seq: Some(Seq::new(ISS)),
        timestamps: false,
        window_scaling: false,
        loss_detection: LossDetection::DupThresh,
        tail_loss_probe: false,
        ..Config::default()
    }
}

fn target() -> Target {
    Target { local: LOCAL.into(), remote: PEER.into(), dscp: 0 }
}

/// Options of a peer's SYN.
pub(crate) fn offer(config: &Config) -> Options {
    Options {
        mss: Some(MSS as u16),
        sack_permitted: config.sack,
        window_scale: config.window_scaling.then_some(0),
        timestamps: config.timestamps.then_some(Timestamps { value: 1, echo: 0 }),
        ..Options::default()
    }
}

impl Timeline {
    fn new(connection: Connection) -> Self {
        let mut line = Self {
            now: Instant::ZERO,
            connection,
            source: StreamBuffer::new(1 << 20),
            cm: Manager::new(|mtu| Box::new(NewReno::new(mtu))),
            out: VecDeque::new(),
            events: VecDeque::new(),
            peer_sent: 0,
            peer_acks: 0,
            window: 60_000,
        };
        line.drain();
        line
    }

    /// Returns a client in SYN-SENT, whose SYN has not been taken yet.
    pub(crate) fn client(config: Config) -> Self {
        Self::new(Connection::connect(Instant::ZERO, config, target(), &mut Rng::from_seed(1)))
    }

    /// Returns a server in LISTEN.
    pub(crate) fn server(config: Config) -> Self {
        Self::new(Connection::listen(Instant::ZERO, config, target(), &mut Rng::from_seed(1)))
    }

    /// Returns a client in ESTABLISHED after an RTT of 100 ms, without the handshake's segments.
    #[track_caller]
    pub(crate) fn established(config: Config) -> Self {
        let offer = offer(&config);
        let asks_ecn = config.ecn == timeous_tcp::EcnMode::Request;
        let mut line = Self::client(config);
        line.expect(Flags::SYN | Flags::when(asks_ecn, Flags::ECE | Flags::CWR));
        line.pass(RTT);
        line.syn_ack(offer, Flags::when(asks_ecn, Flags::ECE));
        let ack = line.expect(Flags::NONE);
        assert_eq!((ack.offset(), ack.acks()), (0, 0));
        assert_eq!(line.connection.state(), State::Established);
        line.events.clear();
        line
    }

    /// Injects the peer's answer to the SYN.
    pub(crate) fn syn_ack(&mut self, options: Options, flags: Flags) {
        let header = Header { flags: Flags::SYN | flags, window: self.window, ..self.peer_header(0) };
        self.inject(&Header { seq: Seq::new(IRS), ..header }, &options, b"", Ecn::NotEct);
    }

    /// Returns a header of the peer with `offset` as its sequence number.
    pub(crate) fn peer_header(&self, offset: u32) -> Header {
        Header {
            ack: Some(Seq::new(ISS + 1) + self.peer_acks),
            window: self.window,
            ..Header::new(PEER.1, LOCAL.1, Seq::new(IRS + 1) + offset)
        }
    }

    pub(crate) fn inject(&mut self, header: &Header, options: &Options, payload: &[u8], ecn: Ecn) {
        let mut bytes = Vec::new();
        let start = segment::begin(header, options, &mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        let addresses = Addresses { source: PEER.0.into(), destination: LOCAL.0.into() };
        segment::finish(&mut bytes, start, addresses).unwrap();
        self.connection.handle_datagram(self.now, &mut self.cm, &bytes, ecn).unwrap();
        self.drain();
    }

    /// Injects an acknowledgement of everything below `offset`, with `sacked` as SACK blocks.
    pub(crate) fn ack(&mut self, offset: u32, sacked: &[(u32, u32)]) {
        self.ack_with(offset, sacked, Flags::NONE);
    }

    pub(crate) fn ack_with(&mut self, offset: u32, sacked: &[(u32, u32)], flags: Flags) {
        self.peer_acks = offset;
        let sack = sacked.iter().map(|&(left, right)| self.sack_block(left, right)).collect();
        let header = Header { flags, ..self.peer_header(self.peer_sent) };
        self.inject(&header, &Options { sack, ..Options::default() }, b"", Ecn::NotEct);
    }

    /// Returns a SACK block of these offsets.
    pub(crate) fn sack_block(&self, left: u32, right: u32) -> SackBlock {
        SackBlock { left: Seq::new(ISS + 1) + left, right: Seq::new(ISS + 1) + right }
    }

    /// Injects the peer's next data, with its last acknowledgement.
    pub(crate) fn data(&mut self, payload: &[u8], flags: Flags, ecn: Ecn) {
        let header = Header { flags, ..self.peer_header(self.peer_sent) };
        self.peer_sent += payload.len() as u32 + u32::from(flags.contains(Flags::FIN));
        self.inject(&header, &Options::default(), payload, ecn);
    }

    /// Injects the peer's FIN.
    pub(crate) fn fin(&mut self) {
        self.data(b"", Flags::FIN, Ecn::NotEct);
    }

    /// Writes `bytes` bytes as the application.
    pub(crate) fn write(&mut self, bytes: usize) {
        assert_eq!(self.source.write(&vec![7; bytes]), bytes);
        self.drain();
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
            let addresses = Addresses { source: LOCAL.0.into(), destination: PEER.0.into() };
            let Segment { header, options, payload } = Segment::parse(&bytes, addresses).unwrap();
            let payload = payload.to_vec();
            self.out.push_back(Seen { at: self.now, header, options, payload, ecn: transmit.ecn });
            bytes.clear();
        }
        self.events.extend(std::iter::from_fn(|| self.connection.poll_event()));
    }

    /// Advances the time, with every timeout at its time.
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

    /// Takes the next sent segment, and checks that it has these control bits, and no others but PSH.
    #[track_caller]
    pub(crate) fn expect(&mut self, flags: Flags) -> Seen {
        let seen = self.out.pop_front().unwrap_or_else(|| panic!("{flags:?} was expected, nothing came"));
        assert_eq!(seen.header.flags | Flags::PSH, flags | Flags::PSH, "{seen:?}");
        seen
    }

    /// Checks that full segments were sent, at these offsets.
    #[track_caller]
    pub(crate) fn expect_data(&mut self, offsets: &[u32]) {
        let left: Vec<u32> = self.out.iter().filter(|seen| !seen.payload.is_empty()).map(Seen::offset).collect();
        assert_eq!(left, offsets);
        self.out.clear();
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        assert!(self.out.is_empty(), "{:?}", self.out);
    }

    pub(crate) fn take(&mut self) -> Vec<Seen> {
        self.out.drain(..).collect()
    }

    /// Returns the Congestion Manager's window.
    pub(crate) fn cwnd(&self) -> u64 {
        self.cm.query(self.connection.flow().unwrap()).unwrap().window
    }
}
