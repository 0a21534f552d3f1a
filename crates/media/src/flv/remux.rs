//! FLV of a transport stream: the first video of H.264 and the first audio of AAC, a tag or some for each PES packet.

use std::collections::BTreeSet;

use timeous_core::AduMeta;

use super::tag;
use crate::aac::adts::AdtsFrames;
use crate::h264::annexb::NalSplitter;
use crate::rtp::RTP_CLOCK_HZ;
use crate::ts::demux::{Demuxer, Elementary, Pes, PesTimes};
use crate::ts::pes_clock::{PesClock, wrapped};
use crate::ts::{TsStream, TsUnit, WholePes};

/// Time before the first, from which times count: sound may begin before the first picture.
const LEAD: i64 = RTP_CLOCK_HZ as i64;

/// Turns units of a transport stream into FLV tags: an ADU for each PES packet, behind the [`header`](Self::header) of the stream.
///
/// Sound is behind its decoder's configuration each time, so that any of it may be left out.
#[derive(Debug, Default)]
pub struct TsToFlv {
    demuxer: Demuxer,
    whole: WholePes,
    clock: PesClock,
    frames: AdtsFrames,
    /// PIDs that were told to be left out.
    told: BTreeSet<u16>,
}

impl TsToFlv {
    /// Bytes before the first tag, by the elementary streams that the tables name; `None` before these have come. Nothing can be read
    /// without them.
    pub fn header(&self) -> Option<Vec<u8>> {
        let has_video = self.demuxer.has_h264()?;
        Some(tag::header(has_video, self.demuxer.has_audio()).to_vec())
    }

    /// Returns elementary streams that FLV does not hold, each once: all but the first video, if it is H.264, and the first AAC.
    pub fn take_left_out(&mut self) -> Vec<TsStream> {
        let Self { demuxer, told, .. } = self;
        let video = demuxer.video().filter(|_| demuxer.has_h264() == Some(false));
        demuxer.left_out().chain(video).filter(|stream| told.insert(stream.pid)).collect()
    }

    /// Tags of the PES packet that ends with this unit; `None`: more of it comes, or FLV does not hold it.
    pub fn tags(&mut self, unit: &TsUnit) -> Option<(AduMeta, Vec<u8>)> {
        let packets = self.whole.push(unit)?;
        let mut tags = Vec::new();
        for pes in self.demuxer.push(&packets) {
            match pes.of {
                Elementary::H264 => self.picture(&pes, &mut tags),
                Elementary::Audio => self.sound(&pes, &mut tags),
                Elementary::H265 => {}
            }
        }
        (!tags.is_empty()).then(|| (unit.meta(), tags))
    }

    fn picture(&mut self, pes: &Pes, tags: &mut Vec<u8>) {
        let mut splitter = NalSplitter::new(pes.data.len());
        if splitter.push(&pes.data).and_then(|()| splitter.finish()).is_err() {
            return;
        }
        let nals: Vec<Vec<u8>> = std::iter::from_fn(|| splitter.next_nal()).collect();
        let is_keyframe = pes.is_entry || nals.iter().any(|nal| tag::kind_of(nal) == tag::IDR);
        let Some(PesTimes { presented, decode }) = pes.times else { return };
        let decoded = self.clock.count(decode);
        let later = wrapped(presented as i64 - decode as i64);
        // A picture is not shown before it is decoded, nor minutes later.
        let later = if later < 60 * i64::from(RTP_CLOCK_HZ) { later.max(0) } else { 0 };
        let offset = millis(decoded + later) - millis(decoded);
        tag::write_picture(&nals, is_keyframe, (millis(decoded), offset), tags);
    }

    fn sound(&mut self, pes: &Pes, tags: &mut Vec<u8>) {
        let presented = pes.times.map(|times| self.clock.count(times.presented));
        let mut last = None;
        for frame in self.frames.push(&pes.data, presented) {
            let at = millis(frame.at);
            if last.replace(frame.format) != Some(frame.format) {
                tag::write_audio_format(frame.format, at, tags);
            }
            tag::write_audio(&frame.data, at, tags);
        }
    }
}

/// Milliseconds of a tag, which wrap after 49 days (§E.4.1), of a counted time; what is long before the beginning is at zero.
fn millis(counted: i64) -> u32 {
    ((counted + LEAD).max(0) / i64::from(RTP_CLOCK_HZ / 1_000)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{AacFormat, NalFormat, Sample, Track, TrackFormat, TsMuxer};
    use crate::h264::annexb;
    use crate::ts::TsReader;

    /// Kind and time of each tag, and its content.
    fn read(mut flv: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
        let mut tags = Vec::new();
        while let [kind, a, b, c, t1, t2, t3, t0, _, _, _, rest @ ..] = flv {
            let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            tags.push((*kind, u32::from_be_bytes([*t0, *t1, *t2, *t3]), rest[..len].to_vec()));
            assert_eq!(rest[len..len + 4], (len as u32 + 11).to_be_bytes());
            flv = &rest[len + 4..];
        }
        tags
    }

    #[test]
    fn pictures_and_sound_keep_their_times_and_a_sound_its_configuration() {
        let aac = AacFormat::read_config(&[0x12, 0x10]).unwrap();
        let formats = [TrackFormat::H264(NalFormat::default()), TrackFormat::Aac(aac)];
        let mut mux = TsMuxer::new(formats.map(|format| Track { format, language: None }).to_vec());
        let (mut reader, mut flv, mut tags) = (TsReader::new(), TsToFlv::default(), Vec::new());
        let mut picture = Vec::new();
        annexb::write([&[0x65, 1, 2, 3][..]], &mut picture);
        for n in 0..4i64 {
            let (video, sound) = (picture.clone(), [&aac.header(100).unwrap()[..], &[7; 100]].concat());
            for (track, presented, data) in [(0, 3_600 * n + 1_800, video), (1, 3_600 * n, sound)] {
                let sample = Sample { track, decode: 3_600 * n, presented, is_entry: true, data };
                reader.push(&mux.push(&sample)).unwrap();
            }
        }
        reader.finish();
        while let Some(unit) = reader.next_unit() {
            tags.extend(flv.tags(&unit).map_or_else(Vec::new, |(_, tags)| read(&tags)));
        }
        let pictures: Vec<_> = tags.iter().filter(|(kind, ..)| *kind == 9).collect();
        let sounds: Vec<_> = tags.iter().filter(|(kind, ..)| *kind == 8).collect();
        assert_eq!(pictures.iter().map(|(_, at, _)| at - pictures[0].1).collect::<Vec<_>>(), [0, 40, 80, 120]);
        assert_eq!(pictures[0].2, [0x17, 1, 0, 0, 20, 0, 0, 0, 4, 0x65, 1, 2, 3]);
        assert_eq!(sounds.len(), 8, "each frame behind its configuration");
        assert_eq!(sounds[0].2, [0xaf, 0, 0x12, 0x10]);
        assert_eq!((sounds[1].2[..2].to_vec(), sounds[1].2.len()), (vec![0xaf, 1], 102));
        assert!(flv.take_left_out().is_empty());
        assert_eq!(flv.header().unwrap()[..5], *b"FLV\x01\x05");
    }

    /// Packets of one PES packet of audio in one transport packet, with a time or without.
    fn sound(data: &[u8], presented: Option<u64>, counter: u8) -> Vec<u8> {
        let stamp = presented.map_or(Vec::new(), |time| {
            let [a, b, c] = [time >> 30 & 7, time >> 15 & 0x7fff, time & 0x7fff].map(|part| part << 1 | 1);
            [&[0x20 | a as u8][..], &(b as u16).to_be_bytes(), &(c as u16).to_be_bytes()].concat()
        });
        let flags = if presented.is_some() { 0x80 } else { 0 };
        let mut pes = vec![0, 0, 1, 0xc0, 0, (3 + stamp.len() + data.len()) as u8, 0x80, flags, stamp.len() as u8];
        pes.extend([&stamp[..], data].concat());
        let stuffing = 183 - pes.len() as u8;
        let mut packet = vec![0x47, 0x41, 0, 0x30 | counter, stuffing];
        packet.extend((0..stuffing).map(|at| if at == 0 { 0 } else { 0xff }));
        [packet, pes].concat()
    }

    /// Found by reading: a frame cut by the border of a PES packet was lost, and the rest of its packets, too.
    #[test]
    fn frames_of_sound_cut_by_the_border_of_a_pes_packet_are_whole() {
        let aac = AacFormat::read_config(&[0x11, 0x90]).unwrap();
        let mut mux = TsMuxer::new(vec![Track { format: TrackFormat::Aac(aac), language: None }]);
        let sample = Sample { track: 0, decode: 0, presented: 0, is_entry: true, data: Vec::new() };
        // Tables, and the PID of the sound.
        let tables = mux.push(&sample)[..2 * 188].to_vec();
        let (mut reader, mut flv) = (TsReader::new(), TsToFlv::default());
        let frames: Vec<u8> = (0..6u8).flat_map(|n| [&aac.header(100).unwrap()[..], &[n; 100]].concat()).collect();
        reader.push(&tables).unwrap();
        assert_eq!(flv.header(), None, "nothing is known");
        // Of 1920 ticks each; in the third packet none begins.
        for (counter, (range, time)) in (0..).zip([
            (0..150, Some(0)),
            (150..300, Some(3_840)),
            (300..310, None),
            (310..460, Some(5_760)),
            (460..600, None),
            (600..642, None),
        ]) {
            reader.push(&sound(&frames[range], time.map(|time| time + 90_000), counter)).unwrap();
        }
        reader.finish();
        let mut tags = Vec::new();
        while let Some(unit) = reader.next_unit() {
            tags.extend(flv.tags(&unit).map_or_else(Vec::new, |(_, tags)| read(&tags)));
        }
        let sounds: Vec<_> = tags.iter().filter(|(kind, _, data)| *kind == 8 && data[1] == 1).collect();
        assert_eq!(sounds.iter().map(|(_, _, data)| data[2]).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert!(sounds.iter().all(|(_, _, data)| data.len() == 102));
        let times: Vec<u32> = sounds.iter().map(|(_, at, _)| at - sounds[0].1).collect();
        assert_eq!(times, [0, 21, 42, 64, 85, 106]);
        assert_eq!(flv.header().unwrap()[..5], *b"FLV\x01\x04", "sound alone");
    }
}
