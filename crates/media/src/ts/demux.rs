//! Demultiplexer: the first video of H.264 or H.265 and the first audio of AAC of a transport stream, PES packet by PES packet.

use std::collections::BTreeMap;

use super::packet::{PACKET_LEN, Packet};
use super::psi::Tables;
use super::stream::TsStream;

/// Stream types (ISO/IEC 13818-1 §2.4.4.9, table 2-34).
const H264: u8 = 0x1b;
const H265: u8 = 0x24;
const AAC: u8 = 0x0f;
/// Most bytes of a PES packet. Chosen by us, as of a picture elsewhere: more takes memory.
const MAX_PES: usize = 16 << 20;

/// Elementary stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elementary {
    H264,
    H265,
    /// AAC.
    Audio,
}

/// PES packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pes {
    pub(crate) of: Elementary,
    /// Times of the first picture or frame that begins in it.
    pub(crate) times: Option<PesTimes>,
    /// Whether the transport stream marks it as a random access point.
    pub(crate) is_entry: bool,
    pub(crate) data: Vec<u8>,
}

/// Time stamps of a PES packet: 33 bits at 90 kHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PesTimes {
    pub(crate) presented: u64,
    pub(crate) decode: u64,
}

/// Reads PES packets of two elementary streams.
#[derive(Debug, Default)]
pub(crate) struct Demuxer {
    tables: Tables,
    open: BTreeMap<u16, Open>,
    video: Option<u16>,
    audio: Option<u16>,
}

/// PES packet that has not ended.
#[derive(Debug)]
struct Open {
    is_entry: bool,
    bytes: Vec<u8>,
}

impl Demuxer {
    /// Takes the packets of whole PES packets, and returns these.
    pub(crate) fn push(&mut self, packets: &[u8]) -> Vec<Pes> {
        let mut done = Vec::new();
        for packet in packets.chunks_exact(PACKET_LEN).filter_map(Packet::new) {
            let pid = packet.pid();
            self.tables.push(pid, packet.starts(), packet.payload());
            self.choose();
            if self.video != Some(pid) && self.audio != Some(pid) || packet.is_scrambled() {
                continue;
            }
            if packet.starts() {
                done.extend(self.end(pid));
                let is_entry = packet.adaptation().is_random_access;
                self.open.insert(pid, Open { is_entry, bytes: Vec::new() });
            }
            if let Some(open) = self.open.get_mut(&pid).filter(|open| open.bytes.len() < MAX_PES) {
                open.bytes.extend_from_slice(packet.payload());
            }
        }
        let pids: Vec<u16> = self.open.keys().copied().collect();
        done.extend(pids.into_iter().filter_map(|pid| self.end(pid)));
        done
    }

    /// Chooses the first video and audio, and others once a new map does not name them any more.
    fn choose(&mut self) {
        let Self { tables, video, audio, .. } = self;
        let is = |pid: &u16, kinds: &[u8]| tables.stream_type(*pid).is_some_and(|kind| kinds.contains(&kind));
        *video = video
            .filter(|pid| is(pid, &[H264, H265]))
            .or_else(|| tables.of_type(H264).chain(tables.of_type(H265)).min());
        *audio = audio.filter(|pid| is(pid, &[AAC])).or_else(|| tables.of_type(AAC).next());
    }

    /// Whether the tables name AAC.
    pub(crate) fn has_audio(&self) -> bool {
        self.audio.is_some()
    }

    /// Whether the tables name elementary streams, and H.264 or H.265 among them; `None` before they have come.
    pub(crate) fn has_video(&self) -> Option<bool> {
        self.tables.has_maps().then_some(self.video.is_some())
    }

    /// Whether the tables name elementary streams, and H.264 as the first video; `None` before they have come.
    pub(crate) fn has_h264(&self) -> Option<bool> {
        let is_h264 = |pid| self.tables.stream_type(pid) == Some(H264);
        self.tables.has_maps().then(|| self.video.is_some_and(is_h264))
    }

    /// The video, as the tables describe it.
    pub(crate) fn video(&self) -> Option<TsStream> {
        self.tables.streams().find(|stream| Some(stream.pid) == self.video)
    }

    /// Elementary streams that the tables name, and that are not returned.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = TsStream> + '_ {
        self.tables.streams().filter(|stream| ![self.video, self.audio].contains(&Some(stream.pid)))
    }

    /// Whether all packets with a payload are of elementary streams that the tables name, and that are not returned.
    pub(crate) fn leaves_out(&self, packets: &[u8]) -> bool {
        let packets = packets.chunks_exact(PACKET_LEN).filter_map(Packet::new);
        let mut of_frames = packets.filter(|packet| packet.has_payload()).peekable();
        of_frames.peek().is_some() && of_frames.all(|packet| self.left_out().any(|stream| stream.pid == packet.pid()))
    }

    fn end(&mut self, pid: u16) -> Option<Pes> {
        let Open { is_entry, bytes } = self.open.remove(&pid)?;
        let of = match self.tables.stream_type(pid)? {
            H264 => Elementary::H264,
            H265 => Elementary::H265,
            AAC => Elementary::Audio,
            _ => return None,
        };
        // Header of a PES packet (§2.4.3.6): start code, length, flags, length of the header, times.
        let &[0, 0, 1, _, _, _, _, flags, header, ref rest @ ..] = bytes.as_slice() else { return None };
        let times = time_stamp(rest).filter(|_| flags & 0x80 != 0).map(|presented| {
            let decode = rest.get(5..).and_then(time_stamp).filter(|_| flags & 0x40 != 0).unwrap_or(presented);
            PesTimes { presented, decode }
        });
        let data = rest.get(usize::from(header)..)?.to_vec();
        Some(Pes { of, times, is_entry, data })
    }
}

/// Time stamp of 33 bits with markers (§2.4.3.7).
fn time_stamp(bytes: &[u8]) -> Option<u64> {
    let &[a, b, c, d, e, ..] = bytes else { return None };
    let [a, b, c, d, e] = [a, b, c, d, e].map(u64::from);
    Some((a >> 1 & 7) << 30 | b << 22 | c >> 1 << 15 | d << 7 | e >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aac::AacFormat;
    use crate::container::{NalFormat, Sample, Track, TrackFormat, TsMuxer};

    #[test]
    fn what_the_multiplexer_writes_is_read_back() {
        let aac = AacFormat::read_config(&[0x12, 0x10]).unwrap();
        let formats = [TrackFormat::H264(NalFormat::default()), TrackFormat::Aac(aac)];
        let mut mux = TsMuxer::new(formats.map(|format| Track { format, language: None }).to_vec());
        let mut demuxer = Demuxer::default();
        let mut read = Vec::new();
        for n in 0..20i64 {
            let data = vec![n as u8; 100 + 150 * n as usize];
            let sample =
                Sample { track: n as usize % 2, decode: 3_000 * n, presented: 3_000 * n + 900, is_entry: n == 0, data };
            read.extend(demuxer.push(&mux.push(&sample)));
        }
        assert_eq!(read.len(), 20);
        for (n, pes) in (0u64..).zip(&read) {
            let times = PesTimes { presented: 180_900 + 3_000 * n, decode: 180_000 + 3_000 * n };
            assert_eq!(pes.times, Some(times));
            assert_eq!((pes.data.len() as u64, pes.is_entry), (100 + 150 * n, n == 0));
            assert_eq!(pes.of == Elementary::H264, n % 2 == 0);
        }
        assert_eq!((demuxer.has_video(), demuxer.has_audio()), (Some(true), true));
        assert_eq!(demuxer.left_out().count(), 0);
    }
}
