//! Tests of the path model: links that serve in order, narrow, in turns, and behind others.

use super::*;

const MS: Duration = Duration::from_millis(1);
const HEADERS: u16 = 28;
const LEAST: Option<Duration> = Some(Duration::from_millis(40));

/// Bottleneck that serves in order.
struct Link {
    rate: Rate,
    free: Instant,
    others: Duration,
}

impl Link {
    fn arrival(&mut self, now: Instant, bytes: u64) -> Instant {
        self.free = (now + self.others).max(self.free) + self.rate.time_for(bytes + u64::from(HEADERS));
        self.free + MS * 20
    }
}

/// Sends packets of 1000 bytes at these times, each observed when its acknowledgement comes; returns the errors.
fn errors(link: &mut Link, model: &mut PathModel, times: impl Iterator<Item = u64>, uncertain: Duration) -> Vec<f64> {
    let mut under_way: std::collections::VecDeque<(Departure, Instant)> = std::collections::VecDeque::new();
    let mut errors = Vec::new();
    for millis in times {
        let now = Instant::ZERO + MS * millis;
        while let Some(&(departure, at)) = under_way.front().filter(|(_, at)| *at + MS * 20 + uncertain <= now) {
            under_way.pop_front();
            let observed = Observed { departure, answered: at + MS * 20 + uncertain, uncertain };
            if let Some(least) = model.find_longer(&observed) {
                model.begin_anew(observed.answered, least);
            }
            model.acked(1_000);
            model.arrived(observed, LEAST);
        }
        let at = link.arrival(now, 1_000);
        model.sent(now, (1_000, HEADERS), LEAST);
        let departure = model.departure(HEADERS, LEAST);
        let expected = departure.expected;
        errors.push(at.saturating_since(expected).as_secs_f64() - expected.saturating_since(at).as_secs_f64());
        under_way.push_back((departure, at));
    }
    errors
}

fn largest(errors: &[f64]) -> f64 {
    errors.iter().fold(0.0, |most, error| most.max(error.abs()))
}

#[test]
fn a_narrow_link_is_known_from_the_first_packets_that_wait_behind_each_other() {
    let mut link = Link { rate: Rate::from_kbps(800), free: Instant::ZERO, others: Duration::ZERO };
    let mut model = PathModel::default();
    // Bursts of four packets, which take 40 ms, each 100 ms.
    let errors = errors(&mut link, &mut model, (0..400).map(|n| n / 4 * 100), Duration::ZERO);
    assert!(largest(&errors[8..]) < 0.001, "{:?}", &errors[..20]);
    assert!(model.capacity.unwrap().as_bps().abs_diff(800_000) < 1_000);
}

/// The first packet's time on the link stayed in the minimum round trip until it was forgotten.
#[test]
fn a_queue_that_never_empties_is_no_part_of_the_path() {
    let mut link = Link { rate: Rate::from_kbps(300), free: Instant::ZERO, others: Duration::ZERO };
    let mut model = PathModel::default();
    errors(&mut link, &mut model, (0..40).map(|n| n * 27), Duration::ZERO);
    let base = model.base.get().unwrap();
    assert!(base.abs_diff(MS * 40) < MS, "{base:?}");
}

#[test]
fn a_step_of_the_rate_is_followed_within_a_few_packets() {
    let mut link = Link { rate: Rate::from_kbps(1_600), free: Instant::ZERO, others: Duration::ZERO };
    let mut model = PathModel::default();
    errors(&mut link, &mut model, (0..400).map(|n| n / 4 * 100), Duration::ZERO);
    for kbps in [800, 1_600] {
        link.rate = Rate::from_kbps(kbps);
        let begin = u64::from(kbps == 800) * 10_000 + u64::from(kbps == 1_600) * 30_000;
        let errors = errors(&mut link, &mut model, (0..100).map(|n| begin + n / 4 * 100), Duration::ZERO);
        assert!(largest(&errors[12..]) < 0.003, "{kbps}: {errors:?}");
    }
}

/// Sends packets of these sizes at once, each of which arrives so long after the first one; returns the rate known then, in kbit/s.
fn passes<const N: usize>(model: &mut PathModel, now: Instant, packets: [(u64, Duration); N]) -> u64 {
    let departures = packets.map(|(bytes, _)| {
        model.sent(now, (bytes, HEADERS), LEAST);
        model.departure(HEADERS, LEAST)
    });
    for ((bytes, after), departure) in packets.into_iter().zip(departures) {
        model.acked(bytes);
        model.arrived(Observed { departure, answered: now + MS * 40 + after, uncertain: Duration::ZERO }, LEAST);
    }
    model.capacity.unwrap().as_bps() / 1_000
}

/// It was taken for one of 1.3 Mbit/s.
#[test]
fn a_link_that_stands_still_between_two_packets_is_not_narrow() {
    let mut model = PathModel::default();
    let even = [0, 1, 2, 3].map(|n| (1_000, MS * n / 10));
    let known = (0..100).map(|n| passes(&mut model, Instant::ZERO + MS * 200 * n, even)).last().unwrap();
    assert!((80_000..84_000).contains(&known), "{known} kbit/s");
    let known = passes(&mut model, Instant::ZERO + MS * 20_000, [0, 1, 1_002, 1_003].map(|n| (1_000, MS * n / 10)));
    assert!(known > 40_000, "{known} kbit/s");
}

/// They were a step of the rate.
#[test]
fn a_small_packet_that_waits_is_no_step() {
    let mut model = PathModel::default();
    for n in 0..100 {
        passes(&mut model, Instant::ZERO + MS * 200 * n, [(1_000, Duration::ZERO), (1_000, MS)]);
    }
    let known = passes(&mut model, Instant::ZERO + MS * 20_000, [(1_000, Duration::ZERO), (100, MS * 90)]);
    assert!(known > 2_000, "{known} kbit/s");
}

/// A stream below the rate, of a packet per frame and eight for a keyframe; its frames come a little late at times.
#[test]
fn a_stream_below_the_rate_is_not_taken_for_the_capacity() {
    let frames = |begin: u64| {
        (0..250).flat_map(move |n| {
            let packets = if n % 100 == 0 { 8 } else { 1 };
            std::iter::repeat_n(begin + n * 40 + [0, 3, 9, 1][n as usize % 4], packets)
        })
    };
    let mut link = Link { rate: Rate::from_kbps(400), free: Instant::ZERO, others: Duration::ZERO };
    let mut model = PathModel::default();
    for (begin, kbps) in [(0, 400), (10_000, 1_200), (20_000, 400)] {
        link.rate = Rate::from_kbps(kbps);
        errors(&mut link, &mut model, frames(begin), Duration::ZERO);
        assert_eq!(model.found, Instant::ZERO, "a packet that takes longer on the link makes no longer path");
        let known = model.capacity.unwrap().as_bps() / 1_000;
        assert!((kbps * 3 / 4..kbps * 5 / 4).contains(&known), "{kbps}: {known}");
    }
}

#[test]
fn what_waits_behind_others_is_told_from_what_waits_behind_itself() {
    let mut link = Link { rate: Rate::from_kbps(8_000), free: Instant::ZERO, others: MS * 30 };
    let mut model = PathModel::default();
    let errors = errors(&mut link, &mut model, (0..200).map(|n| n * 20), Duration::ZERO);
    assert!(largest(&errors[60..]) < 0.002, "{errors:?}");
}

/// A link that serves in turns, two packets each 50 ms, and gets one each 20 ms.
#[test]
fn packets_that_arrive_together_all_count() {
    let mut model = PathModel::default();
    for n in 0..200 {
        model.sent(Instant::ZERO + MS * 20 * n, (1_000, HEADERS), LEAST);
        let departure = model.departure(HEADERS, LEAST);
        model.acked(1_000);
        let answered = Instant::ZERO + MS * (80 + n / 2 * 50);
        model.arrived(Observed { departure, answered, uncertain: Duration::ZERO }, LEAST);
    }
    // Two packets of 1028 bytes in 50 ms.
    assert!(model.capacity.unwrap().as_bps().abs_diff(328_960) < 30_000, "{:?}", model.capacity);
}

#[test]
fn a_round_trip_without_the_delay_of_its_acknowledgement_is_the_predicted_one_if_it_can_be() {
    let at = |millis| Instant::ZERO + MS * millis;
    let rtt = |expected, answered, uncertain| {
        let departure = Departure { at: at(100), expected: at(expected), ..Departure::default() };
        Observed { departure, answered: at(answered), uncertain: MS * uncertain }.path_rtt(MS * 40)
    };
    assert_eq!(rtt(130, 180, 0), MS * 80, "acknowledged at once");
    assert_eq!([rtt(130, 180, 40), rtt(150, 180, 40)], [MS * 50, MS * 70]);
    assert_eq!([rtt(130, 200, 40), rtt(190, 180, 40)], [MS * 60, MS * 80], "slower and faster than predicted");
    assert_eq!([rtt(0, 150, 40), rtt(0, 120, 40)], [MS * 40, MS * 20], "no prediction");
}

/// The playout of a stream on an idle path over TCP: acknowledgements come up to 40 ms late.
#[test]
fn a_delayed_acknowledgement_is_no_queue() {
    let mut link = Link { rate: Rate::from_kbps(8_000), free: Instant::ZERO, others: Duration::ZERO };
    let mut model = PathModel::default();
    let errors = errors(&mut link, &mut model, (0..200).map(|n| n * 20), MS * 40);
    // A packet's own time on the link is not known from the first one.
    assert!(largest(&errors) < 0.002, "{errors:?}");
}
