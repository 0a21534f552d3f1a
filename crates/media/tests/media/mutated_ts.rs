//! Damaged transport streams through reader, packetizer, lossy path, playout and recording: nothing panics, what comes out is whole
//! packets that a reader finds without a byte between them, and each recording opens in ffmpeg.

use timeous_core::{Duration, Instant, Rng};
use timeous_media::FrameReader;
use timeous_media::container::{NalFormat, Sample, Track, TrackFormat, TsMuxer};
use timeous_media::mp4::TsMp4Writer;
use timeous_media::ts::{ContinuousTimes, PACKET_LEN, TsPacketizer, TsPlayout, TsReader};

use crate::mutated::{mutate, opens};

const STREAMS: [&[u8]; 3] = [
    include_bytes!("../streams/open-gop.h264"),
    include_bytes!("../streams/pyramid.h264"),
    include_bytes!("../streams/slices.h264"),
];
/// Number of streams; every `JUDGED`-th recording goes to ffmpeg.
const COUNT: u64 = 300;
const JUDGED: u64 = 50;

/// A stream of H.264 with sound, as a transport stream.
fn transport_stream(video: &[u8]) -> Vec<u8> {
    let mut reader = FrameReader::new(None);
    reader.push(video).unwrap();
    reader.finish().unwrap();
    let tracks = [TrackFormat::H264(NalFormat::default()), TrackFormat::MpegAudio];
    let mut muxer = TsMuxer::new(tracks.map(|format| Track { format, language: None }).to_vec());
    let mut out = Vec::new();
    while let Some(frame) = reader.next_frame() {
        let decode = i64::from(frame.index) * 3_600;
        let (is_entry, data) = (frame.entry.is_some(), frame.annexb());
        out.extend(muxer.push(&Sample { track: 0, decode, presented: decode + 7_200, is_entry, data }));
        let data = vec![0x55; 400];
        out.extend(muxer.push(&Sample { track: 1, decode, presented: decode, is_entry: true, data }));
    }
    out
}

/// Sends a stream, loses some of its packets, and returns the received transport stream and the recording.
fn send(stream: &[u8], rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let mut reader = TsReader::new();
    let mut packetizer = TsPacketizer::new(1_400, 1, 0xfff0, 0).unwrap();
    let mut playout = TsPlayout::new(Duration::from_millis(100), timeous_media::Release::Constant);
    let (mut continuous, mut recording) = (ContinuousTimes::default(), TsMp4Writer::default());
    let (mut out, mut file, mut now) = (Vec::new(), Vec::new(), Instant::ZERO);
    let loss = [0.0, 0.02, 0.2][rng.below(3) as usize];
    let mut chunks = stream.chunks(1 + rng.below(6_000) as usize).peekable();
    while let Some(chunk) = chunks.next() {
        now += Duration::from_millis(1 + rng.below(40));
        if reader.push(chunk).is_err() {
            break;
        }
        if rng.chance(0.5) {
            reader.flush();
        }
        if chunks.peek().is_none() {
            reader.finish();
        }
        while let Some(unit) = reader.next_unit() {
            for (_, rtp) in packetizer.packetize(&unit, now.as_nanos() * 9 / 100_000, false) {
                if !rng.chance(loss) {
                    let _refused = playout.handle_packet(now + Duration::from_millis(20), &rtp);
                }
            }
        }
        playout.handle_timeout(now);
        if chunks.peek().is_none() {
            playout.finish();
        }
        while let Some(release) = playout.poll_release() {
            let release = continuous.push(release);
            let _not_expressible = recording.push(&release.packets);
            file.extend(recording.take());
            out.extend(release.packets);
        }
    }
    recording.finish();
    file.extend(recording.take());
    (out, file)
}

#[test]
fn damaged_transport_streams_come_out_as_whole_packets() {
    let streams = STREAMS.map(transport_stream);
    let mut recorded = 0;
    for seed in 0..COUNT {
        let mut rng = Rng::from_seed(seed);
        let stream = mutate(&streams[(seed % STREAMS.len() as u64) as usize], &mut rng);
        let (out, file) = send(&stream, &mut rng);
        assert!(out.len().is_multiple_of(PACKET_LEN), "seed {seed}");
        let mut again = TsReader::new();
        again.push(&out).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let counts = again.counts();
        assert_eq!((counts.garbage, counts.packets), (0, (out.len() / PACKET_LEN) as u64), "seed {seed}");
        if !file.is_empty() {
            recorded += 1;
            if seed % JUDGED == 0 {
                opens(seed, &file);
            }
        }
    }
    assert!(recorded > COUNT / 2, "only {recorded} had anything to record");
}
