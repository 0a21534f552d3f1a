//! Capture of one link's packets into a pcapng file.

use std::io::{self, Write};
use std::net::IpAddr;

use etherparse::{IpNumber, Ipv4Header, Ipv6Header};
use timeous_core::{Duration, Instant};

use super::packet::{Packet, Protocol};
use crate::capture::{Capture, CaptureError, Interface, UdpFlow};
use crate::link::DropCause;

/// Hop limit of packets: the recommended default TTL (RFC 1700).
const HOP_LIMIT: u8 = 64;

/// Captures packets as they enter and leave a link. After an error it stops, and keeps the error.
pub(super) struct Tap {
    capture: Capture<Box<dyn Write + Send>>,
    /// The packet kept last: its UDP payload, or else the IP packet.
    bytes: Vec<u8>,
    udp: Option<UdpFlow>,
    outcome: Result<(), CaptureError>,
}

impl Tap {
    pub(super) fn new(writer: Box<dyn Write + Send>) -> Result<Self, CaptureError> {
        Ok(Self { capture: Capture::new(writer)?, bytes: Vec::new(), udp: None, outcome: Ok(()) })
    }

    /// Keeps a copy of a packet, which the link may consume before [`write`](Self::write).
    pub(super) fn see(&mut self, packet: &Packet) {
        self.bytes.clear();
        let &Packet { source, destination, ecn, .. } = packet;
        self.udp = match packet.protocol {
            Protocol::Udp => Some(UdpFlow { source, destination, ecn, ident: packet.id as u16 }),
            Protocol::Tcp => {
                let written = append_ip(&mut self.bytes, packet);
                self.keep(written);
                None
            }
        };
        self.bytes.extend_from_slice(&packet.payload);
    }

    /// Captures the packet kept last.
    pub(super) fn write(&mut self, interface: Interface, at: Instant, dropped: Option<DropCause>) {
        if self.outcome.is_err() {
            return;
        }
        // Virtual time zero is written as 1970-01-01, so that the same run gives the same bytes.
        let since_1970 = Duration::from_nanos(at.as_nanos());
        let comment = dropped.map(DropCause::as_str);
        let written = match &self.udp {
            Some(flow) => self.capture.udp(interface, since_1970, flow, &self.bytes, comment),
            None => self.capture.ip(interface, since_1970, &self.bytes, comment),
        };
        self.keep(written);
    }

    /// Flushes the buffer; returns the first error of all writes.
    pub(super) fn finish(mut self) -> Result<(), CaptureError> {
        self.outcome?;
        self.capture.flush()
    }

    fn keep(&mut self, written: Result<(), CaptureError>) {
        if self.outcome.is_ok() {
            self.outcome = written;
        }
    }
}

/// Appends the IP header of a TCP segment.
fn append_ip(bytes: &mut Vec<u8>, packet: &Packet) -> Result<(), CaptureError> {
    let len = u16::try_from(packet.payload.len()).map_err(io::Error::other)?;
    match (packet.source.ip(), packet.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut ip = Ipv4Header::new(len, HOP_LIMIT, IpNumber::TCP, source.octets(), destination.octets())
                .map_err(io::Error::other)?;
            ip.identification = packet.id as u16;
            ip.ecn = (packet.ecn as u8).try_into().map_err(io::Error::other)?;
            ip.header_checksum = ip.calc_header_checksum();
            bytes.extend_from_slice(&ip.to_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = Ipv6Header {
                traffic_class: packet.ecn as u8,
                flow_label: u32::from(packet.id as u16).try_into().map_err(io::Error::other)?,
                payload_length: len,
                next_header: IpNumber::TCP,
                hop_limit: HOP_LIMIT,
                source: source.octets(),
                destination: destination.octets(),
            };
            bytes.extend_from_slice(&ip.to_bytes());
        }
        _ => return Err(io::Error::other("the two ends of a segment are of different families").into()),
    }
    Ok(())
}
