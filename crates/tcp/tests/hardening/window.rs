//! Applications that read slowly, or not at all for some time.

use timeous_core::Duration;
use timeous_tcp::{Config, Segment};

use crate::duel::{Duel, MS, SEC, good};

const NEVER: (usize, Duration) = (0, Duration::from_secs(1 << 30));
const ALWAYS: (usize, Duration) = (usize::MAX, Duration::ZERO);

fn config() -> Config {
    Config { receive_buffer: 20_000, timestamps: false, ..Config::default() }
}

/// The window is closed and only probes are sent: once at zero, once with less room than a segment.
fn stalled() -> [Duel; 2] {
    [14_600, 20_000].map(|receive_buffer| {
        let mut duel = Duel::connected(&Config { receive_buffer, ..config() });
        duel.ends[1].reads = NEVER;
        duel.ends[0].send(100_000, false);
        duel.run_for(SEC);
        assert_eq!(duel.ends[1].connection.readable(), receive_buffer / 1_460 * 1_460);
        duel
    })
}

fn reads_again(duel: &mut Duel) {
    duel.ends[1].reads = ALWAYS;
    duel.ends[1].wake(duel.now);
}

#[test]
fn a_reader_that_comes_back_opens_the_window_at_once() {
    for mut duel in stalled() {
        reads_again(&mut duel);
        duel.run_for(MS * 200);
        assert_eq!(duel.ends[1].received, 100_000);
        assert!(duel.ends[0].connection.statistics().timeouts == 0);
    }
}

/// RFC 9293 §3.8.6.1: the window update is lost, and a probe gets the new window.
#[test]
fn a_window_update_that_is_lost_is_fetched_by_a_probe() {
    for mut duel in stalled() {
        duel.rule =
            Box::new(|_, from, bytes, ecn| if from == 1 { vec![] } else { vec![(MS * 10, bytes.to_vec(), ecn)] });
        reads_again(&mut duel);
        duel.run_for(MS);
        duel.rule = good(MS * 10);
        duel.run_for(SEC * 10);
        assert_eq!(duel.ends[1].received, 100_000);
        assert!(duel.ends[0].connection.statistics().window_probes > 0);
    }
}

/// "As long as the receiving TCP peer continues to send acknowledgments in response to the probe segments, the sending
/// TCP peer MUST allow the connection to stay open" (RFC 9293 §3.8.6.1, MUST-37).
#[test]
fn a_window_may_stay_closed_for_a_day_while_probes_are_answered() {
    for mut duel in stalled() {
        let before = duel.sent.len();
        duel.run_for(SEC * 24 * 3_600);
        assert_eq!(duel.ends.each_ref().map(|end| end.closed), [None; 2]);
        let a_day = duel.sent.len() - before;
        assert!((1_000..3_000).contains(&a_day), "a probe and an answer every two minutes: {a_day}");
        reads_again(&mut duel);
        duel.run_for(SEC);
        assert_eq!(duel.ends[1].received, 100_000);
    }
}

#[test]
fn probes_that_nobody_answers_end_the_connection() {
    for mut duel in stalled() {
        duel.rule = Box::new(|_, _, _, _| vec![]);
        duel.run_for(SEC * 3_600);
        assert_eq!(duel.ends[0].closed, Some(timeous_tcp::CloseReason::Timeout));
    }
}

/// Silly window syndrome (RFC 9293 §3.8.6.2): small reads do not cause small segments.
#[test]
fn a_reader_of_small_gulps_does_not_make_small_segments() {
    let mut duel = Duel::connected(&config());
    duel.ends[1].reads = (7, MS);
    duel.ends[0].send(50_000, true);
    duel.ends[1].send(0, true);
    duel.finish(SEC * 100);
    let small = |segment: &Segment<'_>| !segment.payload.is_empty() && segment.payload.len() < 1_460;
    assert_eq!(duel.count(0, small), 1, "the last one");
    let acks = duel.count(1, |segment| segment.payload.is_empty());
    assert!(acks < 120, "{acks} acknowledgements for {} segments", duel.count(0, |s| !s.payload.is_empty()));
}

/// A buffer smaller than a segment is filled by halves, not by single bytes.
#[test]
fn a_buffer_smaller_than_a_segment_works() {
    let mut duel = Duel::connected(&Config { receive_buffer: 700, ..config() });
    duel.ends[1].reads = (50, MS * 3);
    duel.ends[0].send(20_000, true);
    duel.ends[1].send(0, true);
    duel.finish(SEC * 1_000);
    let segments = duel.count(0, |segment| !segment.payload.is_empty());
    assert!(segments <= 20_000 / 350 + 2, "{segments}");
}

#[test]
fn a_fin_passes_a_closed_window() {
    let mut duel = Duel::connected(&config());
    duel.ends[1].reads = NEVER;
    duel.ends[0].send(20_000, true);
    duel.run_for(SEC * 5);
    duel.ends[1].send(0, true);
    duel.run_for(SEC * 5);
    reads_again(&mut duel);
    duel.finish(SEC * 5);
}
