//! FLV byte stream of H.264: each picture is a tag of its own, so that a stream from which pictures were left out is still whole.
//!
//! Adobe Flash Video File Format Specification 10.1, annex E.

use timeous_core::{AduMeta, AduSeq};

use crate::frame::Frame;
use crate::rtp::RTP_CLOCK_HZ;
use crate::rtp::packetize::{MediaAdu, Stamp};

/// Header of a stream of video alone (§E.2), and the size of the tag before the first (§E.3).
const HEADER: [u8; 13] = *b"FLV\x01\x01\0\0\0\x09\0\0\0\0";
/// Tag of video (§E.4.1).
const VIDEO: u8 = 9;
/// Kind of frame and codec in the first byte of a tag (§E.4.3.1): keyframe, and frame between, of H.264.
const KEYFRAME: u8 = 0x17;
const BETWEEN: u8 = 0x27;
/// Kind of content behind it (§E.4.3.2): decoder configuration, and NAL units.
const CONFIGURATION: u8 = 0;
const NAL_UNITS: u8 = 1;
/// Bytes of a tag's header (§E.4.1).
const TAG_HEADER: usize = 11;
/// Longest content of a tag, in bytes: 24 bits tell its length.
const MOST: usize = 0xff_ffff;
/// Bound of what lies between decoding and presentation, in milliseconds: it has 24 bits, one for the sign.
const MOST_OFFSET: u32 = 1 << 23;
/// Types of NAL units (H.264 table 7-1).
const SLICES: std::ops::RangeInclusive<u8> = 1..=5;
const SPS: u8 = 7;
const PPS: u8 = 8;
const DELIMITER: u8 = 9;

/// Turns frames into FLV tags: an ADU for each, behind the [`header`](Self::header) of the stream.
///
/// ```
/// use timeous_media::{FlvMuxer, FrameReader, Stamp};
/// let clip = include_bytes!("../../../assets/clip.h264");
/// let mut reader = FrameReader::new(None);
/// reader.push(&clip[..200_000])?;
/// let (mut muxer, mut flv) = (FlvMuxer::default(), FlvMuxer::header().to_vec());
/// while let Some(frame) = reader.next_frame() {
///     let stamp = Stamp { presentation: frame.rtp_ticks, capture: frame.rtp_ticks, is_queued: false };
///     flv.extend(muxer.tag(&frame, (true, true), &stamp).expect("a whole frame").rtp);
/// }
/// assert!(flv.starts_with(b"FLV"));
/// # Ok::<(), timeous_media::MediaError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FlvMuxer {
    /// NAL units of a frame of which more parts come.
    open: Vec<Vec<u8>>,
    /// Last decoding time, in milliseconds: times do not go back.
    last: u32,
    adu: u64,
}

impl FlvMuxer {
    /// Bytes before the first tag. Nothing can be read without them.
    #[must_use]
    pub fn header() -> &'static [u8] {
        &HEADER
    }

    /// Tag of a frame, once its last part is here, behind the decoder's configuration if the frame has parameter sets; `None`: more parts
    /// come, or it has no picture, or one too large for FLV.
    pub fn tag(&mut self, frame: &Frame, (first, last): (bool, bool), stamp: &Stamp) -> Option<MediaAdu> {
        if first {
            self.open.clear();
        }
        self.open.extend(frame.nals.iter().cloned());
        if !last {
            return None;
        }
        let nals = std::mem::take(&mut self.open);
        let of = |kind: u8| nals.iter().filter(move |nal| kind_of(nal) == kind);
        let mut picture = vec![if frame.entry.is_some() { KEYFRAME } else { BETWEEN }, NAL_UNITS];
        let (decoded, offset) = self.times(frame, stamp);
        picture.extend_from_slice(&offset.to_be_bytes()[1..]);
        for nal in nals.iter().filter(|nal| ![SPS, PPS, DELIMITER].contains(&kind_of(nal))) {
            picture.extend_from_slice(&(nal.len() as u32).to_be_bytes());
            picture.extend_from_slice(nal);
        }
        // Filler behind a picture may be a part of its own.
        if !nals.iter().any(|nal| SLICES.contains(&kind_of(nal))) || picture.len() > MOST {
            return None;
        }
        let mut bytes = Vec::with_capacity(picture.len() + 2 * TAG_HEADER);
        if let (Some(sps), Some(pps)) = (of(SPS).next(), of(PPS).next())
            && let Some(configuration) = configuration(sps, pps)
        {
            write(decoded, &configuration, &mut bytes);
        }
        write(decoded, &picture, &mut bytes);
        let meta = AduMeta {
            seq: AduSeq(self.adu),
            priority: frame.priority,
            frame: frame.id(),
            references: frame.references,
            ..AduMeta::default()
        };
        self.adu += 1;
        Some(MediaAdu { meta, capture: frame.capture, handover: frame.handover, rtp: bytes })
    }

    /// Decoding time, and what lies between it and presentation, in milliseconds: a frame is decoded when the frame is shown that has its
    /// place in display order, less those that may be out of order.
    fn times(&mut self, frame: &Frame, stamp: &Stamp) -> (u32, u32) {
        let early = (frame.display_index + u64::from(frame.reorder)).saturating_sub(u64::from(frame.index));
        let ticks = early * (frame.duration.as_nanos() * u64::from(RTP_CLOCK_HZ) / 1_000_000_000);
        let ms = |ticks: u64| (ticks * 1_000 / u64::from(RTP_CLOCK_HZ)) as u32;
        let shown = ms(stamp.presentation);
        // Times wrap after 49 days (§E.4.1), and do not go back before.
        let decoded = ms(stamp.presentation.saturating_sub(ticks));
        self.last = if decoded.wrapping_sub(self.last) < u32::MAX / 2 { decoded } else { self.last };
        let offset = shown.wrapping_sub(self.last);
        (self.last, if offset < MOST_OFFSET { offset } else { 0 })
    }
}

fn kind_of(nal: &[u8]) -> u8 {
    nal.first().map_or(0, |byte| byte & 0x1f)
}

/// Content of a tag with the decoder's configuration (ISO/IEC 14496-15 §5.3.3.1); `None`: a set is no set.
fn configuration(sps: &[u8], pps: &[u8]) -> Option<Vec<u8>> {
    let profile = sps.get(1..4)?;
    let [sps_len, pps_len] = [sps, pps].map(|set| u16::try_from(set.len()).ok());
    let mut content = vec![KEYFRAME, CONFIGURATION, 0, 0, 0, 1];
    content.extend_from_slice(profile);
    // Lengths of four bytes, and one SPS.
    content.extend_from_slice(&[0xff, 0xe1]);
    content.extend_from_slice(&sps_len?.to_be_bytes());
    content.extend_from_slice(sps);
    content.push(1);
    content.extend_from_slice(&pps_len?.to_be_bytes());
    content.extend_from_slice(pps);
    Some(content)
}

/// Appends a tag of video and its size (§E.3, §E.4.1).
fn write(at: u32, content: &[u8], out: &mut Vec<u8>) {
    let len = content.len() as u32;
    let [high, rest @ ..] = at.to_be_bytes();
    out.push(VIDEO);
    out.extend_from_slice(&len.to_be_bytes()[1..]);
    out.extend_from_slice(&rest);
    out.extend_from_slice(&[high, 0, 0, 0]);
    out.extend_from_slice(content);
    out.extend_from_slice(&(len + TAG_HEADER as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use timeous_core::{Duration, Priority, References};

    use super::*;
    use crate::frame::FrameKind;

    fn frame(index: u32, display_index: u64, nals: &[&[u8]]) -> Frame {
        Frame {
            index,
            kind: FrameKind::P,
            reference: true,
            frame_num: 0,
            entry: None,
            gop_position: 0,
            display_index,
            reorder: 1,
            capture: Duration::ZERO,
            handover: Duration::ZERO,
            duration: Duration::from_millis(40),
            rtp_ticks: 0,
            references: References::default(),
            priority: Priority::default(),
            nals: nals.iter().map(|nal| nal.to_vec()).collect(),
        }
    }

    fn at(ms: u64) -> Stamp {
        Stamp { presentation: ms * 90, capture: ms * 90, is_queued: false }
    }

    #[test]
    fn a_tag_has_the_picture_of_all_parts_and_its_configuration_before() {
        let mut muxer = FlvMuxer::default();
        let sets = frame(1, 1, &[&[9, 16], &[0x67, 1, 2, 3], &[0x68, 4]]);
        assert_eq!(muxer.tag(&sets, (true, false), &at(80)), None);
        let tag = muxer.tag(&frame(1, 1, &[&[0x61, 5]]), (false, true), &at(80)).unwrap();
        let configuration = [23, 0, 0, 0, 0, 1, 1, 2, 3, 255, 225, 0, 4, 0x67, 1, 2, 3, 1, 0, 2, 0x68, 4];
        let picture = [39, 1, 0, 0, 40, 0, 0, 0, 2, 0x61, 5];
        let mut expected = vec![9, 0, 0, 22, 0, 0, 40, 0, 0, 0, 0];
        expected.extend(configuration);
        expected.extend([0, 0, 0, 33, 9, 0, 0, 11, 0, 0, 40, 0, 0, 0, 0]);
        expected.extend(picture);
        expected.extend([0, 0, 0, 22]);
        assert_eq!(tag.rtp, expected);
        assert_eq!(tag.meta.frame, sets.id());
    }

    #[test]
    fn a_frame_without_a_picture_is_no_tag() {
        let mut muxer = FlvMuxer::default();
        assert_eq!(muxer.tag(&frame(0, 0, &[&[0x67, 1, 2, 3]]), (true, true), &at(0)), None);
        assert_eq!(muxer.tag(&frame(0, 0, &[&[12, 255]]), (false, true), &at(0)), None, "filler");
        assert_eq!(muxer.tag(&frame(0, 0, &[]), (true, true), &at(0)), None);
    }

    #[test]
    fn pictures_are_decoded_in_order_and_shown_at_their_time() {
        let mut muxer = FlvMuxer::default();
        // Decoding order of I B B P: the third is shown first.
        let times: Vec<_> = [(0, 0), (1, 3), (2, 1), (3, 2), (4, 6)]
            .map(|(index, shown)| muxer.times(&frame(index, shown, &[]), &at(40 * shown)))
            .to_vec();
        assert_eq!(times, [(0, 0), (0, 120), (40, 0), (80, 0), (120, 120)]);
        // A clock that goes back.
        assert_eq!(muxer.times(&frame(5, 5, &[]), &at(0)).0, 120);
    }
}
