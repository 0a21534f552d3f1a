//! Format of a file or pipe, by its first bytes: raw H.264 or H.265, MPEG-TS, a container, or one that is not read.

use std::fs::File;
use std::io::Read;

use timeous_media::container::{H265Stream, RawCodec, begins_h264, find_raw_video, is_container, is_h265};
use timeous_media::ts::{PACKET_LEN, is_transport_stream};
use timeous_media::{Ending, FrameRate};

use super::captured::Frames;
use super::pipe::{is_ready, read};
use super::silence::Silence;
use super::{container, pipe, ts};
use crate::failure::Failure;
use crate::notice::tell;

const CHUNK: usize = 64 * 1024;
/// First byte of a packet of MPEG-TS (ISO/IEC 13818-1 §2.4.3.2).
const SYNC: u8 = 0x47;
/// Bytes in which the first parameter sets of raw video are looked for. Chosen by us: a group of pictures of ten seconds at 12 Mbit/s.
const MOST_SKIPPED: usize = 16 << 20;
/// Bytes in which the name of a shifted MP4's first box is looked for. Chosen by us: more would find it in other files.
const MOST_SHIFTED: usize = 32;
/// Bytes that are looked at again with the next ones: parameter sets have hundreds.
const OVERLAP: usize = 16 << 10;

/// Reads all frames of a file, as fast as the queue takes them.
pub(super) fn read_file(mut from: File, rate: Option<FrameRate>, frames: &Frames) -> Result<Ending, Failure> {
    let (first, format) = probe(&mut from)?;
    match format {
        Format::TransportStream => ts::read_file(from, &first, None, frames),
        Format::H265 => ts::read_file(from, &first, Some(h265(rate)), frames),
        Format::Container => container::read_file(from, frames),
        Format::ByteStream => pipe::read_file(from, &first, rate, frames),
    }
}

/// Reads a live source.
pub(super) fn read_live(mut from: File, rate: Option<FrameRate>, frames: &Frames) -> Result<Ending, Failure> {
    let mut silence = Silence::of_pipe();
    while !is_ready(&from, silence.after())? {
        silence.look();
    }
    let (first, format) = probe(&mut from)?;
    silence.end();
    match format {
        Format::TransportStream => ts::read_live(from, &first, None, frames),
        Format::H265 => ts::read_live(from, &first, Some(h265(rate)), frames),
        Format::Container if pipe::is_live(&from) => Err(container::refused()),
        Format::Container => Err(container::refused_live()),
        Format::ByteStream => pipe::read_live(from, &first, rate, frames, false),
    }
}

fn h265(rate: Option<FrameRate>) -> H265Stream {
    tell("the source is raw H.265; it is sent as MPEG-TS");
    H265Stream::new(rate)
}

/// Format of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    TransportStream,
    Container,
    H265,
    /// Raw H.264, or what its reader refuses.
    ByteStream,
}

/// Format that is known and not read.
struct Unread {
    begin: &'static [u8],
    /// Bytes at the eighth place.
    of: &'static [u8],
    name: &'static str,
    /// Options of ffmpeg that make it MPEG-TS.
    options: &'static str,
}

const fn unread(begin: &'static [u8], of: &'static [u8], name: &'static str, options: &'static str) -> Unread {
    Unread { begin, of, name, options }
}

const COPIED: &str = "-c copy";
const SOUND: &str = "-c:a aac";
const UNREAD: [Unread; 10] = [
    unread(b"RIFF", b"AVI ", "AVI", COPIED),
    unread(b"RIFF", b"WAVE", "WAV", SOUND),
    unread(b"FLV\x01", b"", "FLV", COPIED),
    unread(b"\x30\x26\xb2\x75", b"", "ASF (WMV)", "-c:v libx264 -c:a aac"),
    unread(b"\0\0\x01\xba", b"", "an MPEG program stream", COPIED),
    unread(b"\0\0\x01\xb3", b"", "raw MPEG-2 video", COPIED),
    unread(b"fLaC", b"", "FLAC", SOUND),
    unread(b"ID3", b"", "MP3 or AAC with a tag", COPIED),
    unread(b"\xff\xfb", b"", "MP3", COPIED),
    unread(b"\x0b\x77", b"", "AC-3", COPIED),
];

/// Refuses a format that is known and not read.
fn refuse_unread(first: &[u8]) -> Result<(), Failure> {
    let is_one =
        |known: &&Unread| first.starts_with(known.begin) && first.get(8..).unwrap_or_default().starts_with(known.of);
    let Some(Unread { name, options, .. }) = UNREAD.iter().find(is_one) else { return refuse_shifted(first) };
    // Enhanced RTMP, by the codec in its first video tag.
    let is_enhanced = *name == "FLV" && first.windows(4).any(|code| code == b"hvc1" || code == b"av01");
    let with = if is_enhanced { " (FLV of H.265 or AV1 needs ffmpeg 6.1 or later)" } else { "" };
    Err(Failure::Input(format!(
        "the source is {name}, which is not read: make it MPEG-TS, such as by `ffmpeg -i FILE {options} -f mpegts OUT.ts`{with}"
    )))
}

/// Refuses MP4 that lacks bytes of its beginning, or has others before it: its first box's name is at the fourth byte.
fn refuse_shifted(first: &[u8]) -> Result<(), Failure> {
    match first.windows(4).take(MOST_SHIFTED).position(|name| name == b"ftyp") {
        Some(at) => Err(Failure::Input(format!(
            "the source is no MP4, but looks like one that is damaged at its beginning: 'ftyp' is at byte {at}, not 4; take the file again \
             from where it was made"
        ))),
        None => Ok(()),
    }
}

/// Refuses what may be the beginning of a transport stream, and ends before that shows.
fn refuse_short(whole: &[u8]) -> Result<(), Failure> {
    if whole.first() != Some(&SYNC) || find_raw_video(whole).is_some() {
        return Ok(());
    }
    Err(Failure::Input(format!(
        "the source is too short to tell its format: it has {} bytes, of which the first may begin MPEG-TS, whose packets have {PACKET_LEN}; \
         take it again from where it was made, once it is complete there",
        whole.len()
    )))
}

/// Reads until the format is known; returns the bytes, from where the source can be read on, and the format.
fn probe(from: &mut impl Read) -> Result<(Vec<u8>, Format), Failure> {
    let (mut first, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    loop {
        let count = read(from, &mut chunk)?;
        first.extend_from_slice(&chunk[..count]);
        if first.is_empty() {
            return Err(Failure::Input("the source is empty".to_owned()));
        }
        if is_container(&first) {
            return Ok((first, Format::Container));
        }
        refuse_unread(&first)?;
        if is_h265(&first) == Some(true) {
            return Ok((first, Format::H265));
        }
        if begins_h264(&first) {
            return Ok((first, Format::ByteStream));
        }
        match is_transport_stream(&first) {
            Some(true) => return Ok((first, Format::TransportStream)),
            Some(false) => return skip_to_sets(from, first),
            None if count == 0 => {
                refuse_short(&first)?;
                return skip_to_sets(from, first);
            }
            None => {}
        }
    }
}

/// Reads raw video on to its first parameter sets, as it may be cut at the beginning; returns the bytes from there, and the codec.
fn skip_to_sets(from: &mut impl Read, mut first: Vec<u8>) -> Result<(Vec<u8>, Format), Failure> {
    let mut chunk = vec![0; CHUNK];
    let mut looked = 0;
    loop {
        if let Some((at, codec)) = find_raw_video(&first[looked..]) {
            let skipped = looked + at;
            first.drain(..skipped);
            if skipped > 0 {
                tell(format_args!(
                    "the source begins in the middle: {skipped} bytes before its first parameter sets are left out"
                ));
            }
            let format = if codec == RawCodec::H265 { Format::H265 } else { Format::ByteStream };
            return Ok((first, format));
        }
        looked = first.len().saturating_sub(OVERLAP);
        let count = if first.len() < MOST_SKIPPED { read(from, &mut chunk)? } else { 0 };
        if count == 0 {
            return Ok((first, Format::ByteStream));
        }
        first.extend_from_slice(&chunk[..count]);
    }
}
