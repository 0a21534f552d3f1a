//! Camera's video: H.264 by x264 as for a live stream, with a number in each frame, and the same as MPEG-TS.

use std::fs;
use std::path::Path;

use timeous::core::{Duration, Rate};
use timeous_media::FrameReader;

use crate::arrivals::Arrivals;
use crate::error::DemoError;
use crate::ffmpeg::ffmpeg;

/// Frames a second.
const FRAMES_PER_SECOND: u64 = 25;
/// From one frame to the next.
pub(crate) const INTERVAL: Duration = Duration::from_millis(1_000 / FRAMES_PER_SECOND);
/// Name of the SEI message that holds a frame's number (H.264 §D.1.7, uuid_iso_iec_11578).
const NAME: &[u8; 16] = b"timeous-demo-cam";
/// Digits of a number. Text, so that no byte of it needs emulation prevention (H.264 §7.4.1).
const DIGITS: usize = 8;

/// Video of the camera.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clip {
    /// Its frames, in the order of decoding, which is that of showing.
    pub(crate) frames: Vec<ClipFrame>,
}

/// Frame with its number, which is its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClipFrame {
    /// As a byte stream (Annex B).
    pub(crate) annexb: Vec<u8>,
    /// As MPEG-TS.
    pub(crate) ts: Vec<u8>,
    /// Slices, as NAL units.
    pub(crate) slices: Vec<Vec<u8>>,
    /// Places of the frames without which it is useless.
    pub(crate) references: Vec<usize>,
}

impl Clip {
    /// Encodes a video of `seconds` in `directory`, each frame in `slices` slices.
    ///
    /// # Errors
    /// ffmpeg is not there, or fails.
    pub(crate) fn make(directory: &Path, seconds: u64, slices: u32) -> Result<Self, DemoError> {
        let file = |end: &str| directory.join(format!("clip-{slices}{end}"));
        let [plain, numbered, muxed] = ["-plain.h264", ".h264", ".ts"].map(file);
        let encode = format!(
            "-f lavfi -i testsrc2=size=640x360:rate={FRAMES_PER_SECOND},noise=alls=6:allf=t -t {seconds} \
             -pix_fmt yuv420p -c:v libx264 -preset veryfast -tune zerolatency -profile:v main -b:v 1M -maxrate 1M \
             -bufsize 250k -g {FRAMES_PER_SECOND} -keyint_min {FRAMES_PER_SECOND} -sc_threshold 0 -slices {slices} \
             -threads {slices} -f h264"
        );
        ffmpeg(&encode, None, &plain)?;
        let bytes = fs::read(&plain).map_err(DemoError::file(&plain))?;
        let bad = |error: timeous_media::MediaError| DemoError::record(&plain, error);
        let mut reader = FrameReader::new(None);
        reader.push(&bytes).map_err(bad)?;
        reader.finish().map_err(bad)?;
        let mut frames: Vec<ClipFrame> = std::iter::from_fn(|| reader.next_frame()).map(|f| number(&f)).collect();

        let annexb = frames.iter().flat_map(|frame| frame.annexb.iter().copied()).collect::<Vec<u8>>();
        fs::write(&numbered, annexb).map_err(DemoError::file(&numbered))?;
        ffmpeg(&format!("-framerate {FRAMES_PER_SECOND} -f h264"), Some(&numbered), &muxed)?;
        let muxed_frames = ts_frames(&fs::read(&muxed).map_err(DemoError::file(&muxed))?);
        if muxed_frames.len() != frames.len() {
            let why = format!("it holds {} frames of {}", muxed_frames.len(), frames.len());
            return Err(DemoError::record(&muxed, why));
        }
        frames.iter_mut().zip(muxed_frames).for_each(|(frame, ts)| frame.ts = ts);
        Ok(Self { frames })
    }

    /// Mean rate of the H.264.
    pub(crate) fn rate(&self) -> Rate {
        let bytes: usize = self.frames.iter().map(|frame| frame.annexb.len()).sum();
        Rate::from_bytes_in(bytes as u64, self.length())
    }

    /// Duration of the video.
    pub(crate) fn length(&self) -> Duration {
        INTERVAL * self.frames.len() as u64
    }
}

fn number(frame: &timeous_media::Frame) -> ClipFrame {
    let mut nals = frame.nals.clone();
    let first = nals.iter().position(|nal| is_slice(nal)).unwrap_or(nals.len());
    nals.insert(first, sei(frame.index));
    ClipFrame {
        annexb: nals.iter().flat_map(|nal| [&[0, 0, 0, 1], nal.as_slice()].concat()).collect(),
        ts: Vec::new(),
        slices: nals.into_iter().filter(|nal| is_slice(nal)).collect(),
        // Frames are named from one on.
        references: frame.references.iter().map(|id| id.0 as usize - 1).collect(),
    }
}

/// Whether a NAL unit is a slice (H.264 table 7-1).
pub(crate) fn is_slice(nal: &[u8]) -> bool {
    nal.first().is_some_and(|byte| matches!(byte & 0x1F, 1..=5))
}

/// SEI message of unregistered user data (H.264 §D.1.7) with a number.
fn sei(number: u32) -> Vec<u8> {
    let text = format!("{number:0DIGITS$x}");
    [&[6, 5, (NAME.len() + DIGITS) as u8], NAME.as_slice(), text.as_bytes(), &[0x80]].concat()
}

/// Number that a NAL unit holds.
pub(crate) fn number_in(nal: &[u8]) -> Option<usize> {
    let rest = nal.strip_prefix(&[6, 5, (NAME.len() + DIGITS) as u8])?.strip_prefix(NAME)?;
    usize::from_str_radix(std::str::from_utf8(rest.get(..DIGITS)?).ok()?, 16).ok()
}

/// Frame of so many slices, for tests of what is judged by it.
#[cfg(test)]
pub(crate) fn test_frame(number: u32, slices: u8, references: Vec<usize>) -> ClipFrame {
    let slices: Vec<Vec<u8>> = (0..slices).map(|slice| vec![0x41, slice + 1, number as u8 + 1, 0x80, 7, 7]).collect();
    let nals = [sei(number)].into_iter().chain(slices.iter().cloned());
    let annexb = nals.flat_map(|nal| [&[0, 0, 0, 1], nal.as_slice()].concat()).collect();
    ClipFrame { annexb, ts: Vec::new(), slices, references }
}

/// Packet length, ISO/IEC 13818-1 §2.4.3.2.
const PACKET: usize = 188;
/// Sync byte of a packet.
const SYNC: u8 = 0x47;
/// PID that ffmpeg's muxer gives its first stream.
const VIDEO: u16 = 0x100;

/// Cuts a stream into frames: tables go with the frame before which they stand.
fn ts_frames(ts: &[u8]) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut tables = Vec::new();
    for packet in ts.chunks_exact(PACKET) {
        let (is_video, is_start) = (pid(packet) == VIDEO, packet[1] & 0x40 != 0);
        match (is_video, is_start, frames.last_mut()) {
            (true, false, Some(frame)) => frame.extend_from_slice(packet),
            (true, _, _) => frames.push([std::mem::take(&mut tables).as_slice(), packet].concat()),
            (false, _, _) => tables.extend_from_slice(packet),
        }
    }
    frames
}

/// Elementary stream of the packets that came. What was lost leaves no gap: a NAL unit around it is another one.
pub(crate) fn elementary(ts: &Arrivals) -> Arrivals {
    let mut video = Arrivals::default();
    let mut at = 0;
    while let Some(packet) = ts.bytes.get(at..at + PACKET) {
        if packet[0] != SYNC {
            at += 1;
            continue;
        }
        if pid(packet) == VIDEO
            && let Some(payload) = payload(packet)
        {
            video.push(payload, ts.at(at + PACKET - 1));
        }
        at += PACKET;
    }
    video
}

fn pid(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1F, packet[2]])
}

/// Bytes of the elementary stream in a packet: behind the adaptation field, and behind the PES header if one begins.
fn payload(packet: &[u8]) -> Option<&[u8]> {
    let adaptation = if packet[3] & 0x20 == 0 { 0 } else { 1 + usize::from(packet[4]) };
    let payload = packet.get(4 + adaptation..).filter(|_| packet[3] & 0x10 != 0)?;
    let header = if packet[1] & 0x40 == 0 { 0 } else { 9 + usize::from(*payload.get(8)?) };
    payload.get(header..)
}

#[cfg(test)]
mod tests {
    use timeous::core::Instant;

    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for number in [0, 1, 499, 0xFFFF_FFFF] {
            assert_eq!(number_in(&sei(number)), Some(number as usize));
        }
        assert_eq!(number_in(&sei(7)[..20]), None, "one that is cut is none");
        assert_eq!(number_in(b"\x06\x05\x18another name of it00000001\x80"), None);
        assert!(!sei(1).contains(&0) && !is_slice(&sei(1)));
    }

    /// Packet with `payload`, filled up by its adaptation field.
    fn packet(pid: u16, is_start: bool, payload: &[u8]) -> Vec<u8> {
        let [high, low] = pid.to_be_bytes();
        let pes: &[u8] = if is_start { &[0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5, 0, 0, 0, 0, 0] } else { &[] };
        let filling = PACKET - 5 - pes.len() - payload.len();
        let head = [SYNC, high | if is_start { 0x40 } else { 0 }, low, 0x30, filling as u8];
        [&head, vec![0xFF; filling].as_slice(), pes, payload].concat()
    }

    #[test]
    fn frames_begin_with_their_tables_and_the_elementary_stream_is_theirs() {
        let packets =
            [packet(0, true, b""), packet(VIDEO, true, b"ab"), packet(VIDEO, false, b"cd"), packet(VIDEO, true, b"e")];
        let ts = packets.concat();
        assert_eq!(ts_frames(&ts), [packets[..3].concat(), packets[3].clone()]);
        let (mut arrivals, at) = (Arrivals::default(), Instant::from_nanos);
        arrivals.push(&ts[..PACKET * 2 - 1], at(1));
        arrivals.push(&ts[PACKET * 2 - 1..], at(2));
        let video = elementary(&arrivals);
        assert_eq!((video.bytes.as_slice(), video.at(0)), (b"abcde".as_slice(), at(2)), "a packet comes with its end");
    }
}
