//! Samples of any bytes and times in a transport stream that is read back: nothing panics, all packets are found, and kinds of pictures
//! are told whatever stands in them.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_media::container::{NalFormat, Sample, Track, TrackFormat, TsMuxer};
use timeous_media::ts::{PACKET_LEN, TsReader};

#[derive(Arbitrary, Debug)]
struct Input {
    tracks: Vec<u8>,
    samples: Vec<(u8, u16, i16, bool, Vec<u8>)>,
}

fuzz_target!(|input: Input| {
    let format = |kind: u8| match kind % 6 {
        0 => TrackFormat::H264(NalFormat::default()),
        1 | 2 => TrackFormat::H265(NalFormat::default()),
        3 => TrackFormat::Mpeg2 { header: Vec::new() },
        4 => TrackFormat::Eac3,
        _ => TrackFormat::Opus { channels: kind },
    };
    let tracks: Vec<Track> =
        input.tracks.iter().take(8).map(|kind| Track { format: format(*kind), language: None }).collect();
    if tracks.is_empty() {
        return;
    }
    let count = tracks.len();
    let mut muxer = TsMuxer::new(tracks);
    let (mut reader, mut decode, mut packets) = (TsReader::new(), 0, 0);
    for (track, step, shift, is_entry, data) in &input.samples {
        decode += i64::from(*step);
        let (track, presented) = (usize::from(*track) % count, decode + i64::from(*shift));
        let sample = Sample { track, decode, presented, is_entry: *is_entry, data: data.clone() };
        let bytes = muxer.push(&sample);
        assert!(bytes.len().is_multiple_of(PACKET_LEN));
        packets += (bytes.len() / PACKET_LEN) as u64;
        reader.push(&bytes).expect("it is a transport stream");
    }
    reader.finish();
    while let Some(unit) = reader.next_unit() {
        assert!(unit.packets.len().is_multiple_of(PACKET_LEN));
    }
    assert!(reader.counts().garbage == 0 && reader.counts().packets <= packets);
});
