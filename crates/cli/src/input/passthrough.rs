//! RTP of any payload from UDP: one socket for each stream.

use std::io;
use std::net::UdpSocket;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::container::RtpSample;
use timeous_media::passthrough::PassthroughReader;
use timeous_media::{Ending, MediaDescription, RTP_CLOCK_HZ, control};

use super::captured::{CapturedFrame, Frames, Timing};
use super::media::MediaPart;
use super::silence::Silence;
use crate::failure::Failure;
use crate::notice::{RateLimitedMessages, tell};

/// Longest wait between two checks.
const TICK: Duration = Duration::from_millis(200);
/// Interval at which the clocks of the streams are told.
const CLOCKS: Duration = Duration::from_millis(500);
/// Wait for the first reports of a source of several streams, before clocks by arrivals are told: a recording begins with what it is told
/// first. They come within 3.1 s (RFC 3550 §6.2, §6.3.1: half of 5 s, by 1.5 / 1.22).
const REPORTS: Duration = Duration::from_millis(3_500);
/// Largest datagram.
const LARGEST: usize = 1 << 16;
/// Datagrams that are read from a socket before the next one has its turn.
const TURN: usize = 64;

/// Streams of a source, each with its socket.
pub(super) struct PassthroughSource {
    pub(super) sockets: Vec<UdpSocket>,
    /// Sockets for RTCP, on the next ports, as far as these are free.
    pub(super) control: Vec<Option<UdpSocket>>,
    pub(super) streams: Vec<MediaDescription>,
    /// Payload type of the only stream, if others on its port are not to be passed on.
    pub(super) payload_type: Option<u8>,
}

/// Reads until the receiving side is gone. `first` came before, on the first socket. RTP has no end of stream: a silent source may
/// come back.
pub(super) fn read_passthrough(
    source: &PassthroughSource,
    first: Vec<(Instant, Vec<u8>)>,
    frames: &Frames,
) -> Result<Ending, Failure> {
    let mut reading = Streams {
        reader: PassthroughReader::new(source.streams.iter().cloned()),
        payload_type: source.payload_type,
        refused: RateLimitedMessages::default(),
        given: 0,
    };
    let broken = |error: &io::Error| Failure::file("the source", error);
    for socket in source.sockets.iter().chain(source.control.iter().flatten()) {
        socket.set_nonblocking(true).map_err(|error| broken(&error))?;
    }
    let mut is_going = frames.describe(source.streams.clone());
    let mut silences = silences(source).map_err(|error| broken(&error))?;
    for (at, packet) in first {
        silences[0].end();
        reading.packet(at, 0, &packet);
    }
    let mut datagram = vec![0; LARGEST];
    let mut next_clocks = clock::now();
    let mut began = None;
    while is_going && reading.give(frames) {
        silences.iter_mut().for_each(Silence::look);
        let wait = reading.reader.poll_timeout().map_or(TICK, |at| at.saturating_since(clock::now())).min(TICK);
        let ready = wait_for(&source.sockets, wait.max(Duration::from_millis(1)))?;
        for (stream, socket) in source.sockets.iter().enumerate().filter(|(stream, _)| ready[*stream]) {
            for _ in 0..TURN {
                match socket.recv(&mut datagram) {
                    Ok(len) => {
                        if reading.packet(clock::now(), stream, &datagram[..len]) {
                            silences[stream].end();
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(broken(&error)),
                }
            }
        }
        for (stream, socket) in source.control.iter().enumerate() {
            // Reports come every few seconds, and what arrives besides is of no use.
            while let Some(Ok(len)) = socket.as_ref().map(|socket| socket.recv(&mut datagram)) {
                reading.reader.push_control(stream, &datagram[..len]);
            }
        }
        if reading.reader.take_has_restarted() {
            tell(format_args!("the source begins anew"));
        }
        let now = clock::now();
        began = began.or((reading.given > 0).then_some(now));
        let is_waiting = began.is_none_or(|began| now < began + REPORTS) && !reading.reader.are_reported();
        if !(is_waiting && source.streams.len() > 1) && (reading.reader.take_has_new_clock() || now >= next_clocks) {
            next_clocks = now + CLOCKS;
            is_going &= frames.tell_clocks(reading.reader.clocks(clock::unix_offset()));
        }
        reading.reader.handle_timeout(clock::now());
        if reading.reader.take_has_found() {
            let streams: Vec<_> = reading.reader.descriptions().cloned().collect();
            tell_streams(&streams);
            is_going &= frames.describe(streams);
        }
    }
    Ok(Ending { frames: reading.given, ..Ending::default() })
}

/// Detectors of silence, one for each stream.
fn silences(source: &PassthroughSource) -> io::Result<Vec<Silence>> {
    let is_alone = source.streams.len() == 1;
    let of_stream = |(socket, stream): (&UdpSocket, &MediaDescription)| {
        let local = socket.local_addr()?;
        let name = if is_alone { "the source".to_owned() } else { format!("{stream} (port {})", local.port()) };
        Ok(Silence::at(name, local, source.payload_type))
    };
    source.sockets.iter().zip(&source.streams).map(of_stream).collect()
}

/// Reads samples of a file, paced by their times.
pub(super) fn read_samples(
    streams: Vec<MediaDescription>,
    frames: &Frames,
    mut next: impl FnMut() -> Result<Option<RtpSample>, Failure>,
) -> Result<Ending, Failure> {
    let mut reader = PassthroughReader::new(streams.clone());
    let (mut given, mut begin) = (0, None);
    let mut is_going = frames.describe(streams);
    let mut next_clocks = Instant::ZERO;
    while is_going && let Some(sample) = next()? {
        // The time of the file is that of its first sample on.
        let since = sample.decode.saturating_sub(*begin.get_or_insert(sample.decode)).max(0);
        let micros = u128::from(since.unsigned_abs()) * 1_000_000 / u128::from(RTP_CLOCK_HZ);
        let at = Instant::ZERO + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        for packet in &sample.packets {
            // Packets that were just made are in order.
            let _ = reader.push(at, sample.stream, packet);
        }
        while is_going && let Some(unit) = reader.next_unit() {
            given += u64::from(unit.first == 0);
            let part = MediaPart::Passthrough(unit);
            is_going = frames.give(CapturedFrame { part, timing: Timing::Paced, encoding: frames.encoding });
        }
        if reader.take_has_new_clock() || at >= next_clocks {
            next_clocks = at + CLOCKS;
            is_going &= frames.tell_clocks(reader.clocks(clock::unix_offset()));
        }
    }
    Ok(Ending { frames: given, ..Ending::default() })
}

/// Tells what a source has.
pub(super) fn tell_streams(streams: &[MediaDescription]) {
    let names: Vec<String> = streams.iter().map(MediaDescription::to_string).collect();
    tell(format_args!("the source is RTP that passes as it is: {}", names.join(", ")));
}

/// Waits for datagrams; returns which sockets have some.
fn wait_for(sockets: &[UdpSocket], patience: Duration) -> Result<Vec<bool>, Failure> {
    let nanos = patience.as_nanos();
    let timeout = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    let mut fds: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(error) => Err(Failure::file("the source", &error.into())),
    }
}

/// Reader of the streams.
struct Streams {
    reader: PassthroughReader,
    payload_type: Option<u8>,
    refused: RateLimitedMessages,
    given: u64,
}

impl Streams {
    /// Takes a datagram; returns whether it is a packet of the stream.
    fn packet(&mut self, at: Instant, stream: usize, datagram: &[u8]) -> bool {
        let payload_type = datagram.get(1).map(|second| second & 0x7f);
        if control::is_control(datagram) {
            // Both share a port (RFC 5761).
            self.reader.push_control(stream, datagram);
            return false;
        }
        if self.payload_type.is_some() && payload_type != self.payload_type {
            return false;
        }
        if let Err(error) = self.reader.push(at, stream, datagram) {
            self.refused.tell_as(error.kind(), &format!("a packet of the source is not used: {error}"));
        }
        true
    }

    /// Passes units on; returns `false` if the receiving side is gone.
    fn give(&mut self, frames: &Frames) -> bool {
        while let Some(unit) = self.reader.next_unit() {
            self.given += u64::from(unit.first == 0);
            let timing = Timing::Live { captured: unit.captured, presented: None };
            if !frames.give(CapturedFrame { part: MediaPart::Passthrough(unit), timing, encoding: frames.encoding }) {
                return false;
            }
        }
        true
    }
}
