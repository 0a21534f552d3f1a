//! Packets of a source: RTP of H.264 frames, of a transport stream, or of another codec as they came; or FLV or MPEG-TS for players.

use timeous::core::{Duration, SubStream};
use timeous_media::passthrough::PassthroughPacketizer;
use timeous_media::ts::{TsPacketizer, WholePes};
use timeous_media::{FlvMuxer, MediaAdu, Packetizer, PacketizerConfig, Stamp, TsToFlv};

use super::player;
use crate::failure::Failure;
use crate::input::{Format, MediaPart};
use crate::notice::tell;
use crate::place::{Player, Protocol, StreamContainer};
use crate::track::TrackName;

/// Packetizer of a source.
pub(super) struct Packets {
    format: Packetizers,
    /// Whether the header of a player's byte stream was taken.
    has_begun: bool,
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
    /// Tags of FLV, for a player.
    Flv(FlvMuxer, Protocol),
    /// Tags of FLV from a transport stream.
    TsToFlv(Box<TsToFlv>, Protocol),
    /// A transport stream as it is, a PES packet at a time, for a player.
    WholePes(WholePes, Protocol),
}

impl Packets {
    /// Creates tags of FLV of a source.
    pub(super) fn for_player(format: Format, player: Player) -> Result<Self, Failure> {
        let Player { protocol, container } = player;
        let format = match (format, container) {
            (Format::Video, None | Some(StreamContainer::Flv)) => Packetizers::Flv(FlvMuxer::default(), protocol),
            (Format::Ts, Some(StreamContainer::Flv)) => Packetizers::TsToFlv(Box::default(), protocol),
            (Format::Ts, None | Some(StreamContainer::Ts)) => Packetizers::WholePes(WholePes::default(), protocol),
            (Format::Video, Some(StreamContainer::Ts)) | (Format::Passthrough, _) => {
                return Err(Failure::Usage(
                    "players over TCP get FLV of raw H.264, or MPEG-TS as it comes, and this source has something else: send \
                     MPEG-TS, as by `ffmpeg … -c copy -f mpegts - | timeous send -`"
                        .to_owned(),
                ));
            }
        };
        Ok(Self { format, has_begun: false, has_layers: false })
    }

    /// Container of the byte stream for a player.
    pub(super) fn container(&self) -> Option<StreamContainer> {
        match self.format {
            Packetizers::Flv(..) | Packetizers::TsToFlv(..) => Some(StreamContainer::Flv),
            Packetizers::WholePes(..) => Some(StreamContainer::Ts),
            Packetizers::Video(_) | Packetizers::Ts(_) | Packetizers::Passthrough(_) => None,
        }
    }

    /// Whether a player reads them as one byte stream.
    pub(super) fn are_for_player(&self) -> bool {
        self.protocol().is_some()
    }

    /// Header of the byte stream, once, as soon as it is known: before the first frame. RTP and MPEG-TS have none.
    pub(super) fn take_preface(&mut self) -> Option<Vec<u8>> {
        let header = match &self.format {
            _ if self.has_begun => None,
            Packetizers::Flv(..) => Some(FlvMuxer::header().to_vec()),
            Packetizers::TsToFlv(flv, _) => flv.header(),
            _ => None,
        }?;
        self.has_begun = true;
        self.protocol().map(|protocol| player::part(protocol, header))
    }

    /// Trailer of the byte stream, behind the last frame.
    pub(super) fn ending(&self) -> Option<&'static [u8]> {
        self.protocol().and_then(player::end)
    }

    fn protocol(&self) -> Option<Protocol> {
        match self.format {
            Packetizers::Flv(_, protocol) | Packetizers::TsToFlv(_, protocol) | Packetizers::WholePes(_, protocol) => {
                Some(protocol)
            }
            Packetizers::Video(_) | Packetizers::Ts(_) | Packetizers::Passthrough(_) => None,
        }
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
        Ok(Self { format, has_begun: false, has_layers })
    }

    /// Fills later packets up to `largest` bytes: the path carries another size.
    pub(super) fn resize(&mut self, largest: usize) {
        match &mut self.format {
            Packetizers::Video(video) => video.resize(largest),
            Packetizers::Ts(ts) => ts.resize(largest),
            Packetizers::Passthrough(passthrough) => passthrough.resize(largest),
            Packetizers::Flv(..) | Packetizers::TsToFlv(..) | Packetizers::WholePes(..) => {}
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        match &self.format {
            Packetizers::Video(video) => video.ssrc(),
            Packetizers::Ts(ts) => ts.ssrc(),
            Packetizers::Passthrough(passthrough) => passthrough.ssrc(),
            Packetizers::Flv(..) | Packetizers::TsToFlv(..) | Packetizers::WholePes(..) => 0,
        }
    }

    pub(super) fn timestamp(&self, ticks: u64) -> u32 {
        match &self.format {
            Packetizers::Video(video) => video.timestamp(ticks),
            Packetizers::Ts(ts) => ts.timestamp(ticks),
            Packetizers::Passthrough(passthrough) => passthrough.timestamp(ticks),
            Packetizers::Flv(..) | Packetizers::TsToFlv(..) | Packetizers::WholePes(..) => ticks as u32,
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
            (Packetizers::Flv(flv, protocol), MediaPart::Video(part)) => {
                let mut frame = part.frame.clone();
                frame.nals.splice(0..0, sets.iter().cloned());
                let tag = flv.tag(&frame, (part.first, part.last), stamp).into_iter();
                tag.map(|adu| MediaAdu { rtp: player::part(*protocol, adu.rtp), ..adu }).collect()
            }
            (Packetizers::TsToFlv(flv, protocol), MediaPart::Ts(unit)) => {
                let (capture, handover) = (Duration::ZERO, Duration::ZERO);
                let tags = flv.tags(unit).into_iter();
                for stream in flv.take_left_out() {
                    tell(format_args!(
                        "left out: {}: FLV holds the first H.264 and the first AAC: as=ts sends all",
                        TrackName::from(stream)
                    ));
                }
                tags.map(|(meta, tags)| MediaAdu { meta, capture, handover, rtp: player::part(*protocol, tags) })
                    .collect()
            }
            (Packetizers::WholePes(whole, protocol), MediaPart::Ts(unit)) => {
                let (capture, handover, meta) = (Duration::ZERO, Duration::ZERO, unit.meta());
                let packets = whole.push(unit).into_iter();
                packets
                    .map(|packets| MediaAdu { meta, capture, handover, rtp: player::part(*protocol, packets) })
                    .collect()
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
