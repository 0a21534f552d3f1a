//! Reader of the emulator's captures: entry and exit time and RTP identity of each packet.

use std::collections::BTreeMap;
use std::io::Read;

use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
use pcap_file::PcapError;
use pcap_file::pcapng::{Block, PcapNgReader};
use timeous::core::{Duration, Instant};
use timeous_dccp::{Encapsulation, Packet};
use timeous_net::capture::Interface;
use timeous_testbed::machine::is_dropped;

use crate::journal::RtpId;

/// Format of a stream's UDP payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// RTP.
    Rtp,
    /// DCCP, whose data are RTP.
    Dccp,
}

/// Passage of a packet over the link; times since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkTransit {
    /// Time of entry.
    pub(crate) entered: Instant,
    /// Time of exit at the far end, if it got there.
    pub(crate) left: Option<Instant>,
    /// Whether the link dropped it: queue full, or random loss.
    pub(crate) dropped: bool,
    /// RTP packet inside, if any.
    pub(crate) rtp: Option<RtpId>,
}

/// Reads the packets to UDP port `to`, in the order of entry.
///
/// # Errors
/// A file that is not a capture.
pub(crate) fn read(from: impl Read, wire: Wire, to: u16) -> Result<Vec<LinkTransit>, PcapError> {
    let mut passages: Vec<LinkTransit> = Vec::new();
    let mut under_way: BTreeMap<u16, usize> = BTreeMap::new();
    let mut reader = PcapNgReader::new(from)?;
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(block) = block? else { continue };
        let Some((ident, payload)) = udp_to(&block.data, to) else { continue };
        let at = Instant::ZERO + Duration::from(block.timestamp);
        if block.interface_id == Interface::Egress as u32 {
            if let Some(passage) = under_way.remove(&ident) {
                passages[passage].left = Some(at);
            }
            continue;
        }
        let dropped = is_dropped(&block);
        if !dropped {
            under_way.insert(ident, passages.len());
        }
        passages.push(LinkTransit { entered: at, left: None, dropped, rtp: rtp_in(payload, wire) });
    }
    Ok(passages)
}

/// Identification that matches both sightings of a packet, and its payload, if it goes to this port.
fn udp_to(packet: &[u8], port: u16) -> Option<(u16, &[u8])> {
    let headers = PacketHeaders::from_ip_slice(packet).ok()?;
    let Some(TransportHeader::Udp(udp)) = &headers.transport else { return None };
    let ident = match &headers.net {
        Some(NetHeaders::Ipv4(ip, _)) => ip.identification,
        Some(NetHeaders::Ipv6(ip, _)) => ip.flow_label.value() as u16,
        _ => return None,
    };
    (udp.destination_port == port).then(|| (ident, headers.payload.slice()))
}

fn rtp_in(payload: &[u8], wire: Wire) -> Option<RtpId> {
    match wire {
        Wire::Rtp => rtp_id(payload),
        Wire::Dccp => {
            let packet = Packet::parse(payload, Encapsulation::Udp).ok()?;
            packet.header.packet_type().carries_data().then(|| rtp_id(packet.payload)).flatten()
        }
    }
}

/// Identity of an RTP packet, if these bytes begin with version 2 (RFC 3550 §5.1) and are not RTCP.
fn rtp_id(rtp: &[u8]) -> Option<RtpId> {
    if timeous_media::control::is_control(rtp) {
        return None;
    }
    let header: &[u8; 12] = rtp.first_chunk()?;
    (header[0] >> 6 == 2).then(|| RtpId {
        timestamp: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        sequence: u16::from_be_bytes([header[2], header[3]]),
    })
}

#[cfg(test)]
mod tests {
    use timeous::core::Ecn;
    use timeous_dccp::{Body, Header, Seq, packet};
    use timeous_net::capture::{Capture, UdpFlow};

    use super::*;

    const THERE: u16 = 7000;

    fn rtp(timestamp: u32, sequence: u16) -> Vec<u8> {
        [&[0x80, 96][..], &sequence.to_be_bytes(), &timestamp.to_be_bytes(), &[0; 4], b"data"].concat()
    }

    fn dccp(body: Body, data: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::new();
        let start = packet::begin(&Header::new(1, 2, Seq::new(9), body), &[], &mut datagram).unwrap();
        datagram.extend_from_slice(data);
        packet::finish(&mut datagram, start, Encapsulation::Udp).unwrap();
        datagram
    }

    type Sighting<'a> = (Interface, u64, u16, &'a [u8], Option<&'a str>);

    /// A capture of packets to [`THERE`] and, with every one, of a packet the other way.
    fn capture(sightings: &[Sighting<'_>]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut capture = Capture::create(file.path()).unwrap();
        let (here, there) = (([127, 0, 0, 1], 5).into(), ([127, 0, 0, 1], THERE).into());
        for (interface, nanos, ident, payload, comment) in sightings {
            let flow = UdpFlow { source: here, destination: there, ecn: Ecn::Ect0, ident: *ident };
            let back = UdpFlow { source: there, destination: here, ..flow };
            let at = Duration::from_nanos(*nanos);
            capture.udp(*interface, at, &flow, payload, *comment).unwrap();
            capture.udp(*interface, at, &back, payload, None).unwrap();
        }
        capture.flush().unwrap();
        file
    }

    #[test]
    fn passages_are_matched_even_where_marks_come_again() {
        let [first, second, third] = [1, 2, 3].map(|n| rtp(10 * u32::from(n), n));
        let file = capture(&[
            (Interface::Ingress, 100, 0, &first, None),
            (Interface::Ingress, 110, 1, &second, Some("dropped: queue full")),
            (Interface::Egress, 150, 0, &first, None),
            (Interface::Ingress, 160, 0, &third, None),
            (Interface::Egress, 190, 0, &third, None),
        ]);
        let passages = read(file.as_file(), Wire::Rtp, THERE).unwrap();
        let at = Instant::from_nanos;
        let id = |timestamp, sequence| Some(RtpId { timestamp, sequence });
        let passage = |entered, left: Option<u64>, rtp| LinkTransit {
            entered: at(entered),
            left: left.map(at),
            dropped: left.is_none(),
            rtp,
        };
        assert_eq!(
            passages,
            [passage(100, Some(150), id(10, 1)), passage(110, None, id(20, 2)), passage(160, Some(190), id(30, 3))]
        );
    }

    #[test]
    fn only_data_of_dccp_hold_rtp() {
        let ack = Seq::new(3);
        let file = capture(&[
            (Interface::Ingress, 1, 0, &dccp(Body::Data, &rtp(5, 6)), None),
            (Interface::Ingress, 2, 1, &dccp(Body::DataAck { ack }, &rtp(7, 8)), None),
            (Interface::Ingress, 3, 2, &dccp(Body::Ack { ack }, &[]), None),
            (Interface::Ingress, 4, 3, b"neither", None),
        ]);
        let passages = read(file.as_file(), Wire::Dccp, THERE).unwrap();
        let ids: Vec<_> = passages.iter().map(|passage| passage.rtp.map(|id| id.sequence)).collect();
        assert_eq!(ids, [Some(6), Some(8), None, None]);
    }

    #[test]
    fn what_is_no_capture_is_an_error() {
        assert!(read(&b"rtp_timestamp,rtp_sequence"[..], Wire::Rtp, THERE).is_err());
    }
}
