//! Hostile input: every input yields a typed error or frames, without panics and within bounded memory.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use proptest::prelude::*;
use timeous_core::{Duration, Instant};
use timeous_media::{FrameReader, Playout, PlayoutConfig, Release};

use crate::support::{Played, adus, clip, drain, frames, let_time_pass, stream};

/// First packets of the clip, built once.
fn packets() -> &'static [Vec<u8>] {
    static PACKETS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    PACKETS.get_or_init(|| adus(&frames()[..70]).into_iter().map(|adu| adu.rtp).collect())
}

/// Action of a hostile sender.
#[derive(Clone, Debug)]
enum HostileAction {
    /// Sends a packet of the clip with some bytes changed.
    Genuine { which: prop::sample::Index, changes: Vec<(prop::sample::Index, u8)> },
    /// Sends a packet with a valid RTP header and arbitrary payload.
    Made { number: u16, timestamp: u32, marker: bool, payload: Vec<u8> },
    /// Sends random bytes.
    Rubbish(Vec<u8>),
    /// Waits.
    Wait(u32),
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        Just(0x7c),
        Just(0x5c),
        Just(0x78),
        Just(0x67),
        Just(0x68),
        Just(0x65),
        Just(0x41),
        Just(0x01),
        any::<u8>()
    ];
    let second = prop_oneof![Just(0x85), Just(0x05), Just(0x45), Just(0x81), Just(0x88), Just(0x00), any::<u8>()];
    (first, second, proptest::collection::vec(any::<u8>(), 0..60)).prop_map(|(first, second, mut rest)| {
        rest.splice(0..0, [first, second]);
        rest
    })
}

fn act() -> impl Strategy<Value = HostileAction> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    prop_oneof![
        6 => (any::<prop::sample::Index>(), proptest::collection::vec(change, 0..3))
            .prop_map(|(which, changes)| HostileAction::Genuine { which, changes }),
        6 => (0u16..40, 0u32..8, any::<bool>(), payload()).prop_map(|(number, timestamp, marker, payload)| {
            HostileAction::Made { number, timestamp: timestamp * 3_000, marker, payload }
        }),
        2 => (any::<u16>(), any::<u32>(), any::<bool>(), payload())
            .prop_map(|(number, timestamp, marker, payload)| HostileAction::Made { number, timestamp, marker, payload }),
        1 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(HostileAction::Rubbish),
        2 => (0u32..400_000_000).prop_map(HostileAction::Wait),
    ]
}

fn made(number: u16, timestamp: u32, marker: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, 96 | (u8::from(marker) << 7)];
    packet.extend_from_slice(&number.to_be_bytes());
    packet.extend_from_slice(&timestamp.to_be_bytes());
    packet.extend_from_slice(&[0; 4]);
    packet.extend_from_slice(payload);
    packet
}

/// Plays a hostile sender's actions; all output must be a valid byte stream.
fn play(acts: &[HostileAction], config: PlayoutConfig) {
    let mut playout = Playout::new(config);
    let mut played = Played::default();
    let mut now = Instant::ZERO;
    for act in acts {
        let packet = match act {
            HostileAction::Genuine { which, changes } => {
                let mut packet = which.get(packets()).clone();
                for (place, value) in changes {
                    let place = place.index(packet.len());
                    packet[place] = *value;
                }
                packet
            }
            HostileAction::Made { number, timestamp, marker, payload } => made(*number, *timestamp, *marker, payload),
            HostileAction::Rubbish(bytes) => bytes.clone(),
            HostileAction::Wait(nanos) => {
                now += Duration::from_nanos(u64::from(*nanos));
                let_time_pass(&mut playout, now, &mut played);
                continue;
            }
        };
        let _ = playout.handle_packet(now, &packet);
        played.take(&mut playout);
        assert!(playout.poll_timeout().is_none_or(|at| at > now), "a timeout in the past keeps its driver busy");
    }
    let_time_pass(&mut playout, now + Duration::from_secs(3600), &mut played);
    assert_eq!(playout.poll_timeout(), None, "all that waits has been given up");
    let stats = playout.stats();
    assert!(stats.received + stats.duplicate + stats.refused <= acts.len() as u64);
    for frame in &played.frames {
        assert!(frame.annexb.starts_with(&[0, 0, 0, 1]));
    }
}

/// Found by the fuzz target `media_playout`: a due frame stayed in the buffer after the frame before it was settled to
/// make room.
#[test]
fn a_frame_that_is_due_leaves_a_full_buffer_at_once() {
    let begins = [0x7c, 0x81, 0x88];
    let config = PlayoutConfig {
        buffer_packets: 5,
        release: Release::AsTheyCome,
        ..PlayoutConfig::new(Duration::from_millis(100))
    };
    let mut playout = Playout::new(config);
    let mut feed = |milliseconds, number, timestamp| {
        let now = Instant::ZERO + Duration::from_millis(milliseconds);
        playout.handle_packet(now, &made(number, timestamp, false, &begins)).unwrap();
        while playout.poll_frame().is_some() {}
        assert!(playout.poll_timeout().is_none_or(|at| at > now), "at {milliseconds} ms");
    };
    // The orders of arrival, decoding and capture all differ.
    feed(0, 3, 9_000);
    feed(50, 2, 3_000);
    feed(60, 4, 6_000);
    feed(101, 5, 12_000);
    feed(101, 6, 15_000);
    feed(101, 7, 18_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_hostile_sender_is_survived(acts in proptest::collection::vec(act(), 0..200)) {
        play(&acts, PlayoutConfig::new(Duration::from_millis(200)));
    }

    #[test]
    fn and_with_little_memory(acts in proptest::collection::vec(act(), 0..200)) {
        let config = PlayoutConfig { buffer_bytes: 5_000, buffer_packets: 8, ..PlayoutConfig::new(Duration::from_secs(3)) };
        play(&acts, config);
    }

    #[test]
    fn a_damaged_file_is_survived(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        end in any::<prop::sample::Index>(),
    ) {
        static CLIP: OnceLock<Vec<u8>> = OnceLock::new();
        let clip = CLIP.get_or_init(|| clip()[..60_000].to_vec());
        let mut clip = clip[..1 + end.index(clip.len())].to_vec();
        for (place, value) in changes {
            // Damage parameter sets and slice headers as often as slice data.
            let near = place.index(clip.len());
            let place = if value % 2 == 0 { near.min(near % 900) } else { near };
            clip[place] = value;
        }
        let mut reader = FrameReader::with_limit(None, 50_000);
        let whole = clip.chunks(977).try_for_each(|chunk| reader.push(chunk)).and_then(|()| reader.finish());
        let frames: Vec<_> = std::iter::from_fn(|| reader.next_frame()).collect();
        if let Ok(ending) = whole {
            prop_assert_eq!(ending.frames, frames.len() as u64);
        }
        let ticks: BTreeSet<u64> = frames.iter().map(|frame| frame.rtp_ticks).collect();
        prop_assert_eq!(ticks.len(), frames.len());
        prop_assert!(frames.windows(2).all(|pair| pair[0].handover < pair[1].handover));
    }

    #[test]
    fn damaged_streams_are_survived_part_by_part(
        name in prop::sample::select(vec!["mbaff", "open-gop", "prefix-nal", "intra-refresh-b", "slices"]),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        chunk in 1usize..3_000,
        pause in 1usize..10,
    ) {
        let mut damaged = stream(name);
        for (place, value) in changes {
            let place = place.index(damaged.len());
            damaged[place] = value;
        }
        damaged[..4].copy_from_slice(&[0, 0, 0, 1]);
        let mut reader = FrameReader::with_limit(None, 5_000);
        let mut parts = Vec::new();
        for (place, chunk) in damaged.chunks(chunk).enumerate() {
            reader.push(chunk).unwrap();
            if place % pause == 0 {
                reader.flush();
            }
            parts.extend(std::iter::from_fn(|| reader.next_part()));
        }
        let _ = reader.finish();
        parts.extend(std::iter::from_fn(|| reader.next_part()));
        for pair in parts.windows(2) {
            let (before, after) = (pair[0].frame.index, pair[1].frame.index);
            let in_order = if pair[1].first { after > before } else { after == before };
            prop_assert!(in_order);
        }
        prop_assert!(parts.iter().map(|part| part.frame.size()).sum::<usize>() <= damaged.len());
    }

    #[test]
    fn chunks_make_no_difference_to_damaged_streams(
        name in prop::sample::select(vec!["mbaff", "open-gop", "prefix-nal", "nal31", "slices"]),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![0u8..2, any::<u8>()]), 0..60),
        chunk in prop_oneof![1usize..5, 1usize..3_000],
        limit in 100usize..5_000,
    ) {
        let mut damaged = stream(name)[..12_000.min(stream(name).len())].to_vec();
        for (place, value) in changes {
            let place = place.index(damaged.len());
            damaged[place] = value;
        }
        damaged[..4].copy_from_slice(&[0, 0, 0, 1]);
        let read = |chunk: usize| {
            let mut reader = FrameReader::with_limit(None, limit);
            damaged.chunks(chunk).for_each(|chunk| reader.push(chunk).unwrap());
            let ending = reader.finish();
            (std::iter::from_fn(|| reader.next_frame()).collect::<Vec<_>>(), ending)
        };
        prop_assert_eq!(read(chunk), read(damaged.len()));
    }

    #[test]
    fn damaged_streams_are_played(
        name in prop::sample::select(vec!["mbaff", "open-gop", "prefix-nal", "intra-refresh-b", "slices"]),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
    ) {
        let mut damaged = stream(name);
        for (place, value) in changes {
            let place = place.index(damaged.len());
            damaged[place] = value;
        }
        damaged[..4].copy_from_slice(&[0, 0, 0, 1]);
        let mut reader = FrameReader::new(None);
        reader.push(&damaged).unwrap();
        let frames: Vec<_> = std::iter::from_fn(|| reader.next_frame()).collect();
        let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(200)));
        for adu in adus(&frames) {
            playout.handle_packet(Instant::ZERO + adu.handover, &adu.rtp).unwrap();
        }
        playout.finish();
        prop_assert!(drain(&mut playout).len() <= frames.len());
    }
}
