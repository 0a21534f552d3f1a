//! Evaluation of the link's capture: bytes each way, and datagrams sent after their deadline.

use std::collections::BTreeMap;
use std::path::Path;

use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
use timeous::core::{Duration, Instant};
use timeous_testbed::RunError;
use timeous_testbed::machine::arrivals;

use crate::datagram::Header;
use crate::peer::RIGHT;

/// Parameters of the evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CaptureParameters {
    /// Offset of the capture's clock relative to the headers' clock.
    pub(crate) ahead: Duration,
    /// Deadline from sending to playout.
    pub(crate) deadline: Duration,
    /// Port of the cross traffic, which is not counted.
    pub(crate) beside: u16,
    /// Start of the evaluation; earlier packets belong to the connection's setup.
    pub(crate) from: Instant,
}

/// A datagram that entered the link; a retransmission is another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentDatagram {
    /// Its header.
    pub(crate) header: Header,
    /// Time of entry.
    pub(crate) at: Instant,
    /// Whether the link dropped it.
    pub(crate) dropped: bool,
}

/// Results of the evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaptureResults {
    /// Bytes that entered the link from the left, IP headers included.
    pub(crate) forward: u64,
    /// Bytes that entered from the right.
    pub(crate) back: u64,
    /// Datagrams with a readable header; empty if the peer encrypts.
    pub(crate) left: Vec<SentDatagram>,
    /// Number of them that entered after their deadline.
    pub(crate) late: usize,
}

/// Reads and evaluates a capture.
///
/// # Errors
/// [`RunError::Machine`] if it is not a capture.
pub(crate) fn read(path: &Path, wanted: &CaptureParameters) -> Result<CaptureResults, RunError> {
    let (mut seen, mut streams) = (CaptureResults::default(), SegmentTails::default());
    arrivals(path, wanted.ahead, |at, packet, dropped| add(&mut seen, &mut streams, wanted, at, packet, dropped))?;
    Ok(seen)
}

fn add(
    seen: &mut CaptureResults,
    streams: &mut SegmentTails,
    wanted: &CaptureParameters,
    at: Instant,
    packet: &[u8],
    dropped: bool,
) {
    let Ok(headers) = PacketHeaders::from_ip_slice(packet) else { return };
    let ports = match &headers.transport {
        Some(TransportHeader::Tcp(tcp)) => [tcp.source_port, tcp.destination_port],
        Some(TransportHeader::Udp(udp)) => [udp.source_port, udp.destination_port],
        _ => [0; 2],
    };
    if ports.contains(&wanted.beside) || at < wanted.from {
        return;
    }
    let Some(NetHeaders::Ipv4(ip, _)) = &headers.net else { return };
    if std::net::Ipv4Addr::from(ip.destination).to_string() != RIGHT {
        seen.back += packet.len() as u64;
        return;
    }
    seen.forward += packet.len() as u64;
    let payload = headers.payload.slice();
    let found = match &headers.transport {
        Some(TransportHeader::Tcp(tcp)) => streams.headers(tcp.source_port, tcp.sequence_number, payload),
        _ => Header::all_in(payload),
    };
    for header in found {
        seen.late += usize::from(at > header.at + wanted.deadline);
        seen.left.push(SentDatagram { header, at, dropped });
    }
}

/// Tail of the last segment of each connection: a header may span two segments.
#[derive(Debug, Default)]
struct SegmentTails(BTreeMap<u16, (u32, Vec<u8>)>);

impl SegmentTails {
    /// Headers that end in a segment.
    fn headers(&mut self, port: u16, sequence: u32, payload: &[u8]) -> Vec<Header> {
        if payload.is_empty() {
            return Vec::new();
        }
        let before = match self.0.get(&port) {
            Some((next, tail)) if *next == sequence => tail.clone(),
            _ => Vec::new(),
        };
        let bytes = [&before, payload].concat();
        // Shorter than a header, so that none is found twice.
        let tail = bytes[bytes.len().saturating_sub(Header::LEN - 1)..].to_vec();
        self.0.insert(port, (sequence.wrapping_add(payload.len() as u32), tail));
        Header::all_in(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_on_the_border_of_two_segments_is_found_once() {
        let of = |frame| Header {
            frame,
            piece: 0,
            pieces: 1,
            kind: b'P',
            priority: 0,
            at: Instant::ZERO,
            references: [0; 4],
        };
        let bytes = [of(1).datagram(300), of(2).datagram(300), of(3).datagram(300)].concat();
        for cut in [300, 301, 340, 300 + Header::LEN - 1, 300 + Header::LEN] {
            let (mut streams, first) = (SegmentTails::default(), u32::MAX - 10);
            let mut found = streams.headers(9, first, &bytes[..cut]);
            found.extend(streams.headers(9, first.wrapping_add(cut as u32), &bytes[cut..]));
            assert_eq!(found.iter().map(|header| header.frame).collect::<Vec<_>>(), [1, 2, 3], "cut at {cut}");
        }
        let mut streams = SegmentTails::default();
        streams.headers(9, 0, &bytes[..340]);
        assert!(streams.headers(9, 900, &bytes[340..600]).is_empty(), "what is not next is not joined");
    }
}
