//! RTP over plain UDP as a sink, with an SDP file for players.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use timeous::core::{Duration, Priority, References};
use timeous_media::passthrough::{PassthroughRelease, StreamClock};
use timeous_media::{Frame, MediaDescription, Packetizer, PacketizerConfig, PlayoutFrame, SessionDescription};

use super::error::WriteError;
use super::file::{Target, replace};
use super::nals::{MAX_SETS, PPS, SPS, is_set, nals_of, type_of};
use super::passthrough::{FrameDatagrams, PassthroughStreams};
use crate::failure::Failure;
use crate::input::bind;
use crate::notice::tell;

/// Bytes of MPEG-TS in a datagram: seven packets, as all players expect.
const DATAGRAM: usize = 7 * timeous_media::ts::PACKET_LEN;

/// RTP sink.
pub(super) struct RtpWriter {
    socket: UdpSocket,
    to: SocketAddr,
    packetizer: Packetizer,
    description: Option<Description>,
    streams: PassthroughStreams,
    /// Whether the user was told that players need a description.
    has_told: bool,
}

impl RtpWriter {
    /// Creates a sink for this address; `sdp` is the file for the description.
    pub(super) fn new(to: SocketAddr, sdp: Option<&str>, overwrite: bool) -> Result<Self, Failure> {
        let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = bind(SocketAddr::new(any, 0))?;
        let [ssrc, timestamp, sequence] = crate::random::words()?;
        let packetizer = Packetizer::new(PacketizerConfig {
            ssrc,
            first_timestamp: timestamp,
            first_sequence: sequence as u16,
            ..PacketizerConfig::default()
        })?;
        let description = sdp.map(|path| Description::new(path, overwrite)).transpose()?;
        Ok(Self { socket, to, packetizer, description, streams: PassthroughStreams::new(to)?, has_told: false })
    }

    /// Name of the sink.
    pub(super) fn name(&self) -> String {
        format!("udp://{}", self.to)
    }

    /// Sends a frame; returns the bytes of its packets.
    pub(super) fn write(&mut self, frame: &PlayoutFrame) -> Result<usize, WriteError> {
        let frame = as_sent(frame);
        if frame.nals.is_empty() {
            return Err(WriteError::Frame("it is no H.264 byte stream".to_owned()));
        }
        if let Some(description) = &mut self.description {
            description.update(&frame.nals, self.to);
        } else if !std::mem::replace(&mut self.has_told, true) {
            tell(format_args!("players need a description of the RTP to {}: --sdp FILE writes one", self.name()));
        }
        let mut bytes = 0;
        for adu in self.packetizer.packetize(&frame) {
            bytes += self.send(&adu.rtp)?;
        }
        Ok(bytes)
    }

    /// Sends packets of a transport stream, without RTP; returns their bytes.
    pub(super) fn write_packets(&mut self, packets: &[u8]) -> Result<usize, WriteError> {
        packets.chunks(DATAGRAM).map(|datagram| self.send(datagram)).sum()
    }

    /// Sends RTP packets of any payload; returns their bytes.
    pub(super) fn write_passthrough(&mut self, release: &PassthroughRelease) -> Result<usize, WriteError> {
        let to = self.streams.destination(release.stream);
        let FrameDatagrams { packets, report } = self.streams.datagrams(release)?;
        if let Some(report) = report {
            self.send_to(&report, SocketAddr::new(to.ip(), to.port().saturating_add(1)))?;
        }
        packets.iter().map(|packet| self.send_to(packet, to)).sum()
    }

    /// Takes the clock of such a stream.
    pub(super) fn set_clock(&mut self, stream: u8, clock: StreamClock) {
        self.streams.set_clock(stream, clock);
    }

    /// Takes descriptions of streams of RTP packets of any payload.
    pub(super) fn describe(&mut self, streams: &[MediaDescription]) {
        let is_known = self.streams.describe(streams, self.description.as_ref().map(|description| &description.target));
        if !is_known && self.description.is_some() {
            tell(format_args!(
                "the session description was not written: the sender does not know the codec; its source would be an SDP file"
            ));
        } else if self.description.is_none() && !std::mem::replace(&mut self.has_told, true) {
            tell(format_args!("players need a description of the RTP to {}: --sdp FILE writes one", self.name()));
        }
    }

    fn send(&self, datagram: &[u8]) -> Result<usize, WriteError> {
        self.send_to(datagram, self.to)
    }

    fn send_to(&self, datagram: &[u8], to: SocketAddr) -> Result<usize, WriteError> {
        match self.socket.send_to(datagram, to) {
            Ok(_) => {}
            // No program listens there (yet); a player may be started later.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(Failure::file(&self.name(), &error).into()),
        }
        Ok(datagram.len())
    }
}

/// SDP file that describes the stream.
struct Description {
    target: Target,
    sets: Vec<Vec<u8>>,
    version: u64,
}

impl Description {
    /// Prepares a file that does not exist, or is a description already, which is replaced.
    fn new(path: &str, overwrite: bool) -> Result<Self, Failure> {
        let is_description = fs::metadata(path).is_ok_and(|found| found.is_file())
            && fs::read(path).is_ok_and(|found| found.starts_with(b"v=0"));
        Ok(Self { target: Target::of_any_kind(path, overwrite || is_description)?, sets: Vec::new(), version: 0 })
    }

    /// Writes the file if the frame changes the parameter sets.
    fn update(&mut self, nals: &[Vec<u8>], to: SocketAddr) {
        let told: Vec<&Vec<u8>> = nals.iter().filter(|nal| is_set(nal)).collect();
        // A new SPS starts a new sequence, so that earlier sets are dropped.
        let is_new = told.iter().any(|nal| type_of(nal) == SPS && !self.sets.contains(nal));
        let mut sets = if is_new { Vec::new() } else { self.sets.clone() };
        for set in told {
            sets.retain(|known| known != set);
            sets.push(set.clone());
        }
        // Stable sort: of two PPSs with the same id, the later one stays last, and applies.
        sets.sort_by_key(|set| type_of(set));
        // The oldest PPSs are dropped: the stream repeats what it still uses.
        let oldest = sets.iter().take_while(|set| type_of(set) == SPS).count();
        let excess = sets.len().saturating_sub(MAX_SETS);
        sets.drain(oldest..(oldest + excess).min(sets.len()));
        sets.truncate(MAX_SETS);
        if sets == self.sets {
            return;
        }
        self.sets = sets;
        if [SPS, PPS].iter().any(|kind| !self.sets.iter().any(|set| type_of(set) == *kind)) {
            return;
        }
        self.version += 1;
        let text = SessionDescription::h264(to, PacketizerConfig::default().payload_type, self.sets.clone());
        // The stream goes on without the file.
        if let Err(failure) = replace(&self.target, text.write(self.version).as_bytes()) {
            tell(format_args!("the session description was not written: {failure}"));
        }
    }
}

/// Frame for the packetizer. Priority and references are only for late choice, which plain RTP does not have.
fn as_sent(frame: &PlayoutFrame) -> Frame {
    Frame {
        index: 0,
        kind: frame.kind,
        reference: frame.reference,
        frame_num: 0,
        gop_position: 0,
        display_index: 0,
        reorder: 0,
        capture: Duration::ZERO,
        handover: Duration::ZERO,
        // These ticks continue over restarts of the sender; RTP uses the lowest 32 bits.
        rtp_ticks: frame.ticks.cast_unsigned(),
        duration: Duration::ZERO,
        entry: None,
        references: References::NONE,
        priority: Priority::NORMAL,
        nals: nals_of(&frame.annexb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An encoder that sends a new PPS for each picture: the newest one must be in the file.
    #[test]
    fn the_newest_parameter_sets_are_described() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stream.sdp");
        let mut description = Description::new(path.to_str().unwrap(), false).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], 5004));
        description.update(&[vec![0x67, 0x42, 0xc0, 0x1e, 0x80], vec![0x68, 0xce, 0x80]], to);
        for n in 0..2 * MAX_SETS as u8 {
            description.update(&[vec![0x68, 0xce, n, 0x80]], to);
        }
        let found = SessionDescription::parse(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(found.parameter_sets.len(), MAX_SETS);
        assert_eq!(found.parameter_sets[0][0], 0x67, "the SPS stays");
        assert_eq!(found.parameter_sets.last(), Some(&vec![0x68, 0xce, 2 * MAX_SETS as u8 - 1, 0x80]));
    }
}
