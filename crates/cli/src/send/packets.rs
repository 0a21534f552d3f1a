//! Packets of a source: RTP of H.264 frames, of a transport stream, or of another codec as they came; or FLV for players.

use timeous::core::{Duration, SubStream};
use timeous_media::passthrough::PassthroughPacketizer;
use timeous_media::ts::TsPacketizer;
use timeous_media::{FlvMuxer, MediaAdu, Packetizer, PacketizerConfig, Stamp};

use super::player;
use crate::failure::Failure;
use crate::input::{Format, MediaPart};
use crate::place::Player;

/// Packetizer of a source.
pub(super) struct Packets {
    format: Packetizers,
    /// Whether each layer of video is a sub-stream, as the policy `layers` wants it.
    has_layers: bool,
}

/// Packetizer by the format of the source.
enum Packetizers {
    /// RFC 6184.
    Video(Packetizer),
    /// RFC 2250.
    Ts(TsPacketizer),
    /// Any payload.
    Passthrough(PassthroughPacketizer),
    /// Tags of FLV, for this player.
    Flv(FlvMuxer, Player),
}

impl Packets {
    /// Creates tags of FLV of a source.
    pub(super) fn for_player(format: Format, player: Player) -> Result<Self, Failure> {
        match format {
            Format::Video => Ok(Self { format: Packetizers::Flv(FlvMuxer::default(), player), has_layers: false }),
            Format::Ts | Format::Passthrough => Err(Failure::Usage(
                "players over TCP get FLV of H.264, and this source has something else: send raw H.264, as by \
                 `ffmpeg … -c:v copy -an -f h264 - | timeous send -`"
                    .to_owned(),
            )),
        }
    }

    /// Header of the byte stream, before the first frame; RTP has none.
    pub(super) fn preface(&self) -> Option<Vec<u8>> {
        self.player().map(|player| player::part(player, FlvMuxer::header().to_vec()))
    }

    /// Trailer of the byte stream, behind the last frame.
    pub(super) fn ending(&self) -> Option<&'static [u8]> {
        self.player().and_then(player::end)
    }

    fn player(&self) -> Option<Player> {
        if let Packetizers::Flv(_, player) = self.format { Some(player) } else { None }
    }

    /// Creates a packetizer for packets of at most `largest` bytes, with unpredictable initial values (RFC 3550 §5.1, §8).
    pub(super) fn new(format: Format, largest: usize, descriptors: bool, has_layers: bool) -> Result<Self, Failure> {
        let [ssrc, first_timestamp, sequence] = crate::random::words()?;
        let first_sequence = sequence as u16;
        let format = match format {
            Format::Ts => Packetizers::Ts(TsPacketizer::new(largest, ssrc, first_sequence, first_timestamp)?),
            Format::Passthrough => {
                Packetizers::Passthrough(PassthroughPacketizer::new(largest, ssrc, first_sequence, first_timestamp)?)
            }
            Format::Video => Packetizers::Video(Packetizer::new(PacketizerConfig {
                ssrc,
                first_sequence,
                first_timestamp,
                mtu: largest,
                descriptors,
                ..PacketizerConfig::default()
            })?),
        };
        Ok(Self { format, has_layers })
    }

    /// Fills later packets up to `largest` bytes: the path carries another size.
    pub(super) fn resize(&mut self, largest: usize) {
        match &mut self.format {
            Packetizers::Video(video) => video.resize(largest),
            Packetizers::Ts(ts) => ts.resize(largest),
            Packetizers::Passthrough(passthrough) => passthrough.resize(largest),
            Packetizers::Flv(..) => {}
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        match &self.format {
            Packetizers::Video(video) => video.ssrc(),
            Packetizers::Ts(ts) => ts.ssrc(),
            Packetizers::Passthrough(passthrough) => passthrough.ssrc(),
            Packetizers::Flv(..) => 0,
        }
    }

    pub(super) fn timestamp(&self, ticks: u64) -> u32 {
        match &self.format {
            Packetizers::Video(video) => video.timestamp(ticks),
            Packetizers::Ts(ts) => ts.timestamp(ticks),
            Packetizers::Passthrough(passthrough) => passthrough.timestamp(ticks),
            Packetizers::Flv(..) => ticks as u32,
        }
    }

    /// Packets of a part, for which a decoder may need parameter sets first. A source does not change its format.
    pub(super) fn packetize(&mut self, part: &MediaPart, sets: &[Vec<u8>], stamp: &Stamp) -> Vec<MediaAdu> {
        let mut adus: Vec<MediaAdu> = match (&mut self.format, part) {
            (Packetizers::Video(video), MediaPart::Video(part)) if sets.is_empty() => {
                video.packetize_part(&part.frame, (part.first, part.last), stamp)
            }
            (Packetizers::Video(video), MediaPart::Video(part)) => {
                let mut frame = part.frame.clone();
                frame.nals.splice(0..0, sets.iter().cloned());
                video.packetize_part(&frame, (part.first, part.last), stamp)
            }
            (Packetizers::Flv(flv, player), MediaPart::Video(part)) => {
                let mut frame = part.frame.clone();
                frame.nals.splice(0..0, sets.iter().cloned());
                let tag = flv.tag(&frame, (part.first, part.last), stamp).into_iter();
                tag.map(|adu| MediaAdu { rtp: player::part(*player, adu.rtp), ..adu }).collect()
            }
            (Packetizers::Ts(ts), MediaPart::Ts(unit)) => {
                let (capture, handover) = (Duration::ZERO, Duration::ZERO);
                let packets = ts.packetize(unit, stamp.capture, stamp.is_queued).into_iter();
                packets.map(|(meta, rtp)| MediaAdu { meta, capture, handover, rtp }).collect()
            }
            (Packetizers::Passthrough(passthrough), MediaPart::Passthrough(unit)) => {
                let (capture, handover) = (Duration::ZERO, Duration::ZERO);
                let packets = passthrough.packetize(unit, stamp.capture, stamp.is_queued).into_iter();
                packets.map(|(meta, rtp)| MediaAdu { meta, capture, handover, rtp }).collect()
            }
            _ => Vec::new(),
        };
        if let Some(layer) = layer_of(part).filter(|_| self.has_layers) {
            adus.iter_mut().for_each(|adu| adu.meta.substream = SubStream(layer));
        }
        adus
    }

    /// Counts a frame that was given up.
    pub(super) fn count_given_up(&mut self, stream: u8) {
        if let Packetizers::Passthrough(passthrough) = &mut self.format {
            passthrough.count_given_up(stream);
        }
    }
}

/// Layer of a part of video, from the base.
fn layer_of(part: &MediaPart) -> Option<u8> {
    match part {
        MediaPart::Video(part) => Some(part.frame.layer()),
        MediaPart::Ts(unit) => unit.kind.is_picture().then_some(unit.layer),
        MediaPart::Passthrough(unit) => unit.kind.is_picture().then_some(unit.layer),
    }
}
