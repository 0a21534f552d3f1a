//! Frames of AAC in PES packets, put together where the border of a PES packet cuts them (ISO/IEC 13818-1 §2.4.3.7).

use super::{AacFormat, FRAME_SAMPLES};
use crate::rtp::RTP_CLOCK_HZ;

/// Frame of AAC without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdtsFrame {
    pub(crate) format: AacFormat,
    /// Time in ticks of 90 kHz.
    pub(crate) at: i64,
    pub(crate) data: Vec<u8>,
}

/// Reads frames from the data of PES packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdtsFrames {
    /// Beginning of a frame that the end of its PES packet cuts off.
    begun: Vec<u8>,
    /// Last time stamp, and the number of samples since then.
    time: Option<(i64, i64)>,
}

impl AdtsFrames {
    /// Takes the data of a PES packet; returns the frames that end in it. A time stamp is that of the first frame that begins in the packet;
    /// the others follow each other.
    pub(crate) fn push(&mut self, data: &[u8], mut presented: Option<i64>) -> Vec<AdtsFrame> {
        let begun = std::mem::take(&mut self.begun);
        let joined = [&begun, data].concat();
        let (bytes, border) =
            if !begun.is_empty() && goes_on(&joined, data) { (joined, begun.len()) } else { (data.to_vec(), 0) };
        let (mut frames, mut rest) = (Vec::new(), if border > 0 { &bytes[..] } else { &bytes[next(&bytes)..] });
        while !rest.is_empty() {
            if bytes.len() - rest.len() >= border {
                self.time = presented.take().map(|time| (time, 0)).or(self.time);
            }
            if let Some((format, frame, after)) = AacFormat::read_frame(rest) {
                if let Some((time, samples)) = &mut self.time {
                    let at = *time + *samples * i64::from(RTP_CLOCK_HZ) / i64::from(format.hz());
                    *samples += FRAME_SAMPLES;
                    frames.push(AdtsFrame { format, at, data: frame.to_vec() });
                }
                rest = after;
            } else if is_cut(rest) {
                self.begun = rest.to_vec();
                break;
            } else {
                rest = &rest[next(rest)..];
            }
        }
        frames
    }
}

/// Whether a frame that was begun goes on with the data of this packet: the end, or another frame, is behind it. Otherwise a packet between
/// them was lost, or the length is damaged.
fn goes_on(joined: &[u8], data: &[u8]) -> bool {
    match AacFormat::read_frame(joined) {
        Some((.., after)) => may_begin(after),
        None => is_cut(joined) && !is_followed(data),
    }
}

/// Place of the next frame: at the beginning, or where one is followed by another; or where one is cut off; or the end.
fn next(bytes: &[u8]) -> usize {
    if AacFormat::read_frame(bytes).is_some() {
        return 0;
    }
    let places = |found: fn(&[u8]) -> bool| (0..bytes.len()).find(|at| found(&bytes[*at..]));
    places(is_followed).or_else(|| places(is_cut)).unwrap_or(bytes.len())
}

/// Whether a whole frame begins here, with the end or another frame behind it.
fn is_followed(bytes: &[u8]) -> bool {
    AacFormat::read_frame(bytes).is_some_and(|(.., after)| may_begin(after))
}

/// Whether a frame begins here whose end is missing.
fn is_cut(bytes: &[u8]) -> bool {
    may_begin(bytes) && AacFormat::frame_len(bytes).is_none_or(|len| len.is_some_and(|len| len > bytes.len()))
}

/// Whether these are, as far as they go, the end or the synchronisation word of a frame.
fn may_begin(bytes: &[u8]) -> bool {
    match *bytes {
        [] | [0xff] => true,
        [0xff, second, ..] => second & 0xf6 == 0xf0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stereo at 48 kHz.
    fn format() -> AacFormat {
        AacFormat::read_config(&[0x11, 0x90]).unwrap()
    }

    /// Frames with their headers, each full of its number.
    fn stream(frames: std::ops::Range<u8>, len: usize) -> Vec<u8> {
        frames.flat_map(|n| [&format().header(len).unwrap()[..], &vec![n; len]].concat()).collect()
    }

    /// Number and time of each frame.
    fn numbers(frames: &[AdtsFrame], len: usize) -> Vec<(u8, i64)> {
        assert!(frames.iter().all(|frame| frame.data == vec![frame.data[0]; len] && frame.format == format()));
        frames.iter().map(|frame| (frame.data[0], frame.at)).collect()
    }

    #[test]
    fn frames_are_put_together_wherever_their_packets_are_cut() {
        // Ten frames of 1920 ticks; a stamp is that of the first frame that begins in its packet.
        let bytes = stream(0..10, 60);
        for size in 1..bytes.len() {
            let (mut reader, mut read) = (AdtsFrames::default(), Vec::new());
            for (at, chunk) in (0usize..).step_by(size).zip(bytes.chunks(size)) {
                let first = at.div_ceil(67);
                let begins = first * 67 < at + chunk.len();
                read.extend(reader.push(chunk, begins.then_some(5_000 + 1_920 * first as i64)));
            }
            let expected: Vec<_> = (0..10).map(|n| (n, 5_000 + 1_920 * i64::from(n))).collect();
            assert_eq!(numbers(&read, 60), expected, "{size} bytes");
        }
    }

    #[test]
    fn without_the_end_of_a_frame_the_next_one_is_found() {
        let bytes = stream(0..8, 60);
        let mut reader = AdtsFrames::default();
        assert_eq!(numbers(&reader.push(&bytes[..100], Some(0)), 60), [(0, 0)]);
        // Bytes 100 to 150 are lost.
        assert_eq!(numbers(&reader.push(&bytes[150..300], Some(5_760)), 60), [(3, 5_760)]);
        assert_eq!(numbers(&reader.push(&bytes[300..], Some(9_600)), 60)[..2], [(4, 7_680), (5, 9_600)]);
        // A length that reaches beyond what follows.
        let mut damaged = stream(0..1, 60);
        damaged[4] = 0xff;
        assert_eq!(reader.push(&damaged, Some(0)), []);
        assert_eq!(numbers(&reader.push(&stream(1..3, 60), Some(1_920)), 60), [(1, 1_920), (2, 3_840)]);
    }

    #[test]
    fn garbage_is_left_out_and_takes_bounded_memory() {
        let mut rng = timeous_core::Rng::from_seed(1);
        let mut reader = AdtsFrames::default();
        for _ in 0..2_000 {
            let mut bytes: Vec<u8> = (0..rng.below(400)).map(|_| rng.below(256) as u8).collect();
            if rng.chance(0.5) {
                bytes.splice(..0, format().header(rng.below(8_000) as usize).unwrap());
            }
            reader.push(&bytes, Some(0));
            assert!(reader.begun.len() <= super::super::MAX_FRAME);
        }
        let mut read = reader.push(&stream(0..4, 2_000), Some(0));
        read.extend(reader.push(&stream(4..8, 2_000), Some(0)));
        assert!(read.len() >= 4, "{} frames", read.len());
    }
}
