//! A thousand damaged streams through reader, packetizer, lossy path, playout and recording: nothing panics, and each
//! recording is a valid file that ffmpeg opens.

use std::process::Command;

use timeous_core::{Duration, Instant, Rng};
use timeous_media::mp4::Mp4Writer;
use timeous_media::{Cadence, FrameReader, Packetizer, PacketizerConfig, Playout, PlayoutConfig, Stamp};

use crate::mp4_boxes::Boxes;

const STREAMS: [&[u8]; 8] = [
    include_bytes!("../streams/intra-refresh.h264"),
    include_bytes!("../streams/mbaff.h264"),
    include_bytes!("../streams/open-gop.h264"),
    include_bytes!("../streams/prefix-nal.h264"),
    include_bytes!("../streams/pyramid.h264"),
    include_bytes!("../streams/rate-25-50.h264"),
    include_bytes!("../streams/slices.h264"),
    include_bytes!("../streams/sps-trailing.h264"),
];
/// Number of streams; every `JUDGED`-th recording goes to ffmpeg.
const COUNT: u64 = 1_000;
const JUDGED: u64 = 100;

/// Changes, removes, repeats and inserts bytes.
pub(crate) fn mutate(stream: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = stream.to_vec();
    for _ in 0..1 + rng.below(20) {
        let at = rng.below(bytes.len() as u64) as usize;
        let len = (1 + rng.below(60) as usize).min(bytes.len() - at);
        match rng.below(5) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => drop(bytes.drain(at..at + len)),
            2 => {
                let piece = bytes[at..at + len].to_vec();
                let to = rng.below(bytes.len() as u64) as usize;
                bytes.splice(to..to, piece);
            }
            3 => drop(bytes.splice(at..at, [0, 0, 1, rng.below(256) as u8])),
            _ => bytes[at..at + len].fill(rng.below(256) as u8),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

/// Recording of a stream that is read in chunks, sent slice by slice, and loses packets.
fn record(stream: &[u8], rng: &mut Rng) -> (Vec<u8>, u64) {
    let mut reader = FrameReader::new(None);
    let descriptors = rng.chance(0.5);
    let mut packetizer =
        Packetizer::new(PacketizerConfig { mtu: 400, descriptors, ..PacketizerConfig::default() }).unwrap();
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(100)));
    let mut recording = Mp4Writer::new();
    let (mut cadence, mut captured, mut now) = (Cadence::default(), Instant::ZERO, Instant::ZERO);
    let mut file = Vec::new();
    let loss = [0.0, 0.02, 0.2][rng.below(3) as usize];
    let mut chunks = stream.chunks(1 + rng.below(4_000) as usize).peekable();
    while let Some(chunk) = chunks.next() {
        now += Duration::from_millis(1 + rng.below(80));
        if reader.push(chunk).is_err() {
            break;
        }
        if rng.chance(0.2) {
            reader.flush();
        }
        if chunks.peek().is_none() {
            let _ending = reader.finish();
        }
        while let Some(part) = reader.next_part() {
            if part.first {
                captured = cadence.frame(now, part.frame.duration);
            }
            let ticks = captured.as_nanos() * 9 / 100_000;
            let stamp = Stamp { presentation: ticks + part.frame.display_index % 4, capture: ticks, is_queued: false };
            for adu in packetizer.packetize_part(&part.frame, (part.first, part.last), &stamp) {
                if !rng.chance(loss) {
                    let _refused = playout.handle_packet(now + Duration::from_millis(20), &adu.rtp);
                }
            }
        }
        keep(&mut playout, &mut recording, &mut file);
    }
    playout.finish();
    keep(&mut playout, &mut recording, &mut file);
    recording.finish();
    file.extend(recording.take());
    (file, recording.frames())
}

fn keep(playout: &mut Playout, recording: &mut Mp4Writer, file: &mut Vec<u8>) {
    while let Some(frame) = playout.poll_frame() {
        let _not_expressible = recording.push(&frame);
        file.extend(recording.take());
    }
}

#[test]
fn a_thousand_damaged_streams_leave_recordings_that_open() {
    let mut recorded = 0;
    for seed in 0..COUNT {
        let mut rng = Rng::from_seed(seed);
        let stream = mutate(STREAMS[(seed % STREAMS.len() as u64) as usize], &mut rng);
        let (file, frames) = record(&stream, &mut rng);
        if frames == 0 {
            continue;
        }
        recorded += 1;
        let sound = Boxes::walk(&file).sound();
        assert_eq!((sound.samples.len() as u64, sound.incomplete), (frames, 0), "seed {seed}");
        if seed % JUDGED == 0 {
            opens(seed, &file);
        }
    }
    assert!(recorded > COUNT * 9 / 10, "only {recorded} had anything to record");
}

/// Checks that ffmpeg reads the file to its end, whatever it reports on the damaged pictures.
pub(crate) fn opens(seed: u64, file: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged.mp4");
    std::fs::write(&path, file).unwrap();
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "quiet", "-i"]).arg(&path).args(["-map", "0:v", "-c", "copy", "-f", "null", "-"]);
    match command.status() {
        Ok(status) => assert!(status.success(), "seed {seed}: {status}"),
        Err(error) => {
            assert!(std::env::var_os("TIMEOUS_REQUIRE_ALL").is_none(), "this needs ffmpeg: {error}");
            eprintln!("SKIPPED ffmpeg's look at seed {seed}: {error}");
        }
    }
}
