//! RTP packets of a source: of H.264 frames, of a transport stream, or those of another codec as they came.

use timeous::core::Duration;
use timeous_media::passthrough::PassthroughPacketizer;
use timeous_media::ts::TsPacketizer;
use timeous_media::{MediaAdu, Packetizer, PacketizerConfig, Stamp};

use crate::failure::Failure;
use crate::input::{Format, MediaPart};

/// Packetizer by the format of the source.
pub(super) enum Packets {
    /// RFC 6184.
    Video(Packetizer),
    /// RFC 2250.
    Ts(TsPacketizer),
    /// Any payload.
    Passthrough(PassthroughPacketizer),
}

impl Packets {
    /// Creates a packetizer for packets of at most `largest` bytes, with unpredictable initial values (RFC 3550 §5.1, §8).
    pub(super) fn new(format: Format, largest: usize, descriptors: bool) -> Result<Self, Failure> {
        let [ssrc, first_timestamp, sequence] = crate::random::words()?;
        let first_sequence = sequence as u16;
        Ok(match format {
            Format::Ts => Self::Ts(TsPacketizer::new(largest, ssrc, first_sequence, first_timestamp)?),
            Format::Passthrough => {
                Self::Passthrough(PassthroughPacketizer::new(largest, ssrc, first_sequence, first_timestamp)?)
            }
            Format::Video => Self::Video(Packetizer::new(PacketizerConfig {
                ssrc,
                first_sequence,
                first_timestamp,
                mtu: largest,
                descriptors,
                ..PacketizerConfig::default()
            })?),
        })
    }

    /// Fills later packets up to `largest` bytes: the path carries another size.
    pub(super) fn resize(&mut self, largest: usize) {
        match self {
            Self::Video(video) => video.resize(largest),
            Self::Ts(ts) => ts.resize(largest),
            Self::Passthrough(passthrough) => passthrough.resize(largest),
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        match self {
            Self::Video(video) => video.ssrc(),
            Self::Ts(ts) => ts.ssrc(),
            Self::Passthrough(passthrough) => passthrough.ssrc(),
        }
    }

    pub(super) fn timestamp(&self, ticks: u64) -> u32 {
        match self {
            Self::Video(video) => video.timestamp(ticks),
            Self::Ts(ts) => ts.timestamp(ticks),
            Self::Passthrough(passthrough) => passthrough.timestamp(ticks),
        }
    }

    /// Packets of a part, for which a decoder may need parameter sets first. A source does not change its format.
    pub(super) fn packetize(&mut self, part: &MediaPart, sets: &[Vec<u8>], stamp: &Stamp) -> Vec<MediaAdu> {
        match (self, part) {
            (Self::Video(video), MediaPart::Video(part)) if sets.is_empty() => {
                video.packetize_part(&part.frame, (part.first, part.last), stamp)
            }
            (Self::Video(video), MediaPart::Video(part)) => {
                let mut frame = part.frame.clone();
                frame.nals.splice(0..0, sets.iter().cloned());
                video.packetize_part(&frame, (part.first, part.last), stamp)
            }
            (Self::Ts(ts), MediaPart::Ts(unit)) => {
                let (capture, handover) = (Duration::ZERO, Duration::ZERO);
                let packets = ts.packetize(unit, stamp.capture, stamp.is_queued).into_iter();
                packets.map(|(meta, rtp)| MediaAdu { meta, capture, handover, rtp }).collect()
            }
            (Self::Passthrough(passthrough), MediaPart::Passthrough(unit)) => {
                let (capture, handover) = (Duration::ZERO, Duration::ZERO);
                let packets = passthrough.packetize(unit, stamp.capture, stamp.is_queued).into_iter();
                packets.map(|(meta, rtp)| MediaAdu { meta, capture, handover, rtp }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Counts a frame that was given up.
    pub(super) fn count_given_up(&mut self, stream: u8) {
        if let Self::Passthrough(passthrough) = self {
            passthrough.count_given_up(stream);
        }
    }
}
