//! End to end: the demo clip through packetizer, network model and playout, compared with ffmpeg's decoding.

use timeous_core::{Duration, FrameId, Instant, Priority, Rng};
use timeous_media::{
    FrameFate, FrameKind, FrameReader, MediaAdu, MediaError, Packetizer, PacketizerConfig, Playout, PlayoutConfig,
    Release,
};

use crate::support::*;

#[test]
fn the_clip_is_what_the_demo_relies_on() {
    let frames = frames();
    let of = |kind| frames.iter().filter(|frame| frame.kind == kind).count();
    assert_eq!(frames.len(), 540);
    assert_eq!(of(FrameKind::I), 0, "every I frame is an IDR frame");
    assert!(of(FrameKind::B) > 200 && of(FrameKind::P) > 100);
    for frame in frames {
        assert_eq!(frame.reference, frame.kind != FrameKind::B, "frame {}", frame.index);
        assert!(
            frame.kind != FrameKind::Idr || frame.size() <= 62_000,
            "frame {}: {} bytes",
            frame.index,
            frame.size()
        );
    }
    for cut in [0, 90, 180, 270, 360, 450] {
        let frame = frames.iter().find(|frame| frame.display_index == cut).unwrap();
        assert_eq!(frame.kind, FrameKind::Idr, "at the cut to frame {cut}");
    }
    for second in frames.chunks(30) {
        let bits = 8 * second.iter().map(|frame| frame.size()).sum::<usize>();
        assert!((1_200_000..2_800_000).contains(&bits), "{bits} bits in the second of frame {}", second[0].index);
    }
}

#[test]
fn what_frames_depend_on_and_when_they_are_due() {
    let frames = frames();
    let mut shown: Vec<u64> = frames.iter().map(|frame| frame.display_index).collect();
    shown.sort_unstable();
    assert!(shown.into_iter().eq(0..540), "each place on the screen has one frame");

    let mut last_reference = None;
    let mut last_handover = None;
    for frame in frames {
        let references: Vec<FrameId> = frame.references.iter().collect();
        assert_ne!(frame.id(), FrameId::NONE);
        if frame.kind == FrameKind::Idr {
            assert!(references.is_empty());
            assert_eq!(frame.priority, Priority::HIGHEST);
        } else {
            assert_eq!(references, Vec::from_iter(last_reference));
            assert!(frame.priority < Priority::HIGHEST);
        }
        if frame.reference {
            last_reference = Some(frame.id());
        }
        assert_eq!(frame.capture, Duration::from_nanos(frame.display_index * 1_000_000_000 / 30));
        assert_eq!(frame.rtp_ticks, frame.display_index * 3_000);
        assert!(frame.handover >= frame.capture);
        assert!(frame.handover <= frame.capture + Duration::from_millis(101), "frame {}", frame.index);
        assert!(last_handover.is_none_or(|last| frame.handover > last));
        last_handover = Some(frame.handover);
    }
}

#[test]
fn kinds_and_times_are_those_that_ffprobe_finds() {
    let Some(lines) = run_tool(
        "kinds_and_times_are_those_that_ffprobe_finds",
        "ffprobe",
        &["-v", "error", "-show_entries", "frame=pict_type,pkt_size", "-of", "csv=p=0", CLIP_PATH],
    ) else {
        return;
    };
    let mut ours = frames().to_vec();
    ours.sort_by_key(|frame| frame.display_index);
    let theirs: Vec<char> = lines.lines().filter_map(|line| line.chars().find(|c| "IPB".contains(*c))).collect();
    let ours: Vec<char> =
        ours.iter().map(|frame| if frame.kind == FrameKind::Idr { 'I' } else { kind_letter(frame.kind) }).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn the_clip_comes_back_byte_for_byte() {
    for mtu in [100, 1200, 60_000] {
        let frames = frames();
        let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(200)));
        let mut out = Vec::new();
        for adu in adus_with_mtu(frames, mtu) {
            assert!(adu.rtp.len() <= mtu);
            playout.handle_packet(Instant::ZERO + adu.handover, &adu.rtp).unwrap();
            out.extend(drain(&mut playout));
        }
        playout.finish();
        out.extend(drain(&mut playout));
        assert_eq!(out.len(), frames.len());
        for (frame, got) in frames.iter().zip(&out) {
            assert!(frame.annexb() == got.annexb, "frame {} differs", frame.index);
            assert_eq!((got.kind, got.reference), (frame.kind, frame.reference));
        }
        let reports = reports(&mut playout);
        assert_eq!(reports.len(), 540);
        assert!(reports.iter().all(|report| report.fate == FrameFate::Decodable));
        assert_eq!(playout.stats().lost, 0);
    }
}

#[test]
fn an_undisturbed_stream_is_given_out_frame_by_frame() {
    let frames = frames();
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(200)).released(Release::Immediate));
    let mut before = 0;
    for adu in adus(frames) {
        playout.handle_packet(Instant::ZERO + adu.handover, &adu.rtp).unwrap();
        for frame in drain(&mut playout) {
            assert_eq!(frame.completed_at, Instant::ZERO + frames[before].handover);
            before += 1;
        }
        // The first frame is held, since an earlier packet could still arrive; all others are released at once.
        assert!(before == 0 || before >= frame_of(&adu), "frame {} waits", frame_of(&adu));
    }
    assert_eq!(before, 540);
}

#[test]
fn sequence_numbers_and_timestamps_may_wrap() {
    let frames = frames();
    let config =
        PacketizerConfig { first_sequence: 65_000, first_timestamp: u32::MAX - 500_000, ..PacketizerConfig::default() };
    let mut packetizer = Packetizer::new(config).unwrap();
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(200)).released(Release::Immediate));
    let mut count = 0;
    for frame in frames {
        for adu in packetizer.packetize(frame) {
            playout.handle_packet(Instant::ZERO + adu.handover, &adu.rtp).unwrap();
        }
        count += drain(&mut playout).len();
    }
    assert_eq!(count, 540);
}

#[test]
fn the_end_of_the_input_is_told() {
    let clip = clip();
    let mut reader = FrameReader::new(None);
    reader.push(&clip[..1_000_003]).unwrap();
    let ending = reader.finish().unwrap();
    let read: Vec<_> = std::iter::from_fn(|| reader.next_frame()).collect();
    assert_eq!(ending.frames, read.len() as u64);
    let whole = frames();
    assert!(read[..read.len() - 1].iter().eq(&whole[..read.len() - 1]), "what was whole is used");

    // Truncated within a start code.
    let second = whole[0].annexb().len();
    let mut reader = FrameReader::new(None);
    reader.push(&clip[..find_frame_start(&clip, second - 8) + 4]).unwrap();
    assert!(reader.finish().unwrap().truncated);

    let mut reader = FrameReader::new(None);
    let error = reader.push(b"RIFF....AVI ").unwrap_err();
    assert!(matches!(error, MediaError::NotAnnexB { .. }));
    assert!(error.to_string().contains("ffmpeg"));
}

#[test]
fn chunks_of_any_size_give_the_same_frames() {
    let clip = &clip()[..400_000];
    let all = |sizes: &mut dyn FnMut() -> usize| {
        let mut reader = FrameReader::new(None);
        let mut rest = clip;
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at(sizes().clamp(1, rest.len()));
            reader.push(chunk).unwrap();
            frames.extend(std::iter::from_fn(|| reader.next_frame()));
            rest = more;
        }
        reader.finish().unwrap();
        frames.extend(std::iter::from_fn(|| reader.next_frame()));
        frames
    };
    let whole = all(&mut || clip.len());
    let mut rng = Rng::from_seed(1);
    assert!(all(&mut || rng.below(9_000) as usize) == whole);
    assert!(all(&mut || 1) == whole);
}

/// Sends the ADUs that `keep` accepts over a perfect network.
fn play(keep: impl Fn(&MediaAdu) -> bool) -> Played {
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(200)));
    let mut played = Played::default();
    for adu in adus(frames()) {
        let now = Instant::ZERO + adu.handover;
        let_time_pass(&mut playout, now, &mut played);
        if keep(&adu) {
            playout.handle_packet(now, &adu.rtp).unwrap();
        }
        played.take(&mut playout);
    }
    playout.finish();
    played.take(&mut playout);
    played
}

#[test]
fn b_frames_can_be_dropped_and_the_rest_goes_on() {
    let name = "b_frames_can_be_dropped_and_the_rest_goes_on";
    let truth = Pictures::of_clip(name);
    let frames = frames();
    let kind = |adu: &MediaAdu| frames[frame_of(adu)].kind;
    for every in [1, 2, 3] {
        let dropped = |adu: &MediaAdu| kind(adu) == FrameKind::B && frame_of(adu).is_multiple_of(every);
        let played = play(|adu| !dropped(adu));
        let expected =
            frames.iter().filter(|f| f.kind != FrameKind::B || !(f.index as usize).is_multiple_of(every)).count();
        assert_eq!(played.frames.len(), expected, "every {every}. B frame dropped");
        played.must_decode_cleanly(name, truth);
    }
}

#[test]
fn after_a_lost_p_frame_nothing_is_decodable_until_the_next_idr() {
    let frames = frames();
    let is_p = |index: usize| frames[index].kind == FrameKind::P;
    for lost in (5..530).step_by(37).filter_map(|from| (from..540).find(|&i| is_p(i))) {
        let next_idr = (lost..540).find(|&i| frames[i].kind == FrameKind::Idr).unwrap_or(540);
        let played = play(|adu| frame_of(adu) != lost);
        let ticks: Vec<i64> = played.frames.iter().map(|frame| frame.ticks).collect();
        let expected: Vec<i64> = frames
            .iter()
            .filter(|f| !(lost..next_idr).contains(&(f.index as usize)))
            .map(|f| f.rtp_ticks as i64)
            .collect();
        assert_eq!(ticks, expected, "frame {lost} lost, next IDR {next_idr}");
        let missing = played.reports.iter().filter(|report| report.fate == FrameFate::ReferenceMissing).count();
        assert_eq!(missing, next_idr - lost - 1);
    }
}

/// Compares with ffmpeg: without the P frame it shows wrong pictures up to the next IDR frame and right ones from
/// there, so that the model is neither too strict nor too lax.
#[test]
fn ffmpeg_agrees_that_a_lost_p_frame_is_missed() {
    let name = "ffmpeg_agrees_that_a_lost_p_frame_is_missed";
    let truth = Pictures::of_clip(name);
    let frames = frames();
    let lost = (195..540).find(|&i| frames[i].kind == FrameKind::P).unwrap();
    let next_idr = (lost..540).find(|&i| frames[i].kind == FrameKind::Idr).unwrap();
    // Without "-xerror" ffmpeg conceals errors; its messages do not matter here.
    let group: Vec<u8> =
        frames[181..next_idr].iter().filter(|f| f.index as usize != lost).flat_map(|f| f.annexb()).collect();
    assert_eq!(frames[181].kind, FrameKind::Idr);
    let Some(decoded) = Pictures::of(name, &group) else { return };
    let right = decoded.hashes.iter().filter(|hash| truth.hashes[181..next_idr].contains(hash)).count();
    assert!(right <= lost - 181, "{right} right pictures of the {} before the lost frame", lost - 181);
}

/// A lost IDR frame restarts numbering: a matching `frame_num` alone proves nothing.
#[test]
fn the_same_frame_num_in_another_group_is_not_taken_for_the_next() {
    let frames = frames();
    let idrs: Vec<usize> = (0..540).filter(|&i| frames[i].kind == FrameKind::Idr).collect();
    for pair in idrs.windows(2).skip(1) {
        let (first, second) = (pair[0], pair[1]);
        // Loses all packets from a few frames into the first group up to the frame of the next group with the expected
        // number.
        let cut = first + 7;
        let number = frames[..=cut].iter().rev().find(|f| f.reference).unwrap().frame_num + 1;
        let Some(same) = (second..540).find(|&i| frames[i].reference && frames[i].frame_num == number) else {
            continue;
        };
        let next = (second + 1..540).find(|&i| frames[i].kind == FrameKind::Idr).unwrap_or(540);
        if same >= next || cut + 1 >= second {
            continue;
        }
        let lost = cut + 1..same;
        let played = play(|adu| !lost.contains(&frame_of(adu)));
        let expected = frames.len() - (next - cut - 1);
        assert_eq!(played.frames.len(), expected, "frames {lost:?} lost, next IDR {next}");
    }
}

#[test]
fn whatever_the_network_does_ffmpeg_decodes_what_is_given_out() {
    let name = "whatever_the_network_does_ffmpeg_decodes_what_is_given_out";
    let truth = Pictures::of_clip(name);
    let frames = frames();
    let adus = adus(frames);
    let mut given_out = 0;
    for seed in 0..10 {
        let mut rng = Rng::from_seed(seed);
        let loss = [0.0, 0.001, 0.01, 0.05][rng.below(4) as usize];
        let burst = 1 + rng.below(20);
        let jitter = Duration::from_millis([0, 5, 80, 150][rng.below(4) as usize]);
        let copies = [0.0, 0.02, 0.3][rng.below(3) as usize];
        let network = Network { loss: loss / burst as f64, burst, jitter, copies };
        let played = network.play(&adus, &mut rng, Duration::from_millis(200));
        given_out += played.frames.len();
        assert!(played.frames.windows(2).all(|pair| pair[0].annexb != pair[1].annexb));
        played.check_reports(seed);
        played.must_decode_cleanly(name, truth);
    }
    assert!(given_out > 1_000, "only {given_out} frames of 5400 came through");
}

#[test]
fn a_frame_that_becomes_whole_after_its_instant_is_late() {
    let frames = frames();
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(150)));
    let mut played = Played::default();
    for adu in adus(&frames[..30]) {
        let held = frame_of(&adu) == 12;
        let now = Instant::ZERO + adu.handover + Duration::from_millis(if held { 0 } else { 1 });
        let_time_pass(&mut playout, now, &mut played);
        if held {
            continue;
        }
        playout.handle_packet(now, &adu.rtp).unwrap();
        played.take(&mut playout);
        if frame_of(&adu) == 20 && playout_misses(&played, 12) {
            for late in adus(&frames[..30]).into_iter().filter(|adu| frame_of(adu) == 12) {
                playout.handle_packet(now, &late.rtp).unwrap();
            }
        }
    }
    playout.finish();
    played.take(&mut playout);
    let report = played.report_of(frames[12].rtp_ticks).expect("packets of it came");
    assert_eq!(report.fate, FrameFate::Late);
    assert!(report.completed_at.unwrap() > report.playout_at);
    assert!(playout.stats().late > 0);
}

/// A sender that connects late sends its queued frames at once.
#[test]
fn frames_that_had_waited_for_the_connection_are_given_out_at_their_own_times() {
    let frames = &frames()[..40];
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(200)));
    let mut played = Played::default();
    let connected = Instant::ZERO + adus(frames).iter().find(|adu| frame_of(adu) == 20).unwrap().handover;
    for adu in adus(frames) {
        let now = connected.max(Instant::ZERO + adu.handover);
        let_time_pass(&mut playout, now, &mut played);
        playout.handle_packet(now, &adu.rtp).unwrap();
        played.take(&mut playout);
        if frame_of(&adu) == 20 {
            // At 30 frames per second, the last six are less than 200 ms old.
            let count = played.frames.len();
            assert!((12..=15).contains(&count), "{count} of 20 are given out");
        }
    }
    playout.finish();
    played.take(&mut playout);
    assert_eq!(played.frames.len(), 40);
}

/// Delay of a growing queue: in the end, all packets of a frame come after its playout instant.
#[test]
fn frames_that_fall_ever_further_behind_are_late_and_not_lost() {
    let frames = &frames()[..90];
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(150)));
    let mut played = Played::default();
    for adu in adus(frames) {
        let now = Instant::ZERO + adu.handover * 3;
        let_time_pass(&mut playout, now, &mut played);
        playout.handle_packet(now, &adu.rtp).unwrap();
        played.take(&mut playout);
    }
    playout.finish();
    played.take(&mut playout);
    let last = played.report_of(frames[89].rtp_ticks).expect("packets of it came");
    assert_eq!(last.fate, FrameFate::Late);
    let lost = played.reports.iter().filter(|report| report.fate == FrameFate::Incomplete).count();
    assert_eq!(lost, 0, "everything came");
}

fn playout_misses(played: &Played, index: usize) -> bool {
    let ticks = frames()[index].rtp_ticks;
    played.report_of(ticks).is_none()
}

/// Packets of a frame after its playout instant are not a frame of their own, whatever their sequence numbers.
#[test]
fn the_tail_of_a_late_frame_is_no_frame() {
    let frames = frames();
    // Shorter than the time for which a B frame waits for its later P frame.
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(90)));
    let mut played = Played::default();
    for adu in adus(&frames[..60]) {
        let now = Instant::ZERO + adu.handover;
        let_time_pass(&mut playout, now, &mut played);
        playout.handle_packet(now, &adu.rtp).unwrap();
        played.take(&mut playout);
    }
    playout.finish();
    played.take(&mut playout);
    played.check_reports(0);
    assert_eq!(played.reports.len(), 60);
    for frame in &frames[..60] {
        let fate = played.report_of(frame.rtp_ticks).unwrap().fate;
        let in_time = frame.handover <= frame.capture + Duration::from_millis(90);
        assert_eq!(fate, if in_time { FrameFate::Decodable } else { FrameFate::Late }, "frame {}", frame.index);
    }
}

/// Two consecutive packets far from all others are a restart, and so are the next two at the old numbers.
#[test]
fn all_lives_of_a_sender_are_on_one_timeline() {
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(150)));
    let genuine = adus(&frames()[..30]);
    let stray = [40_000u16, 40_001].map(|number| {
        let mut rtp = genuine[0].rtp.clone();
        rtp[2..4].copy_from_slice(&number.to_be_bytes());
        rtp[4..8].copy_from_slice(&3_000_000_000u32.to_be_bytes());
        rtp
    });
    let mut played = Vec::new();
    for _ in 0..2 {
        for packet in genuine.iter().map(|adu| &adu.rtp).chain(&stray) {
            let _stray = playout.handle_packet(Instant::ZERO, packet);
        }
        playout.handle_timeout(Instant::ZERO + Duration::from_secs(2));
        played.extend(drain(&mut playout));
    }
    assert_eq!(playout.stats().restarts, 3, "away, back and away");
    assert!(played.len() > 30, "{} frames", played.len());
    assert!(played.is_sorted_by(|a, b| a.decode_ticks < b.decode_ticks));
}

/// Found by fuzzing: kept packets of a new source were due already, but a refused one left them unprocessed.
#[test]
fn what_is_due_is_done_even_if_a_packet_is_refused() {
    let ms = |millis| Instant::ZERO + Duration::from_millis(millis);
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(50)));
    let packets = |ssrc, first_sequence| {
        let config = PacketizerConfig { ssrc, first_sequence, ..PacketizerConfig::default() };
        let mut packetizer = Packetizer::new(config).unwrap();
        frames()[..4].iter().flat_map(|frame| packetizer.packetize(frame)).map(|adu| adu.rtp).collect::<Vec<_>>()
    };
    playout.handle_packet(ms(0), &packets(1, 0)[0]).unwrap();
    // Packets of the new source are far apart, so that the last ones are out of sequence.
    let [first, far] = [packets(2, 0), packets(2, 40_000)];
    playout.handle_packet(ms(100), &far[0]).unwrap();
    playout.handle_packet(ms(300), &first[0]).unwrap();
    playout.handle_packet(ms(500), &first[1]).unwrap();
    playout.handle_timeout(ms(500));
    assert!(playout.poll_timeout().is_none_or(|due| due > ms(500)), "{:?}", playout.poll_timeout());
    let _refused = playout.handle_packet(ms(900), b"no RTP");
    assert!(playout.poll_timeout().is_none_or(|due| due > ms(900)), "a refused packet lets time pass as well");
}

#[test]
fn a_sender_that_starts_anew_is_followed() {
    let frames = frames();
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(150)));
    let mut count = 0;
    let mut refused = 0;
    for (start, first_sequence, first_timestamp) in [(0, 7, 99), (10, 40_000, 3_000_000_000)] {
        let config = PacketizerConfig { first_sequence, first_timestamp, ..PacketizerConfig::default() };
        let mut packetizer = Packetizer::new(config).unwrap();
        for frame in &frames[..120] {
            for adu in packetizer.packetize(frame) {
                let now = Instant::ZERO + Duration::from_secs(start) + adu.handover;
                playout.handle_timeout(now);
                refused += u32::from(playout.handle_packet(now, &adu.rtp).is_err());
            }
            count += drain(&mut playout).len();
        }
        playout.finish();
        count += drain(&mut playout).len();
    }
    assert_eq!((refused, playout.stats().restarts), (1, 1));
    // The first packet of the new stream counts again once the second one has shown the restart.
    assert_eq!((count, playout.stats().refused), (240, 0));
}

/// All packets of a local source that restarted with the same SSRC and lower numbers counted as repeated or late.
#[test]
fn a_source_that_starts_anew_with_lower_numbers_is_followed() {
    for (fall, first_timestamp) in [(0, 0), (50, 3_000_000_000), (3_000, 0)] {
        let frames = frames();
        let config = PlayoutConfig::new(Duration::from_millis(60)).released(Release::AsTheyCome);
        let mut playout = Playout::new(config);
        let mut count = 0;
        for (start, first_sequence, first_timestamp) in [(0, 5_000, 0), (5, 5_000 - fall, first_timestamp)] {
            let config = PacketizerConfig { first_sequence, first_timestamp, ..PacketizerConfig::default() };
            let mut packetizer = Packetizer::new(config).unwrap();
            for adu in frames[..120].iter().flat_map(|frame| packetizer.packetize(frame)) {
                let now = Instant::ZERO + Duration::from_secs(start) + adu.handover;
                playout.handle_timeout(now);
                let _ = playout.handle_packet(now, &adu.rtp);
                count += drain(&mut playout).len();
            }
        }
        playout.finish();
        count += drain(&mut playout).len();
        assert_eq!((count, playout.stats().restarts), (240, 1), "{fall}");
    }
}

#[test]
fn later_packets_follow_the_size_of_the_path() {
    let frames = frames();
    let mut packetizer = Packetizer::new(PacketizerConfig { mtu: 500, ..PacketizerConfig::default() }).unwrap();
    let mut largest = |mtu| {
        packetizer.resize(mtu);
        let packets = frames.iter().flat_map(|frame| packetizer.packetize(frame));
        packets.map(|adu| adu.rtp.len()).max().unwrap()
    };
    assert_eq!([500, 1_400, 900, 0].map(&mut largest), [500, 1_400, 900, 64]);
}
