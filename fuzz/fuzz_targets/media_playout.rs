//! RTP packets into a playout and its recording: arbitrary bytes, valid headers with arbitrary payload, and a real
//! stream that is reordered, repeated, truncated and changed, above all its timestamps. Output stays in order with
//! increasing decoding times, memory is bounded, and the recording accepts or refuses each frame.
#![no_main]

use std::sync::OnceLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_core::{Duration, Instant};
use timeous_media::mp4::Mp4Writer;
use timeous_media::{FrameReader, Packetizer, PacketizerConfig, Playout, PlayoutConfig, Release};

#[derive(Arbitrary, Debug)]
struct Input {
    latency: u8,
    release: u8,
    descriptors: bool,
    buffer: (u16, u8),
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Raw(Vec<u8>),
    Formed { marker: bool, sequence: u16, timestamp: u32, ssrc: bool, payload: Vec<u8> },
    /// Next packets of a real stream.
    Next(u8),
    /// Packet of the real stream that is repeated, early or changed.
    Genuine { which: u16, changes: Vec<(u16, u8)>, cut: u16 },
    /// Next packets of the real stream, with shifted timestamps.
    Stamped { count: u8, by: i32 },
    Skip(u8),
    BeginAnew,
    Wait(u16),
}

/// RTP packets of the clip's first frames.
fn genuine(descriptors: bool) -> &'static [Vec<u8>] {
    static PACKETS: [OnceLock<Vec<Vec<u8>>>; 2] = [const { OnceLock::new() }; 2];
    PACKETS[usize::from(descriptors)].get_or_init(|| {
        let clip = include_bytes!("../../assets/clip.h264");
        let mut reader = FrameReader::new(None);
        reader.push(&clip[..120_000]).unwrap();
        let mut packetizer = Packetizer::new(PacketizerConfig { mtu: 700, descriptors, ..PacketizerConfig::default() }).unwrap();
        let frames = std::iter::from_fn(|| reader.next_frame());
        frames.flat_map(|frame| packetizer.packetize(&frame)).map(|adu| adu.rtp).collect()
    })
}

fuzz_target!(|input: Input| {
    let config = PlayoutConfig {
        buffer_bytes: usize::from(input.buffer.0) + 1_000,
        buffer_packets: usize::from(input.buffer.1) + 4,
        release: [Release::Constant, Release::Immediate, Release::AsTheyCome][usize::from(input.release) % 3],
        ..PlayoutConfig::new(Duration::from_millis(u64::from(input.latency) + 1))
    };
    let genuine = || genuine(input.descriptors);
    let mut playout = Playout::new(config);
    let mut now = Instant::ZERO;
    let mut next = 0;
    let mut taken = 0;
    let mut last = None;
    let mut recording = Mp4Writer::new();
    let mut look = |playout: &mut Playout, now: Instant| {
        while let Some(frame) = playout.poll_frame() {
            assert!(frame.annexb.starts_with(&[0, 0, 0, 1]) && frame.completed_at <= now);
            assert!(last.is_none_or(|last| frame.decode_ticks > last), "decoding times rise");
            last = Some(frame.decode_ticks);
            let _refused = recording.push(&frame);
            recording.take();
        }
        while playout.poll_report().is_some() {}
        while playout.poll_event().is_some() {}
    };
    for step in input.steps.into_iter().take(500) {
        let mut feed = |playout: &mut Playout, bytes: &[u8]| taken += u64::from(playout.handle_packet(now, bytes).is_ok());
        match step {
            Step::Raw(bytes) => feed(&mut playout, &bytes),
            Step::Formed { marker, sequence, timestamp, ssrc, payload } => {
                let mut bytes = vec![0x80, 96 | (u8::from(marker) << 7)];
                bytes.extend(sequence.to_be_bytes());
                bytes.extend(timestamp.to_be_bytes());
                bytes.extend(u32::from(ssrc).to_be_bytes());
                bytes.extend(payload);
                feed(&mut playout, &bytes);
            }
            Step::Next(count) => {
                for packet in genuine().iter().skip(next).take(usize::from(count)) {
                    feed(&mut playout, packet);
                }
                next += usize::from(count);
            }
            Step::Genuine { which, changes, cut } => {
                let mut bytes = genuine()[usize::from(which) % genuine().len()].clone();
                for (at, mask) in changes {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= mask;
                }
                bytes.truncate(bytes.len() - usize::from(cut) % bytes.len());
                feed(&mut playout, &bytes);
            }
            Step::Stamped { count, by } => {
                for packet in genuine().iter().skip(next).take(usize::from(count)) {
                    let mut bytes = packet.clone();
                    let stamp = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]).wrapping_add_signed(by);
                    bytes[4..8].copy_from_slice(&stamp.to_be_bytes());
                    feed(&mut playout, &bytes);
                }
                next += usize::from(count);
            }
            Step::BeginAnew => playout.begin_anew(),
            Step::Skip(count) => next += usize::from(count),
            Step::Wait(milliseconds) => {
                now += Duration::from_millis(u64::from(milliseconds));
                playout.handle_timeout(now);
            }
        }
        look(&mut playout, now);
        assert!(playout.poll_timeout().is_none_or(|at| at > now), "what is due now has been done");
    }
    playout.finish();
    look(&mut playout, now);
    // Packets kept during probation are in neither count.
    assert!(playout.stats().received + playout.stats().duplicate <= taken);
});
