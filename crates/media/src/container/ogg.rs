//! Ogg (RFC 3533) with Opus (RFC 7845): packets of the first logical stream, whose times follow from their durations.

use std::collections::VecDeque;
use std::io::{Read, Result};

use super::read::{HZ, damaged, read_exactly, read_or_end};
use super::sample::PlainSample;
use super::track::TrackFormat;

/// First bytes of a page, and length of its header (RFC 3533 §6).
const SIGNATURE: &[u8] = b"OggS";
const HEADER: usize = 27;
/// Flag of a page that begins a logical stream.
const BEGINS: u8 = 0x02;
/// Longest segment; a shorter one ends a packet (RFC 3533 §5).
const SEGMENT: u8 = 255;
/// First bytes of the two packets before the sound (RFC 7845 §5.1, §5.2).
const HEAD: &[u8] = b"OpusHead";
const TAGS: &[u8] = b"OpusTags";
/// Samples a second, whatever it was sampled at (RFC 7845 §4).
const SAMPLE_RATE: i128 = 48_000;
/// Most bytes of a packet, but for the tags, which may hold pictures. Chosen by us: over a second of sound; more takes memory.
const MAX_PACKET: usize = 1 << 20;

/// Reader of a file.
#[derive(Debug, Default)]
pub(super) struct Ogg {
    /// Serial number of the logical stream.
    serial: [u8; 4],
    /// Packet that has not ended, and those that have.
    open: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
    /// Whether pages that begin logical streams come: those of one file stand together (RFC 3533 §4).
    is_beginning: bool,
    /// Samples so far; those that decoders drop at the beginning come before zero.
    samples: i64,
}

impl Ogg {
    pub(super) fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(SIGNATURE)
    }

    /// Reads the header of Opus; the inner error is the reason for which the file is not sent.
    pub(super) fn open(from: &mut impl Read) -> Result<std::result::Result<(Self, TrackFormat), String>> {
        let mut ogg = Self::default();
        // Each logical stream begins with a page of its own, before all others (RFC 3533 §4).
        while let Some(page) = Page::read(from)? {
            if page.flags & BEGINS == 0 {
                break;
            }
            if let Some((channels, skipped)) = head(&page.data) {
                (ogg.serial, ogg.is_beginning, ogg.samples) = (page.serial, true, -skipped);
                return Ok(Ok((ogg, TrackFormat::Opus { channels })));
            }
        }
        Ok(Err("Ogg without Opus".to_owned()))
    }

    pub(super) fn next_sample(&mut self, from: &mut impl Read) -> Result<Option<PlainSample>> {
        loop {
            while let Some(packet) = self.ready.pop_front() {
                if packet.starts_with(HEAD) || packet.starts_with(TAGS) {
                    continue;
                }
                let Some(duration) = duration(&packet) else { continue };
                let time = i128::from(self.samples) * HZ / SAMPLE_RATE;
                self.samples += duration;
                return Ok(Some(PlainSample { time: time as i64, is_entry: true, data: packet }));
            }
            let Some(page) = Page::read(from)? else { return Ok(None) };
            let was_beginning = std::mem::replace(&mut self.is_beginning, page.flags & BEGINS != 0);
            if let Some((_, skipped)) = head(&page.data).filter(|_| self.is_beginning && !was_beginning) {
                // Another file that was put behind this one (RFC 3533 §4: chained): its sound begins where the other ends.
                self.serial = page.serial;
                self.samples -= skipped;
                self.open.clear();
            } else if page.serial == self.serial {
                self.take(&page)?;
            }
        }
    }

    fn take(&mut self, page: &Page) -> Result<()> {
        let mut rest = page.data.as_slice();
        for &len in &page.segments {
            let (segment, after) = rest.split_at(usize::from(len).min(rest.len()));
            rest = after;
            self.open.extend_from_slice(segment);
            if self.open.len() > MAX_PACKET && !self.open.starts_with(TAGS) {
                return Err(damaged("a packet of Ogg of more than 1 MB"));
            }
            // Tags are left out, and may be long.
            if self.open.starts_with(TAGS) {
                self.open.truncate(TAGS.len());
            }
            if len < SEGMENT {
                self.ready.push_back(std::mem::take(&mut self.open));
            }
        }
        Ok(())
    }
}

/// Page of an Ogg file.
struct Page {
    flags: u8,
    serial: [u8; 4],
    /// Lengths of its segments.
    segments: Vec<u8>,
    data: Vec<u8>,
}

impl Page {
    /// Reads the next page; `None` at the end of the file.
    fn read(from: &mut impl Read) -> Result<Option<Self>> {
        let Some(header) = read_or_end::<HEADER>(from)? else { return Ok(None) };
        if !Ogg::is_one(&header) {
            return Err(damaged("there is something else between the pages of Ogg"));
        }
        let segments = read_exactly(from, header[26].into())?;
        let len = segments.iter().map(|len| usize::from(*len)).sum();
        let serial = [header[14], header[15], header[16], header[17]];
        Ok(Some(Self { flags: header[5], serial, segments, data: read_exactly(from, len)? }))
    }
}

/// Channels, and samples that decoders drop at the beginning, of a header of Opus (RFC 7845 §5.1).
fn head(data: &[u8]) -> Option<(u8, i64)> {
    match data.strip_prefix(HEAD)? {
        [_, channels, low, high, ..] => Some((*channels, u16::from_le_bytes([*low, *high]).into())),
        _ => None,
    }
}

/// Samples of a packet of Opus at 48 kHz, by its first bytes (RFC 6716 §3.1, §3.2).
fn duration(packet: &[u8]) -> Option<i64> {
    let &first = packet.first()?;
    let config = first >> 3;
    let frame = match config {
        // SILK: 10, 20, 40, 60 ms; hybrid: 10, 20 ms; CELT: 2.5, 5, 10, 20 ms.
        0..=11 => [480, 960, 1_920, 2_880][usize::from(config & 3)],
        12..=15 => [480, 960][usize::from(config & 1)],
        _ => [120, 240, 480, 960][usize::from(config & 3)],
    };
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => i64::from(packet.get(1)? & 0x3f),
    };
    Some(frame * frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_packets_are_told() {
        // CELT of 20 ms, one frame; SILK of 60 ms, two frames; hybrid of 10 ms, five frames.
        assert_eq!([&[0xfc][..], &[0x19], &[0x63, 5]].map(duration), [Some(960), Some(5_760), Some(2_400)]);
        assert_eq!([&[][..], &[0x63]].map(duration), [None, None]);
    }

    fn page_of(serial: u8, flags: u8, segments: &[u8], data: &[u8]) -> Vec<u8> {
        let mut page = [SIGNATURE, &[0, flags]].concat();
        page.resize(HEADER - 1, 0);
        page[14] = serial;
        page.push(segments.len() as u8);
        [&page[..], segments, data].concat()
    }

    /// Header of two channels, with 312 samples to drop.
    fn head_of_opus() -> Vec<u8> {
        [HEAD, &[1, 2, 0x38, 1, 0x80, 0xbb, 0, 0, 0, 0, 0]].concat()
    }

    #[test]
    fn the_first_of_several_streams_is_sent_until_another_file_begins() {
        let begin = |serial: u8| page_of(serial, BEGINS, &[19], &head_of_opus());
        let sound = |serial: u8, mark: u8| page_of(serial, 0, &[2], &[0xfc, mark]);
        let file = [begin(1), begin(2), sound(1, 10), sound(2, 20), sound(1, 11), begin(3), sound(3, 30)].concat();
        let mut from = file.as_slice();
        let (mut ogg, _) = Ogg::open(&mut from).unwrap().unwrap();
        let samples = std::iter::from_fn(|| ogg.next_sample(&mut from).unwrap());
        let samples: Vec<(i64, u8)> = samples.map(|sample| (sample.time, sample.data[1])).collect();
        // Each packet lasts 1800 ticks; what is dropped of the second file lies before the end of the first.
        assert_eq!(samples, [(-585, 10), (1_215, 11), (2_430, 30)]);
    }

    #[test]
    fn a_packet_goes_on_over_pages() {
        let page = |flags: u8, segments: &[u8], data: &[u8]| page_of(0, flags, segments, data);
        let head = head_of_opus();
        let long = vec![0xfc; 300];
        let file = [
            page(BEGINS, &[19], &head),
            page(0, &[8], TAGS),
            page(0, &[255], &long[..255]),
            page(1, &[45, 2], &[&long[255..], &[0xfc, 1]].concat()),
        ]
        .concat();
        let mut from = file.as_slice();
        let (mut ogg, format) = Ogg::open(&mut from).unwrap().unwrap();
        assert_eq!(format, TrackFormat::Opus { channels: 2 });
        let first = ogg.next_sample(&mut from).unwrap().unwrap();
        assert_eq!((first.time, first.data), (-585, long), "312 samples before the beginning");
        let second = ogg.next_sample(&mut from).unwrap().unwrap();
        assert_eq!((second.time, second.data), (1_215, vec![0xfc, 1]));
        assert!(ogg.next_sample(&mut from).unwrap().is_none());
    }
}
