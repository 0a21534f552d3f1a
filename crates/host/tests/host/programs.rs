//! Two programs of one stream over a link for half of it, in virtual time: each gets its share at any time.

use timeous_choice::named;
use timeous_core::{AduMeta, Duration, FrameId, Priority, References, Rng, SubStream};
use timeous_host::sources::{Frame, Frames};
use timeous_net::LinkConfig;
use timeous_net::link::Limit;

use crate::support::{frames_shown, link, ms};

const PACKET: usize = 1_100;
const SECONDS: u32 = 16;
/// Pictures of a program a second, and from one keyframe to the next.
const RATE: u32 = 25;

/// Two programs, whose keyframes come `apart` pictures after each other, the second with pictures `larger` times as large; sound of both.
fn trace(apart: u32, larger: f64, seed: u64) -> Vec<Frame> {
    let mut rng = Rng::from_seed(seed);
    let mut frames = Vec::new();
    let (mut number, mut before) = (0, [0; 2]);
    for n in 0..SECONDS * RATE {
        let at = Duration::from_secs(1) * u64::from(n) / u64::from(RATE);
        for program in 0..2_u8 {
            number += 1;
            let is_key = (n + u32::from(program) * apart).is_multiple_of(RATE) || n == 0;
            let before = std::mem::replace(&mut before[usize::from(program)], number);
            let references = if is_key { References::NONE } else { References::from([FrameId(before)]) };
            let priority = Priority(if is_key { 240 } else { 128 });
            let bytes = if is_key { 10_000.0 } else { 3_000.0 } * (0.8 + 0.4 * rng.unit());
            let bytes = if program == 0 { bytes } else { bytes * larger };
            let meta = AduMeta { priority, references, substream: SubStream(program), ..AduMeta::default() };
            frames.push(Frame { at, bytes: bytes as usize / 100 * 100, meta });
        }
        if n % 4 == 0 {
            number += 1;
            let meta = AduMeta { priority: Priority(250), substream: SubStream::AUDIO, ..AduMeta::default() };
            frames.push(Frame { at, bytes: 2_000, meta });
        }
    }
    frames
}

/// Of each program, pictures that are whole and in time with all that they refer to, and the longest run of others; frames of sound that
/// are not.
fn watched(apart: u32, larger: f64, latency: u64, seed: u64) -> ([[u32; 2]; 2], u32) {
    let trace = trace(apart, larger, seed);
    let total: usize = trace.iter().map(|frame| frame.bytes).sum();
    let kbps = total as u64 * 8 / u64::from(SECONDS) / 1_000 / 2;
    let narrow = LinkConfig { queue: Limit::Bytes(kbps * 300 / 8), ..link(kbps, 10, 0) };
    let source = Frames::new(trace, PACKET).with_latency(ms(latency + 10));
    let millis = u64::from(SECONDS) * 1_000 + 2_000;
    let (mut programs, mut gaps, mut sound) = ([[0; 2]; 2], [0; 2], 0);
    for (meta, is_shown) in frames_shown(seed, narrow, source, Box::new(named::plan([])), millis) {
        let SubStream(program @ 0..2) = meta.substream else {
            sound += u32::from(!is_shown);
            continue;
        };
        let ([shown, longest], gap) = (&mut programs[usize::from(program)], &mut gaps[usize::from(program)]);
        *shown += u32::from(is_shown);
        *gap = if is_shown { 0 } else { *gap + 1 };
        *longest = (*gap).max(*longest);
    }
    (programs, sound)
}

/// While only the first program's frames were expected, the second had 45 of 3506 pictures at 600 ms, and none of 3272 at 300 ms. While both
/// counted alike, one of them had no picture for up to 9 s, and of larger pictures 6 to 25 of 400 came: that takes fewer keyframes.
#[test]
fn each_program_gets_its_share_at_any_time() {
    for (apart, larger, latency) in [(0, 1.0, 300), (0, 1.0, 600), (5, 1.0, 600), (12, 1.0, 1_000), (5, 1.3, 600)] {
        for seed in 1..=5 {
            let (programs, sound) = watched(apart, larger, latency, seed);
            let of = format!("{apart} pictures apart, {larger}, {latency} ms, seed {seed}: {programs:?}");
            println!("{of}");
            let [[first, gap], [second, other_gap]] = programs;
            assert_eq!(sound, 0, "{of}");
            assert!(first + second >= 280, "{of}");
            assert!(first.min(second) * 2 >= first.max(second), "{of}");
            assert!(gap.max(other_gap) <= 2 * RATE, "{of}");
        }
    }
}
