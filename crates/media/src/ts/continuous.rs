//! Times of a transport stream that go on where its source begins anew, for files: clock values, decoding and presentation times.

use std::collections::BTreeMap;

use timeous_core::Instant;

use super::packet::{MOST_STEP, PACKET_LEN, Packet, TIME_VALUES, set_pcr};
use super::pes_clock::wrapped;
use super::playout::TsRelease;
use super::psi::Tables;
use crate::rtp::RTP_CLOCK_HZ;

/// Ticks of the program clock in one of a time stamp (ISO/IEC 13818-1 §2.4.3.5).
const PCR_TICKS: u64 = 300;
/// Largest step of the clock beyond the time that has passed, in ticks of 90 kHz.
const MOST_AHEAD: i64 = (MOST_STEP / PCR_TICKS) as i64;
/// Distances of a decoding time from the clock beyond which it is not of the same era, in the same ticks: 2 s behind, and 10 s ahead, for
/// which data of still pictures stay in a decoder's buffer (§2.14.3.1).
const MOST_DECODE_BEHIND: i64 = 2 * RTP_CLOCK_HZ as i64;
const MOST_DECODE_AHEAD: i64 = 10 * RTP_CLOCK_HZ as i64;
/// Longest PES packet whose duration is known by the step to it, in the same ticks: a second. Chosen by us: more than multiplexers put into one.
const MOST_DURATION: i64 = RTP_CLOCK_HZ as i64;
/// Least gap where times begin anew, in the same ticks: 24 ms, a frame of sound, by which it may begin before the pictures. Chosen by us.
const LEAST_GAP: i64 = 24 * RTP_CLOCK_HZ as i64 / 1_000;
/// Time for which PES packets from before a jump of the clock may come, in the same ticks: a second, for which data stay in a decoder's
/// buffer (§2.4.2.6).
const MOST_LATE: i64 = RTP_CLOCK_HZ as i64;
/// Program of packets that come before the tables: a PAT names none so (§2.4.4.3).
const UNKNOWN: u16 = 0;
/// Bytes of the header of a PES packet up to its decoding time (§2.4.3.6), and places of fields in it.
const PES_HEADER: usize = 19;
const PRESENTED: usize = 9;
const DECODE: usize = 14;
/// Stream identifiers of PES packets whose header has no times (§2.4.3.7).
const WITHOUT_TIMES: [u8; 8] = [0xbc, 0xbe, 0xbf, 0xf0, 0xf1, 0xf2, 0xf8, 0xff];

/// Makes the times of a transport stream continuous: where the clock jumps, or another sender goes on, they continue after the time that
/// has passed. Up to the first such place the stream stays as it is. Times within sections, as of SCTE 35, and scrambled packets stay.
///
/// ```
/// use timeous_core::Instant;
/// use timeous_media::ts::{ContinuousTimes, TsRelease};
/// let release = TsRelease { packets: vec![0x47; 188], playout_at: Instant::ZERO, restarts: 0, is_inserted: false };
/// assert_eq!(ContinuousTimes::default().push(release.clone()), release);
/// ```
#[derive(Debug, Default)]
pub struct ContinuousTimes {
    restarts: u32,
    tables: Tables,
    programs: BTreeMap<u16, ProgramTimes>,
    /// Program whose clock came last.
    last: Option<u16>,
    pids: BTreeMap<u16, PidTimes>,
}

/// Times of a PID.
#[derive(Clone, Copy, Debug, Default)]
struct PidTimes {
    /// The last decoding time, as it was written, and the step to it: the usual duration of a PES packet.
    decode: Option<i64>,
    step: i64,
    /// By how much it was ahead of the clock.
    lead: Option<i64>,
}

/// Times of a program.
#[derive(Clone, Copy, Debug, Default)]
struct ProgramTimes {
    current: Option<Era>,
    /// Times before the last jump of the clock.
    before: Option<Era>,
    /// The last clock value, and the latest end of a PES packet's presentation, as they were written, and when they were played out.
    clock: Option<(i64, Instant)>,
    end: Option<(i64, Instant)>,
}

/// Times between two jumps of the clock.
#[derive(Clone, Copy, Debug)]
struct Era {
    /// The first time as it came, of the clock or of decoding.
    first: i64,
    /// Offset added to times, in ticks of 90 kHz.
    offset: i64,
    began: Instant,
    /// The last clock value as it came, and when it was played out.
    clock: Option<(i64, Instant)>,
}

impl ContinuousTimes {
    /// Returns the packets with continuous times.
    pub fn push(&mut self, mut release: TsRelease) -> TsRelease {
        if std::mem::replace(&mut self.restarts, release.restarts) != release.restarts {
            self.programs.values_mut().for_each(|times| *times = times.ended());
        }
        let (packets, at) = (&mut release.packets, release.playout_at);
        for begin in (0..packets.len()).step_by(PACKET_LEN) {
            let Some(packet) = packets.get(begin..begin + PACKET_LEN).and_then(Packet::new) else { continue };
            if packet.is_scrambled() {
                continue;
            }
            let (pid, starts) = (packet.pid(), packet.starts());
            self.tables.push(pid, starts, packet.payload());
            let clock = packet.adaptation().pcr;
            let header = starts.then(|| PesHeader::find(packets, begin, pid)).flatten();
            if header.is_none() && clock.is_none() {
                continue;
            }
            let times = header.as_ref().map(|header| header.times(packets));
            let (program, has_clock) = match self.tables.program_of(pid) {
                Some((program, clock)) => (program, clock == pid),
                None => (self.last.unwrap_or(UNKNOWN), self.last.is_none_or(|last| last == UNKNOWN)),
            };
            let own = clock.filter(|_| has_clock).map(|clock| (clock / PCR_TICKS) as i64);
            let offset = self.offset(pid, program, at, own, times);
            if offset == 0 {
                continue;
            }
            if let Some(header) = header {
                header.shift(packets, offset);
            }
            if let Some(clock) = clock {
                let base = (clock / PCR_TICKS) as i64 + offset;
                let shifted = base.rem_euclid(TIME_VALUES) as u64 * PCR_TICKS + clock % PCR_TICKS;
                set_pcr(&mut packets[begin..begin + PACKET_LEN], shifted);
            }
        }
        release
    }

    /// Offset of a packet's times, by its clock value and its decoding time, if it has them.
    fn offset(&mut self, pid: u16, program: u16, at: Instant, clock: Option<i64>, times: Option<PesTimes>) -> i64 {
        // A program that is the first of another sender, or takes the place of one, goes on where that one was.
        let has_ended = |last: &u16, times: &ProgramTimes| times.current.is_none() || !self.tables.has_program(*last);
        let last = self.last.and_then(|last| self.programs.get_key_value(&last));
        // Packets before the tables are of the program whose clock goes on there.
        let is_known_now = |last: u16, times: &ProgramTimes| {
            let goes_on = |era: Era| clock.is_none_or(|clock| era.has_clock(clock, at));
            last == UNKNOWN && times.current.is_some_and(goes_on)
        };
        let inherited = last
            .filter(|(last, times)| has_ended(last, times))
            .map(|(last, times)| if is_known_now(*last, times) { *times } else { times.ended() });
        if clock.is_some() {
            self.last = Some(program);
        }
        let program = self.programs.entry(program).or_insert(inherited.unwrap_or_default());
        program.offset(at, clock, times, self.pids.entry(pid).or_default())
    }
}

impl ProgramTimes {
    /// The same at the end of its era.
    fn ended(self) -> Self {
        Self { current: None, before: None, ..self }
    }

    fn offset(&mut self, at: Instant, clock: Option<i64>, times: Option<PesTimes>, pid: &mut PidTimes) -> i64 {
        let before = self.before.filter(|_| self.current.is_some_and(|era| elapsed(era.began, at) < MOST_LATE));
        let decode = times.map(|times| times.decode);
        let goes_on = |era: Era| match (clock, decode) {
            (Some(clock), _) => era.has_clock(clock, at),
            (None, Some(decode)) => era.has(decode, at) || before.is_some_and(|before| before.has(decode, at)),
            (None, None) => true,
        };
        let current = self.current.filter(|era| goes_on(*era));
        let mut current = current.unwrap_or_else(|| {
            self.before = self.current;
            let (offset, first) = (self.begin(at, clock, times), clock.or(decode).unwrap_or(0));
            Era { first, offset, began: at, clock: None }
        });
        if let Some(clock) = clock {
            current.clock = Some((clock, at));
            self.clock = Some((clock + current.offset, at));
        }
        self.current = Some(current);
        let Some(times) = times else { return current.offset };
        // Each PID keeps its distance from the clock: sound of before may come behind pictures of after.
        let error = |era: &Era| pid.lead.map_or(0, |lead| (era.lead(times.decode, at) - lead).abs());
        let is_before = |era: &Era| clock.is_none() && error(era) < error(&current);
        let era = before.filter(is_before).unwrap_or(current);
        pid.push(times.decode + era.offset, era.lead(times.decode, at));
        let end = times.presented + era.offset + pid.step;
        if self.end.is_none_or(|(latest, _)| wrapped(end - latest) > 0) {
            self.end = Some((end, at));
        }
        era.offset
    }

    /// Offset of a new era that begins with these times: the clock goes on by the time that has passed, and nothing overlaps.
    fn begin(&self, at: Instant, clock: Option<i64>, times: Option<PesTimes>) -> i64 {
        let after = |(last, when): (i64, Instant)| last + elapsed(when, at).max(LEAST_GAP);
        let by_clock = clock.zip(self.clock).map(|(clock, last)| wrapped(after(last) - clock));
        match (by_clock, times.zip(self.end)) {
            (Some(offset), Some((times, (latest, _)))) => {
                offset + wrapped(latest + LEAST_GAP - times.decode - offset).max(0)
            }
            (Some(offset), None) => offset,
            (None, Some((times, latest))) => wrapped(after(latest) - times.decode),
            (None, None) => 0,
        }
    }
}

impl PidTimes {
    fn push(&mut self, decode: i64, lead: i64) {
        let step = self.decode.map_or(0, |last| wrapped(decode - last));
        if (0..=MOST_DURATION).contains(&step) {
            self.step = step;
        }
        (self.decode, self.lead) = (Some(decode), Some(lead));
    }
}

impl Era {
    /// Whether a clock value goes on where the clock was.
    fn has_clock(&self, clock: i64, at: Instant) -> bool {
        match self.clock {
            Some((last, when)) => (0..=elapsed(when, at) + MOST_AHEAD).contains(&wrapped(clock - last)),
            None => (-MOST_DECODE_AHEAD..=MOST_DECODE_AHEAD).contains(&wrapped(clock - self.first)),
        }
    }

    /// Whether a decoding time can be of this era.
    fn has(&self, decode: i64, at: Instant) -> bool {
        (-MOST_DECODE_BEHIND..=MOST_DECODE_AHEAD).contains(&self.lead(decode, at))
    }

    /// By how much a decoding time is ahead of the clock.
    fn lead(&self, decode: i64, at: Instant) -> i64 {
        let (time, when) = self.clock.unwrap_or((self.first, self.began));
        wrapped(decode - time - elapsed(when, at))
    }
}

/// Time that has passed, in ticks of 90 kHz.
fn elapsed(from: Instant, to: Instant) -> i64 {
    (to.saturating_since(from).as_micros() * u64::from(RTP_CLOCK_HZ) / 1_000_000) as i64
}

/// Times of a PES packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PesTimes {
    presented: i64,
    decode: i64,
}

/// Places of the bytes of a PES packet's header, which may go on in a later packet.
struct PesHeader(Vec<usize>);

impl PesHeader {
    /// Finds the header that begins in a packet, if it has times.
    fn find(packets: &[u8], begin: usize, pid: u16) -> Option<Self> {
        let mut places = Vec::with_capacity(PES_HEADER);
        for at in (begin..packets.len()).step_by(PACKET_LEN) {
            let Some(packet) = packets.get(at..at + PACKET_LEN).and_then(Packet::new) else { continue };
            if packet.pid() != pid {
                continue;
            }
            if packet.starts() && at != begin || places.len() >= PES_HEADER {
                break;
            }
            places.extend(at + PACKET_LEN - packet.payload().len()..at + PACKET_LEN);
        }
        places.truncate(PES_HEADER);
        let byte = |at: usize| places.get(at).map(|place| packets[*place]);
        let begins = [0, 1, 2].map(byte) == [Some(0), Some(0), Some(1)];
        let has_fields = byte(3).is_some_and(|id| !WITHOUT_TIMES.contains(&id)) && byte(6)? & 0xc0 == 0x80;
        let times = match byte(7)? >> 6 {
            2 => PRESENTED..DECODE,
            3 => PRESENTED..PES_HEADER,
            _ => return None,
        };
        let is_whole = places.len() >= times.end && usize::from(byte(8)?) >= times.len();
        places.truncate(times.end);
        (begins && has_fields && is_whole).then_some(Self(places))
    }

    /// Places of its times, each of five bytes.
    fn places(&self) -> impl Iterator<Item = &[usize]> {
        self.0[PRESENTED..].chunks_exact(DECODE - PRESENTED)
    }

    /// Its times; without a decoding time, that is the presentation time.
    fn times(&self, packets: &[u8]) -> PesTimes {
        let [presented, decode] = [self.places().next(), self.places().last()]
            .map(|places| places.map_or(0, |places| time_at(packets, places)));
        PesTimes { presented, decode }
    }

    /// Adds an offset to the times.
    fn shift(&self, packets: &mut [u8], offset: i64) {
        for places in self.places() {
            let time = (time_at(packets, places) + offset).rem_euclid(TIME_VALUES);
            let bits = [time >> 29, time >> 22, time >> 14, time >> 7, time << 1].map(|bits| bits as u8);
            // Five bits beside the time are markers, or a prefix (§2.4.3.6).
            for ((place, bits), mask) in places.iter().zip(bits).zip([0x0e, 0xff, 0xfe, 0xff, 0xfe]) {
                packets[*place] = packets[*place] & !mask | bits & mask;
            }
        }
    }
}

/// Time stamp in the bytes at these places (§2.4.3.7).
fn time_at(packets: &[u8], places: &[usize]) -> i64 {
    places.iter().zip([(0x0e, 29), (0xff, 22), (0xfe, 14), (0xff, 7), (0xfe, -1)]).fold(
        0,
        |time, (place, (mask, shift))| {
            let bits = i64::from(packets[*place] & mask);
            time | if shift < 0 { bits >> -shift } else { bits << shift }
        },
    )
}

#[cfg(test)]
mod tests {
    use timeous_core::Duration;

    use super::*;
    use crate::container::{AacFormat, NalFormat, Sample, Track, TrackFormat, TsMuxer};
    use crate::ts::demux::{Demuxer, Elementary};

    /// Releases of a source that begins with `first` milliseconds: a picture and two frames of sound each 40 ms, sound first.
    fn source(first: i64, pictures: i64, begin: u64, restarts: u32) -> Vec<TsRelease> {
        let aac = AacFormat::read_config(&[0x12, 0x10]).unwrap();
        let formats = [TrackFormat::H264(NalFormat::default()), TrackFormat::Aac(aac)];
        let mut muxer = TsMuxer::new(formats.map(|format| Track { format, language: None }).to_vec());
        let samples = (0..3 * pictures).map(|n| {
            let decode = 90 * (first + 40 * (n / 3) + 20 * (n % 3 / 2));
            let presented = decode + if n % 3 == 1 { 3_600 } else { 0 };
            Sample { track: usize::from(n % 3 != 1), decode, presented, is_entry: n == 1, data: vec![9; 500] }
        });
        let at = |sample: &Sample| {
            Instant::ZERO + Duration::from_millis(begin + (sample.decode / 90 - first).unsigned_abs())
        };
        samples
            .map(|sample| TsRelease {
                packets: muxer.push(&sample),
                playout_at: at(&sample),
                restarts,
                is_inserted: false,
            })
            .collect()
    }

    /// Decoding times of pictures and of sound, in milliseconds after the first picture.
    fn times(releases: impl IntoIterator<Item = TsRelease>) -> [Vec<i64>; 2] {
        let (mut continuous, mut demuxer) = (ContinuousTimes::default(), Demuxer::default());
        let packets = releases.into_iter().flat_map(|release| continuous.push(release).packets);
        let packets: Vec<u8> = packets.collect();
        let mut times = [Vec::new(), Vec::new()];
        for pes in demuxer.push(&packets) {
            let decode = pes.times.unwrap().decode as i64;
            assert!(pes.of == Elementary::Audio || pes.times.unwrap().presented as i64 == decode + 3_600);
            times[usize::from(pes.of == Elementary::Audio)].push(decode);
        }
        let first = times[0][0];
        times.map(|times| times.into_iter().map(|time| wrapped(time - first) / 90).collect())
    }

    fn steps(times: &[i64]) -> Vec<i64> {
        times.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| ![20, 40].contains(step)).collect()
    }

    #[test]
    fn another_sender_goes_on_after_a_gap_as_long_as_the_break() {
        // Its times are before those of the first, just behind them, and far behind them, over the wrap.
        for first in [0, 3_900, 50_000_000, 95_443_000] {
            let all = [source(0, 100, 1_000, 1), source(first, 100, 7_000, 2)].concat();
            let [pictures, sound] = times(all);
            assert_eq!((steps(&pictures), steps(&sound)), (vec![2_040], vec![2_020]), "{first}");
        }
    }

    #[test]
    fn times_go_on_where_a_looped_source_begins_again() {
        for back in [4_000, 1_500, 300] {
            let first = source(0, 100, 1_000, 1);
            // The sound of the end comes behind the first clock value of what follows.
            let mut all = [first, source(4_000 - back, 100, 5_000, 1)].concat();
            let picture = all.remove(301);
            all.insert(299, picture);
            let [pictures, sound] = times(all);
            assert!(steps(&pictures).iter().all(|step| (40..=150).contains(step)), "{back}: {:?}", steps(&pictures));
            assert!(steps(&sound).iter().all(|step| (20..=150).contains(step)), "{back}: {:?}", steps(&sound));
            assert_eq!((pictures.len(), sound.len()), (200, 400));
        }
    }

    #[test]
    fn a_stream_of_one_source_stays_as_it_is() {
        let end = TIME_VALUES / 90;
        // Over the wrap of the times, and a silence of a minute.
        let all = [source(end - 3_000, 100, 1_000, 1), source(61_000, 100, 65_000, 1)].concat();
        let mut continuous = ContinuousTimes::default();
        assert!(all.into_iter().all(|release| continuous.push(release.clone()) == release));
    }

    /// Found with ffmpeg through a pipe, whose tables came behind the first pictures: times went on 144 ms later from there on.
    #[test]
    fn pictures_before_the_tables_are_of_the_same_times() {
        let mut all = source(0, 100, 1_000, 1);
        let tables = |packet: &[u8]| Packet::new(packet).is_some_and(|packet| [0, 0x1000].contains(&packet.pid()));
        for release in &mut all[..12] {
            let packets = release.packets.chunks_exact(PACKET_LEN).filter(|packet| !tables(packet));
            release.packets = packets.flatten().copied().collect();
        }
        let mut continuous = ContinuousTimes::default();
        assert!(all.into_iter().all(|release| continuous.push(release.clone()) == release));
    }

    #[test]
    fn a_header_that_goes_on_in_the_next_packet_is_shifted() {
        // 176 bytes of an adaptation field leave 7 for the first packet.
        let mut first = vec![0x47, 0x41, 0, 0x30, 176, 0];
        first.resize(181, 0xff);
        first.extend([0, 0, 1, 0xe0, 0, 0, 0x84]);
        let mut second = vec![0x47, 0x01, 0, 0x11, 0xc0, 10, 0x31, 0, 1, 0, 1, 0x11, 0, 1, 0, 1];
        second.resize(PACKET_LEN, 0);
        let mut packets = [first, second].concat();
        let header = PesHeader::find(&packets, 0, 0x100).unwrap();
        header.shift(&mut packets, (1 << 32) + 5);
        assert_eq!(packets[PACKET_LEN + 6..][..10], [0x39, 0, 1, 0, 11, 0x19, 0, 1, 0, 11]);
        let time = (1 << 32) + 5;
        assert_eq!(header.times(&packets), PesTimes { presented: time, decode: time });
    }
}
