//! Two programs of one stream over a link for half of it, in virtual time: each gets its share.

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

/// Equal programs, whose keyframes come `apart` pictures after each other; sound of both.
fn trace(apart: u32, seed: u64) -> Vec<Frame> {
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

/// Pictures of each program that are whole and in time with all that they refer to, and frames of sound that are not.
fn watched(apart: u32, latency: u64, seed: u64) -> [u32; 3] {
    let trace = trace(apart, seed);
    let total: usize = trace.iter().map(|frame| frame.bytes).sum();
    let kbps = total as u64 * 8 / u64::from(SECONDS) / 1_000 / 2;
    let narrow = LinkConfig { queue: Limit::Bytes(kbps * 300 / 8), ..link(kbps, 10, 0) };
    let source = Frames::new(trace, PACKET).with_latency(ms(latency + 10));
    let millis = u64::from(SECONDS) * 1_000 + 2_000;
    let mut counts = [0; 3];
    for (meta, is_shown) in frames_shown(seed, narrow, source, Box::new(named::plan([])), millis) {
        match meta.substream {
            SubStream::AUDIO => counts[2] += u32::from(!is_shown),
            SubStream(program) => counts[usize::from(program)] += u32::from(is_shown),
        }
    }
    counts
}

/// While only the first program's frames were expected, the second had 45 of 3506 pictures at 600 ms, and none of 3272 at 300 ms.
#[test]
fn equal_programs_get_about_equal_shares() {
    for (apart, latency) in [(0, 300), (0, 600), (5, 600), (12, 1_000)] {
        let mut sum = [0; 3];
        for seed in 1..=10 {
            let counts = watched(apart, latency, seed);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let [first, second, sound] = sum;
        println!("{apart} pictures apart, {latency} ms: {first} and {second} of {}", 10 * SECONDS * RATE);
        assert_eq!(sound, 0, "{apart} pictures apart, {latency} ms");
        assert!(first + second >= 3_000, "{sum:?}, {apart} pictures apart, {latency} ms");
        assert!(first.min(second) * 2 >= first.max(second), "{sum:?}, {apart} pictures apart, {latency} ms");
    }
}
