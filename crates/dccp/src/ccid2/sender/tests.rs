//! Tests of the sender's scoreboard, step by step.

use timeous_cm::Departure;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Ten data packets of 100 bytes from number `first`, a millisecond apart, with their index as token.
fn ten(first: u64) -> Sender {
    let mut sender = Sender::default();
    for n in 0..10 {
        sender.sent_data(Instant::ZERO + MS * n, Seq::new(first + n), Some(n), (100, Departure::default()));
    }
    sender
}

fn arrived(newest: u64, oldest: u64) -> Report {
    Report { newest: Seq::new(newest), oldest: Seq::new(oldest), state: PacketState::Received }
}

fn ack(sender: &mut Sender, reports: &[Report]) -> Feedback {
    sender.on_ack(Instant::ZERO + MS * 100, reports[0].newest, Duration::ZERO, &[], reports.iter().copied())
}

fn lost(feedback: &Feedback) -> Vec<u64> {
    let token = |fate: &PacketFate| if let PacketFate::Lost { token, .. } = *fate { token } else { None };
    feedback.fates.iter().filter_map(token).collect()
}

#[test]
fn three_later_packets_make_a_loss() {
    let mut sender = ten(50);
    assert_eq!(lost(&ack(&mut sender, &[arrived(52, 51)])), []);
    let feedback = ack(&mut sender, &[arrived(53, 53)]);
    assert_eq!(lost(&feedback), [0]);
    assert_eq!((feedback.acked, feedback.lost), (100, 100));
    assert_eq!(feedback.newest_lost, Some(Instant::ZERO));
    assert_eq!(sender.outstanding(), 6);
}

#[test]
fn packets_without_data_count_as_later_ones_but_not_as_bytes() {
    let mut sender = Sender::default();
    sender.sent_data(Instant::ZERO, Seq::new(1), Some(7), (100, Departure::default()));
    for seq in 2..5 {
        sender.sent_other(Instant::ZERO, Seq::new(seq));
    }
    let feedback = ack(&mut sender, &[arrived(4, 2)]);
    assert_eq!(lost(&feedback), [7]);
    assert_eq!((feedback.acked, feedback.lost, feedback.rtt), (0, 100, None));
    assert_eq!(sender.span(), 0);
}

#[test]
fn what_was_acknowledged_or_lost_is_not_counted_again() {
    let mut sender = ten(50);
    ack(&mut sender, &[arrived(54, 51)]);
    let again = ack(&mut sender, &[arrived(54, 50)]);
    assert_eq!((again.acked, again.lost), (0, 0), "50 was declared lost, and comes too late");
    assert!(again.fates.is_empty() && again.rtt.is_none());
}

#[test]
fn a_packet_that_was_overtaken_tells_by_how_much() {
    let mut sender = ten(50);
    let mut at = |milliseconds, reports: &[Report]| {
        let now = Instant::ZERO + MS * milliseconds;
        sender.on_ack(now, reports[0].newest, Duration::ZERO, &[], reports.iter().copied()).overtaken_by
    };
    assert_eq!(at(40, &[arrived(52, 52)]), Duration::ZERO, "50 and 51 may be lost");
    assert_eq!(at(43, &[arrived(52, 51)]), MS * 3);
    assert_eq!(at(48, &[arrived(53, 50)]), MS * 8, "by the first that overtook it");
    assert_eq!(at(49, &[arrived(55, 53)]), Duration::ZERO);
}

/// Found with packets whose delay varies by 30 ms, of which a tenth was sent again for nothing.
#[test]
fn on_a_path_that_reorders_three_later_packets_make_no_loss_at_once() {
    let mut sender = ten(50);
    let mut at = |milliseconds, reports: &[Report]| {
        let now = Instant::ZERO + MS * milliseconds;
        sender.on_ack(now, reports[0].newest, Duration::ZERO, &[], reports.iter().copied())
    };
    assert_eq!(lost(&at(40, &[arrived(53, 51)])), [0]);
    let late = at(52, &[arrived(53, 50)]);
    assert_eq!((late.overtaken_by, late.reordered, late.fates.len()), (MS * 12, true, 0));
    assert_eq!(lost(&at(60, &[arrived(57, 55)])), [], "54 may come until 72");
    assert_eq!(lost(&at(71, &[arrived(58, 58)])), []);
    assert_eq!(lost(&at(72, &[arrived(59, 59)])), [4]);
}

#[test]
fn numbers_may_wrap() {
    let first = Seq::MODULUS - 4;
    let mut sender = Sender::default();
    for n in 0..10 {
        sender.sent_data(Instant::ZERO, Seq::new(first + n), Some(n), (10, Departure::default()));
    }
    let feedback = ack(&mut sender, &[arrived(5, 0), Report { newest: Seq::new(first + 2), ..arrived(0, first + 1) }]);
    assert_eq!(lost(&feedback), [0, 3]);
    assert_eq!(sender.outstanding(), 0);
}

#[test]
fn the_time_that_the_peer_held_the_acknowledgement_is_not_round_trip_time() {
    let mut sender = ten(50);
    let now = Instant::ZERO + MS * 80;
    let feedback = sender.on_ack(now, Seq::new(50), MS * 20, &[], std::iter::once(arrived(50, 50)));
    assert_eq!(feedback.rtt, Some(MS * 60));
    let feedback = sender.on_ack(now, Seq::new(51), MS * 500, &[], std::iter::once(arrived(51, 51)));
    assert_eq!(feedback.rtt, Some(MS * 79), "more than the whole is not believed");
}

#[test]
fn marks_are_reported_with_the_time_of_sending() {
    let mut sender = ten(50);
    let marked = Report { state: PacketState::Marked, ..arrived(52, 52) };
    let feedback = ack(&mut sender, &[marked, arrived(51, 50)]);
    assert_eq!(feedback.newest_marked, Some(Instant::ZERO + MS * 2));
    assert_eq!(feedback.acked, 300);
    let is_marked = |fate: &PacketFate| matches!(*fate, PacketFate::Acked { token: Some(2), seq, marked: true, .. } if seq == Seq::new(52));
    assert!(feedback.fates.iter().any(is_marked));
}

#[test]
fn giving_up_loses_all_that_is_open_and_nothing_else() {
    let mut sender = ten(50);
    ack(&mut sender, &[arrived(55, 55)]);
    let feedback = sender.give_up();
    assert_eq!(lost(&feedback), [0, 1, 2, 3, 4, 6, 7, 8, 9]);
    assert_eq!(feedback.newest_lost, Some(Instant::ZERO + MS * 9));
    assert_eq!((sender.outstanding(), sender.span()), (0, 0));
}

/// Found by `timeous-lab bloat`: frames were given up that had left just before a timeout, and came.
#[test]
fn a_timeout_loses_what_is_old_and_leaves_the_fate_of_what_was_just_sent_open() {
    let mut sender = ten(50);
    ack(&mut sender, &[arrived(51, 51)]);
    let feedback = sender.time_out(Instant::ZERO + MS * 105, MS * 100);
    assert_eq!(lost(&feedback), [0, 2, 3, 4, 5]);
    assert_eq!(feedback.lost, 900, "nothing counts as under way");
    assert_eq!(feedback.newest_lost, Some(Instant::ZERO + MS * 9));
    assert_eq!(sender.outstanding(), 4);
    let feedback = ack(&mut sender, &[arrived(59, 57)]);
    assert_eq!(feedback.acked, 0, "told of before (RFC 4341 §5)");
    assert_eq!(feedback.fates.len(), 4, "56 to 59");
    assert_eq!(lost(&feedback), [6]);
}

/// Found by `timeous-lab bloat`: where a stream pauses, fewer than three packets follow a lost one, and a timeout took the window.
#[test]
fn what_a_later_packet_has_passed_for_long_is_lost_without_three_of_them() {
    let mut sender = ten(50);
    assert_eq!(sender.passed(), None);
    ack(&mut sender, &[arrived(52, 51)]);
    assert_eq!(sender.passed(), Some(Instant::ZERO));
    assert_eq!(lost(&sender.declare_passed(Instant::ZERO + MS * 124, MS * 125)), []);
    let feedback = sender.declare_passed(Instant::ZERO + MS * 125, MS * 125);
    assert_eq!((lost(&feedback), feedback.lost), (vec![0], 100));
    assert_eq!(sender.passed(), None, "nothing that was sent after 53 has arrived");
    assert_eq!(lost(&sender.declare_passed(Instant::ZERO + MS * 900, MS * 125)), []);
}

/// Found by `timeous-peer-trials`: others had filled the queue while nothing was sent. Each timeout was too short, and what came late
/// for it told no round trip, so that the next was too short, too.
#[test]
fn what_a_timeout_took_for_lost_tells_a_round_trip_when_it_comes() {
    let mut sender = ten(50);
    sender.time_out(Instant::ZERO + MS * 90, MS * 10);
    let feedback = ack(&mut sender, &[arrived(51, 50)]);
    assert_eq!((feedback.rtt, feedback.late.bytes, feedback.late.is_spurious), (Some(MS * 99), 200, true));
    assert_eq!((feedback.acked, feedback.fates.len()), (0, 0), "its fate was told");
    let feedback = ack(&mut sender, &[arrived(51, 50)]);
    assert_eq!((feedback.rtt, feedback.late.bytes, feedback.late.is_spurious), (None, 0, false), "once");
    let feedback = ack(&mut sender, &[arrived(53, 52)]);
    assert_eq!((feedback.rtt, feedback.late.bytes, feedback.late.is_spurious), (Some(MS * 97), 200, false));
}

/// A spurious timeout of a large window was not undone: the packet that it had waited for was forgotten for later ones.
#[test]
fn what_a_timeout_of_a_large_window_waited_for_is_remembered() {
    let mut sender = Sender::default();
    for n in 0..200 {
        sender.sent_data(Instant::ZERO + MS * n, Seq::new(n), Some(n), (100, Departure::default()));
    }
    sender.time_out(Instant::ZERO + MS * 300, MS * 10);
    let feedback = ack(&mut sender, &[arrived(1, 0)]);
    assert!(feedback.late.is_spurious);
}

#[test]
fn what_was_waited_for_is_lost_however_young() {
    let mut sender = ten(50);
    let feedback = sender.time_out(Instant::ZERO + MS * 9, MS * 100);
    assert_eq!((lost(&feedback), feedback.lost), (vec![0], 1_000));
}

#[test]
fn data_that_the_receiver_had_no_room_for_count_as_marked() {
    use DropCode::{Corrupt, DeliveredCorrupt, NotListening, ProtocolConstraints, ReceiveBuffer, Reserved};
    for code in [ProtocolConstraints, NotListening, ReceiveBuffer, Corrupt, Reserved(5), DeliveredCorrupt] {
        let mut sender = ten(50);
        // 54 did not arrive: what is said of it is no news.
        let block = |seq| DropBlock { newest: Seq::new(seq), oldest: Seq::new(seq), code: Some(code) };
        let dropped = [block(54), block(52)];
        let feedback =
            sender.on_ack(Instant::ZERO, Seq::new(53), Duration::ZERO, &dropped, std::iter::once(arrived(53, 50)));
        let marked = (code != ProtocolConstraints).then_some(Instant::ZERO + MS * 2);
        assert_eq!(feedback.newest_marked, marked, "{code:?} (RFC 4340 §11.7.2)");
        assert_eq!((feedback.acked, feedback.lost), (400, 0), "they did arrive");
        assert_eq!(feedback.not_listening, code == NotListening);
        assert_eq!(feedback.constrained, code == ProtocolConstraints);
        let gone = feedback.fates.iter().any(|fate| matches!(fate, PacketFate::Dropped { token: Some(2), .. }));
        assert_eq!(gone, code != DeliveredCorrupt, "the application did not get it");
    }
}

#[test]
fn a_window_with_a_loss_or_a_gap_in_it_does_not_count_for_growth() {
    let mut sender = ten(50);
    ack(&mut sender, &[arrived(50, 50)]);
    assert!(!sender.holds_window(false), "all in order");
    ack(&mut sender, &[arrived(52, 52)]);
    assert!(sender.holds_window(false), "51 is missing, perhaps only late");
    ack(&mut sender, &[arrived(52, 51)]);
    assert!(!sender.holds_window(false), "it was late");
    let feedback = ack(&mut sender, &[arrived(56, 54)]);
    assert_eq!(lost(&feedback), [3]);
    assert!(sender.holds_window(true));
    sender.sent_data(Instant::ZERO + MS * 100, Seq::new(60), Some(10), (100, Departure::default()));
    ack(&mut sender, &[arrived(58, 57)]);
    assert!(sender.holds_window(false), "59 is of the window in which 53 was lost");
    ack(&mut sender, &[arrived(59, 59)]);
    assert!(!sender.holds_window(false), "and 60 is of the next");
}

#[test]
fn after_a_timeout_the_window_may_grow_again() {
    let mut sender = ten(50);
    sender.give_up();
    assert!(!sender.holds_window(true), "nothing of that window will be heard of any more");
    sender.sent_data(Instant::ZERO + MS * 100, Seq::new(60), Some(10), (100, Departure::default()));
    ack(&mut sender, &[arrived(60, 60)]);
    assert!(!sender.holds_window(false));
}
