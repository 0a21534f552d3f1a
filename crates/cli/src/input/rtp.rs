//! H.264 from an RTP source, with any payload type, SSRC and clock.

use std::net::{SocketAddr, UdpSocket};

use timeous::clock;
use timeous::core::{Duration, Instant, RecentMaximum};
use timeous_media::passthrough::look_for_h264;
use timeous_media::ts::{PACKET_LEN, TS_PAYLOAD_TYPE, packets_of};
use timeous_media::{
    Ending, FrameFate, FramePart, FrameReader, MediaDescription, Playout, PlayoutConfig, PlayoutEvent, PlayoutFrame,
    Release, control,
};

use super::captured::{CapturedFrame, Frames, Timing};
use super::left_out::LeftOutWatch;
use super::media::MediaPart;
use super::passthrough::{PassthroughSource, read_passthrough, tell_streams};
use super::silence::Silence;
use super::ts;
use crate::failure::Failure;
use crate::notice::RateLimitedMessages;

/// Longest wait for reordered RTP packets.
const REORDERING: Duration = Duration::from_millis(60);
/// Most by which a frame may have been captured before it arrived: jitter of a camera's network.
const MOST_LATE: Duration = Duration::from_millis(60);
/// Period of which the longest lag counts, and of the one before. Chosen by us: several groups of pictures.
const LAG_PERIOD: Duration = Duration::from_secs(10);
/// Longest wait between two checks.
const TICK: Duration = Duration::from_millis(200);
/// Largest datagram.
const LARGEST: usize = 1 << 16;

/// RTP parameters that are known in advance.
#[derive(Clone, Debug, Default)]
pub(crate) struct RtpSource {
    /// Payload type.
    pub(crate) payload_type: Option<u8>,
    /// Parameter sets, if the stream does not carry them.
    pub(crate) parameter_sets: Vec<Vec<u8>>,
    /// Whether it is a transport stream, in packets of any payload type.
    pub(crate) is_ts: bool,
}

/// Reads until the receiving side is gone. RTP has no end of stream: a silent source may come back.
pub(super) fn read_rtp(socket: &UdpSocket, source: &RtpSource, frames: &Frames) -> Result<Ending, Failure> {
    let config = PlayoutConfig {
        payload_type: source.payload_type,
        ..PlayoutConfig::new(REORDERING).released(Release::AsTheyCome)
    };
    let mut relay = Relay {
        playout: Playout::new(config),
        reader: FrameReader::new(None),
        refused: RateLimitedMessages::default(),
        left_out: LeftOutWatch::default(),
        lag: RecentMaximum::default(),
        has_given: false,
    };
    relay.playout.add_parameter_sets(source.parameter_sets.iter().map(Vec::as_slice));
    let mut probe = Probe::default();
    let mut datagram = vec![0; LARGEST];
    let broken = |error: std::io::Error| Failure::file("the source", &error);
    let mut from: Option<SocketAddr> = None;
    let mut silence = Silence::at("the source".to_owned(), socket.local_addr().map_err(broken)?, None);
    loop {
        silence.look();
        let due = relay.playout.poll_timeout().map_or(TICK, |at| at.saturating_since(clock::now()));
        let wait = due.max(Duration::from_millis(1)).min(TICK);
        socket.set_read_timeout(Some(wait.into())).map_err(broken)?;
        match socket.recv_from(&mut datagram) {
            Ok((len, sender)) => {
                if from != Some(sender) {
                    relay.refused.tell_as("sender", &format!("RTP from {sender}"));
                }
                silence.end();
                from = Some(sender);
                if !relay.has_given && is_transport_stream(&datagram[..len], source) {
                    return ts::read_udp(socket, &datagram[..len], silence, frames);
                }
                if source.is_ts {
                    relay.refused.tell("a packet of the source is not of MPEG-TS, and is left out");
                    continue;
                }
                relay.packet(&datagram[..len]);
                if !relay.has_given && probe.is_other(&datagram[..len], source.payload_type) {
                    return probe.pass_through(socket, source, frames);
                }
            }
            Err(_) => relay.playout.handle_timeout(clock::now()),
        }
        if !relay.give(frames) {
            return Ok(relay.reader.finish()?);
        }
    }
}

/// Whether a datagram shows that the source is a transport stream: packets of one, several if nothing else tells of it.
fn is_transport_stream(datagram: &[u8], source: &RtpSource) -> bool {
    let is_alone = |packets: &[u8]| packets.len() == datagram.len();
    let is_named = || source.is_ts || datagram[1] & 0x7f == TS_PAYLOAD_TYPE;
    packets_of(datagram).is_some_and(|packets| is_alone(packets) || packets.len() > PACKET_LEN || is_named())
}

/// Packets in a row, without a picture of H.264, that are kept for a reader of other codecs. Chosen by us: a keyframe of usual size.
const MOST_PROBED: usize = 1_024;
/// Packets that are surely not H.264 before the source counts as one of another codec. Chosen by us: a broken sender has one.
const OTHERS: usize = 3;

/// Look at the first packets of a source whose codec is not told.
#[derive(Default)]
struct Probe {
    packets: Vec<(Instant, Vec<u8>)>,
    others: usize,
}

impl Probe {
    /// Takes a packet; returns whether the source is not H.264.
    fn is_other(&mut self, datagram: &[u8], wanted: Option<u8>) -> bool {
        let Some((payload_type, is_h264)) = look_for_h264(datagram) else { return false };
        let is_wanted = wanted.is_none_or(|wanted| wanted == payload_type);
        if control::is_control(datagram) || !is_wanted || self.packets.len() >= MOST_PROBED {
            return false;
        }
        self.packets.push((clock::now(), datagram.to_vec()));
        self.others += usize::from(!is_h264);
        self.others >= OTHERS && self.others * 2 > self.packets.len()
    }

    /// Reads the source as one of another codec, from its first packet on.
    fn pass_through(self, socket: &UdpSocket, source: &RtpSource, frames: &Frames) -> Result<Ending, Failure> {
        let broken = |error: std::io::Error| Failure::file("the source", &error);
        let first = self.packets.first().and_then(|(_, packet)| packet.get(1)).map_or(0, |second| second & 0x7f);
        let payload_type = source.payload_type.unwrap_or(first);
        let streams = vec![MediaDescription::of_payload_type(payload_type)];
        tell_streams(&streams);
        let sockets = vec![socket.try_clone().map_err(broken)?];
        let source = PassthroughSource { sockets, control: Vec::new(), streams, payload_type: Some(payload_type) };
        read_passthrough(&source, self.packets, frames)
    }
}

/// RTP depacketizer and frame reader of a source.
struct Relay {
    playout: Playout,
    reader: FrameReader,
    refused: RateLimitedMessages,
    left_out: LeftOutWatch,
    /// Longest time of late by which pictures lag behind the source's clock beyond [`MOST_LATE`]: B-pictures do, since they are sent
    /// after a picture that is shown later.
    lag: RecentMaximum,
    /// Whether a frame was passed on.
    has_given: bool,
}

impl Relay {
    fn packet(&mut self, datagram: &[u8]) {
        if control::is_control(datagram) {
            return;
        }
        if let Err(error) = self.playout.handle_packet(clock::now(), datagram) {
            self.refused.tell_as(error.kind(), &format!("a packet of the source is not used: {error}"));
        }
    }

    /// Passes frames on; returns `false` if the receiving side is gone.
    fn give(&mut self, frames: &Frames) -> bool {
        while let Some(event) = self.playout.poll_event() {
            match event {
                PlayoutEvent::Clock(change) => {
                    self.refused.tell_as("clock", &format!("the source's clock: {}", ClockChangeMessage(&change)));
                }
                PlayoutEvent::Restarted(ssrc) => {
                    self.refused.tell_as("anew", &format!("the source begins anew (SSRC {ssrc:#010x})"));
                }
                PlayoutEvent::Format(_) => {}
            }
        }
        while let Some(report) = self.playout.poll_report() {
            if report.fate == FrameFate::Unreadable {
                self.refused.tell(
                    "a picture of the source cannot be read: is it H.264, and do its parameter sets (SPS, PPS) come with it? \
                     An SDP file as SOURCE has them, too",
                );
            }
        }
        while let Some(frame) = self.playout.poll_frame() {
            if let Err(error) = self.reader.push_access_unit(&frame.annexb) {
                self.refused.tell(&format!("a picture of the source is not used: {error}"));
                continue;
            }
            self.left_out.look(self.reader.left_out());
            let timing = timing(&frame, &mut self.lag);
            while let Some(frame) = self.reader.next_frame() {
                self.has_given = true;
                let part = MediaPart::Video(FramePart { frame, first: true, last: true });
                if !frames.give(CapturedFrame { part, timing, encoding: frames.encoding }) {
                    return false;
                }
            }
        }
        true
    }
}

/// Capture time by the source's clock, corrected to the arrival where the two are far apart: a clock may run at any rate. Presentation is
/// corrected for all pictures alike, so that their distances stay.
fn timing(frame: &PlayoutFrame, lag: &mut RecentMaximum) -> Timing {
    let captured = frame.captured_at.max(frame.arrived_at.saturating_sub(MOST_LATE));
    lag.note(frame.arrived_at, captured.saturating_since(frame.captured_at), LAG_PERIOD);
    Timing::Live { captured, presented: Some(frame.presented_at.max(Instant::ZERO) + lag.get()) }
}

/// Describes a clock change for people.
pub(crate) struct ClockChangeMessage<'a>(pub(crate) &'a timeous_media::ClockChange);

impl std::fmt::Display for ClockChangeMessage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use timeous_media::ClockChange::{Longer, Shorter, Stepped};
        match self.0 {
            Stepped(seconds) if *seconds >= 0 => write!(f, "it was set {seconds} s ahead, and is followed"),
            Stepped(seconds) => write!(f, "it was set {} s back, and is followed", -seconds),
            Longer(by) => write!(f, "{} ms longer under way", by.as_millis()),
            Shorter(by) => write!(f, "{} ms shorter under way", by.as_millis()),
        }
    }
}

#[cfg(test)]
mod tests {
    use timeous_media::FrameKind;

    use super::*;

    /// Each picture was corrected by itself: of pictures 40 ms apart, 63 and 17 ms.
    #[test]
    fn pictures_that_lag_keep_their_distances() {
        let ms = Duration::from_millis;
        let mut lag = RecentMaximum::default();
        let mut presented = |n: u64, late: u64| {
            let captured_at = Instant::ZERO + ms(1_000 + 40 * n);
            let arrived_at = captured_at + MOST_LATE + ms(late);
            let frame = PlayoutFrame {
                annexb: Vec::new(),
                rtp_timestamp: 0,
                ticks: 0,
                decode_ticks: 0,
                is_entry: false,
                kind: FrameKind::B,
                reference: true,
                captured_at,
                presented_at: captured_at,
                arrived_at,
                completed_at: arrived_at,
                playout_at: arrived_at,
            };
            let Timing::Live { captured, presented } = timing(&frame, &mut lag) else { panic!("it is live") };
            assert_eq!(captured, captured_at + ms(late), "no earlier than {MOST_LATE:?} before its arrival");
            presented.unwrap() - captured_at
        };
        let lags: Vec<_> = (0..).zip([0, 20, 60, 0, 20, 60]).map(|(n, late)| presented(n, late)).collect();
        assert_eq!(lags, [0, 20, 60, 60, 60, 60].map(ms));
        // A picture that came late once counts for at most two periods.
        assert_eq!([250, 500].map(|n| presented(n, 20)), [60, 20].map(ms));
    }
}
