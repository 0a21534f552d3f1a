//! RTP streams of any payload as a sink: each goes to a port of its own, under a synchronisation source of its own.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

use timeous_media::passthrough::PassthroughRelease;
use timeous_media::{MediaDescription, Session};

use super::file::{Target, replace};
use crate::failure::Failure;

/// Ports of a stream: RTP, and RTCP behind it (RFC 3550 §11).
const PORTS: u16 = 2;

/// Streams of a sink.
pub(super) struct PassthroughStreams {
    to: SocketAddr,
    outputs: BTreeMap<u8, StreamOutput>,
    described: Vec<MediaDescription>,
    version: u64,
}

/// Numbers of a stream, which are unpredictable at its beginning (RFC 3550 §5.1, §8).
#[derive(Clone, Copy)]
struct StreamOutput {
    restarts: u32,
    ssrc: u32,
    first_sequence: u16,
}

impl PassthroughStreams {
    /// Creates streams to ports from this one on.
    pub(super) fn new(to: SocketAddr) -> Self {
        Self { to, outputs: BTreeMap::new(), described: Vec::new(), version: 0 }
    }

    /// Destination of a stream.
    pub(super) fn destination(&self, stream: u8) -> SocketAddr {
        SocketAddr::new(self.to.ip(), self.to.port().saturating_add(PORTS * u16::from(stream)))
    }

    /// Packets of a frame as they are sent.
    pub(super) fn packets(&mut self, release: &PassthroughRelease) -> Result<Vec<Vec<u8>>, Failure> {
        let known = self.outputs.get(&release.stream).filter(|output| output.restarts == release.restarts);
        let output = match known {
            Some(known) => *known,
            None => {
                let [ssrc, sequence] = crate::random::words()?;
                let new = StreamOutput { restarts: release.restarts, ssrc, first_sequence: sequence as u16 };
                self.outputs.insert(release.stream, new);
                new
            }
        };
        let numbered = |packet: &Vec<u8>| {
            let mut packet = packet.clone();
            if let Some([s0, s1]) = packet.get(2..4) {
                let sequence = u16::from_be_bytes([*s0, *s1]).wrapping_add(output.first_sequence);
                packet[2..4].copy_from_slice(&sequence.to_be_bytes());
            }
            if let Some(ssrc) = packet.get_mut(8..12) {
                ssrc.copy_from_slice(&output.ssrc.to_be_bytes());
            }
            packet
        };
        Ok(release.packets.iter().map(numbered).collect())
    }

    /// Takes descriptions of the streams; writes them to a file, if they have changed. Returns whether the file is of use.
    pub(super) fn describe(&mut self, streams: &[MediaDescription], target: Option<&Target>) -> bool {
        if self.described == streams {
            return true;
        }
        self.described = streams.to_vec();
        let known = streams.iter().all(MediaDescription::is_known);
        let Some(target) = target.filter(|_| known) else { return known };
        self.version += 1;
        let session = Session { streams: streams.to_vec() };
        let text = session.write(|number| self.destination(number as u8), self.version);
        // The streams go on without the file.
        if let Err(failure) = replace(target, text.as_bytes()) {
            eprintln!("timeous: the session description was not written: {failure}");
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
