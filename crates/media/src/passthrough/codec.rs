//! Codecs whose payload headers tell kinds of frames.

use super::av1::Av1;
use super::chain::{Chain, Header, Look};
use super::{nal, vp8, vp9};
use crate::h264::annexb::write;
use crate::pictures::{Description, UnitKind, VideoCodec, VideoFrames};
use crate::rtp::session::{MediaDescription, MediaKind};

use timeous_core::{Priority, References};

/// Priority of audio, above all video; then that of media of an unknown codec. Chosen by us: a gap in the sound disturbs more than one
/// in the picture.
const AUDIO: Priority = Priority(250);
const OTHER: Priority = Priority(128);

/// How the frames of a stream are told apart by kind.
#[derive(Debug)]
pub(super) enum Codec {
    /// Each packet stands for itself.
    Audio,
    /// By the headers of their slices, and the parameter sets of the session description until a frame is described.
    H264(Box<VideoFrames>, Vec<u8>),
    H265(Box<VideoFrames>, Vec<u8>),
    /// By the headers of its frames.
    Av1(Box<Av1>),
    /// By their payload headers.
    Headers(fn(&[u8]) -> Look, Chain),
    /// Frames of which nothing is known.
    Unknown,
}

impl Codec {
    /// Codec of a stream.
    pub(super) fn of(stream: &MediaDescription) -> Self {
        let headers = |look| Self::Headers(look, Chain::default());
        let sets = || {
            let mut annexb = Vec::new();
            write(stream.parameter_sets().iter().map(Vec::as_slice), &mut annexb);
            annexb
        };
        match stream.codec.to_ascii_uppercase().as_str() {
            _ if stream.kind == MediaKind::Audio => Self::Audio,
            "H264" => Self::H264(Box::new(VideoFrames::new(VideoCodec::H264)), sets()),
            "H265" => Self::H265(Box::new(VideoFrames::new(VideoCodec::H265)), sets()),
            "VP8" => headers(vp8::look),
            "VP9" => headers(vp9::look),
            "AV1" => Self::Av1(Box::default()),
            _ => Self::Unknown,
        }
    }

    /// Describes the frame `number` by the payloads of its packets so far. `None`: more are needed, unless these are `all`.
    pub(super) fn describe<'a>(
        &mut self,
        number: u32,
        payloads: impl Iterator<Item = &'a [u8]>,
        all: bool,
    ) -> Option<Description> {
        match self {
            Self::Audio => Some(alone(UnitKind::Audio, AUDIO)),
            Self::H264(kinds, sets) => {
                let mut annexb = sets.clone();
                payloads.for_each(|payload| nal::append_h264(&mut annexb, payload));
                described(kinds, sets, number, &annexb, all)
            }
            Self::H265(kinds, sets) => {
                let mut annexb = sets.clone();
                payloads.for_each(|payload| nal::append_h265(&mut annexb, payload));
                described(kinds, sets, number, &annexb, all)
            }
            Self::Av1(av1) => av1.describe(number, payloads, all),
            Self::Headers(look, chain) => {
                let mut header: Option<Header> = None;
                for payload in payloads {
                    match look(payload) {
                        Look::Frame(found) => header = header.or(Some(found)),
                        Look::More => {}
                        Look::Unknown => return Some(chain.describe(number, header)),
                    }
                }
                (header.is_some() || all).then(|| chain.describe(number, header))
            }
            Self::Unknown => Some(alone(UnitKind::Other, OTHER)),
        }
    }
}

/// Description of a frame that stands for itself.
fn alone(kind: UnitKind, priority: Priority) -> Description {
    Description::new(kind, References::NONE, priority)
}

fn described(
    frames: &mut VideoFrames,
    sets: &mut Vec<u8>,
    number: u32,
    annexb: &[u8],
    all: bool,
) -> Option<Description> {
    let described = frames.describe(number, annexb, false, all)?;
    sets.clear();
    Some(described)
}

/// Finds out the codec of a stream by a packet, if it is one that is hardly mistaken.
pub(super) fn found(payload: &[u8]) -> Option<(MediaKind, &'static str)> {
    if nal::has_h265_parameters(payload) {
        return Some((MediaKind::Video, "H265"));
    }
    vp8::is_key_frame(payload).then_some((MediaKind::Video, "VP8"))
}
