//! Middlebox in front of a host that modifies its TCP, as Honda et al. observed on the Internet (McQuistin §4.2).

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use timeous_core::{Duration, Instant};
use timeous_net::sim::{Host, Packet, Protocol};
use timeous_tcp::segment::{begin, finish};
use timeous_tcp::{Addresses, Flags, Header, Options, SackBlock, Segment, Seq};

/// Treatment of segments that the host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MiddleboxBehaviour {
    /// Forwards segments unchanged.
    Pass,
    /// Keeps the first version of all data, and replays it for retransmissions.
    CachedOriginal,
    /// Drops retransmissions with changed data.
    Silence,
    /// Resets the connection on a retransmission with changed data.
    Reset,
    /// Splits every segment in two.
    Split,
    /// Merges two consecutive segments.
    Merge,
    /// Rewrites the stream's sequence numbers.
    Rewrite,
}

/// Maximum wait of a segment for one to merge with.
const PATIENCE: Duration = Duration::from_millis(5);
/// Offset added to sequence numbers.
const SHIFT: u32 = 0x5bd1_e995;

/// A host behind a middlebox.
pub struct Middlebox<H> {
    host: H,
    behaviour: MiddleboxBehaviour,
    streams: BTreeMap<(SocketAddr, SocketAddr), Stream>,
    leaving: VecDeque<Packet>,
    waiting: Option<(Instant, Packet)>,
    inconsistent: u64,
}

/// Forwarded data of a stream.
#[derive(Default)]
struct Stream {
    first: Seq,
    bytes: Vec<u8>,
    /// Next sequence number that the peer expects.
    expected: Seq,
}

impl Stream {
    /// Replaces `data` by its first version; returns whether that differs.
    fn restore(&mut self, seq: Seq, data: &mut [u8]) -> bool {
        let at = seq.distance_from(self.first) as usize;
        let known = self.bytes.len().saturating_sub(at).min(data.len());
        if at <= self.bytes.len() {
            self.bytes.extend_from_slice(&data[known..]);
        }
        let Some(before) = self.bytes.get(at..at + known) else { return false };
        let differs = data[..known] != *before;
        data[..known].copy_from_slice(before);
        differs
    }
}

impl<H: Host> Middlebox<H> {
    /// Creates a middlebox in front of `host`.
    pub fn new(host: H, behaviour: MiddleboxBehaviour) -> Self {
        Self { host, behaviour, streams: BTreeMap::new(), leaving: VecDeque::new(), waiting: None, inconsistent: 0 }
    }

    /// Returns the host behind it.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Returns the host behind it, mutably.
    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// Returns the number of retransmissions with changed data, as far as they were compared.
    pub fn inconsistent(&self) -> u64 {
        self.inconsistent
    }

    fn pass(&mut self, now: Instant, packet: Packet) {
        let is_tcp = packet.protocol == Protocol::Tcp && self.behaviour != MiddleboxBehaviour::Pass;
        let Some((segment, data)) = is_tcp.then(|| parse(&packet)).flatten() else {
            self.leaving.push_back(packet);
            return;
        };
        match self.behaviour {
            MiddleboxBehaviour::Pass => {}
            MiddleboxBehaviour::CachedOriginal | MiddleboxBehaviour::Silence | MiddleboxBehaviour::Reset => {
                self.compare(now, packet, segment, data);
            }
            MiddleboxBehaviour::Split if data.len() > 1 => {
                let (front, back) = data.split_at(data.len() / 2);
                let mut first = segment;
                first.header.flags = without_end(segment.header.flags);
                let mut second = segment;
                second.header.seq = segment.header.seq + front.len() as u32;
                self.leaving.extend([build(&packet, &first, front), build(&packet, &second, back)]);
            }
            MiddleboxBehaviour::Split => self.leaving.push_back(packet),
            MiddleboxBehaviour::Merge => self.merge(now, packet, segment, &data),
            MiddleboxBehaviour::Rewrite => {
                let mut other = segment;
                other.header.seq = segment.header.seq + SHIFT;
                self.leaving.push_back(build(&packet, &other, &data));
            }
        }
    }

    fn compare(&mut self, now: Instant, packet: Packet, segment: Parts, mut data: Vec<u8>) {
        let stream = self.streams.entry((packet.source, packet.destination)).or_default();
        if segment.header.flags.contains(Flags::SYN) {
            (stream.first, stream.bytes) = (segment.header.seq + 1, Vec::new());
            stream.expected = stream.first;
        }
        let differs = stream.restore(segment.header.seq, &mut data);
        let expected = stream.expected;
        self.inconsistent += u64::from(differs);
        if !differs {
            return self.leaving.push_back(packet);
        }
        match self.behaviour {
            MiddleboxBehaviour::CachedOriginal => self.leaving.push_back(build(&packet, &segment, &data)),
            MiddleboxBehaviour::Reset => {
                let there = Parts { header: reset(&segment.header, expected), options: Options::default() };
                self.leaving.push_back(build(&packet, &there, &[]));
                let (header, next) = (&segment.header, segment.header.ack.unwrap_or_default());
                let back = Header { seq: next, ..Header::new(header.dest_port, header.source_port, next) };
                let back = Parts { header: Header { flags: Flags::RST, ..back }, options: Options::default() };
                let mirrored = Packet::new(packet.protocol, packet.destination, packet.source, packet.ecn, Vec::new());
                self.host.handle_packet(now, build(&mirrored, &back, &[]));
            }
            _ => {}
        }
    }

    /// Merges the segment with the waiting one, or lets it wait.
    fn merge(&mut self, now: Instant, packet: Packet, segment: Parts, data: &[u8]) {
        if let Some((_, before)) = self.waiting.take() {
            let joined = parse(&before).filter(|_| !data.is_empty()).and_then(|(first, mut front)| {
                let follows = first.header.seq + front.len() as u32 == segment.header.seq
                    && (before.source, before.destination) == (packet.source, packet.destination);
                front.extend_from_slice(data);
                let header = Header { seq: first.header.seq, ..segment.header };
                follows.then(|| build(&packet, &Parts { header, ..segment }, &front))
            });
            if let Some(joined) = joined {
                return self.leaving.push_back(joined);
            }
            self.leaving.push_back(before);
        }
        if data.is_empty() || segment.header.flags.contains(Flags::FIN) {
            self.leaving.push_back(packet);
        } else {
            self.waiting = Some((now + PATIENCE, packet));
        }
    }

    fn release(&mut self, now: Instant) {
        if let Some((_, packet)) = self.waiting.take_if(|(due, _)| *due <= now) {
            self.leaving.push_back(packet);
        }
    }

    /// Returns an incoming packet with the sequence numbers that the host knows.
    fn back(&mut self, packet: Packet) -> Packet {
        let Some((mut segment, data)) = parse(&packet).filter(|_| packet.protocol == Protocol::Tcp) else {
            return packet;
        };
        if let (Some(stream), Some(ack)) =
            (self.streams.get_mut(&(packet.destination, packet.source)), segment.header.ack)
        {
            stream.expected = ack;
        }
        if self.behaviour != MiddleboxBehaviour::Rewrite {
            return packet;
        }
        let shift = |seq: Seq| Seq::new(seq.value().wrapping_sub(SHIFT));
        segment.header.ack = segment.header.ack.map(shift);
        let blocks = segment.options.sack.iter();
        segment.options.sack =
            blocks.map(|block| SackBlock { left: shift(block.left), right: shift(block.right) }).collect();
        build(&packet, &segment, &data)
    }
}

impl<H: Host> Host for Middlebox<H> {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        let packet = self.back(packet);
        self.host.handle_packet(now, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.release(now);
        self.host.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.release(now);
        while self.leaving.is_empty() {
            let packet = self.host.poll_transmit(now)?;
            self.pass(now, packet);
        }
        self.leaving.pop_front()
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let held = self.waiting.as_ref().map(|(due, _)| *due);
        self.host.poll_timeout().into_iter().chain(held).min()
    }
}

/// A segment without its data.
#[derive(Clone, Copy)]
struct Parts {
    header: Header,
    options: Options,
}

fn parse(packet: &Packet) -> Option<(Parts, Vec<u8>)> {
    let segment = Segment::parse_trusted(&packet.payload).ok()?;
    Some((Parts { header: segment.header, options: segment.options }, segment.payload.to_vec()))
}

/// Returns the packet with another segment in it.
fn build(packet: &Packet, parts: &Parts, data: &[u8]) -> Packet {
    let mut payload = Vec::new();
    let addresses = Addresses { source: packet.source.ip(), destination: packet.destination.ip() };
    let start = begin(&parts.header, &parts.options, &mut payload).expect("these options were in a header before");
    payload.extend_from_slice(data);
    finish(&mut payload, start, addresses).expect("the segment was begun");
    Packet::new(packet.protocol, packet.source, packet.destination, packet.ecn, payload)
}

/// Returns a reset from the sender of `header`, with the sequence number that the peer expects.
fn reset(header: &Header, expected: Seq) -> Header {
    Header { flags: Flags::RST, ..Header::new(header.source_port, header.dest_port, expected) }
}

fn without_end(flags: Flags) -> Flags {
    let end = (Flags::FIN | Flags::PSH).bits();
    Flags::from_bits(flags.bits() & !end)
}
