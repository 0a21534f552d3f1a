//! Tail loss probes (RFC 8985 §7).

use timeous_core::Duration;
use timeous_tcp::{Config, LossDetection};

use crate::script::{MS, RTT, Timeline, plain};

fn probing() -> Config {
    Config { loss_detection: LossDetection::Rack, tail_loss_probe: true, ..plain() }
}

fn times(line: &mut Timeline) -> Vec<(u64, u32)> {
    line.take().iter().map(|seen| (seen.at.as_nanos() / 1_000_000, seen.offset())).collect()
}

#[test]
fn two_round_trips_after_the_last_data_the_last_segment_leaves_again_and_then_the_timer_runs() {
    let mut line = Timeline::established(probing());
    line.write(3_000);
    line.take();
    line.pass(MS * 250);
    assert_eq!(times(&mut line), [(300, 2_000)], "PTO = 2 × SRTT");
    line.pass(MS * 260);
    assert_eq!(times(&mut line), [(600, 0)], "RTO = 300 ms from the probe");
    let statistics = line.connection.statistics();
    assert_eq!((statistics.tail_probes, statistics.timeouts), (1, 1));
}

#[test]
fn a_single_segment_may_wait_for_a_delayed_acknowledgement_but_not_longer_than_the_timer() {
    let mut line = Timeline::established(probing());
    line.write(1_000);
    line.take();
    line.pass(MS * 700);
    // 2 × 100 + 200 ms exceeds the RTO of 300 ms: the probe replaces the timeout.
    assert_eq!(times(&mut line), [(400, 0), (700, 0)]);
    assert_eq!(line.connection.statistics().tail_probes, 1);
}

#[test]
fn new_data_are_the_better_probe() {
    let mut line = Timeline::established(probing());
    line.write(100_000);
    assert_eq!(line.take().len(), 10);
    line.pass(MS * 200);
    assert_eq!(times(&mut line), [(300, 10_000)]);
    assert_eq!(line.connection.outstanding(), 11_000, "one beyond the window");
    assert_eq!(line.connection.statistics().retransmissions, 0);
}

#[test]
fn the_end_of_a_flight_is_repaired_without_a_timeout() {
    let mut line = Timeline::established(probing());
    line.write(5_000);
    line.take();
    line.pass(RTT);
    // The last three segments are lost.
    line.ack(2_000, &[]);
    line.pass(RTT * 2);
    assert_eq!(times(&mut line), [(400, 4_000)]);
    line.pass(RTT);
    line.ack(2_000, &[(4_000, 5_000)]);
    line.pass(RTT);
    // Segments before the probed one are lost at once: RACK's reordering window, a quarter of a round trip, has passed.
    let repeated: Vec<u32> = line.take().iter().map(|seen| seen.offset()).collect();
    assert_eq!(repeated, [2_000, 3_000]);
    line.ack(5_000, &[]);
    assert_eq!(line.connection.statistics().timeouts, 0);
    assert_eq!(line.connection.statistics().recoveries, 1);
}

#[test]
fn a_loss_that_the_probe_itself_repaired_is_answered() {
    let mut line = Timeline::established(probing());
    line.write(10_000);
    line.take();
    line.pass(RTT);
    line.ack(9_000, &[]);
    line.pass(MS * 350);
    assert_eq!(times(&mut line).len(), 1);
    line.pass(RTT);
    let before = line.cwnd();
    line.ack(10_000, &[]);
    assert_eq!(line.cwnd(), before, "not known yet");
    line.write(1_000);
    line.pass(RTT);
    let before = line.cwnd();
    line.ack(11_000, &[]);
    assert!(line.cwnd() < before, "{} after {before}: RFC 8985 §7.4.2", line.cwnd());
}

#[test]
fn a_probe_that_was_needless_is_told_by_a_duplicate_and_costs_nothing() {
    for (sack, ack_first) in [(&[(9_000, 10_000)][..], false), (&[][..], true)] {
        let mut line = Timeline::established(probing());
        line.write(10_000);
        line.take();
        line.pass(RTT);
        line.ack(9_000, &[]);
        line.pass(MS * 350);
        assert_eq!(times(&mut line).len(), 1);
        if ack_first {
            line.ack(10_000, &[]);
        }
        line.ack(10_000, sack);
        line.write(1_000);
        line.pass(RTT);
        let before = line.cwnd();
        line.ack(11_000, &[]);
        assert!(line.cwnd() >= before, "{sack:?}");
    }
}

#[test]
fn no_probe_without_sack_or_while_losses_are_repaired() {
    let mut line = Timeline::established(Config { sack: false, ..probing() });
    line.write(3_000);
    line.pass(Duration::from_secs(1));
    assert_eq!(line.connection.statistics().tail_probes, 0);
    let mut line = Timeline::established(probing());
    line.write(10_000);
    line.pass(RTT);
    line.ack(0, &[(1_000, 2_000)]);
    line.pass(Duration::from_secs(1));
    assert_eq!(line.connection.statistics().tail_probes, 0, "RFC 8985 §7.2: segments have been SACKed");
}
