//! Jitter buffers of a received stream: of raw H.264, of MPEG-TS, and of RTP of any payload, as its packets need them.

use timeous::core::{Duration, Instant};
use timeous_media::passthrough::{PassthroughPlayout, PassthroughRelease, is_passthrough};
use timeous_media::ts::{TS_PAYLOAD_TYPE, TsPlayout, TsRelease};
use timeous_media::{
    ClockChange, FrameReport, MediaDescription, PacketStats, Playout, PlayoutConfig, PlayoutEvent, PlayoutFrame,
    Release, RtpError, WholeFrameCounts,
};

use super::tracks::ReceivedTrack;
use crate::track::TrackName;

/// Payload of RTP packets, by which they are played out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    H264,
    Ts,
    Passthrough,
}

impl Carried {
    /// Payload of a packet.
    pub(super) fn of(packet: &[u8]) -> Self {
        match packet {
            _ if is_passthrough(packet) => Self::Passthrough,
            [version, payload_type, ..] if version >> 6 == 2 && payload_type & 0x7f == TS_PAYLOAD_TYPE => Self::Ts,
            _ => Self::H264,
        }
    }
}

/// Playouts of all payloads, at one latency.
pub(super) struct Playouts {
    config: PlayoutConfig,
    h264: Playout,
    /// Playout of a transport stream, once one has come.
    ts: Option<TsPlayout>,
    /// Playout of RTP of any payload, once some has come.
    passthrough: Option<PassthroughPlayout>,
}

impl Playouts {
    pub(super) fn new(latency: Duration, release: Release, payload_type: Option<u8>) -> Self {
        let config = PlayoutConfig { payload_type, ..PlayoutConfig::new(latency).released(release) };
        Self { config, h264: Playout::new(config), ts: None, passthrough: None }
    }

    /// Latency in force.
    pub(super) fn latency(&self) -> Duration {
        self.h264.latency()
    }

    pub(super) fn set_latency(&mut self, latency: Duration) {
        self.h264.set_latency(latency);
        self.ts.iter_mut().for_each(|ts| ts.set_latency(latency));
        self.passthrough.iter_mut().for_each(|passthrough| passthrough.set_latency(latency));
    }

    /// Prepares for a payload. Returns whether it is the first packet that needs more than a playout of H.264.
    pub(super) fn begin(&mut self, carried: Carried) -> bool {
        let (latency, release) = (self.latency(), self.config.release);
        match carried {
            Carried::Ts if self.ts.is_none() => self.ts = Some(TsPlayout::new(latency, release)),
            Carried::Passthrough if self.passthrough.is_none() => {
                self.passthrough = Some(PassthroughPlayout::new(latency, release));
            }
            _ => return false,
        }
        true
    }

    /// Handles a packet with a payload that was begun.
    pub(super) fn handle_packet(&mut self, carried: Carried, at: Instant, packet: &[u8]) -> Result<(), RtpError> {
        match (carried, &mut self.ts, &mut self.passthrough) {
            (Carried::Ts, Some(ts), _) => ts.handle_packet(at, packet),
            (Carried::Passthrough, _, Some(passthrough)) => passthrough.handle_packet(at, packet),
            _ => self.h264.handle_packet(at, packet),
        }
    }

    /// Advances time.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.h264.handle_timeout(now);
        self.ts.iter_mut().for_each(|ts| ts.handle_timeout(now));
        self.passthrough.iter_mut().for_each(|passthrough| passthrough.handle_timeout(now));
    }

    /// Next instant at which a timer is due, if one is pending.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let ts = self.ts.as_ref().and_then(TsPlayout::poll_timeout);
        let passthrough = self.passthrough.as_ref().and_then(PassthroughPlayout::poll_timeout);
        [self.h264.poll_timeout(), ts, passthrough].into_iter().flatten().min()
    }

    /// Ends the streams: all frames are released at once.
    pub(super) fn finish(&mut self) {
        self.h264.finish();
        self.ts.iter_mut().for_each(TsPlayout::finish);
        self.passthrough.iter_mut().for_each(PassthroughPlayout::finish);
    }

    pub(super) fn poll_event(&mut self) -> Option<PlayoutEvent> {
        self.h264.poll_event()
    }

    pub(super) fn poll_frame(&mut self) -> Option<PlayoutFrame> {
        self.h264.poll_frame()
    }

    pub(super) fn poll_report(&mut self) -> Option<FrameReport> {
        self.h264.poll_report()
    }

    /// Change of the clock of a transport stream, or of RTP of any payload.
    pub(super) fn poll_change(&mut self) -> Option<ClockChange> {
        let ts = self.ts.as_mut().and_then(TsPlayout::poll_change);
        ts.or_else(|| self.passthrough.as_mut()?.poll_change())
    }

    pub(super) fn poll_ts(&mut self) -> Option<TsRelease> {
        self.ts.as_mut()?.poll_release()
    }

    pub(super) fn poll_passthrough(&mut self) -> Option<PassthroughRelease> {
        self.passthrough.as_mut()?.poll_release()
    }

    /// Drops the frames of a payload that the sink does not take, so that none is written before those of the next
    /// stream.
    pub(super) fn drop_all(&mut self, carried: Carried) {
        match carried {
            Carried::H264 => self.h264 = Playout::new(self.config),
            Carried::Ts => self.ts = None,
            Carried::Passthrough => self.passthrough = None,
        }
    }

    /// Whether frames wait for their playout time.
    pub(super) fn holds_frames(&self) -> bool {
        self.h264.holds_frames()
            || self.ts.as_ref().is_some_and(TsPlayout::holds_packets)
            || self.passthrough.as_ref().is_some_and(PassthroughPlayout::holds_packets)
    }

    /// Extra delay of the fastest packets of the last second.
    pub(super) fn excess(&self, now: Instant) -> Option<Duration> {
        let ts = || self.ts.as_ref()?.excess(now);
        self.h264.excess(now).or_else(ts).or_else(|| self.passthrough.as_ref()?.excess(now))
    }

    /// Synchronisation source of H.264 that needs a keyframe, if decoding is stuck.
    pub(super) fn wants_entry(&self) -> Option<u32> {
        self.h264.ssrc().filter(|_| self.h264.wants_entry())
    }

    /// Synchronisation source of the first stream of RTP of any payload.
    pub(super) fn passthrough_ssrc(&self) -> Option<u32> {
        self.passthrough.as_ref().and_then(PassthroughPlayout::ssrc)
    }

    pub(super) fn packets(&self) -> PacketStats {
        self.h264.stats()
    }

    /// Counts of a transport stream, or of RTP of any payload.
    pub(super) fn whole(&self) -> Option<WholeFrameCounts> {
        self.ts.as_ref().map(TsPlayout::stats).or_else(|| Some(self.passthrough.as_ref()?.stats()))
    }

    /// Statistics of each stream of a transport stream, or of RTP of any payload, as it was described.
    pub(super) fn tracks(&self, described: &[Option<MediaDescription>]) -> Option<Vec<ReceivedTrack>> {
        if let Some(ts) = &self.ts {
            return Some(ts.streams().map(|(stream, counts)| ReceivedTrack::new(stream.into(), &counts)).collect());
        }
        let name = |id: u16| match described.get(usize::from(id)) {
            Some(Some(stream)) => TrackName::described(id, stream),
            _ => TrackName { id, ..TrackName::default() },
        };
        let streams = self.passthrough.as_ref()?.streams();
        Some(streams.map(|(id, counts)| ReceivedTrack::new(name(id), &counts)).collect())
    }
}
