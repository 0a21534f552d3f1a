//! Tests of a link in virtual time: departures to the nanosecond, bounds, loss, traces.

mod queues;
mod variation;

use timeous_core::{Ecn, Rate};

use super::*;

const PACKET: usize = 1_000;

/// Numbers are packets that cannot be marked.
impl Markable for u32 {
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn mark(&mut self) {
        unreachable!("only what is ECN-capable is marked");
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn link(config: LinkConfig) -> Link<u32> {
    Link::new(config, Rng::from_seed(1))
}

fn fixed(kbps: u64) -> Capacity {
    Capacity::Fixed(Rate::from_kbps(kbps))
}

fn trace(text: &str) -> Capacity {
    Capacity::Trace(text.parse().unwrap())
}

/// Hands in `count` packets at zero and takes out whatever arrives.
fn burst(link: &mut Link<u32>, count: u32) -> Vec<(Instant, u32)> {
    for packet in 0..count {
        link.handle_packet(Instant::ZERO, PACKET, packet);
    }
    drain(link)
}

fn drain(link: &mut Link<u32>) -> Vec<(Instant, u32)> {
    let mut arrivals = Vec::new();
    while let Some(due) = link.poll_timeout() {
        let early = due.saturating_sub(Duration::from_nanos(1));
        assert!(early < link.now || early == due || link.poll_deliver(early).is_none(), "nothing is early");
        arrivals.push(link.poll_deliver(due).expect("what is due arrives"));
    }
    arrivals
}

fn instants(arrivals: &[(Instant, u32)]) -> Vec<Instant> {
    arrivals.iter().map(|(instant, _)| *instant).collect()
}

#[test]
fn packets_leave_one_transmission_time_apart_and_arrive_a_delay_later() {
    let mut link = link(LinkConfig { capacity: fixed(800), delay: Duration::from_millis(40), ..Default::default() });
    assert_eq!(burst(&mut link, 3), [(at(50), 0), (at(60), 1), (at(70), 2)]);
    assert_eq!(link.counters().max_queue_delay, Duration::from_millis(20));
    assert_eq!(link.counters().max_queue_len, 2);
}

#[test]
fn an_idle_transmitter_begins_at_once() {
    let mut link = link(LinkConfig { capacity: fixed(800), ..Default::default() });
    link.handle_packet(at(0), PACKET, 0);
    link.handle_packet(at(7), PACKET, 1);
    link.handle_packet(at(100), PACKET, 2);
    assert_eq!(instants(&drain(&mut link)), [at(10), at(20), at(110)]);
}

#[test]
fn without_a_rate_there_is_only_the_delay() {
    let mut link = link(LinkConfig { delay: Duration::from_millis(5), queue: Limit::Packets(0), ..Default::default() });
    assert_eq!(instants(&burst(&mut link, 3)), [at(5), at(5), at(5)]);
    assert_eq!(link.counters().max_queue_len, 0);
}

#[test]
fn a_rate_that_does_not_divide_a_second_does_not_drift() {
    // 8000 bits at 3 Mbit/s take 2_666_666 and two thirds of a nanosecond: three packets take 8 ms, always.
    let mut link = link(LinkConfig { capacity: fixed(3_000), queue: Limit::Packets(usize::MAX), ..Default::default() });
    let arrivals = instants(&burst(&mut link, 30_000));
    assert_eq!(arrivals[0], Instant::from_nanos(2_666_667));
    assert_eq!(arrivals[1], Instant::from_nanos(5_333_334));
    assert_eq!(arrivals[2], at(8));
    assert_eq!(arrivals[29_999], at(80_000));
}

#[test]
fn a_rate_beyond_a_byte_a_nanosecond_does_not_drift_either() {
    // 1 byte at 24 Gbit/s takes a third of a nanosecond.
    let mut link = link(LinkConfig { capacity: fixed(24_000_000), ..Default::default() });
    for packet in 0..9 {
        link.handle_packet(at(1), 1, packet);
    }
    let nanos: Vec<u64> = drain(&mut link).iter().map(|(instant, _)| (*instant - at(1)).as_nanos()).collect();
    assert_eq!(nanos, [1, 1, 1, 2, 2, 2, 3, 3, 3]);
}

#[test]
fn a_full_bucket_empties_at_once_and_fills_at_the_rate() {
    let config = LinkConfig { capacity: fixed(800), burst: 3 * PACKET as u64, ..Default::default() };
    let mut link = link(config);
    // Three packets of credit, then 10 ms each.
    assert_eq!(instants(&burst(&mut link, 5)), [at(0), at(0), at(0), at(10), at(20)]);
    // 15 ms of idleness are one and a half packets: the second one has 5 ms to wait.
    link.handle_packet(at(35), PACKET, 5);
    link.handle_packet(at(35), PACKET, 6);
    assert_eq!(instants(&drain(&mut link)), [at(35), at(40)]);
    // However long it idles, it never holds more than its depth.
    for packet in 0..4 {
        link.handle_packet(at(10_000), PACKET, packet);
    }
    assert_eq!(instants(&drain(&mut link)), [at(10_000), at(10_000), at(10_000), at(10_010)]);
}

#[test]
fn a_bucket_over_a_trace_fills_at_the_rate_of_the_time() {
    let config = LinkConfig { capacity: trace("0 800\n1 80\n2 8000"), burst: 10_000, ..Default::default() };
    let mut link = link(config);
    link.handle_packet(at(500), 10_000, 0);
    // From 995 to 1000 ms: 500 bytes; from 1000 to 1050 ms: 500 bytes.
    link.handle_packet(at(995), 5_000, 1);
    link.handle_packet(at(1_050), PACKET, 2);
    // 500..995 refill 10 000 of which 5 000 stay; nothing is lost but beyond the depth.
    assert_eq!(instants(&drain(&mut link)), [at(500), at(995), at(1_050)]);
    assert_eq!(link.counters().max_queue_delay, Duration::ZERO);
}

#[test]
fn a_late_driver_gets_the_same_departures() {
    let mut prompt = link(LinkConfig { capacity: fixed(3_000), ..Default::default() });
    let mut late = link(LinkConfig { capacity: fixed(3_000), ..Default::default() });
    let expected = burst(&mut prompt, 10);
    for packet in 0..10 {
        late.handle_packet(Instant::ZERO, PACKET, packet);
    }
    let arrivals: Vec<_> = std::iter::from_fn(|| late.poll_deliver(at(5_000))).collect();
    assert_eq!(arrivals, expected);
}

#[test]
fn drop_tail_bounds_what_waits_in_packets_bytes_and_time() {
    // One packet is in the transmitter, the limit is what waits behind it.
    let cases = [
        (Limit::Packets(5), 6),
        (Limit::Bytes(5_999), 6),
        (Limit::Bytes(6_000), 7),
        (Limit::Time(Duration::from_millis(100)), 11),
        (Limit::Packets(0), 2),
        (Limit::Bytes(10), 2),
    ];
    for (queue, taken) in cases {
        let mut link = link(LinkConfig { capacity: fixed(800), queue, ..Default::default() });
        let verdicts: Vec<_> = (0..20).map(|packet| link.handle_packet(Instant::ZERO, PACKET, packet)).collect();
        let queued = verdicts.iter().take_while(|verdict| **verdict == Verdict::Queued).count();
        assert_eq!(queued, taken, "{queue:?}");
        assert!(verdicts[queued..].iter().all(|verdict| *verdict == Verdict::Dropped(DropCause::QueueFull)));
        assert_eq!(link.counters().queue_drops, 20 - taken as u64);
        assert_eq!(drain(&mut link).len(), taken);
    }
}

#[test]
fn the_rate_of_a_trace_may_change_while_a_packet_is_sent() {
    // 8000 bits: 4 ms at 1 Mbit/s bring 4000, the other 4000 take 10 ms at 400 kbit/s.
    let mut link = link(LinkConfig { capacity: trace("0 1000\n0.012 400\n0.0255 4000"), ..Default::default() });
    let arrivals = instants(&burst(&mut link, 3));
    assert_eq!(arrivals[0], at(8));
    assert_eq!(arrivals[1], at(22));
    // From 22 ms: 3.5 ms at 400 kbit/s bring 1400 bits, the other 6600 take 1.65 ms at 4 Mbit/s.
    assert_eq!(arrivals[2], Instant::from_nanos(27_150_000));
}

#[test]
fn nothing_passes_while_the_rate_is_zero() {
    let mut silent = link(LinkConfig { capacity: trace("0 800\n0.005 0\n1 800"), ..Default::default() });
    assert_eq!(instants(&burst(&mut silent, 2)), [at(1_005), at(1_015)]);
    let mut dead = link(LinkConfig { capacity: trace("0 800\n0.005 0"), ..Default::default() });
    assert_eq!(burst(&mut dead, 2), []);
    assert_eq!((dead.in_flight(), dead.queue_len()), (1, 1));
}

#[test]
fn a_trace_repeats_and_whole_periods_are_skipped() {
    let steps = vec![(Duration::ZERO, Rate::from_kbps(8)), (Duration::from_millis(10), Rate::ZERO)];
    let repeating = RateTrace::new(steps).unwrap().repeating(Duration::from_millis(100)).unwrap();
    // 80 bits pass in each period, within its first 10 ms: 8000 bits need 100 of them.
    let mut link = link(LinkConfig { capacity: Capacity::Trace(repeating), ..Default::default() });
    assert_eq!(instants(&burst(&mut link, 2)), [at(9_910), at(19_910)]);
}

#[test]
fn a_mahimahi_trace_gives_a_packet_at_each_opportunity() {
    let mut link = link(LinkConfig { capacity: trace("3\n4\n4\n10\n"), ..Default::default() });
    for packet in 0..6 {
        link.handle_packet(Instant::ZERO, 1_500, packet);
    }
    let half = Instant::from_nanos(3_500_000);
    assert_eq!(instants(&drain(&mut link)), [at(3), half, at(4), at(10), at(13), Instant::from_nanos(13_500_000)]);
}

#[test]
fn traces_are_read_and_refused() {
    let expected: RateTrace = "0 1500\n10 400".parse().unwrap();
    assert_eq!("time,rate\n# a comment\n0,1500\n\n10.0, 400.0 # less\n".parse::<RateTrace>().unwrap(), expected);
    for text in ["", "1 5", "0 5\n0 6", "0 5\n3", "3\n0 5", "x", "0 -5", "0 5\na,b", "5\n4", "0"] {
        assert!(text.parse::<RateTrace>().is_err(), "{text:?}");
    }
}

#[test]
fn independent_loss_takes_its_share() {
    let mut link = link(LinkConfig { loss: Loss::Bernoulli { p: 0.1 }, ..Default::default() });
    let delivered = burst(&mut link, 100_000).len() as u64;
    assert_eq!(link.counters().losses + delivered, 100_000);
    // Within five standard deviations (95 packets each).
    assert!(link.counters().losses.abs_diff(10_000) < 475, "{}", link.counters().losses);
}

#[test]
fn lost_packets_take_no_capacity() {
    let config = LinkConfig { capacity: fixed(800), loss: Loss::Bernoulli { p: 0.5 }, ..Default::default() };
    let arrivals = instants(&burst(&mut link(config), 100));
    assert_eq!(*arrivals.last().unwrap(), at(10 * arrivals.len() as u64));
}

#[test]
fn bursts_are_as_long_and_as_frequent_as_gilbert_and_elliott_say() {
    let loss = Loss::GilbertElliott { p: 0.01, r: 0.25, bad_loss: 1.0, good_loss: 0.0 };
    let mut process = LossProcess::new(loss, Rng::from_seed(5));
    let lost: Vec<bool> = (0..400_000).map(|_| process.strikes()).collect();
    let total = lost.iter().filter(|lost| **lost).count() as f64;
    let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
    // Mean burst 1/r = 4 packets; the share p/(p+r). About 15 000 bursts: 4 % is more than five standard errors.
    assert!((total / bursts - 4.0).abs() < 0.16, "{}", total / bursts);
    assert!((total / 400_000.0 / loss.mean() - 1.0).abs() < 0.06, "{} {}", total / 400_000.0, loss.mean());
}

#[test]
fn both_states_lose_at_their_own_rates() {
    let loss: Loss = "1%,9%,50%,1%".parse().unwrap();
    assert_eq!(loss, Loss::GilbertElliott { p: 0.01, r: 0.09, bad_loss: 0.5, good_loss: 0.01 });
    assert!((loss.mean() - 0.059).abs() < 1e-12);
    let mut process = LossProcess::new(loss, Rng::from_seed(5));
    let lost = (0..400_000).filter(|_| process.strikes()).count() as f64 / 400_000.0;
    assert!((lost / 0.059 - 1.0).abs() < 0.08, "{lost}");
}

#[test]
fn bursts_default_as_with_netem() {
    let expected = Loss::GilbertElliott { p: 0.25, r: 0.75, bad_loss: 1.0, good_loss: 0.0 };
    assert_eq!(Loss::parse_burst("25%"), Ok(expected));
    assert!(Loss::parse_burst("1%,2%,3%,4%,5%").is_err());
    assert!(Loss::parse_burst("").is_err());
}

#[test]
fn one_seed_gives_one_result_and_another_another() {
    let run = |seed| {
        let config = LinkConfig { capacity: fixed(800), loss: "2%,30%".parse().unwrap(), ..Default::default() };
        burst(&mut Link::new(config, Rng::from_seed(seed)), 1_000)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn time_that_goes_back_counts_as_the_latest() {
    let mut link = link(LinkConfig { capacity: fixed(800), ..Default::default() });
    link.handle_packet(at(100), PACKET, 0);
    link.handle_packet(at(50), PACKET, 1);
    assert_eq!(instants(&drain(&mut link)), [at(110), at(120)]);
}

#[test]
fn queue_limits_are_read() {
    assert_eq!("100ms".parse(), Ok(Limit::Time(Duration::from_millis(100))));
    assert_eq!("30p".parse(), Ok(Limit::Packets(30)));
    assert_eq!("64k".parse(), Ok(Limit::Bytes(64_000)));
    for text in ["", "p", "30packets", "-1", "1.5p"] {
        assert!(text.parse::<Limit>().is_err(), "{text}");
    }
}

/// Drops at its head what has waited longer than a limit, and counts what it was asked.
#[derive(Default)]
struct HeadDrop {
    waiting: std::collections::VecDeque<Waiting<u32>>,
}

impl Discipline<u32> for HeadDrop {
    fn enqueue(&mut self, _: Instant, packet: Waiting<u32>) -> Result<(), DropCause> {
        self.waiting.push_back(packet);
        Ok(())
    }
    fn dequeue(&mut self, now: Instant) -> Next<u32> {
        match self.waiting.pop_front() {
            Some(packet) if now - packet.since > Duration::from_millis(15) => Next::Drop(packet),
            Some(packet) => Next::Send(packet),
            None => Next::Empty,
        }
    }
    fn len(&self) -> usize {
        self.waiting.len()
    }
    fn bytes(&self) -> u64 {
        self.waiting.iter().map(|packet| packet.len as u64).sum()
    }
}

#[test]
fn a_discipline_of_another_kind_may_drop_on_the_way_out() {
    let config = LinkConfig { capacity: fixed(800), ..Default::default() };
    let mut link = Link::with_discipline(config, Box::new(HeadDrop::default()), Rng::from_seed(1));
    assert_eq!(burst(&mut link, 5), [(at(10), 0), (at(20), 1)]);
    assert_eq!(link.counters().queue_drops, 3);
    link.handle_packet(at(21), PACKET, 9);
    assert_eq!(drain(&mut link), [(at(31), 9)]);
}
