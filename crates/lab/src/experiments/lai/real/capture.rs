//! Link capture: the time at which each packet of a stream first arrived at the link, and the
//! packets that it dropped.

use std::collections::BTreeMap;
use std::path::Path;

use etherparse::{PacketHeaders, TransportHeader};
use timeous::core::{Duration, Instant};
use timeous_dccp::{Encapsulation, Packet};
use timeous_testbed::machine::arrivals;

use super::super::ages::LinkPackets;
use super::super::setup::{SIZE, Transport};
use crate::experiment::RunError;

/// Stream to look for in the capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaptureFilter {
    /// Transport of the stream.
    pub(super) transport: Transport,
    /// Destination port of the stream.
    pub(super) port: u16,
    /// Offset of the capture's clock from the stream's.
    pub(super) ahead: Duration,
    /// Start of the count of packets at the link.
    pub(super) from: Instant,
}

/// Observations of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamCapture {
    /// Time at which the last byte of each application packet first arrived at the link.
    pub(super) came: BTreeMap<u64, Instant>,
    /// Data packets of the stream at the link.
    pub(super) stream: LinkPackets,
}

/// Reads a capture.
///
/// # Errors
/// [`RunError::Machine`] if the file is no capture.
pub(super) fn read(path: &Path, wanted: &CaptureFilter) -> Result<StreamCapture, RunError> {
    let (mut seen, mut tcp) = (StreamCapture::default(), TcpBytes::default());
    arrivals(path, wanted.ahead, |at, packet, dropped| add(&mut seen, &mut tcp, wanted, at, packet, dropped))?;
    Ok(seen)
}

fn add(
    seen: &mut StreamCapture,
    tcp: &mut TcpBytes,
    wanted: &CaptureFilter,
    at: Instant,
    packet: &[u8],
    dropped: bool,
) {
    let Some(indexes) = packets_in(packet, wanted, tcp) else { return };
    if at >= wanted.from {
        seen.stream.packets += 1;
        seen.stream.dropped += u64::from(dropped);
    }
    for index in indexes {
        seen.came.entry(index).or_insert(at);
    }
}

/// Returns the application packets whose last byte this packet carries, if it is a data packet of
/// the stream.
fn packets_in(packet: &[u8], wanted: &CaptureFilter, tcp: &mut TcpBytes) -> Option<std::ops::Range<u64>> {
    let headers = PacketHeaders::from_ip_slice(packet).ok()?;
    let payload = headers.payload.slice();
    let one = |payload: &[u8]| super::streams::index_of(payload).map(|index| index..index + 1);
    match (&headers.transport, wanted.transport) {
        (Some(TransportHeader::Udp(udp)), Transport::Udp) if udp.destination_port == wanted.port => one(payload),
        (Some(TransportHeader::Udp(udp)), Transport::Timeous | Transport::Own | Transport::Overwritten)
            if udp.destination_port == wanted.port =>
        {
            let packet = Packet::parse(payload, Encapsulation::Udp).ok()?;
            packet.header.packet_type().carries_data().then(|| one(packet.payload)).flatten()
        }
        (Some(TransportHeader::Tcp(header)), Transport::Tcp) if header.destination_port == wanted.port => {
            if header.syn {
                tcp.first = Some(header.sequence_number.wrapping_add(1));
            }
            tcp.packets(header.sequence_number, payload.len())
        }
        _ => None,
    }
}

/// Start of a TCP connection's byte stream.
#[derive(Debug, Default)]
struct TcpBytes {
    first: Option<u32>,
}

impl TcpBytes {
    /// Returns the application packets whose last byte is among these bytes. A stream is far
    /// shorter than 4 GB.
    fn packets(&self, sequence: u32, len: usize) -> Option<std::ops::Range<u64>> {
        let start = u64::from(sequence.wrapping_sub(self.first?));
        (len > 0).then(|| start / SIZE as u64..(start + len as u64) / SIZE as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_the_application_has_left_with_its_last_byte() {
        let tcp = TcpBytes { first: Some(u32::MAX) };
        let size = SIZE as u32;
        assert_eq!(tcp.packets(u32::MAX, SIZE), Some(0..1));
        assert_eq!(tcp.packets(u32::MAX, SIZE - 1), Some(0..0), "not yet");
        assert_eq!(tcp.packets(size - 2, 1), Some(0..1), "now");
        assert_eq!(tcp.packets(size - 1, 2 * SIZE), Some(1..3));
        assert_eq!(tcp.packets(5, 0), None, "no data");
        assert_eq!(TcpBytes::default().packets(5, 9), None, "nothing is known of the connection");
    }
}
