//! Capture of a link as a pcapng file: each packet as it entered, and as it left.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use etherparse::{IpNumber, Ipv4Header, Ipv6Header, UdpHeader};
use pcap_file::DataLink;
use pcap_file::PcapError;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use timeous_core::{Duration, Ecn};

/// `if_tsresol`: timestamps count nanoseconds.
const NANOSECONDS: u8 = 9;
/// Hop limit of packets: the recommended default TTL (RFC 1700).
const HOP_LIMIT: u8 = 64;

/// Place on the link where a packet was captured: one of the capture's two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Interface {
    /// Before the queue, on arrival.
    Ingress = 0,
    /// At the far end, on delivery.
    Egress = 1,
}

/// Error when the capture file cannot be written: the environment's fault.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the capture: {source}; is there room on the disk?")]
pub struct CaptureError {
    source: io::Error,
}

impl From<io::Error> for CaptureError {
    fn from(source: io::Error) -> Self {
        Self { source }
    }
}

impl From<PcapError> for CaptureError {
    fn from(error: PcapError) -> Self {
        match error {
            PcapError::IoError(source) => Self { source },
            other => Self { source: io::Error::other(other) },
        }
    }
}

/// Addresses and IP fields of a captured UDP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFlow {
    /// Source address.
    pub source: SocketAddr,
    /// Destination address, of the same family.
    pub destination: SocketAddr,
    /// The ECN mark.
    pub ecn: Ecn,
    /// IPv4 identification, or IPv6 flow label: identifies the same packet at both interfaces.
    pub ident: u16,
}

/// Size of the IP and UDP headers of a payload sent to `address`.
pub fn udp_overhead(address: &SocketAddr) -> usize {
    let ip = if address.is_ipv4() { Ipv4Header::MIN_LEN } else { Ipv6Header::LEN };
    ip + UdpHeader::LEN
}

/// Writer of a pcapng file with two interfaces, `ingress` and `egress`. Timestamps are `CLOCK_REALTIME`, in nanoseconds
/// since 1970.
pub struct Capture<W: Write> {
    writer: PcapNgWriter<W>,
    packet: Vec<u8>,
}

impl<W: Write> std::fmt::Debug for Capture<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").finish_non_exhaustive()
    }
}

impl Capture<BufWriter<File>> {
    /// Creates a capture in a new file; an existing one is replaced.
    pub fn create(path: &Path) -> Result<Self, CaptureError> {
        Self::to_file(File::create(path)?)
    }

    /// Creates a capture in a file that is open for writing.
    pub fn to_file(file: File) -> Result<Self, CaptureError> {
        Self::new(BufWriter::with_capacity(1 << 18, file))
    }
}

impl<W: Write> Capture<W> {
    /// Creates a capture in any writer.
    pub fn new(writer: W) -> Result<Self, CaptureError> {
        let mut writer = PcapNgWriter::new(writer)?;
        let interfaces = [("ingress", "packets as they entered the link"), ("egress", "packets as they left it")];
        for (name, description) in interfaces {
            writer.write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                    InterfaceDescriptionOption::IfDescription(Cow::Borrowed(description)),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            })?;
        }
        Ok(Self { writer, packet: Vec::new() })
    }

    /// Captures an IP packet, with an optional comment on its fate.
    pub fn ip(
        &mut self,
        interface: Interface,
        since_1970: Duration,
        packet: &[u8],
        comment: Option<&str>,
    ) -> Result<(), CaptureError> {
        let block = EnhancedPacketBlock {
            interface_id: interface as u32,
            timestamp: since_1970.into(),
            original_len: packet.len() as u32,
            data: Cow::Borrowed(packet),
            options: comment.into_iter().map(|text| EnhancedPacketOption::Comment(Cow::Borrowed(text))).collect(),
        };
        self.writer.write_pcapng_block(block)?;
        Ok(())
    }

    /// Captures a UDP payload, with generated IP and UDP headers.
    pub fn udp(
        &mut self,
        interface: Interface,
        since_1970: Duration,
        flow: &UdpFlow,
        payload: &[u8],
        comment: Option<&str>,
    ) -> Result<(), CaptureError> {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        append_headers(&mut packet, flow, payload)?;
        packet.extend_from_slice(payload);
        let written = self.ip(interface, since_1970, &packet, comment);
        self.packet = packet;
        written
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        Ok(self.writer.get_mut().flush()?)
    }
}

fn append_headers(packet: &mut Vec<u8>, flow: &UdpFlow, payload: &[u8]) -> Result<(), CaptureError> {
    let (from, to) = (flow.source.port(), flow.destination.port());
    let len = UdpHeader::LEN + payload.len();
    match (flow.source.ip(), flow.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let len = u16::try_from(len).map_err(io::Error::other)?;
            let mut ip = Ipv4Header::new(len, HOP_LIMIT, IpNumber::UDP, source.octets(), destination.octets())
                .map_err(io::Error::other)?;
            ip.identification = flow.ident;
            ip.ecn = (flow.ecn as u8).try_into().map_err(io::Error::other)?;
            ip.header_checksum = ip.calc_header_checksum();
            packet.extend_from_slice(&ip.to_bytes());
            let udp = UdpHeader::with_ipv4_checksum(from, to, &ip, payload).map_err(io::Error::other)?;
            packet.extend_from_slice(&udp.to_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = Ipv6Header {
                traffic_class: flow.ecn as u8,
                flow_label: u32::from(flow.ident).try_into().map_err(io::Error::other)?,
                payload_length: u16::try_from(len).map_err(io::Error::other)?,
                next_header: IpNumber::UDP,
                hop_limit: HOP_LIMIT,
                source: source.octets(),
                destination: destination.octets(),
            };
            packet.extend_from_slice(&ip.to_bytes());
            let udp = UdpHeader::with_ipv6_checksum(from, to, &ip, payload).map_err(io::Error::other)?;
            packet.extend_from_slice(&udp.to_bytes());
        }
        _ => return Err(io::Error::other("the two ends of a flow are of different families").into()),
    }
    Ok(())
}
