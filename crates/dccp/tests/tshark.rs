//! Wire format checked by tshark: all packets of a pair, directly over IP.
//!
//! tshark 4.0 cannot read DCCP in UDP: `-d udp.port==6511,dccp` is refused, as its dissector is registered for IP
//! protocol 33 only. Real streams in UDP are checked in the tool's tests: their UDP headers as they are, the DCCP
//! packets within them rewrapped directly in IP.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use etherparse::{IpNumber, Ipv4Header, Ipv6Header};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use timeous_cm::Manager;
use timeous_core::{
    AduMeta, AduSource, Copied, DropReason, Duration, Ecn, Instant, PathState, PulledAdu, Rng, Transport,
};
use timeous_dccp::{
    Body, Config, Connection, Encapsulation, Event, Header, Packet, PacketType, Parity, ResetCode, Seq, ServiceCode,
    State, Target, packet,
};

const SERVICE: ServiceCode = ServiceCode::from_bytes(*b"RTPV");
const DELAY: Duration = Duration::from_millis(10);
const PORT: u16 = 5_004;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Send queue of payloads only.
#[derive(Default)]
struct Queue(
    VecDeque<Vec<u8>>,
    /// Number of retransmissions after a loss.
    u32,
);

impl AduSource for Queue {
    fn has_queued(&mut self, _: Instant) -> bool {
        !self.0.is_empty() || self.1 > 0
    }
    fn pull(&mut self, _: Instant, _: &PathState, _: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if self.1 > 0 {
            self.1 -= 1;
            packet.extend_from_slice(&[9; 40]);
            return Some(PulledAdu {
                token: 0,
                len: 40,
                meta: AduMeta::default(),
                apart: false,
                copy: Copied::Again,
                is_fragment: false,
            });
        }
        let bytes = self.0.pop_front()?;
        packet.extend_from_slice(&bytes);
        Some(PulledAdu {
            token: 0,
            len: bytes.len(),
            meta: AduMeta::default(),
            apart: false,
            copy: Copied::First,
            is_fragment: false,
        })
    }
    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, _: u64) {}
    fn lost(&mut self, _: u64) {}
    fn dropped(&mut self, _: u64, _: DropReason) {}
}

struct End {
    address: IpAddr,
    connection: Connection,
    cm: Manager,
    queue: Queue,
}

/// A packet as it was sent.
struct Sent {
    at: Instant,
    from: usize,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// A client (0) and a server (1) on a virtual clock; every `lose`th packet is lost on its way, and all are written down.
struct Pair {
    now: Instant,
    ends: [End; 2],
    lose: usize,
    under_way: VecDeque<(Instant, usize, Vec<u8>, Ecn)>,
    sent: Vec<Sent>,
}

impl Pair {
    fn new(addresses: [&str; 2], lose: usize, asked: ServiceCode, seed: u64) -> Self {
        let [client, server] = addresses.map(|address| address.parse::<IpAddr>().unwrap());
        let encapsulation = Encapsulation::Native { source: client, destination: server };
        let config =
            Config { encapsulation, msl: Duration::from_secs(1), keep_alive: Some(KEEP_ALIVE), ..Config::default() };
        let config = Config { repeats: true, parity: Parity::Always, ..config };
        let mut rng = Rng::from_seed(seed);
        let now = Instant::ZERO;
        let target = Target { destination: server.into(), local_port: 50_000, remote_port: PORT, service: asked };
        let connecting = Connection::connect(now, config.clone(), target, &mut rng);
        let listening = Connection::listen(now, config, PORT, &[SERVICE], client.into(), &mut rng);
        let end = |address, connection| End { address, connection, cm: Manager::default(), queue: Queue::default() };
        let ends = [end(client, connecting), end(server, listening)];
        Self { now, ends, lose, under_way: VecDeque::new(), sent: Vec::new() }
    }

    fn encapsulation(&self, from: usize) -> Encapsulation {
        Encapsulation::Native { source: self.ends[from].address, destination: self.ends[1 - from].address }
    }

    fn send(&mut self, from: usize, bytes: Vec<u8>, ecn: Ecn) {
        self.sent.push(Sent { at: self.now, from, ecn, bytes: bytes.clone() });
        if self.lose == 0 || !self.sent.len().is_multiple_of(self.lose) {
            self.under_way.push_back((self.now + DELAY, 1 - from, bytes, ecn));
        }
    }

    fn settle(&mut self) {
        while self.under_way.front().is_some_and(|packet| packet.0 <= self.now) {
            let (_, to, bytes, ecn) = self.under_way.pop_front().unwrap();
            let end = &mut self.ends[to];
            end.connection.handle_datagram(self.now, &mut end.cm, &bytes, ecn).unwrap();
        }
        for from in [0, 1] {
            let end = &mut self.ends[from];
            end.cm.handle_timeout(self.now);
            end.connection.handle_timeout(self.now, &mut end.cm).unwrap();
            loop {
                let (end, mut bytes) = (&mut self.ends[from], Vec::new());
                let polled = end.connection.poll_transmit(self.now, &mut end.cm, &mut end.queue, &mut bytes).unwrap();
                let Some(transmit) = polled else { break };
                self.send(from, bytes, transmit.ecn);
            }
            let end = &mut self.ends[from];
            while end.cm.poll_granted().is_some() {}
            while let Some(event) = end.connection.poll_event() {
                end.queue.1 += u32::from(from == 0 && event == Event::Lost { token: 0 });
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let limit = self.now + time;
        while self.now < limit {
            self.settle();
            let mut next: Vec<Instant> = self.under_way.front().map(|packet| packet.0).into_iter().collect();
            for end in &mut self.ends {
                next.extend(end.connection.poll_timeout().unwrap());
                next.extend(end.cm.poll_timeout());
            }
            let next = next.into_iter().min().unwrap_or(limit);
            self.now = next.max(self.now + Duration::from_nanos(1)).min(limit);
        }
    }

    fn connect(&mut self) {
        self.run_for(Duration::from_secs(5));
        assert!(self.ends.iter().all(|end| end.connection.state() == State::Open), "the handshake is done");
    }

    fn exchange(&mut self, count: u16) {
        for n in 0..count {
            self.ends[0].queue.0.push_back(vec![n as u8; usize::from(n * 37 % 1_100)]);
            self.ends[1].queue.0.push_back(vec![n as u8; 20]);
            self.run_for(Duration::from_millis(7));
        }
        self.run_for(Duration::from_secs(5));
    }

    /// Somebody sends the server a packet from far outside of its windows, in the name of the client.
    fn forge(&mut self) {
        let header = Header::new(50_000, PORT, Seq::new(1 << 40), Body::Data);
        let mut bytes = Vec::new();
        let start = packet::begin(&header, &[], &mut bytes).unwrap();
        packet::finish(&mut bytes, start, self.encapsulation(0)).unwrap();
        self.sent.push(Sent { at: self.now, from: 0, ecn: Ecn::NotEct, bytes: bytes.clone() });
        let now = self.now;
        let server = &mut self.ends[1];
        server.connection.handle_datagram(now, &mut server.cm, &bytes, Ecn::NotEct).unwrap();
        self.run_for(Duration::from_secs(1));
    }

    /// Writes everything that was sent, with IP headers around it.
    fn write(&self, path: &Path) {
        let mut writer = PcapNgWriter::new(File::create(path).unwrap()).unwrap();
        let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options: vec![] };
        writer.write_pcapng_block(interface).unwrap();
        for sent in &self.sent {
            let data = self.wrapped(sent);
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: (sent.at - Instant::ZERO).into(),
                original_len: data.len() as u32,
                data: data.into(),
                options: vec![],
            };
            writer.write_pcapng_block(block).unwrap();
        }
    }

    fn wrapped(&self, sent: &Sent) -> Vec<u8> {
        const DCCP: IpNumber = IpNumber(33);
        let len = u16::try_from(sent.bytes.len()).unwrap();
        let header = match (self.ends[sent.from].address, self.ends[1 - sent.from].address) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut ip = Ipv4Header::new(len, 64, DCCP, source.octets(), destination.octets()).unwrap();
                ip.ecn = (sent.ecn as u8).try_into().unwrap();
                ip.header_checksum = ip.calc_header_checksum();
                ip.to_bytes().to_vec()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ip = Ipv6Header {
                    traffic_class: sent.ecn as u8,
                    flow_label: 0.try_into().unwrap(),
                    payload_length: len,
                    next_header: DCCP,
                    hop_limit: 64,
                    source: source.octets(),
                    destination: destination.octets(),
                };
                ip.to_bytes().to_vec()
            }
            _ => unreachable!("both ends are of one family"),
        };
        [header, sent.bytes.clone()].concat()
    }
}

/// Says that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
fn skip(test: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs tshark");
    eprintln!("SKIPPED {test}: needs tshark");
}

/// The named fields of the packets that `filter` selects; `None` without tshark.
fn tshark(capture: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "dccp.check_checksum:TRUE"]);
    command.args(["-o", "dccp.relative_sequence_numbers:FALSE", "-Y", filter, "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// Filter for problems. Options 123, 125 and 126 are ours, of those that RFC 4340 §19.3 reserves for experiments: that is what tshark calls
/// them, without a warning.
const COMPLAINTS: &str = include_str!("complaints.tshark");

/// tshark finds nothing wrong, and reads of each packet what we read of it; the types that were seen.
#[track_caller]
fn assert_read(pair: &Pair) -> Option<BTreeSet<PacketType>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    pair.write(file.path());
    let complaints = tshark(file.path(), COMPLAINTS, &["frame.number", "_ws.col.Info", "_ws.expert.message"])?;
    assert!(complaints.is_empty(), "{complaints:?}");
    let fields = ["dccp.type", "dccp.seq_raw", "dccp.ack_raw", "dccp.srcport", "dccp.service_code", "dccp.reset_code"];
    let read = tshark(file.path(), "frame", &fields).unwrap();
    assert_eq!(read.len(), pair.sent.len());
    let mut types = BTreeSet::new();
    for (read, sent) in read.iter().zip(&pair.sent) {
        let ours = Packet::parse(&sent.bytes, pair.encapsulation(sent.from)).unwrap();
        let header = ours.header;
        types.insert(header.packet_type());
        let service = match header.body {
            Body::Request { service } | Body::Response { service, .. } => service.number().to_string(),
            _ => String::new(),
        };
        let reset = match header.body {
            Body::Reset { code, .. } => code.number().to_string(),
            _ => String::new(),
        };
        let ack = header.ack().map(|ack| ack.value().to_string()).unwrap_or_default();
        let expected = [
            header.packet_type().number().to_string(),
            header.seq.value().to_string(),
            ack,
            header.source_port.to_string(),
            service,
            reset,
        ];
        assert_eq!(read[..], expected, "{header:?}");
    }
    Some(types)
}

const V4: [&str; 2] = ["192.0.2.1", "198.51.100.7"];
const V6: [&str; 2] = ["2001:db8::1", "2001:db8:7::2"];

#[test]
fn a_whole_connection_with_losses_over_ipv4_and_ipv6() {
    for addresses in [V4, V6] {
        let mut pair = Pair::new(addresses, 11, SERVICE, 1);
        pair.connect();
        pair.exchange(300);
        pair.ends[0].connection.close(pair.now).unwrap();
        pair.run_for(Duration::from_secs(30));
        assert!(pair.ends[0].connection.statistics().lost > 0, "nothing was lost: the test shows less than it should");
        let Some(types) = assert_read(&pair) else { return skip("a_whole_connection_with_losses_over_ipv4_and_ipv6") };
        use PacketType::{Ack, Close, DataAck, Request, Reset, Response};
        for expected in [Request, Response, Ack, DataAck, Close, Reset] {
            assert!(types.contains(&expected), "{expected} is missing in {types:?}");
        }
    }
}

#[test]
fn a_server_that_asks_to_close_and_a_packet_from_nowhere() {
    let mut pair = Pair::new(V4, 0, SERVICE, 2);
    pair.connect();
    pair.ends[0].queue.0.extend([vec![1; 100], vec![2; 1], vec![]]);
    pair.run_for(Duration::from_secs(1));
    pair.forge();
    // The quiet server is asked whether it lives, and the client as well.
    pair.run_for(KEEP_ALIVE * 2);
    pair.ends[1].connection.close(pair.now).unwrap();
    pair.run_for(Duration::from_secs(30));
    let Some(types) = assert_read(&pair) else { return skip("a_server_that_asks_to_close_and_a_packet_from_nowhere") };
    use PacketType::{Close, CloseReq, Data, Reset, Sync, SyncAck};
    for expected in [CloseReq, Close, Reset, Sync, SyncAck, Data] {
        assert!(types.contains(&expected), "{expected} is missing in {types:?}");
    }
}

#[test]
fn a_connection_that_is_aborted_and_one_that_is_refused() {
    let mut aborted = Pair::new(V6, 0, SERVICE, 3);
    aborted.connect();
    aborted.ends[1].connection.abort(aborted.now, ResetCode::Aborted).unwrap();
    aborted.run_for(Duration::from_secs(10));
    let mut refused = Pair::new(V4, 0, ServiceCode::from_bytes(*b"GAME"), 4);
    refused.run_for(Duration::from_secs(10));
    for pair in [&aborted, &refused] {
        let Some(types) = assert_read(pair) else {
            return skip("a_connection_that_is_aborted_and_one_that_is_refused");
        };
        assert!(types.contains(&PacketType::Reset), "{types:?}");
    }
}

#[test]
fn tshark_would_see_a_wrong_checksum() {
    let mut pair = Pair::new(V4, 0, SERVICE, 5);
    pair.connect();
    let file = tempfile::NamedTempFile::new().unwrap();
    *pair.sent[0].bytes.last_mut().unwrap() ^= 1;
    pair.write(file.path());
    let Some(complaints) = tshark(file.path(), COMPLAINTS, &["frame.number"]) else {
        return skip("tshark_would_see_a_wrong_checksum");
    };
    assert_eq!(complaints, [["1"]]);
}
