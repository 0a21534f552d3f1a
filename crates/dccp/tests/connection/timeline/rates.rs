//! Timelines of half-connections with CCID 3 and 4: feedback, and the sender's response, packet by packet.

use timeous_core::{Duration, Ecn, Rng};
use timeous_dccp::ccid3::Implausible;
use timeous_dccp::ccid3::options::{
    LOSS_EVENT_RATE, LOSS_INTERVALS, LossInterval, RECEIVE_RATE, encode_loss_intervals, loss_intervals,
};
use timeous_dccp::ccid4::options::DROPPED_PACKETS;
use timeous_dccp::{Body, Ccid, Event, Header, Opt, PacketType, Seq};

use crate::script::{ISS, LOCAL, PEER, Seen, Timeline};

const MS: Duration = Duration::from_millis(1);

fn push(line: &mut Timeline, count: usize) {
    for _ in 0..count {
        line.source.push(line.now, vec![7; 1_000]);
    }
    line.drain();
}

fn interval(lossless: u32, lossy: u32, data: u32) -> LossInterval {
    LossInterval { lossless, lossy, nonce: false, data }
}

/// Feedback of the peer's for what it got up to `ack`.
fn feedback(line: &mut Timeline, ack: u64, rate: u32, skip: u8, intervals: &[LossInterval], more: &[Opt<'_>]) {
    let mut told = Vec::new();
    encode_loss_intervals(skip, intervals, &mut told);
    let rate = rate.to_be_bytes();
    let own = |kind, data| Opt::CcidSpecific { kind, data };
    let mut options = vec![own(RECEIVE_RATE, &rate[..]), own(LOSS_INTERVALS, &told)];
    options.extend_from_slice(more);
    line.send_with(Body::Ack { ack: Seq::new(ack) }, &options, b"");
}

/// A data packet of the peer's.
fn data(line: &mut Timeline, seq: u64, ccval: u8, ecn: Ecn) {
    let header = Header { ccval, ..Header::new(PEER, LOCAL, Seq::new(seq), Body::Data) };
    line.send_header(&header, &[], &[1; 500], ecn);
}

fn option(seen: &Seen, kind: u8) -> Option<Vec<u8>> {
    seen.packet().options().find_map(|item| match item.unwrap().opt {
        Opt::CcidSpecific { kind: found, data } if found == kind => Some(data.to_vec()),
        _ => None,
    })
}

fn intervals(seen: &Seen) -> (u8, Vec<LossInterval>) {
    let data = option(seen, LOSS_INTERVALS).expect("it is feedback");
    let (skip, intervals) = loss_intervals(&data).unwrap();
    (skip, intervals.collect())
}

#[test]
fn an_initial_window_leaves_in_a_round_trip_evenly_and_its_counter_tells_the_quarters() {
    let mut line = Timeline::open_with(Ccid::Ccid3, true);
    push(&mut line, 50);
    line.pass(MS * 99);
    let sent = line.take();
    // 4380 bytes of payload, and one packet ahead.
    assert!((4..=6).contains(&sent.len()), "{}", sent.len());
    let counters: Vec<u8> = sent.iter().map(|seen| seen.header.ccval).collect();
    assert!(counters.is_sorted() && counters.first() == Some(&0) && *counters.last().unwrap() <= 4, "{counters:?}");
    assert!(sent.windows(2).skip(1).all(|pair| pair[1].at - pair[0].at > MS * 15), "evenly");
}

#[test]
fn feedback_doubles_the_rate_and_a_loss_event_ends_that() {
    let mut line = Timeline::open_with(Ccid::Ccid3, true);
    push(&mut line, 400);
    let mut counts = Vec::new();
    line.pass(MS * 100);
    let mut sent = line.take();
    for _ in 0..5 {
        line.pass(MS * 100);
        // All but the last round trip's packets have arrived; the intervals reach back to the first packet.
        let newest = sent.last().unwrap().seq();
        let all = (newest - ISS + 1) as u32;
        feedback(&mut line, newest, sent.len() as u32 * 10_000, 0, &[interval(all, 0, 0)], &[]);
        sent = line.take();
        counts.push(sent.len());
    }
    // Each by feedback for what came before it, so that two are of one rate.
    assert!(counts[4] >= counts[2] * 3 / 2 && counts[3] >= counts[1] * 3 / 2, "{counts:?}");
    assert_eq!(line.connection.loss_event_rate(), Some(0.0));
    line.pass(MS * 100);
    let newest = sent.last().unwrap().seq();
    let all = (newest - ISS + 1) as u32;
    let lossy = [interval(5, 1, 6), interval(all - 6, 0, 40)];
    feedback(&mut line, newest, sent.len() as u32 * 10_000, 0, &lossy, &[]);
    assert!((line.connection.loss_event_rate().unwrap() - 1.0 / 40.0).abs() < 1e-9);
    line.take();
    line.pass(MS * 100);
    let after = line.take().len();
    assert!(after < sent.len(), "{} and then {after}", sent.len());
    assert_eq!(line.connection.statistics().implausible, 0);
}

#[test]
fn by_loss_intervals_alone_each_adu_has_its_fate() {
    let mut line = Timeline::open_with(Ccid::Ccid3, false);
    push(&mut line, 20);
    line.pass(MS * 300);
    let sent = line.take();
    assert!(sent.len() >= 8, "{}", sent.len());
    line.events.clear();
    let first = sent[0].seq();
    // The third is lost; of the two newest nothing is said but that the last has arrived.
    let (ack, before) = (first + 7, (first + 2 - ISS) as u32);
    feedback(&mut line, ack, 40_000, 2, &[interval(3, 1, 4), interval(before, 0, 10)], &[]);
    let fates: Vec<Event> =
        line.events.drain(..).filter(|event| matches!(event, Event::Acked { .. } | Event::Lost { .. })).collect();
    let lost: Vec<_> = fates.iter().filter(|event| matches!(event, Event::Lost { .. })).collect();
    assert_eq!(lost, [&Event::Lost { token: 2 }]);
    assert_eq!(fates.len(), 7, "the last but one is still open: {fates:?}");
}

#[test]
fn a_peer_that_tells_no_more_than_a_loss_event_rate_is_believed_as_linux_is() {
    let mut line = Timeline::open_with(Ccid::Ccid3, false);
    push(&mut line, 20);
    line.pass(MS * 300);
    let sent = line.take();
    line.events.clear();
    let own = |kind, data| Opt::CcidSpecific { kind, data };
    let (rate, p) = (40_000_u32.to_be_bytes(), 50_u32.to_be_bytes());
    let options = [own(RECEIVE_RATE, &rate[..]), own(LOSS_EVENT_RATE, &p[..])];
    line.send_with(Body::Ack { ack: sent[7].header.seq }, &options, b"");
    assert_eq!(line.connection.loss_event_rate(), Some(0.02));
    let acked = line.events.iter().filter(|event| matches!(event, Event::Acked { .. })).count();
    assert_eq!(acked, 8, "what it acknowledges counts as having arrived");
}

#[test]
fn an_acknowledgement_that_is_no_feedback_says_nothing_of_the_rate() {
    let mut line = Timeline::open_with(Ccid::Ccid3, true);
    push(&mut line, 20);
    line.pass(MS * 400);
    let newest = line.take().last().unwrap().header.seq;
    // Nine times is more than the nofeedback timer waits.
    let before = line.connection.statistics().timeouts;
    line.send(Body::Ack { ack: newest });
    assert_eq!((line.connection.loss_event_rate(), line.connection.statistics().timeouts), (Some(0.0), before));
}

#[test]
fn feedback_that_cannot_be_true_is_counted_and_named() {
    let mut line = Timeline::open_with(Ccid::Ccid3, true);
    push(&mut line, 50);
    line.pass(MS * 100);
    let newest = line.take().last().unwrap().seq();
    feedback(&mut line, newest, u32::MAX, 0, &[interval(1_000_000, 0, 0)], &[]);
    assert!(matches!(line.connection.last_implausible(), Some(Implausible::BeforeTheFirst { .. })));
    let all = (newest - ISS + 1) as u32;
    // Everything has come, says one option; the newest but one is missing, says the other.
    let vector = Opt::AckVector { nonce: false, vector: &[0x00, 0xc0, 0x01] };
    feedback(&mut line, newest, 1_000, 0, &[interval(all, 0, 0)], &[vector]);
    assert_eq!(line.connection.last_implausible(), Some(Implausible::Contradiction));
    assert_eq!(line.connection.statistics().implausible, 2);
    feedback(&mut line, newest, u32::MAX, 0, &[interval(all, 0, 0)], &[]);
    let statistics = line.connection.statistics();
    assert_eq!((statistics.implausible, statistics.rates_capped), (2, 1), "that one was only too much");
}

#[test]
fn the_peers_data_are_answered_once_a_round_trip_with_all_that_makes_feedback() {
    let mut line = Timeline::open_with(Ccid::Ccid3, true);
    let start = line.peer_seq();
    data(&mut line, start, 0, Ecn::Ect0);
    let first = line.expect(PacketType::Ack);
    assert_eq!(first.ack(), start);
    let (skip, told) = intervals(&first);
    assert_eq!((skip, told.len(), told[0].lossy, told[0].data), (0, 1, 0, 0));
    assert_eq!(option(&first, RECEIVE_RATE), Some(vec![0; 4]));
    let has = |seen: &Seen, found: fn(&Opt<'_>) -> bool| seen.packet().options().any(|item| found(&item.unwrap().opt));
    assert!(has(&first, |opt| matches!(opt, Opt::ElapsedTime(_))), "also where nothing has elapsed");
    assert!(has(&first, |opt| matches!(opt, Opt::AckVector { .. })));
    assert_eq!((option(&first, DROPPED_PACKETS), option(&first, LOSS_EVENT_RATE)), (None, None));
    let mut answers = Vec::new();
    for n in 1..=16 {
        line.pass(MS * 10);
        data(&mut line, start + n, (n / 2 % 16) as u8, Ecn::Ect0);
        answers.extend(line.take().iter().map(Seen::ack));
    }
    assert_eq!(answers, [start + 8, start + 16], "where the counter is four on");
}

#[test]
fn a_loss_a_mark_and_the_end_of_a_burst_are_told_without_waiting() {
    let mut line = Timeline::open_with(Ccid::Ccid4, true);
    let start = line.peer_seq();
    for n in [0, 1, 2, 4, 5] {
        data(&mut line, start + n, 0, Ecn::Ect0);
    }
    line.take();
    data(&mut line, start + 6, 0, Ecn::Ect0);
    let loss = line.expect(PacketType::Ack);
    let (skip, told) = intervals(&loss);
    assert_eq!((skip, told[0].lossless, told[0].lossy, told[0].data), (0, 3, 1, 4));
    assert_eq!(option(&loss, DROPPED_PACKETS), Some(vec![0, 0, 1, 0, 0, 0]), "CCID 4 counts");
    // A mark more than a round trip later is another event.
    line.pass(MS * 200);
    line.take();
    data(&mut line, start + 7, 5, Ecn::Ect0);
    line.take();
    data(&mut line, start + 8, 6, Ecn::Ce);
    let marked = line.expect(PacketType::Ack);
    assert_eq!(intervals(&marked).1.len(), 3);
    data(&mut line, start + 9, 6, Ecn::Ect0);
    line.expect_nothing();
    line.pass(MS * 400);
    assert_eq!(line.expect(PacketType::Ack).ack(), start + 9, "the timer told it");
    line.expect_nothing();
}

#[test]
fn ccid_options_on_data_packets_are_ignored() {
    let mut line = Timeline::open_with(Ccid::Ccid3, true);
    push(&mut line, 10);
    line.pass(MS * 100);
    line.take();
    let lie = [Opt::CcidSpecific { kind: LOSS_EVENT_RATE, data: &[0, 0, 0, 1] }];
    line.send_with(Body::Data, &lie, b"data");
    assert_eq!(line.connection.loss_event_rate(), Some(0.0));
}

#[test]
fn mutated_feedback_never_panics_and_never_ends_in_anything_but_order() {
    let mut rng = Rng::from_seed(7);
    for round in 0..300 {
        let mut line = Timeline::open_with(if round % 2 == 0 { Ccid::Ccid3 } else { Ccid::Ccid4 }, round % 3 == 0);
        push(&mut line, 100);
        for _ in 0..20 {
            line.pass(MS * rng.below(150));
            let Some(newest) = line.take().iter().map(Seen::seq).max() else { continue };
            let all = (newest - ISS + 1) as u32;
            let mut told = Vec::new();
            encode_loss_intervals(0, &[interval(4, 1, 5), interval(all.saturating_sub(5), 0, 30)], &mut told);
            for _ in 0..rng.below(4) {
                let at = rng.below(told.len() as u64) as usize;
                told[at] = rng.next_u64() as u8;
            }
            told.truncate(told.len() - rng.below(3) as usize);
            let (rate, counts) = ((rng.next_u64() as u32).to_be_bytes(), rng.next_u64().to_be_bytes());
            let own = |kind, data| Opt::CcidSpecific { kind, data };
            let options = [
                own(RECEIVE_RATE, &rate[..]),
                own(LOSS_INTERVALS, &told),
                own(DROPPED_PACKETS, &counts[..3 * (1 + rng.below(2) as usize)]),
            ];
            line.send_with(Body::Ack { ack: Seq::new(newest - rng.below(4)) }, &options, b"");
            assert!(line.connection.loss_event_rate().is_some_and(|p| (0.0..=1.0).contains(&p)));
        }
    }
}
