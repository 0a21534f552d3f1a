//! Receive side: a script for each rule of the RFCs.

use timeous_core::Duration;

use super::*;
use crate::segment::Timestamps;

/// The peer's SYN: sequence numbers wrap within the stream.
const SYN: Seq = Seq::new(u32::MAX - 2_000);
const MSS: usize = 1_000;

/// An acknowledgement, with numbers as stream offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ack {
    upto: u32,
    window: u32,
    sack: Vec<(u32, u32)>,
    ece: bool,
    echo: Option<u32>,
}

/// A receiver, a clock, and a scripted peer.
struct Script {
    now: Instant,
    receiver: Receiver,
    scale: u8,
    timestamp: Option<u32>,
    /// Flags and mark of the peer's next segments.
    flags: Flags,
    ecn: Ecn,
}

impl Script {
    fn new(change: impl FnOnce(&mut ReceiverConfig)) -> Self {
        Self::with_timestamp(None, change)
    }

    fn with_timestamp(timestamp: Option<u32>, change: impl FnOnce(&mut ReceiverConfig)) -> Self {
        let delayed_ack = DelayedAck { quick: 0, ..DelayedAck::default() };
        let mut config =
            ReceiverConfig { buffer: 8 * MSS, mss: MSS as u16, sack: true, delayed_ack, ..ReceiverConfig::default() };
        change(&mut config);
        let now = Instant::from_nanos(1);
        let receiver = Receiver::new(now, &config, SYN, timestamp);
        Self { now, receiver, scale: config.window_scale, timestamp, flags: Flags::NONE, ecn: Ecn::NotEct }
    }

    fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    /// Delivers a segment of `len` bytes at `at`; each byte depends on its offset.
    fn segment(&mut self, at: u32, len: usize) -> (Acceptance, Receipt) {
        let header = Header { ack: Some(Seq::new(0)), flags: self.flags, ..Header::new(1, 2, SYN + 1 + at) };
        let timestamps = self.timestamp.map(|value| Timestamps { value, echo: 0 });
        let payload: Vec<u8> = (0..len as u32).map(|n| byte(at.wrapping_add(n))).collect();
        let segment = Segment { header, options: Options { timestamps, ..Options::default() }, payload: &payload };
        let acceptance = self.receiver.accept(self.now, &segment);
        if !acceptance.is_acceptable() {
            return (acceptance, Receipt::default());
        }
        (acceptance, self.receiver.on_segment(self.now, &segment, self.ecn))
    }

    #[track_caller]
    fn data(&mut self, at: usize, len: usize) -> usize {
        let (acceptance, receipt) = self.segment(at as u32, len);
        assert_eq!(acceptance, Acceptance::Acceptable);
        receipt.bytes
    }

    /// Returns the acknowledgement that is due now.
    fn ack(&mut self) -> Option<Ack> {
        self.receiver.ack_is_due(self.now).then(|| self.sent())
    }

    /// Sends a segment with an acknowledgement.
    fn sent(&mut self) -> Ack {
        let mut header = Header::new(2, 1, Seq::new(0));
        let timestamps = self.timestamp.map(|_| Timestamps { value: 7, echo: 0 });
        let mut options = Options { timestamps, ..Options::default() };
        self.receiver.stamp(&mut header, &mut options);
        self.receiver.on_sent(&header);
        let place = |seq: Seq| seq.distance_from(SYN + 1);
        Ack {
            upto: place(header.ack.unwrap()),
            window: u32::from(header.window) << self.scale,
            sack: options.sack.iter().map(|block| (place(block.left), place(block.right))).collect(),
            ece: header.flags.contains(Flags::ECE),
            echo: options.timestamps.map(|timestamps| timestamps.echo),
        }
    }

    #[track_caller]
    fn acked(&mut self) -> Ack {
        self.ack().expect("an acknowledgement is due")
    }

    fn sacked(&mut self) -> Vec<(u32, u32)> {
        self.acked().sack
    }

    fn read(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.receiver.read(usize::MAX, &mut out);
        out
    }
}

fn byte(at: u32) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> 24) as u8
}

fn stream(from: u32, to: u32) -> Vec<u8> {
    (from..to).map(byte).collect()
}

#[test]
fn data_in_order_are_read_once() {
    let mut script = Script::new(|_| {});
    assert_eq!(script.data(0, MSS), MSS);
    assert_eq!(script.data(MSS, 500), 500);
    assert_eq!(script.receiver.readable(), 1_500);
    let mut out = Vec::new();
    assert_eq!(script.receiver.read(600, &mut out), 600);
    assert_eq!(script.receiver.read(usize::MAX, &mut out), 900);
    assert_eq!(script.receiver.read(usize::MAX, &mut out), 0);
    assert_eq!(out, stream(0, 1_500));
}

#[test]
fn a_gap_that_is_filled_delivers_what_lay_beyond() {
    let mut script = Script::new(|_| {});
    assert_eq!(script.data(2 * MSS, MSS), 0);
    assert_eq!(script.data(MSS, MSS), 0);
    assert_eq!(script.data(0, MSS), 3 * MSS);
    assert_eq!(script.read(), stream(0, 3_000));
    assert_eq!(script.acked().upto, 3_000);
}

#[test]
fn overlaps_are_cut_and_what_came_first_stays() {
    let mut script = Script::new(|_| {});
    script.data(0, 300);
    script.data(500, 300);
    let forged = [0xff; 900];
    let segment = Segment { header: Header::new(1, 2, SYN + 1 + 100), options: Options::default(), payload: &forged };
    assert_eq!(script.receiver.on_segment(script.now, &segment, Ecn::NotEct).bytes, 700);
    let expected = [stream(0, 300), vec![0xff; 200], stream(500, 800), vec![0xff; 200]].concat();
    assert_eq!(script.read(), expected);
}

/// RFC 5681 §4.2: an ACK for every second segment, and for a single one after the delay at the latest.
#[test]
fn one_segment_waits_and_the_second_is_acknowledged() {
    let mut script = Script::new(|_| {});
    script.data(0, MSS);
    assert_eq!(script.ack(), None);
    assert_eq!(script.receiver.poll_timeout(), Some(script.now + Duration::from_millis(40)));
    script.wait(5);
    script.data(MSS, 10);
    assert_eq!(script.acked().upto, 1_010);
    assert_eq!(script.receiver.poll_timeout(), None);
    script.data(1_010, 10);
    script.wait(39);
    assert_eq!(script.ack(), None);
    script.wait(1);
    assert_eq!(script.acked().upto, 1_020);
    assert_eq!((script.ack(), script.receiver.poll_timeout()), (None, None));
}

#[test]
fn what_leaves_with_data_takes_the_acknowledgement_with_it() {
    let mut script = Script::new(|_| {});
    script.data(0, MSS);
    assert_eq!(script.sent().upto, 1_000);
    script.wait(100);
    assert_eq!(script.ack(), None);
    assert_eq!(script.receiver.poll_timeout(), None);
}

#[test]
fn the_first_ones_are_quick_and_so_are_those_after_a_pause() {
    let mut script = Script::new(|config| config.delayed_ack.quick = 2);
    for n in 0..2 {
        script.data(n * 100, 100);
        assert!(script.ack().is_some(), "{n}");
    }
    script.data(200, 100);
    assert_eq!(script.ack(), None, "quickness is used up");
    script.wait(201);
    assert!(script.ack().is_some(), "the delay is over");
    script.data(300, 100);
    assert!(script.ack().is_some(), "a sender that paused starts slowly");
}

#[test]
fn no_delay_acknowledges_each() {
    let mut script = Script::new(|config| config.delayed_ack.delay = Duration::ZERO);
    script.data(0, 10);
    assert!(script.ack().is_some());
    script.data(10, 10);
    assert!(script.ack().is_some());
}

#[test]
fn disorder_is_acknowledged_at_once() {
    let mut script = Script::new(|_| {});
    script.data(MSS, 100);
    assert_eq!(script.acked().upto, 0, "beyond a gap");
    script.data(MSS, 100);
    assert_eq!(script.acked().upto, 0, "again");
    script.data(0, 500);
    assert_eq!(script.acked().upto, 500, "part of a gap");
    script.data(500, 500);
    assert_eq!(script.acked().upto, 1_100, "all of it");
    script.data(1_100, 10);
    assert_eq!(script.ack(), None, "in order again");
}

#[test]
fn a_pure_acknowledgement_needs_none() {
    let mut script = Script::new(|_| {});
    assert_eq!(script.data(0, 0), 0);
    assert_eq!(script.data(5_000, 0), 0);
    assert_eq!((script.ack(), script.receiver.poll_timeout()), (None, None));
}

/// RFC 2018 §4: the block of the segment that caused the ACK comes first, then the most recently reported.
#[test]
fn sack_blocks_come_by_recency() {
    let mut script = Script::new(|_| {});
    for (at, expected) in [
        (1, vec![(1_000, 1_100)]),
        (3, vec![(3_000, 3_100), (1_000, 1_100)]),
        (5, vec![(5_000, 5_100), (3_000, 3_100), (1_000, 1_100)]),
        (7, vec![(7_000, 7_100), (5_000, 5_100), (3_000, 3_100), (1_000, 1_100)]),
        (6, vec![(6_000, 6_100), (7_000, 7_100), (5_000, 5_100), (3_000, 3_100)]),
    ] {
        script.data(at * MSS, 100);
        assert_eq!(script.sacked(), expected);
    }
    script.data(1_100, 100);
    assert_eq!(script.sacked()[..2], [(1_000, 1_200), (6_000, 6_100)], "an island that grew");
    script.data(3_100, 1_900);
    assert_eq!(script.sacked()[..2], [(3_000, 5_100), (1_000, 1_200)], "two that were joined");
    script.data(0, 1_000);
    let ack = script.acked();
    assert_eq!((ack.upto, &ack.sack[..]), (1_200, &[(3_000, 5_100), (6_000, 6_100), (7_000, 7_100)][..]));
    script.data(1_200, 5_800);
    let ack = script.acked();
    assert_eq!((ack.upto, ack.sack), (7_100, vec![]));
}

#[test]
fn three_blocks_fit_beside_a_timestamp_and_none_where_it_was_not_agreed_upon() {
    let mut script = Script::with_timestamp(Some(1), |_| {});
    for at in [1, 3, 5, 7] {
        script.data(at * MSS, 100);
    }
    assert_eq!(script.sacked(), [(7_000, 7_100), (5_000, 5_100), (3_000, 3_100)]);
    let mut script = Script::new(|config| config.sack = false);
    script.data(MSS, 100);
    assert_eq!(script.sacked(), []);
}

/// RFC 2883 §4: duplicate data is reported once, in the first block.
#[test]
fn duplicates_are_told() {
    let mut script = Script::new(|_| {});
    script.data(0, 500);
    script.data(500, 500);
    script.acked();
    script.segment(0, 500);
    assert_eq!(script.sacked(), [(0, 500)], "below the acknowledgement");
    script.data(2_000, 500);
    assert_eq!(script.sacked(), [(2_000, 2_500)]);
    script.data(2_100, 100);
    assert_eq!(script.sacked(), [(2_100, 2_200), (2_000, 2_500)], "within an island");
    script.data(900, 300);
    assert_eq!(script.sacked(), [(900, 1_000), (2_000, 2_500)], "half of it");
    assert_eq!(script.receiver.statistics().duplicates, 2);
}

/// Regression, found by the fuzzer: a block that ended before it began.
#[test]
fn what_comes_from_before_the_stream_is_no_duplicate() {
    let mut script = Script::new(|_| {});
    script.flags = Flags::FIN;
    script.segment(u32::MAX - 9, 9);
    assert_eq!(script.sacked(), []);
    script.flags = Flags::NONE;
    script.segment(u32::MAX - 9, 10);
    assert_eq!(script.sacked(), []);
    assert_eq!(script.data(0, 10), 10);
}

/// RFC 9293 §3.8.6: the edge stays while the application does not read, and moves by steps of a segment at least.
#[test]
fn the_window_closes_and_opens_without_silly_steps() {
    let mut script = Script::new(|_| {});
    for n in 0..4 {
        script.data(2 * n * MSS, MSS);
        script.data((2 * n + 1) * MSS, MSS);
        let ack = script.acked();
        assert_eq!(ack.upto + ack.window, 8_000, "the edge stays");
    }
    let mut out = Vec::new();
    script.receiver.read(999, &mut out);
    assert_eq!(script.ack(), None, "a step that is not worth a segment");
    assert_eq!(script.sent().window, 0);
    script.receiver.read(1, &mut out);
    assert_eq!(script.acked().window, 1_000, "one that is");
    script.receiver.read(999, &mut out);
    assert_eq!(script.ack(), None);
    script.receiver.read(1, &mut out);
    assert_eq!(script.acked().window, 2_000);
    script.receiver.read(1_000, &mut out);
    assert_eq!(script.ack(), None, "half as much again is no news, and waits for the next acknowledgement");
    assert_eq!(script.sent().window, 3_000);
    script.receiver.read(usize::MAX, &mut out);
    assert_eq!(script.acked().window, 8_000);
}

#[test]
fn a_small_buffer_opens_by_its_half() {
    let mut script = Script::new(|config| config.buffer = 600);
    script.data(0, 600);
    assert_eq!(script.sent().window, 0);
    let mut out = Vec::new();
    script.receiver.read(299, &mut out);
    assert_eq!(script.sent().window, 0);
    script.receiver.read(1, &mut out);
    assert_eq!(script.sent().window, 300);
}

/// Data beyond the window is cut, and the segment is answered; its acknowledgement still counts.
#[test]
fn a_probe_of_a_closed_window_is_answered() {
    let mut script = Script::new(|_| {});
    for n in 0..8 {
        script.data(n * MSS, MSS);
    }
    assert_eq!(script.sent().window, 0);
    let (acceptance, receipt) = script.segment(8_000, 1);
    assert_eq!((acceptance, receipt.bytes), (Acceptance::Acceptable, 0));
    let ack = script.acked();
    assert_eq!((ack.upto, ack.window), (8_000, 0));
    // A keepalive probe as Linux sends it: an empty segment below the window.
    assert_eq!(script.segment(7_999, 0).0, Acceptance::OutsideWindow);
    assert_eq!(script.acked().upto, 8_000);
    script.read();
    assert_eq!(script.acked().window, 8_000);
    assert_eq!(script.data(8_000, 8_001), 8_000, "the last byte is one too many");
    assert_eq!(script.receiver.statistics().refused, 2);
}

/// RFC 7323 §2: the field is scaled, the edge is rounded down to a multiple of the scale, and the window does not
/// shrink.
#[test]
fn a_scaled_window_is_rounded_down_and_kept() {
    let mut script = Script::new(|config| (config.buffer, config.window_scale) = (1 << 20, 5));
    script.data(0, 10);
    // The SYN advertised 65535 bytes; a larger window is advertised now.
    let ack = script.sent();
    assert_eq!(ack.window, (1 << 20) - 32);
    let promised = ack.upto + ack.window;
    script.data(10, 31);
    let ack = script.sent();
    assert!(ack.upto + ack.window <= 1 << 20);
    assert!(ack.upto + ack.window > promised - 32, "it may step back by less than a unit");
    assert_eq!(script.segment(promised - 1, 1).0, Acceptance::Acceptable);
    assert_eq!(script.sacked(), [(promised - 1, promised)], "and the byte at the promised edge is kept");
}

#[test]
fn a_window_that_was_not_scaled_says_64_kilobytes_at_most() {
    let mut script = Script::new(|config| config.buffer = 1 << 20);
    assert_eq!(script.sent().window, 65_535);
    for at in 0..65 {
        script.data(at * MSS, MSS);
    }
    assert_eq!(script.sent().window, 65_535);
    let mut syn = Header { flags: Flags::SYN, ..Header::new(1, 2, Seq::new(1)) };
    Script::new(|config| (config.buffer, config.window_scale) = (4_096, 5))
        .receiver
        .stamp(&mut syn, &mut Options::default());
    assert_eq!(syn.window, 4_096, "a SYN's window is not scaled");
}

/// RFC 9293 §3.10.7.4: unacceptable segments are answered, resets are not, and empty segments not too often.
#[test]
fn what_is_outside_the_window_is_answered() {
    let mut script = Script::new(|_| {});
    script.data(0, 500);
    script.sent();
    for (at, len) in [(100_000, 10), (0, 10), (8_001, 10), (u32::MAX - 70_000, 100)] {
        assert_eq!(script.segment(at, len).0, Acceptance::OutsideWindow, "{at}");
        assert_eq!(script.acked().upto, 500);
    }
    assert_eq!(script.segment(499, 0).0, Acceptance::OutsideWindow);
    assert!(script.ack().is_some(), "a keep-alive");
    script.segment(499, 0);
    assert_eq!(script.ack(), None, "not again so soon");
    script.wait(500);
    script.segment(499, 0);
    assert!(script.ack().is_some());
    script.flags = Flags::RST;
    script.wait(500);
    assert_eq!(script.segment(100_000, 0).0, Acceptance::OutsideWindow);
    assert_eq!(script.ack(), None);
    assert_eq!(script.receiver.statistics().unacceptable, 8);
}

#[test]
fn what_was_not_acknowledged_yet_is_still_acceptable() {
    let mut script = Script::new(|_| {});
    script.data(0, 500);
    assert_eq!(script.segment(0, 0).0, Acceptance::Acceptable, "an ACK that the data overtook");
    assert_eq!(script.ack(), None);
    assert_eq!(script.segment(8_000, 0).0, Acceptance::Acceptable, "an ACK of a peer that has filled the window");
}

/// RFC 7323 §4.3: the earliest timestamp that an ACK covers is echoed; not that of data beyond a gap, but that of data
/// that fills one.
#[test]
fn the_echo_is_that_of_the_segment_that_is_timed() {
    let mut script = Script::with_timestamp(Some(1), |_| {});
    let send = |script: &mut Script, timestamp, at: usize| {
        script.timestamp = Some(timestamp);
        script.data(at * 100, 100);
    };
    assert_eq!(script.sent().echo, Some(1), "the SYN's");
    send(&mut script, 2, 0);
    send(&mut script, 3, 1);
    assert_eq!(script.acked().echo, Some(2), "case (A): the first of those acknowledged together");
    send(&mut script, 4, 2);
    assert_eq!(script.sent().echo, Some(4));
    send(&mut script, 6, 4);
    assert_eq!(script.acked().echo, Some(4), "case (B): a gap");
    send(&mut script, 5, 3);
    assert_eq!(script.acked().echo, Some(5), "case (C): filled by what was sent before");
}

#[test]
fn paws_drops_what_is_from_before_but_no_reset() {
    let mut script = Script::with_timestamp(Some(5), |_| {});
    script.data(0, 100);
    script.sent();
    script.timestamp = Some(4);
    assert_eq!(script.segment(100, 100), (Acceptance::OldTimestamp, Receipt::default()));
    assert_eq!(script.acked().upto, 100);
    script.flags = Flags::RST;
    assert_eq!(script.segment(100, 0).0, Acceptance::Acceptable);
    script.flags = Flags::NONE;
    script.timestamp = None;
    assert_eq!(script.segment(100, 100).0, Acceptance::NoTimestamp);
    assert_eq!(script.ack(), None, "dropped silently (RFC 7323 §3.2)");
    script.timestamp = Some(5u32.wrapping_sub(1 << 31).wrapping_sub(1));
    assert_eq!(script.segment(100, 100).0, Acceptance::Acceptable, "half the circle on is later");
    assert_eq!(script.receiver.statistics().strays, 2);
}

/// RFC 7323 §5.5: after 24 days the order of timestamps is unknown.
#[test]
fn paws_forgets_a_clock_that_was_not_heard_for_24_days() {
    let mut script = Script::with_timestamp(Some(5), |_| {});
    let days = |days: u64| days * 24 * 3_600 * 1_000;
    script.timestamp = Some(4);
    script.wait(days(24));
    assert_eq!(script.segment(0, 100).0, Acceptance::OldTimestamp);
    script.wait(1);
    assert_eq!(script.segment(0, 100).0, Acceptance::Acceptable);
    assert_eq!(script.sent().echo, Some(4));
}

/// RFC 3168 §6.1.3: ECE is set from the first mark until CWR arrives.
#[test]
fn marks_are_echoed_until_the_window_was_reduced() {
    let mut script = Script::new(|config| config.ecn = true);
    script.ecn = Ecn::Ect0;
    script.data(0, 100);
    assert!(!script.sent().ece);
    script.ecn = Ecn::Ce;
    script.data(100, 100);
    assert!(script.acked().ece, "and at once");
    script.ecn = Ecn::Ect0;
    script.data(200, 100);
    assert_eq!(script.ack(), None);
    assert!(script.sent().ece);
    script.flags = Flags::CWR;
    script.data(300, 100);
    assert!(!script.sent().ece);
    (script.flags, script.ecn) = (Flags::NONE, Ecn::Ce);
    script.data(400, 100);
    script.flags = Flags::CWR;
    script.data(500, 100);
    assert!(script.sent().ece, "marked anew as the window was reduced");
    script.ecn = Ecn::NotEct;
    script.data(600, 0);
    assert!(script.sent().ece, "CWR counts on data only");
    let mut script = Script::new(|_| {});
    script.ecn = Ecn::Ce;
    script.data(0, 100);
    assert!(!script.sent().ece, "not agreed upon");
}

#[test]
fn a_fin_ends_the_stream_once_everything_is_there() {
    let mut script = Script::new(|_| {});
    script.flags = Flags::FIN;
    let (_, receipt) = script.segment(100, 50);
    assert_eq!(receipt, Receipt::default(), "beyond a gap");
    assert_eq!(script.acked().upto, 0);
    script.flags = Flags::NONE;
    let (_, receipt) = script.segment(0, 100);
    assert_eq!(receipt, Receipt { bytes: 150, datagrams: 0, finished: true });
    assert_eq!(script.acked().upto, 151, "the FIN has a number");
    assert_eq!(script.read(), stream(0, 150));
    assert_eq!(script.ack(), None, "there is no window to tell of");
    let (acceptance, receipt) = script.segment(151, 50);
    assert_eq!((acceptance, receipt), (Acceptance::Acceptable, Receipt::default()), "nothing comes after it");
    assert_eq!(script.acked().upto, 151);
    script.flags = Flags::FIN;
    script.segment(150, 0);
    assert_eq!(script.acked().upto, 151, "a FIN that comes again is acknowledged again");
    assert!(script.receiver.is_finished());
}

#[test]
fn the_first_fin_counts_and_what_lay_beyond_it_is_dropped() {
    let mut script = Script::new(|_| {});
    script.data(0, 100);
    script.data(500, 100);
    script.flags = Flags::FIN;
    script.segment(50, 10);
    assert!(!script.receiver.is_finished(), "a FIN before what was received is nonsense");
    script.segment(200, 0);
    script.segment(300, 0);
    script.flags = Flags::NONE;
    assert_eq!(script.segment(100, 300).1, Receipt { bytes: 100, datagrams: 0, finished: true });
    assert_eq!(script.read(), stream(0, 200));
    assert_eq!(script.receiver.islands(), 0);
}

#[test]
fn a_fin_takes_no_room_and_acks_after_it_pass() {
    let mut script = Script::new(|_| {});
    for n in 0..8 {
        script.data(n * MSS, MSS);
    }
    script.sent();
    script.flags = Flags::FIN;
    assert!(script.segment(8_000, 0).1.finished);
    assert_eq!(script.acked().upto, 8_001);
    script.flags = Flags::NONE;
    assert_eq!(script.segment(8_001, 0).0, Acceptance::Acceptable);
}

#[test]
fn a_peer_that_sends_every_other_byte_costs_no_more_than_the_islands_that_are_allowed() {
    let mut script = Script::new(|config| (config.buffer, config.max_islands) = (60_000, 100));
    for at in (1..60_000).step_by(2) {
        script.segment(at, 1);
        assert!(script.acked().upto == 0);
    }
    assert_eq!(script.receiver.islands(), 100);
    assert!(script.receiver.capacity() <= 60_000);
    // Data in order, and data that joins islands, is accepted all the same.
    assert_eq!(script.data(0, 1), 2);
    assert_eq!(script.data(2, 400), 400);
    assert_eq!(script.receiver.islands(), 0);
    assert_eq!(script.read(), stream(0, 402));
}

#[test]
fn the_memory_stays_within_the_buffer() {
    let mut script = Script::new(|config| (config.buffer, config.window_scale) = (100_000, 1));
    script.sent();
    let mut at = 0;
    for round in 0..50 {
        let edge = at + 99_000;
        script.segment(edge, 900);
        script.data(at as usize, MSS);
        at += MSS as u32;
        if round % 3 == 0 {
            script.read();
        }
        script.sent();
        assert!(script.receiver.capacity() <= 100_000);
    }
}

/// Stream offsets have 64 bits and sequence numbers 32: they agree after the numbers have wrapped, too.
#[test]
fn more_than_all_numbers_go_through() {
    let mut script = Script::new(|config| (config.buffer, config.window_scale) = (64 << 20, 10));
    let payload = vec![7; 16 << 20];
    let header = Header::new(1, 2, Seq::default());
    let mut out = Vec::new();
    for round in 0..260_u64 {
        let seq = SYN + 1 + (round * payload.len() as u64) as u32;
        let segment = Segment { header: Header { seq, ..header }, options: Options::default(), payload: &payload };
        script.sent();
        assert!(script.receiver.accept(script.now, &segment).is_acceptable(), "{round}");
        assert_eq!(script.receiver.on_segment(script.now, &segment, Ecn::NotEct).bytes, payload.len());
        assert_eq!(script.receiver.next(), seq + payload.len() as u32);
        out.clear();
        assert_eq!(script.receiver.read(usize::MAX, &mut out), payload.len());
    }
}
