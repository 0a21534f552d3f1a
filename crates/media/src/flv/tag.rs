//! Tags of FLV (Adobe Flash Video File Format Specification 10.1, annex E): pictures of H.264 and frames of AAC.

use crate::aac::AacFormat;

/// Kinds of tags (§E.4.1).
const AUDIO: u8 = 8;
const VIDEO: u8 = 9;
/// Kind of frame and codec in the first byte of a tag of video (§E.4.3.1): keyframe, and frame between, of H.264.
const KEYFRAME: u8 = 0x17;
const BETWEEN: u8 = 0x27;
/// The same of a tag of audio (§E.4.2.1): AAC, for which the bits of rate, size and channels are fixed.
const AAC: u8 = 0xaf;
/// Kind of content behind it (§E.4.2.2, §E.4.3.2): decoder configuration, and data.
const CONFIGURATION: u8 = 0;
const DATA: u8 = 1;
/// Bytes of a tag's header (§E.4.1).
const TAG_HEADER: usize = 11;
/// Longest content of a tag, in bytes: 24 bits tell its length.
const MOST: usize = 0xff_ffff;
/// Types of NAL units (H.264 table 7-1).
const SLICES: std::ops::RangeInclusive<u8> = 1..=5;
pub(super) const IDR: u8 = 5;
pub(super) const SPS: u8 = 7;
pub(super) const PPS: u8 = 8;
const DELIMITER: u8 = 9;

pub(super) fn kind_of(nal: &[u8]) -> u8 {
    nal.first().map_or(0, |byte| byte & 0x1f)
}

/// Header of a stream (§E.2), and the size of the tag before the first (§E.3).
pub(super) const fn header(has_video: bool, has_audio: bool) -> [u8; 13] {
    let mut header = *b"FLV\x01\0\0\0\0\x09\0\0\0\0";
    header[4] = has_video as u8 | (has_audio as u8) << 2;
    header
}

/// Appends the tag of a picture that is decoded at `at` milliseconds and shown `offset` later, behind the decoder's configuration if there
/// are parameter sets; `false`: it has no picture, or one too large for FLV. Filler behind a picture may be a part of its own.
pub(super) fn write_picture(nals: &[Vec<u8>], is_keyframe: bool, (at, offset): (u32, u32), out: &mut Vec<u8>) -> bool {
    if !nals.iter().any(|nal| SLICES.contains(&kind_of(nal))) {
        return false;
    }
    let of = |kind: u8| -> Vec<&[u8]> {
        let mut sets: Vec<&[u8]> = nals.iter().filter(|nal| kind_of(nal) == kind).map(Vec::as_slice).collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    };
    let mut picture = vec![if is_keyframe { KEYFRAME } else { BETWEEN }, DATA];
    picture.extend_from_slice(&offset.to_be_bytes()[1..]);
    for nal in nals.iter().filter(|nal| ![SPS, PPS, DELIMITER].contains(&kind_of(nal))) {
        picture.extend_from_slice(&(nal.len() as u32).to_be_bytes());
        picture.extend_from_slice(nal);
    }
    if picture.len() > MOST {
        return false;
    }
    // No configuration: there are no sets, or more than it has room for.
    if let Some(record) = crate::mp4::avc_configuration(&of(SPS), &of(PPS)) {
        write(VIDEO, at, &[&[KEYFRAME, CONFIGURATION, 0, 0, 0], &record[..]].concat(), out);
    }
    write(VIDEO, at, &picture, out);
    true
}

/// Appends the tag of the decoder's configuration for audio.
pub(super) fn write_audio_format(format: AacFormat, at: u32, out: &mut Vec<u8>) {
    write(AUDIO, at, &[&[AAC, CONFIGURATION], &format.config()[..]].concat(), out);
}

/// Appends the tag of a frame of audio.
pub(super) fn write_audio(frame: &[u8], at: u32, out: &mut Vec<u8>) {
    write(AUDIO, at, &[&[AAC, DATA], frame].concat(), out);
}

/// Appends a tag and its size (§E.3, §E.4.1).
fn write(kind: u8, at: u32, content: &[u8], out: &mut Vec<u8>) {
    let len = content.len() as u32;
    let [high, rest @ ..] = at.to_be_bytes();
    out.push(kind);
    out.extend_from_slice(&len.to_be_bytes()[1..]);
    out.extend_from_slice(&rest);
    out.extend_from_slice(&[high, 0, 0, 0]);
    out.extend_from_slice(content);
    out.extend_from_slice(&(len + TAG_HEADER as u32).to_be_bytes());
}
