//! Tests of the sender with honest and lying receivers (RFC 4342 §9, RFC 5348 §10).

use super::super::options::LossInterval;
use super::*;

const RTT: Duration = Duration::from_millis(100);
const SEGMENT: u64 = 1_000;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A sender of a packet every ten milliseconds, 100 kB/s, whatever it might send.
struct Line {
    sender: Sender,
    now: Instant,
    sent: u64,
}

impl Line {
    fn new(small: bool) -> Self {
        let mut sender = Sender::new(small, SEGMENT, SEGMENT + 64);
        sender.on_handshake(at(0), RTT);
        Self { sender, now: at(0), sent: 0 }
    }

    /// A round trip of ten packets, and then `heard` for what was sent a round trip ago.
    fn round(&mut self, elapsed: Duration, heard: impl FnOnce(u64) -> Heard) -> Result<bool, Implausible> {
        for _ in 0..10 {
            self.sender.sent_data(self.now, Seq::new(self.sent), SEGMENT, SEGMENT + 16);
            self.sent += 1;
            self.now += Duration::from_millis(10);
        }
        self.sender.on_timeout(self.now);
        let ack = self.sent.saturating_sub(10);
        self.sender.on_ack(self.now, Seq::new(ack));
        let acknowledged = Acknowledged { ack: Seq::new(ack), iss: Seq::new(0), elapsed, missing: &[] };
        self.sender.on_feedback(self.now, &acknowledged, &heard(ack))
    }

    fn rate(&self) -> f64 {
        self.sender.tfrc.rate().as_bps() as f64 / 8.0
    }
}

/// No loss so far.
fn clear(rate: u32) -> impl Fn(u64) -> Heard {
    move |ack| Heard {
        receive_rate: Some(rate),
        intervals: vec![LossInterval { lossless: ack as u32 + 1, ..LossInterval::default() }],
        ..Heard::default()
    }
}

#[test]
fn a_receiver_that_claims_a_huge_rate_and_no_loss_gets_a_few_times_what_is_sent() {
    let [honest, liar] = [100_000, u32::MAX].map(|rate| {
        let mut line = Line::new(false);
        // The first packet alone measures nothing.
        line.round(Duration::ZERO, clear(0)).unwrap();
        for _ in 0..30 {
            assert_eq!(line.round(Duration::ZERO, clear(rate)), Ok(true));
        }
        line
    });
    assert_eq!(honest.sender.capped(), 0);
    assert!(liar.sender.capped() > 20);
    assert!((honest.rate() - 200_000.0).abs() < 10_000.0, "twice what arrives: {}", honest.rate());
    assert!(liar.rate() <= 440_000.0, "twice what can have arrived: {}", liar.rate());
}

#[test]
fn a_receiver_that_shortens_the_round_trip_gets_half_of_it_at_most() {
    let mut line = Line::new(false);
    for _ in 0..20 {
        let elapsed = RTT.saturating_sub(Duration::from_micros(1));
        line.round(elapsed, clear(100_000)).unwrap();
    }
    assert!(line.sender.rtt().unwrap() >= RTT / 2, "{:?}", line.sender.rtt());
}

#[test]
fn a_packet_cannot_be_had_for_longer_than_since_it_was_sent() {
    let mut line = Line::new(false);
    line.round(Duration::ZERO, clear(100_000)).unwrap();
    let before = line.rate();
    let lie = line.round(RTT * 2, clear(100_000));
    assert!(matches!(lie, Err(Implausible::Delay { .. })), "{lie:?}");
    assert_eq!(line.rate(), before);
}

#[test]
fn who_tells_nothing_that_can_be_believed_is_as_one_who_is_silent() {
    let mut line = Line::new(false);
    for _ in 0..10 {
        line.round(Duration::ZERO, clear(100_000)).unwrap();
    }
    let before = line.rate();
    for _ in 0..40 {
        let lie = |ack| Heard { skip: 9, ..clear(u32::MAX)(ack) };
        assert_eq!(line.round(Duration::ZERO, lie), Err(Implausible::Skip(9)));
    }
    assert!(line.rate() < before / 50.0, "{before} and {}", line.rate());
}

#[test]
fn a_loss_event_slows_the_rate_down_and_a_loss_event_rate_alone_does_too() {
    let lossy = |ack: u64| Heard {
        receive_rate: Some(100_000),
        intervals: vec![
            LossInterval { lossless: 4, lossy: 1, nonce: false, data: 5 },
            LossInterval { lossless: ack as u32 - 4, lossy: 0, nonce: false, data: 10 },
        ],
        ..Heard::default()
    };
    let by_rate = |_| Heard { receive_rate: Some(100_000), loss_event_rate: Some(0.1), ..Heard::default() };
    let mut lines = [Line::new(false), Line::new(false)];
    for line in &mut lines {
        for _ in 0..10 {
            line.round(Duration::ZERO, clear(100_000)).unwrap();
        }
    }
    lines[0].round(Duration::ZERO, lossy).unwrap();
    lines[1].round(Duration::ZERO, by_rate).unwrap();
    let expected = equation::rate(SEGMENT, RTT, 0.1).as_bps() as f64 / 8.0;
    for line in &lines {
        assert!((line.sender.loss_event_rate() - 0.1).abs() < 1e-9);
        assert!((line.rate() / expected - 1.0).abs() < 0.01, "{} of {expected}", line.rate());
    }
}

#[test]
fn feedback_that_was_overtaken_tells_nothing() {
    let mut line = Line::new(false);
    for _ in 0..3 {
        line.round(Duration::ZERO, clear(100_000)).unwrap();
    }
    let rate = line.rate();
    let old = Acknowledged { ack: Seq::new(5), iss: Seq::new(0), elapsed: Duration::ZERO, missing: &[] };
    assert_eq!(line.sender.on_feedback(line.now, &old, &clear(0)(5)), Ok(false));
    let unsent = Acknowledged { ack: Seq::new(1_000_000), ..old };
    assert_eq!(line.sender.on_feedback(line.now, &unsent, &clear(0)(5)), Ok(false));
    assert_eq!(line.rate(), rate);
}

#[test]
fn the_window_counter_of_a_packet_is_that_of_the_instant_at_which_it_leaves() {
    let mut line = Line::new(false);
    let values: Vec<u8> = (0..12)
        .map(|n| {
            let value = line.sender.window_counter(line.now);
            assert_eq!(line.sender.window_counter(line.now), value, "to look changes nothing");
            line.sender.sent_data(line.now, Seq::new(n), SEGMENT, SEGMENT);
            line.now += Duration::from_millis(10);
            value
        })
        .collect();
    assert_eq!(values, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    line.sender.on_ack(line.now, Seq::new(11));
    assert_eq!(line.sender.window_counter(line.now), 7, "a round trip after what has arrived");
}

#[test]
fn what_is_granted_by_counts_headers() {
    let mut line = Line::new(false);
    for _ in 0..20 {
        line.round(Duration::ZERO, clear(100_000)).unwrap();
    }
    let steering = line.sender.steering();
    let share = steering.rate.as_bps() as f64 / 8.0 / line.rate();
    assert!((1.015..1.02).contains(&share), "{share}: 16 bytes of each 1016");
    assert!(steering.window > steering.rate.bytes_in(RTT * 5));
}

#[test]
fn ccid_4_waits_ten_milliseconds_between_packets() {
    let (mut small, mut large) = (Line::new(true), Line::new(false));
    for line in [&mut small, &mut large] {
        line.sender.sent_data(line.now, Seq::new(0), SEGMENT, SEGMENT);
    }
    assert_eq!(small.sender.waits_until(at(1)), Some(at(10)));
    assert_eq!((small.sender.waits_until(at(10)), large.sender.waits_until(at(1))), (None, None));
}

/// Found by `timeous-lab dbat-buffering`: a packet every minute told of eight bytes a second, so that no other left for a minute.
#[test]
fn after_a_silence_a_packet_in_a_round_trip_is_believed() {
    let mut sender = Sender::new(false, SEGMENT, SEGMENT + 64);
    sender.on_handshake(at(0), RTT);
    let mut hear = |number: u64, sent_at: Instant, rate| {
        sender.sent_data(sent_at, Seq::new(number), SEGMENT, SEGMENT + 16);
        let (ack, iss) = (Seq::new(number), Seq::new(0));
        sender.on_ack(sent_at + RTT, ack);
        let acknowledged = Acknowledged { ack, iss, elapsed: Duration::ZERO, missing: &[] };
        sender.on_feedback(sent_at + RTT, &acknowledged, &clear(rate)(number)).unwrap();
        sender.capped()
    };
    assert_eq!(hear(0, at(0), 0), 0);
    assert_eq!(
        hear(1, at(60_000), 10_000),
        0,
        "a packet in a round trip, as the receiver has to measure it (RFC 5348 §6.2)"
    );
    assert_eq!(hear(2, at(120_000), 40_000), 1, "four never left");
}
