//! Tests of active queue management, step by step and on average.

use super::super::red::RedConfig;
use super::*;

/// A packet with an ECN field.
#[derive(Clone, Debug, PartialEq)]
struct Capable(Ecn);

impl Markable for Capable {
    fn ecn(&self) -> Ecn {
        self.0
    }
    fn mark(&mut self) {
        self.0 = Ecn::Ce;
    }
}

fn waiting<P>(packet: P, now: Instant) -> Waiting<P> {
    Waiting { packet, len: PACKET, since: now }
}

fn red(config: RedConfig, seed: u64) -> Red<Capable> {
    let rate = Some(Rate::from_kbps(8_000));
    Red::new(config, DropTail::new(Limit::Packets(100), rate), rate, Rng::from_seed(seed))
}

/// Fills a queue whose mean follows its length at once.
fn filled(mut config: RedConfig, len: usize, seed: u64) -> Red<Capable> {
    let (min, max) = (config.min, config.max);
    (config.weight, config.min, config.max) = (1.0, 1.1, 1.2);
    let mut queue = red(config, seed);
    for _ in 0..len {
        queue.enqueue(Instant::ZERO, waiting(Capable(Ecn::Ect0), Instant::ZERO)).unwrap();
    }
    (queue.config_mut().min, queue.config_mut().max) = (min, max);
    queue
}

/// Lets a packet in and the first one out, so that the length stays; what became of it.
fn step(queue: &mut Red<Capable>, ecn: Ecn) -> Result<bool, DropCause> {
    let before = queue.marks();
    queue.enqueue(Instant::ZERO, waiting(Capable(ecn), Instant::ZERO))?;
    assert!(matches!(queue.dequeue(Instant::ZERO), Next::Send(_)));
    Ok(queue.marks() > before)
}

#[test]
fn red_marks_by_the_mean_length_a_share_between_its_thresholds() {
    const STEPS: u64 = 40_000;
    let config = RedConfig { min: 0.2, max: 0.6, max_p: 0.1, ..RedConfig::default() };
    // Lengths, and p_b there. Gaps are uniform from 1 to 1/p_b - 1, so that 2 p_b are marked (Floyd & Jacobson §7).
    for (len, p_b) in [(10, 0.0), (20, 0.0), (40, 0.05), (59, 0.0975)] {
        let mut queue = filled(config, len, 7);
        let marked = (0..STEPS).filter(|_| step(&mut queue, Ecn::Ect0) == Ok(true)).count() as f64;
        let expected = 2.0 * p_b * STEPS as f64;
        assert!((marked - expected).abs() <= expected * 0.05, "{len}: {marked} marked, {expected} expected");
    }
}

#[test]
fn red_spreads_its_marks_evenly() {
    let config = RedConfig { min: 0.2, max: 0.6, max_p: 0.1, ..RedConfig::default() };
    let mut queue = filled(config, 40, 3);
    let marked: Vec<usize> = (0..20_000).filter(|_| step(&mut queue, Ecn::Ect1) == Ok(true)).collect();
    let longest = marked.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    // p_b is 5 %: a uniform gap is never longer than 1/p_b, where a geometric one would be ten times as long.
    assert!((18..=20).contains(&longest), "{longest}");
}

#[test]
fn red_drops_what_cannot_be_marked_and_above_its_upper_threshold_anything() {
    let config = RedConfig { min: 0.2, max: 0.4, max_p: 0.1, ..RedConfig::default() };
    let fates = |len, ecn, config| {
        let mut queue = filled(config, len, 1);
        let fates: Vec<_> = (0..2_000).map(|_| step(&mut queue, ecn)).collect();
        let count = |fate| fates.iter().filter(|other| **other == fate).count();
        (count(Ok(true)), count(Err(DropCause::Early)))
    };
    let (marked, dropped) = fates(39, Ecn::NotEct, config);
    assert!(marked == 0 && dropped > 250, "{marked} {dropped}");
    let (marked, dropped) = fates(39, Ecn::Ect0, RedConfig { ecn: false, ..config });
    assert!(marked == 0 && dropped > 250, "{marked} {dropped}");
    let (marked, dropped) = fates(39, Ecn::Ect0, config);
    assert!(marked > 250 && dropped == 0, "{marked} {dropped}");
    // Gentle: between max and twice max the share grows to all.
    let (marked, some) = fates(50, Ecn::Ect0, config);
    assert!(marked == 0 && some > 500 && some < 1_500, "{marked} {some}");
    assert_eq!(fates(80, Ecn::Ect0, config), (0, 2_000));
}

#[test]
fn the_mean_of_red_follows_slowly_and_forgets_while_nothing_waits() {
    let mut queue = red(RedConfig { weight: 0.01, ..RedConfig::default() }, 1);
    for _ in 0..50 {
        queue.enqueue(Instant::ZERO, waiting(Capable(Ecn::Ect0), Instant::ZERO)).unwrap();
    }
    // The exponentially weighted mean of 0, 1%, … 49%.
    let expected = (0..50).fold(0.0, |mean, len| 0.99 * mean + 0.01 * f64::from(len) / 100.0);
    assert!((queue.mean() - expected).abs() < 1e-9, "{}", queue.mean());
    while queue.len() > 0 {
        queue.dequeue(at(100));
    }
    // 1000 bytes at 8 Mbit/s take a millisecond: 100 of them could have been sent meanwhile.
    queue.enqueue(at(200), waiting(Capable(Ecn::Ect0), at(200))).unwrap();
    assert!((queue.mean() - expected * 0.99f64.powi(100)).abs() < 1e-9, "{}", queue.mean());
}

const CODEL: CodelConfig =
    CodelConfig { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: true };

/// A link of 1000 packets a second into which packets come at twice the rate, for `seconds`; when each drop and each
/// mark happened.
fn overload(kind: CodelConfig, ecn: Ecn, seconds: u64) -> (Vec<Instant>, Vec<Instant>, Counters) {
    let config = LinkConfig {
        capacity: fixed(8_000),
        queue: Limit::Packets(usize::MAX),
        kind: QueueKind::Codel(kind),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, Rng::from_seed(1));
    link.keep_drops();
    let (mut drops, mut marks) = (Vec::new(), Vec::new());
    for half_milli in 0..seconds * 2_000 {
        let now = Instant::ZERO + Duration::from_micros(half_milli * 500);
        link.handle_packet(now, PACKET, Capable(ecn));
        while let Some((arrival, packet)) = link.poll_deliver(now) {
            if packet.0 == Ecn::Ce {
                marks.push(arrival);
            }
        }
        drops.extend(std::iter::from_fn(|| link.poll_drop()).map(|(at, _)| at));
    }
    (drops, marks, *link.counters())
}

#[test]
fn codel_drops_closer_and_closer_while_packets_wait_too_long() {
    let (drops, marks, counters) = overload(CODEL, Ecn::NotEct, 2);
    assert!(marks.is_empty() && counters.marks == 0);
    assert_eq!(counters.queue_drops, drops.len() as u64);
    // At 10 ms packets have waited 5 ms; 100 ms later the first is dropped, the next ones an interval over the root of
    // their number later, at the next transmission.
    let mut expected = at(110);
    for (number, drop) in drops.iter().enumerate() {
        let late = *drop - expected;
        assert!(*drop >= expected && late <= Duration::from_millis(1), "{number}: {drop:?}, not {expected:?}");
        let count = (number + 1) as f64;
        expected += Duration::from_nanos((100e6 / count.sqrt()) as u64);
        if number == 0 {
            expected += late;
        }
    }
    assert!(drops.len() > 80, "{}", drops.len());
}

#[test]
fn codel_marks_what_can_be_marked_instead() {
    let (drops, marks, counters) = overload(CODEL, Ecn::Ect0, 2);
    let (dropped, ..) = overload(CODEL, Ecn::NotEct, 2);
    assert!(drops.is_empty() && counters.queue_drops == 0);
    // The last one may not have arrived yet.
    assert!(counters.marks.abs_diff(marks.len() as u64) <= 1);
    assert!(marks.len().abs_diff(dropped.len()) <= 1, "{} {}", marks.len(), dropped.len());
    let (dropped, marks, _) = overload(CodelConfig { ecn: false, ..CODEL }, Ecn::Ect0, 2);
    assert!(!dropped.is_empty() && marks.is_empty());
}

#[test]
fn codel_leaves_a_burst_alone_that_drains_within_an_interval() {
    let config = LinkConfig { capacity: fixed(8_000), kind: QueueKind::Codel(CODEL), ..LinkConfig::default() };
    let mut link = Link::new(config, Rng::from_seed(1));
    for _ in 0..10 {
        let now = link.now + Duration::from_millis(200);
        for packet in 0..100 {
            link.handle_packet(now, PACKET, packet);
        }
    }
    assert_eq!(drain(&mut link).len(), 1_000);
    assert_eq!(link.counters().queue_drops, 0);
}

#[test]
fn codel_remembers_how_hard_it_had_to_drop() {
    let config = LinkConfig { capacity: fixed(8_000), kind: QueueKind::Codel(CODEL), ..LinkConfig::default() };
    let queue = DropTail::new(Limit::Packets(usize::MAX), None);
    let codel = Codel::new(CODEL, queue, Some(Rate::from_kbps(8_000)));
    let mut link = Link::with_discipline(config, Box::new(codel), Rng::from_seed(1));
    link.keep_drops();
    let mut drops = Vec::new();
    // Two seconds of twice the rate, a pause until all is sent, and the same again.
    for start in [0, 4_500] {
        for half_milli in 0..4_000 {
            let now = at(start) + Duration::from_micros(half_milli * 500);
            link.handle_packet(now, PACKET, 0);
            while link.poll_deliver(now).is_some() {}
            drops.extend(std::iter::from_fn(|| link.poll_drop()).map(|(at, _)| at));
        }
        while let Some(due) = link.poll_timeout() {
            link.poll_deliver(due);
        }
        drops.extend(std::iter::from_fn(|| link.poll_drop()).map(|(at, _)| at));
    }
    let second = drops.iter().position(|drop| *drop >= at(4_500)).expect("the second time it drops again");
    let gap = |index: usize| drops[index + 1] - drops[index];
    assert!(gap(0) >= Duration::from_millis(99), "{:?}", gap(0));
    assert!(gap(second) <= Duration::from_millis(20), "{:?}", gap(second));
}

#[test]
fn the_target_of_codel_is_never_below_a_packets_transmission() {
    // At 400 kbit/s a packet of 1500 bytes takes 30 ms: two that wait are no standing queue to speak of.
    let capacity = fixed(400);
    let config = LinkConfig { capacity, kind: QueueKind::Codel(CODEL), ..LinkConfig::default() };
    let mut link = Link::new(config, Rng::from_seed(1));
    for packet in 0..100 {
        link.handle_packet(at(20 * u64::from(packet)), PACKET, packet);
    }
    assert_eq!(drain(&mut link).len(), 100);
}

#[test]
fn kinds_of_queues_are_read_and_refused() {
    assert_eq!("drop-tail".parse(), Ok(QueueKind::DropTail));
    assert_eq!("red".parse(), Ok(QueueKind::Red(RedConfig::default())));
    let red = RedConfig { min: 0.1, max: 0.3, max_p: 0.02, ecn: false, ..RedConfig::default() };
    assert_eq!("red,10%,30%,2%,noecn".parse(), Ok(QueueKind::Red(red)));
    assert_eq!("codel".parse(), Ok(QueueKind::Codel(CodelConfig::default())));
    let codel = CodelConfig { target: Duration::from_millis(10), interval: Duration::from_millis(200), ecn: true };
    assert_eq!("codel,10ms,200ms".parse(), Ok(QueueKind::Codel(codel)));
    for text in ["", "fifo", "red,50%,10%", "red,1", "codel,5", "codel,5ms,0", "drop-tail,noecn", "codel,1ms,1ms,1ms"] {
        assert!(text.parse::<QueueKind>().is_err(), "{text}");
    }
}
