//! FLV byte stream of H.264 and AAC: each picture is a tag of its own, so that a stream from which pictures were left out is still whole.
//!
//! Adobe Flash Video File Format Specification 10.1, annex E.

mod remux;
mod tag;

use timeous_core::{AduMeta, AduSeq};

use crate::frame::Frame;
use crate::rtp::RTP_CLOCK_HZ;
use crate::rtp::packetize::{MediaAdu, Stamp};

pub use remux::TsToFlv;

/// Bound of what lies between decoding and presentation, in milliseconds: it has 24 bits, one for the sign.
const MOST_OFFSET: u32 = 1 << 23;
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
    /// First decoding time, in ticks: a player that comes later begins at zero, too.
    first: Option<u64>,
    /// Last decoding time, in milliseconds: times do not go back.
    last: u32,
    adu: u64,
}

impl FlvMuxer {
    /// Bytes before the first tag. Nothing can be read without them.
    #[must_use]
    pub fn header() -> &'static [u8] {
        const HEADER: [u8; 13] = tag::header(true, false);
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
        let mut bytes = Vec::new();
        let times = self.times(frame, stamp);
        if !tag::write_picture(&nals, frame.entry.is_some(), times, &mut bytes) {
            return None;
        }
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
        let decoded = stamp.presentation.saturating_sub(ticks);
        let first = *self.first.get_or_insert(decoded);
        let ms = |ticks: u64| (ticks.saturating_sub(first) * 1_000 / u64::from(RTP_CLOCK_HZ)) as u32;
        // Times wrap after 49 days (§E.4.1), and do not go back before.
        let (decoded, shown) = (ms(decoded), ms(stamp.presentation));
        self.last = if decoded.wrapping_sub(self.last) < u32::MAX / 2 { decoded } else { self.last };
        let offset = shown.wrapping_sub(self.last);
        (self.last, if offset < MOST_OFFSET { offset } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::{Duration, Priority, References};

    use super::tag::{PPS, SPS, kind_of};
    use super::*;
    use crate::frame::FrameKind;
    use crate::h264::reader::FrameReader;

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

    /// Parameter sets of a clip: SPS and PPS.
    fn sets() -> [Vec<u8>; 2] {
        let mut reader = FrameReader::new(None);
        reader.push(&include_bytes!("../../../assets/clip.h264")[..200_000]).unwrap();
        let first = reader.next_frame().unwrap();
        [SPS, PPS].map(|kind| first.nals.iter().find(|nal| kind_of(nal) == kind).unwrap().clone())
    }

    #[test]
    fn a_tag_has_the_picture_of_all_parts_and_its_configuration_before() {
        let [sps, pps] = sets();
        let other = [&pps[..], &[0]].concat();
        let mut muxer = FlvMuxer::default();
        let first = frame(1, 1, &[&[9, 16], &sps, &other, &pps, &pps]);
        assert_eq!(muxer.tag(&first, (true, false), &at(80)), None);
        let tag = muxer.tag(&frame(1, 1, &[&[0x61, 5]]), (false, true), &at(80)).unwrap();
        let len = |nal: &[u8]| (nal.len() as u16).to_be_bytes();
        let mut configuration = vec![23, 0, 0, 0, 0, 1, sps[1], sps[2], sps[3], 0xff, 0xe1];
        for part in [&len(&sps)[..], &sps, &[2], &len(&pps), &pps, &len(&other), &other] {
            configuration.extend_from_slice(part);
        }
        // The chroma format and depths of a High profile.
        if sps[1] >= 100 {
            configuration.extend_from_slice(&[0xfd, 0xf8, 0xf8, 0]);
        }
        let size = configuration.len() as u8;
        let mut expected = vec![9, 0, 0, size, 0, 0, 0, 0, 0, 0, 0];
        expected.extend(configuration);
        expected.extend([0, 0, 0, size + 11, 9, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([39, 1, 0, 0, 40, 0, 0, 0, 2, 0x61, 5, 0, 0, 0, 22]);
        assert_eq!(tag.rtp, expected);
        assert_eq!(tag.meta.frame, first.id());
    }

    #[test]
    fn a_player_that_comes_after_weeks_begins_at_zero() {
        let mut muxer = FlvMuxer::default();
        let weeks = 40 * 86_400_000;
        assert_eq!(muxer.times(&frame(1, 0, &[]), &at(weeks)), (0, 0));
        assert_eq!(muxer.times(&frame(2, 1, &[]), &at(weeks + 40)), (40, 0));
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
