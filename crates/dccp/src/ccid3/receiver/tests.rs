//! Tests of the timing and contents of feedback, scripted.

use super::*;
use crate::ccid3::Heard;
use crate::packet::PacketType;

const RTT: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A data packet of 100 bytes, a hundred of them a second, four to each quarter of a round trip of 160 ms.
fn arrive(receiver: &mut Receiver, n: u64) -> bool {
    arrive_at(receiver, at(n * 10), n, n / 4)
}

fn arrive_at(receiver: &mut Receiver, now: Instant, n: u64, counter: u64) -> bool {
    let data = Some(((counter % 16) as u8, 100));
    receiver.on_packet(now, Arrived { seq: Seq::new(n), data, marked: false, ndp_count: 0, rtt: RTT });
    receiver.is_due()
}

fn tell(receiver: &mut Receiver, now: Instant) -> Heard {
    let mut options = OptionList::new();
    receiver.push_options(now, true, &mut options);
    assert!(options.as_bytes().len() <= receiver.options_len());
    assert!(!receiver.is_due(), "it is told");
    let mut heard = Heard::default();
    for item in options.iter(PacketType::Ack) {
        let Opt::CcidSpecific { kind, data } = item.unwrap().opt else { panic!("{item:?}") };
        assert!(heard.take(kind, data));
    }
    assert!(heard.is_feedback());
    heard
}

#[test]
fn feedback_leaves_at_the_first_packet_and_then_once_a_round_trip() {
    let mut receiver = Receiver::new(false, Seq::new(0));
    let mut told = Vec::new();
    for n in 0..64 {
        if arrive(&mut receiver, n) {
            tell(&mut receiver, at(n * 10));
            told.push(n);
        }
    }
    assert_eq!(told, [0, 16, 32, 48], "at each packet whose counter is four on");
}

/// "this allows faster response to changing RTT measurements" (RFC 5348 §6).
#[test]
fn feedback_can_leave_four_times_a_round_trip_and_tells_the_rate_of_a_whole_one() {
    let mut receiver = Receiver::new(false, Seq::new(0)).telling(4);
    let mut told = Vec::new();
    for n in 0..48 {
        if arrive(&mut receiver, n) {
            told.push((n, tell(&mut receiver, at(n * 10)).receive_rate));
        }
    }
    assert_eq!(told.iter().map(|&(n, _)| n).collect::<Vec<_>>(), (0..12).map(|n| n * 4).collect::<Vec<_>>());
    assert!(told[6..].iter().all(|&(_, rate)| rate == Some(10_000)), "{told:?}");
}

#[test]
fn a_loss_event_is_told_at_once_and_losses_of_the_same_are_not() {
    let mut receiver = Receiver::new(false, Seq::new(0));
    let mut told = Vec::new();
    for n in (0..48).filter(|n| ![21, 25].contains(n)) {
        if arrive(&mut receiver, n) {
            tell(&mut receiver, at(n * 10));
            told.push(n);
        }
    }
    assert_eq!(told, [0, 16, 24, 40], "24 shows that 21 is lost; from there a round trip is four ticks");
}

#[test]
fn feedback_says_what_came() {
    let mut receiver = Receiver::new(true, Seq::new(0));
    arrive(&mut receiver, 0);
    let first = tell(&mut receiver, at(0));
    assert_eq!((first.receive_rate, first.loss_event_rate), (Some(0), Some(0.0)), "nothing is measured yet");
    for n in (1..49).filter(|&n| n != 40) {
        arrive(&mut receiver, n);
    }
    let heard = tell(&mut receiver, at(480));
    // 480 ms of it, one packet less.
    assert_eq!((heard.receive_rate, heard.skip), (Some(4_700 * 1_000 / 480), 0));
    assert_eq!((heard.intervals.len(), &heard.lost[..]), (2, &[1, 0][..]));
    assert_eq!((heard.intervals[0].lossless, heard.intervals[0].lossy, heard.intervals[0].data), (8, 1, 9));
    assert_eq!((heard.intervals[1].lossless, heard.intervals[1].lossy), (40, 0));
    // The first interval stands for the rate that there was: a p at which the equation gives 136 bytes 100 times a second.
    let p = 1.0 / f64::from(heard.intervals[1].data);
    let rate = equation::rate(1_460, RTT.max(at(160) - at(0)), p).as_bps() as f64;
    assert!((0.8..1.25).contains(&(rate / (136.0 * 100.0 * 8.0))), "{rate}");
}

#[test]
fn what_comes_before_a_pause_is_told_by_the_timer() {
    let mut receiver = Receiver::new(false, Seq::new(0));
    arrive(&mut receiver, 0);
    tell(&mut receiver, at(0));
    assert!(!arrive(&mut receiver, 1));
    let due = receiver.poll_timeout().unwrap();
    assert_eq!(due, at(0) + RTT * 5 / 4);
    receiver.on_timeout(due);
    assert!(receiver.is_due());
    tell(&mut receiver, due);
    // No more data: the receiver is silent, and answers the next packet at once.
    receiver.on_timeout(due + RTT * 2);
    assert!(!receiver.is_due() && receiver.poll_timeout().is_none());
    assert!(arrive_at(&mut receiver, at(900), 2, 1));
}

/// Found by `timeous-lab dbat-buffering`: a sender was told that nothing comes any more, and sent a packet a minute.
#[test]
fn a_loss_that_packets_without_data_show_is_told_with_the_next_data() {
    let mut receiver = Receiver::new(false, Seq::new(0));
    for n in 0..17 {
        arrive(&mut receiver, n);
    }
    tell(&mut receiver, at(160));
    // 17 is lost, and what follows carries no data.
    for n in 18..24 {
        let bare = Arrived { seq: Seq::new(n), data: None, marked: false, ndp_count: n - 18, rtt: RTT };
        receiver.on_packet(at(n * 10), bare);
        assert!(!receiver.is_due(), "no data have come of which a rate could be told (RFC 5348 §6.2)");
    }
    assert!(arrive_at(&mut receiver, at(1_160), 24, 9));
    let heard = tell(&mut receiver, at(1_160));
    assert_eq!(
        (heard.intervals.len(), heard.receive_rate),
        (2, Some(625)),
        "a packet of 100 bytes in a round trip of 160 ms"
    );
}

#[test]
fn what_does_not_fit_waits() {
    let mut receiver = Receiver::new(false, Seq::new(0));
    arrive(&mut receiver, 0);
    let mut small = OptionList::with_limit(10);
    receiver.push_options(at(0), false, &mut small);
    assert!(small.is_empty() && receiver.is_due());
}
