//! Codecs whose payload headers tell kinds of frames.

use super::av1::Av1;
use super::chain::{Chain, Header, Look};
use super::dependency::FrameLayers;
use super::{av1, nal, vp8, vp9};
use crate::h264::annexb::write;
use crate::h264::svc::SvcHeader;
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
    /// By the headers of their slices, and the parameter sets of the session description until a frame is described; spatial layers
    /// of H.264 by those of their NAL units.
    H264(Box<VideoFrames>, Vec<u8>, Chain),
    H265(Box<VideoFrames>, Vec<u8>),
    /// By the headers of its frames.
    Av1(Box<Av1>),
    /// By their payload headers.
    Vp8(Chain),
    Vp9(Chain),
    /// Frames of which nothing is known.
    Unknown,
}

impl Codec {
    /// Codec of a stream.
    pub(super) fn of(stream: &MediaDescription) -> Self {
        let sets = || {
            let mut annexb = Vec::new();
            write(stream.parameter_sets().iter().map(Vec::as_slice), &mut annexb);
            annexb
        };
        match stream.codec.to_ascii_uppercase().as_str() {
            _ if stream.kind == MediaKind::Audio => Self::Audio,
            "H264" | "H264-SVC" => Self::H264(Box::new(VideoFrames::new(VideoCodec::H264)), sets(), Chain::default()),
            "H265" => Self::H265(Box::new(VideoFrames::new(VideoCodec::H265)), sets()),
            "VP8" => Self::Vp8(Chain::default()),
            "VP9" => Self::Vp9(Chain::default()),
            "AV1" => Self::Av1(Box::default()),
            _ => Self::Unknown,
        }
    }

    /// Spatial layer of a packet; `None`: it does not tell, and goes on with that of the one before.
    pub(super) fn spatial_layer(&self, payload: &[u8]) -> Option<u8> {
        match self {
            Self::H264(..) => nal::svc_layer(payload),
            Self::Av1(_) => av1::spatial_layer(payload),
            Self::Vp9(_) => vp9::spatial_layer(payload),
            Self::Audio | Self::H265(..) | Self::Vp8(_) | Self::Unknown => None,
        }
    }

    /// Describes the frame `number` by the payloads of its packets so far; `below` is the frame of the next lower spatial layer of its
    /// picture, and `told` what its header extension tells. `None`: more are needed, unless these are `all`.
    pub(super) fn describe<'a>(
        &mut self,
        number: u32,
        (below, told): (Option<u32>, Option<FrameLayers>),
        payloads: impl Iterator<Item = &'a [u8]>,
        all: bool,
    ) -> Option<Description> {
        let mut payloads = payloads.peekable();
        match self {
            Self::Audio => Some(alone(UnitKind::Audio, AUDIO)),
            Self::H264(kinds, sets, chain) => {
                if let Some(header) = payloads.peek().and_then(|payload| upper_layer(payload)) {
                    return Some(chain.describe(number, Some(header), below));
                }
                let mut annexb = sets.clone();
                payloads.for_each(|payload| nal::append_h264(&mut annexb, payload));
                let described = described(kinds, sets, number, &annexb, all)?;
                if described.kind == UnitKind::VideoEntry {
                    chain.enter();
                }
                Some(described)
            }
            Self::H265(kinds, sets) => {
                let mut annexb = sets.clone();
                payloads.for_each(|payload| nal::append_h265(&mut annexb, payload));
                described(kinds, sets, number, &annexb, all)
            }
            Self::Av1(av1) => av1.describe(number, (below, told), payloads, all),
            Self::Vp8(chain) => by_headers(chain, number, below, payloads.map(vp8::look), all),
            Self::Vp9(chain) => by_headers(chain, number, below, payloads.map(vp9::look), all),
            Self::Unknown => Some(alone(UnitKind::Other, OTHER)),
        }
    }
}

/// Header of an upper layer of H.264, if a packet begins a slice of one.
fn upper_layer(payload: &[u8]) -> Option<Header> {
    let (svc, is_disposable) = nal::upper_layer(payload)?;
    let SvcHeader { spatial, temporal: layer, is_idr: is_within_picture, is_independent } = svc;
    let has_below = !is_independent;
    Some(Header { is_disposable, layer, spatial, has_below, is_within_picture, ..Header::default() })
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

fn by_headers(
    chain: &mut Chain,
    number: u32,
    below: Option<u32>,
    looks: impl Iterator<Item = Look>,
    all: bool,
) -> Option<Description> {
    let mut header: Option<Header> = None;
    for look in looks {
        match look {
            Look::Frame(found) => header = header.or(Some(found)),
            Look::More => {}
            Look::Unknown => return Some(chain.describe(number, header, below)),
        }
    }
    (header.is_some() || all).then(|| chain.describe(number, header, below))
}

/// Finds out the codec of a stream by a packet, if it is one that is hardly mistaken.
pub(super) fn found(payload: &[u8]) -> Option<(MediaKind, &'static str)> {
    if nal::has_h265_parameters(payload) {
        return Some((MediaKind::Video, "H265"));
    }
    vp8::is_key_frame(payload).then_some((MediaKind::Video, "VP8"))
}
