//! Sources and paths as they are in the field, and what a viewer expects of each.

use timeous::core::Duration;

use crate::feeder::{Feeder, Sent};
use crate::pictures::{Picture, field, field_pictures, first_slice};
use crate::relay::Relay;
use crate::rtp_source::RtpSource;
use crate::support::{Files, emulate, free_port, sleep, sleep_until};
use crate::viewer::median;
use crate::watched::{LATENCY_MS, Outcome, Watched, send_to};

const PLAIN: &str = "plain25.h264";
/// Timestamp of a source's first picture, and ticks from one to the next at 25 a second.
const FIRST: u32 = 1_000_000_000;
const STEP: u32 = 3_600;
/// What a machine with too much to do may add to a delay.
const SLACK: Duration = Duration::from_millis(150);

/// The delay is what was asked for, and does not change.
#[track_caller]
fn assert_steady(delays: &[(usize, Duration)]) {
    let quarter = delays.len() / 4;
    let (first, last) = (median(&delays[..quarter]), median(&delays[delays.len() - quarter..]));
    let asked = Duration::from_millis(LATENCY_MS);
    assert!(first.max(asked) - first.min(asked) < SLACK, "it begins with a delay of {first:?}");
    assert!(last.max(first) - last.min(first) < SLACK, "a delay of {first:?} has become {last:?}");
}

// Files.

/// A file comes whole; its pictures.
fn file(name: &str, count: usize, options: &[&str]) -> Outcome {
    let watched = Watched::start();
    let mut sender = watched.send(&field(name), options);
    sender.ends_with(0);
    let outcome = watched.end();
    let pictures = field_pictures(name);
    assert_eq!(pictures.len(), count);
    let at = timeous::clock::now();
    let sent: Vec<Sent> = pictures.iter().map(|picture| Sent { slice: first_slice(picture).to_vec(), at }).collect();
    outcome.assert_whole(&sent);
    outcome.assert_decodes(name);
    outcome
}

/// Time from the first picture to the last.
fn length(outcome: &Outcome) -> Duration {
    let pictures = outcome.seen.pictures();
    pictures[pictures.len() - 1].at.saturating_since(pictures[0].at)
}

#[track_caller]
fn assert_lasts(outcome: &Outcome, expected: Duration) {
    let found = length(outcome);
    assert!(found.max(expected) - found.min(expected) < SLACK, "{found:?} instead of {expected:?}");
}

#[test]
fn prefix_nal_units_between_slices_make_no_frames() {
    let outcome = file("prefix-nal.h264", 50, &[]);
    assert_lasts(&outcome, Duration::from_millis(49 * 40));
}

#[test]
fn nal_units_of_unspecified_types_are_passed_over() {
    file("nal31.h264", 50, &[]);
}

#[test]
fn parameter_sets_with_bytes_behind_them_are_read() {
    file("sps-trailing.h264", 50, &[]);
}

#[test]
fn an_idr_picture_beside_another_is_one_of_its_own() {
    file("idr-same-time.h264", 74, &[]);
}

#[test]
fn a_rate_that_changes_in_mid_stream_is_followed() {
    let outcome = file("rate-25-50.h264", 225, &[]);
    assert_lasts(&outcome, Duration::from_millis(75 * 40 + 149 * 20));
    let pictures = outcome.seen.pictures();
    let half = pictures[75].at.saturating_since(pictures[0].at);
    assert!(half.max(Duration::from_secs(3)) - half.min(Duration::from_secs(3)) < SLACK, "75 frames in {half:?}");
}

#[test]
fn a_file_as_a_live_source_is_sent_as_fast_as_it_is_read() {
    let outcome = file(PLAIN, 75, &["--live"]);
    assert!(length(&outcome) < Duration::from_secs(2), "{:?}", length(&outcome));
}

// Pipes.

/// Feeds the plain pictures at this rate; what was fed, and what came of it.
fn pipe(fps: f64, count: usize, pause: Option<(usize, Duration)>) -> (Vec<Sent>, Outcome) {
    let mut watched = Watched::start();
    let mut sender = watched.send_pipe(watched.port);
    let fed = Feeder::start(sender.write(), field_pictures(PLAIN), fps, count, pause).end();
    sender.ends_with(0);
    (fed, watched.end())
}

#[test]
fn a_pipe_slower_than_it_declares_keeps_its_delay() {
    let (fed, outcome) = pipe(22.0, 220, None);
    outcome.assert_whole(&fed);
    assert_steady(&outcome.seen.delays(&fed));
}

#[test]
fn a_pipe_faster_than_it_declares_keeps_its_delay() {
    let (fed, outcome) = pipe(31.0, 310, None);
    outcome.assert_whole(&fed);
    assert_steady(&outcome.seen.delays(&fed));
}

#[test]
fn a_pipe_goes_on_after_a_pause() {
    let (fed, outcome) = pipe(25.0, 100, Some((50, Duration::from_secs(6))));
    outcome.assert_whole(&fed);
    assert_steady(&outcome.seen.delays(&fed));
}
