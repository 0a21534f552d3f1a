//! Programs of one stream over a link for half of it, in virtual time: each gets its share at any time.

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

/// Programs of one stream, and the latency of its deadlines in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Programs {
    count: usize,
    /// Number of pictures from the keyframe of one to that of the next.
    apart: u32,
    /// Size of the pictures of all but the first, in those of the first.
    larger: f64,
    latency: u64,
}

impl Programs {
    /// Pictures of the programs; their sound, and four tables a second, such as the PAT and the PMT of each.
    fn trace(self, seed: u64) -> Vec<Frame> {
        let mut rng = Rng::from_seed(seed);
        let mut frames = Vec::new();
        let (mut number, mut before) = (0, vec![0; self.count]);
        for n in 0..SECONDS * RATE {
            let at = Duration::from_secs(1) * u64::from(n) / u64::from(RATE);
            for (program, before) in before.iter_mut().enumerate() {
                number += 1;
                let is_key = (n + program as u32 * self.apart).is_multiple_of(RATE) || n == 0;
                let before = std::mem::replace(before, number);
                let references = if is_key { References::NONE } else { References::from([FrameId(before)]) };
                let priority = Priority(if is_key { 240 } else { 128 });
                let bytes = if is_key { 10_000.0 } else { 3_000.0 } * (0.8 + 0.4 * rng.unit());
                let bytes = if program == 0 { bytes } else { bytes * self.larger };
                let meta = AduMeta { priority, references, substream: SubStream(program as u8), ..AduMeta::default() };
                frames.push(Frame { at, bytes: bytes as usize / 100 * 100, meta });
            }
            if n % 4 == 0 {
                number += 1;
                let meta = AduMeta { priority: Priority(250), substream: SubStream::AUDIO, ..AduMeta::default() };
                frames.push(Frame { at, bytes: 2_000, meta });
            }
            for _ in 0..if n % 3 == 0 { self.count + 1 } else { 0 } {
                number += 1;
                let meta = AduMeta { priority: Priority(255), substream: SubStream::TABLES, ..AduMeta::default() };
                frames.push(Frame { at, bytes: 200, meta });
            }
        }
        frames
    }

    /// Of each program, pictures that are whole and in time with all that they refer to, and the longest run of others; frames of sound
    /// and tables that are not.
    fn watched(self, seed: u64) -> (Vec<[u32; 2]>, [u32; 2]) {
        let trace = self.trace(seed);
        let total: usize = trace.iter().map(|frame| frame.bytes).sum();
        let kbps = total as u64 * 8 / u64::from(SECONDS) / 1_000 / 2;
        let narrow = LinkConfig { queue: Limit::Bytes(kbps * 300 / 8), ..link(kbps, 10, 0) };
        let source = Frames::new(trace, PACKET).with_latency(ms(self.latency + 10));
        let millis = u64::from(SECONDS) * 1_000 + 2_000;
        let (mut programs, mut gaps) = (vec![[0; 2]; self.count], vec![0; self.count]);
        let [mut sound, mut tables] = [0; 2];
        for (meta, is_shown) in frames_shown(seed, narrow, source, Box::new(named::plan([])), millis) {
            match meta.substream {
                SubStream::AUDIO => sound += u32::from(!is_shown),
                SubStream::TABLES => tables += u32::from(!is_shown),
                SubStream(program) => {
                    let ([shown, longest], gap) =
                        (&mut programs[usize::from(program)], &mut gaps[usize::from(program)]);
                    *shown += u32::from(is_shown);
                    *gap = if is_shown { 0 } else { *gap + 1 };
                    *longest = (*gap).max(*longest);
                }
            }
        }
        (programs, [sound, tables])
    }
}

/// While only the first program's frames were expected, the second had 45 of 3506 pictures at 600 ms, and none of 3272 at 300 ms. While both
/// counted alike, one of them had no picture for up to 9 s, and of larger pictures 6 to 25 of 400 came: that takes fewer keyframes. While
/// four at most were weighed, of five programs one had 98 and another 306 pictures, or none for 4.8 s.
#[test]
fn each_program_gets_its_share_at_any_time() {
    let of = |count, apart, larger, latency| Programs { count, apart, larger, latency };
    let two = [(0, 1.0, 300), (0, 1.0, 600), (5, 1.0, 600), (12, 1.0, 1_000), (5, 1.3, 600)];
    let two = two.map(|(apart, larger, latency)| of(2, apart, larger, latency));
    let five = [of(5, 0, 1.0, 600), of(5, 5, 1.0, 600), of(5, 5, 1.3, 1_000)];
    for programs in two.into_iter().chain(five) {
        for seed in 1..=if programs.count == 2 { 5 } else { 3 } {
            let (watched, [sound, tables]) = programs.watched(seed);
            let of = format!("{programs:?}, seed {seed}: {watched:?}, without {sound} of sound, {tables} tables");
            println!("{of}");
            let shown = || watched.iter().map(|[shown, _]| *shown);
            assert_eq!([sound, tables], [0; 2], "{of}");
            assert!(shown().sum::<u32>() >= 130 * programs.count as u32, "{of}");
            // Of five, each is expected for less than half a second.
            let (ratio, seconds) = if programs.count == 2 { (2.0, 2) } else { (2.3, 4) };
            assert!(f64::from(shown().min().unwrap()) * ratio >= f64::from(shown().max().unwrap()), "{of}");
            assert!(watched.iter().all(|[_, gap]| *gap <= seconds * RATE), "{of}");
        }
    }
}
