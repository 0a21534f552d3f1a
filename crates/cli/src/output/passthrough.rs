//! RTP streams of any payload as a sink: each goes to a port of its own, under a synchronisation source of its own.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

use timeous::clock;
use timeous_media::passthrough::{PassthroughRelease, StreamClock, StreamReports};
use timeous_media::{MediaDescription, Session};

use super::file::{Target, replace};
use crate::failure::Failure;
use crate::notice::tell;

/// Ports of a stream: RTP, and RTCP behind it (RFC 3550 §11).
const PORTS: u16 = 2;

/// Length of an RTP header (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;

/// Streams of a sink.
pub(super) struct PassthroughStreams {
    to: SocketAddr,
    outputs: BTreeMap<u8, StreamOutput>,
    /// Clocks of the streams, as far as they were told.
    clocks: BTreeMap<u8, StreamClock>,
    /// Name that tells players which streams have one clock (CNAME, RFC 7022).
    name: String,
    described: Vec<MediaDescription>,
    version: u64,
}

/// Numbers of a stream, which are unpredictable at its beginning (RFC 3550 §5.1, §8).
#[derive(Clone, Copy)]
struct StreamOutput {
    restarts: u32,
    ssrc: u32,
    first_sequence: u16,
    reports: StreamReports,
}

/// Datagrams of a frame: RTP, and a report on the stream, for the next port, if one is due.
pub(super) struct FrameDatagrams {
    pub(super) packets: Vec<Vec<u8>>,
    pub(super) report: Option<Vec<u8>>,
}

impl PassthroughStreams {
    /// Creates streams to ports from this one on.
    pub(super) fn new(to: SocketAddr) -> Result<Self, Failure> {
        let name = format!(
            "{:016x}",
            crate::random::words::<2>()?.into_iter().fold(0, |all, word| all << 32 | u64::from(word))
        );
        let (outputs, clocks) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { to, outputs, clocks, name, described: Vec::new(), version: 0 })
    }

    /// Destination of a stream.
    pub(super) fn destination(&self, stream: u8) -> SocketAddr {
        SocketAddr::new(self.to.ip(), self.to.port().saturating_add(PORTS * u16::from(stream)))
    }

    /// Takes the clock of a stream.
    pub(super) fn set_clock(&mut self, stream: u8, clock: StreamClock) {
        self.clocks.insert(stream, clock);
    }

    /// Datagrams of a frame as they are sent.
    pub(super) fn datagrams(&mut self, release: &PassthroughRelease) -> Result<FrameDatagrams, Failure> {
        let number = release.stream;
        if self.outputs.get(&number).is_none_or(|output| output.restarts != release.restarts) {
            let [ssrc, sequence] = crate::random::words()?;
            let rate = self.described.get(usize::from(number)).map_or(0, |stream| stream.clock_rate);
            let (restarts, reports) = (release.restarts, StreamReports::new(rate));
            self.outputs.insert(number, StreamOutput { restarts, ssrc, first_sequence: sequence as u16, reports });
        }
        let output = self.outputs.get_mut(&number).expect("it was inserted");
        if let Some(clock) = self.clocks.get(&number) {
            output.reports.set_clock(*clock);
        }
        let (ssrc, first_sequence) = (output.ssrc, output.first_sequence);
        let numbered = |packet: &Vec<u8>| {
            let mut packet = packet.clone();
            if let Some([s0, s1]) = packet.get(2..4) {
                let sequence = u16::from_be_bytes([*s0, *s1]).wrapping_add(first_sequence);
                packet[2..4].copy_from_slice(&sequence.to_be_bytes());
            }
            if let Some(bytes) = packet.get_mut(8..RTP_HEADER) {
                bytes.copy_from_slice(&ssrc.to_be_bytes());
            }
            packet
        };
        let packets: Vec<Vec<u8>> = release.packets.iter().map(numbered).collect();
        let mut report = None;
        for packet in &packets {
            let octets = packet.len().saturating_sub(RTP_HEADER);
            let due = output.reports.sent(clock::now(), ssrc, release.timestamp, octets, &self.name);
            report = report.or(due);
        }
        Ok(FrameDatagrams { packets, report })
    }

    /// Takes descriptions of the streams; writes them to a file, if they have changed. Returns whether the file is of use.
    pub(super) fn describe(&mut self, streams: &[MediaDescription], target: Option<&Target>) -> bool {
        if self.described == streams {
            return true;
        }
        self.described = streams.to_vec();
        for (number, stream) in (0..).zip(streams) {
            if let Some(output) = self.outputs.get_mut(&number) {
                output.reports.set_clock_rate(stream.clock_rate);
            }
        }
        let known = streams.iter().all(MediaDescription::is_known);
        let Some(target) = target.filter(|_| known) else { return known };
        self.version += 1;
        let session = Session { streams: streams.to_vec() };
        let text = session.write(|number| self.destination(number as u8), self.version);
        // The streams go on without the file.
        if let Err(failure) = replace(target, text.as_bytes()) {
            tell(format_args!("the session description was not written: {failure}"));
        }
        true
    }
}

/// First of the ports from this one on of which two streams' are free on this host.
pub(super) fn free_ports(to: SocketAddr) -> SocketAddr {
    let is_free = |port: u16| UdpSocket::bind((to.ip(), port)).is_ok();
    let of_two = |first: &u16| (*first..*first + 2 * PORTS).all(is_free);
    let found = (to.port()..u16::MAX - 2 * PORTS).step_by(usize::from(2 * PORTS)).find(of_two);
    SocketAddr::new(to.ip(), found.unwrap_or(to.port()))
}
