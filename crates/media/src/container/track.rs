//! Formats of tracks, and their samples as elementary streams of a transport stream.

use super::av1;
use crate::aac::AacFormat;
use crate::h264::annexb::START_CODE;
use crate::h265::nal;

/// Access unit delimiters: H.264 with any slices, H.265 with any slices. A transport stream needs one before each picture
/// (ISO/IEC 13818-1 §2.14.1, §2.17.1).
pub(super) const AUD_H264: [u8; 2] = [0x09, 0xf0];
pub(super) const AUD_H265: [u8; 3] = [0x46, 0x01, 0x50];
/// NAL unit type of a delimiter (H.264 table 7-1).
const AUD_H264_TYPE: u8 = 9;

/// Track of a container that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Format of its samples.
    pub format: TrackFormat,
    /// Language (ISO 639-2), if it is told.
    pub language: Option<[u8; 3]>,
}

/// Format of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackFormat {
    /// H.264 with lengths in front of its NAL units (ISO/IEC 14496-15).
    H264(NalFormat),
    /// H.265, likewise.
    H265(NalFormat),
    /// MPEG-2 video; its sequence header, if that is not in the samples.
    Mpeg2 {
        /// Sequence header.
        header: Vec<u8>,
    },
    /// AAC, whose frames get headers of ADTS.
    Aac(AacFormat),
    /// Layers 1 to 3 of MPEG audio.
    MpegAudio,
    /// AC-3.
    Ac3,
    /// Enhanced AC-3.
    Eac3,
    /// Opus.
    Opus {
        /// Number of channels.
        channels: u8,
    },
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
    /// AV1; its sequence header, if that is not in the samples.
    Av1 {
        /// Sequence header (OBU).
        header: Vec<u8>,
    },
}

/// NAL units of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NalFormat {
    /// Bytes of the length in front of each NAL unit: 1 to 4.
    pub length_size: usize,
    /// Parameter sets, which are repeated before each entry point.
    pub sets: Vec<Vec<u8>>,
}

impl NalFormat {
    /// Reads an AVCDecoderConfigurationRecord (ISO/IEC 14496-15 §5.3.3.1).
    pub(super) fn read_avc(record: &[u8]) -> Option<Self> {
        let length_size = usize::from(*record.get(4)? & 3) + 1;
        let mut rest = record.get(5..)?;
        let mut sets = Vec::new();
        for mask in [0x1f, 0xff] {
            let (&count, mut after) = rest.split_first()?;
            for _ in 0..count & mask {
                let (set, behind) = with_length(after)?;
                sets.push(set.to_vec());
                after = behind;
            }
            rest = after;
        }
        Some(Self { length_size, sets })
    }

    /// Reads an HEVCDecoderConfigurationRecord (ISO/IEC 14496-15 §8.3.3.1).
    pub(super) fn read_hevc(record: &[u8]) -> Option<Self> {
        let length_size = usize::from(*record.get(21)? & 3) + 1;
        let (&arrays, mut rest) = record.get(22..)?.split_first()?;
        let mut sets = Vec::new();
        for _ in 0..arrays {
            let &[_, high, low, ref after @ ..] = rest else { return None };
            rest = after;
            for _ in 0..u16::from_be_bytes([high, low]) {
                let (set, behind) = with_length(rest)?;
                sets.push(set.to_vec());
                rest = behind;
            }
        }
        Some(Self { length_size, sets })
    }

    /// NAL units of a sample; `None` in place of one that is cut off.
    fn nals<'a>(&self, mut rest: &'a [u8]) -> impl Iterator<Item = Option<&'a [u8]>> {
        let length_size = self.length_size;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let whole = std::mem::take(&mut rest).split_at_checked(length_size).and_then(|(length, after)| {
                let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
                after.split_at_checked(length)
            });
            rest = whole.map_or(&[], |(_, behind)| behind);
            Some(whole.map(|(nal, _)| nal))
        })
    }

    /// Whether a NAL unit's first byte is such a one.
    fn any(&self, sample: &[u8], is_such: impl Fn(u8) -> bool) -> bool {
        self.nals(sample).flatten().filter_map(|nal| nal.first()).any(|first| is_such(*first))
    }

    /// Sample as a byte stream, with a delimiter and, before an entry point, the parameter sets.
    fn annexb(
        &self,
        sample: &[u8],
        is_entry: bool,
        delimiter: &[u8],
        is_delimiter: impl Fn(u8) -> bool,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(sample.len() + 64);
        let mut add = |nal: &[u8]| {
            out.extend_from_slice(&START_CODE);
            out.extend_from_slice(nal);
        };
        add(delimiter);
        if is_entry {
            self.sets.iter().for_each(|set| add(set));
        }
        for nal in self.nals(sample) {
            let nal = nal?;
            if nal.first().is_some_and(|first| !is_delimiter(*first)) {
                add(nal);
            }
        }
        Some(out)
    }
}

/// Splits off what a length of two bytes counts.
fn with_length(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let &[high, low, ref rest @ ..] = bytes else { return None };
    rest.split_at_checked(u16::from_be_bytes([high, low]).into())
}

impl TrackFormat {
    /// Whether it is video.
    pub fn is_video(&self) -> bool {
        self.is_reordered() || self.is_for_rtp()
    }

    /// Whether pictures may be presented in another order than they are decoded.
    pub(super) fn is_reordered(&self) -> bool {
        matches!(self, Self::H264(_) | Self::H265(_) | Self::Mpeg2 { .. })
    }

    /// Whether a transport stream cannot hold it, so that it goes as RTP.
    pub fn is_for_rtp(&self) -> bool {
        matches!(self, Self::Vp8 | Self::Vp9 | Self::Av1 { .. })
    }

    /// Name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::H264(_) => "H.264",
            Self::H265(_) => "H.265",
            Self::Mpeg2 { .. } => "MPEG-2 video",
            Self::Aac(_) => "AAC",
            Self::MpegAudio => "MPEG audio",
            Self::Ac3 => "AC-3",
            Self::Eac3 => "E-AC-3",
            Self::Opus { .. } => "Opus",
            Self::Vp8 => "VP8",
            Self::Vp9 => "VP9",
            Self::Av1 { .. } => "AV1",
        }
    }

    /// Whether a decoder can start with a sample, by the types of its NAL units; audio is all entry points.
    pub(super) fn is_entry(&self, sample: &[u8]) -> bool {
        match self {
            Self::H264(format) => format.any(sample, |first| first & 0x1f == 5),
            Self::H265(format) => format.any(sample, |first| (16..=23).contains(&(first >> 1 & 0x3f))),
            Self::Mpeg2 { .. } => sample.starts_with(&[0, 0, 1, 0xb3]),
            // The inverse key frame flag is the lowest bit (RFC 6386 §9.1).
            Self::Vp8 => sample.first().is_some_and(|first| first & 1 == 0),
            Self::Vp9 => sample.first().is_some_and(|first| is_vp9_key(*first)),
            Self::Av1 { .. } => av1::is_entry(sample),
            _ => true,
        }
    }

    /// Sample as it stands in a PES packet. `None`: the sample is damaged.
    pub(super) fn elementary(&self, sample: Vec<u8>, is_entry: bool) -> Option<Vec<u8>> {
        match self {
            Self::H264(format) => format.annexb(&sample, is_entry, &AUD_H264, |first| first & 0x1f == AUD_H264_TYPE),
            Self::H265(format) => format.annexb(&sample, is_entry, &AUD_H265, |first| first >> 1 & 0x3f == nal::AUD),
            Self::Mpeg2 { header } if is_entry && !sample.starts_with(&[0, 0, 1, 0xb3]) => {
                Some([header, &sample[..]].concat())
            }
            Self::Aac(format) => {
                let header = format.header(sample.len())?;
                Some([&header[..], &sample].concat())
            }
            // Control header of Opus in a transport stream: prefix, then the length in steps of 255.
            Self::Opus { .. } => {
                let mut out = vec![0x7f, 0xe0];
                out.extend(std::iter::repeat_n(0xff, sample.len() / 255));
                out.push((sample.len() % 255) as u8);
                out.extend(sample);
                Some(out)
            }
            _ => Some(sample),
        }
    }
}

/// Whether a frame of VP9 is a key frame, by its first byte (VP9 §6.2): marker 2, profile 2, in profile 3 a reserved bit, then
/// `show_existing_frame` and `frame_type`, both zero.
fn is_vp9_key(first: u8) -> bool {
    let flags = if first & 0x30 == 0x30 { first << 1 } else { first };
    first & 0xc0 == 0x80 && flags & 0x0c == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nal_units_get_start_codes_parameter_sets_and_one_delimiter() {
        let format = NalFormat { length_size: 2, sets: vec![vec![0x67, 1], vec![0x68, 2]] };
        let sample = vec![0, 2, 0x09, 0xf0, 0, 3, 0x65, 7, 8];
        let track = TrackFormat::H264(format);
        let out = track.elementary(sample.clone(), true).unwrap();
        assert_eq!(out, [0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2, 0, 0, 0, 1, 0x65, 7, 8]);
        assert_eq!(track.elementary(sample, false).unwrap().len(), 13);
        assert_eq!(track.elementary(vec![0, 9, 1], false), None, "cut off");
    }

    #[test]
    fn configuration_records_are_read_and_damaged_ones_refused() {
        let record = [1, 66, 0, 30, 0xff, 0xe1, 0, 2, 0x67, 1, 1, 0, 1, 0x68];
        let format = NalFormat::read_avc(&record).unwrap();
        assert_eq!((format.length_size, format.sets), (4, vec![vec![0x67, 1], vec![0x68]]));
        assert!((0..record.len()).all(|len| NalFormat::read_avc(&record[..len]).is_none()));
        let mut record = vec![0; 23];
        (record[21], record[22]) = (3, 1);
        record.extend([33, 0, 1, 0, 2, 0x42, 1]);
        assert_eq!(NalFormat::read_hevc(&record).unwrap().sets, [[0x42, 1]]);
        assert!(NalFormat::read_hevc(&record[..26]).is_none());
    }

    #[test]
    fn key_frames_of_vp8_and_vp9_are_told() {
        let is_entry = |format: TrackFormat, first: u8| format.is_entry(&[first, 0, 0]);
        assert!(is_entry(TrackFormat::Vp8, 0x10) && !is_entry(TrackFormat::Vp8, 0x11));
        // Profile 0: key frame, inter frame, one that is shown again; profile 3: key frame and inter frame.
        assert_eq!(
            [0x82, 0x86, 0x8a, 0xb0, 0xb2].map(|first| is_entry(TrackFormat::Vp9, first)),
            [true, false, false, true, false]
        );
    }

    #[test]
    fn opus_gets_a_control_header() {
        let track = TrackFormat::Opus { channels: 2 };
        assert_eq!(track.elementary(vec![5; 300], true).unwrap()[..4], [0x7f, 0xe0, 0xff, 45]);
    }
}
