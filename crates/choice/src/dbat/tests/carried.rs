//! Tests of advice when less is delivered than the window would allow.

use super::*;

/// Advice for a stream of 400 kbit/s (2 kB every 40 ms) of which `through` bytes each are delivered, over a path with a
/// stated rate of 4 Mbit/s and `queue` ms of queueing delay.
fn beyond_what_comes_through(through: u64, queue: u64) -> Vec<Advice> {
    let rtt = Duration::from_millis(40);
    let srtt = Some(rtt + Duration::from_millis(queue));
    let path = PathState {
        rate: Rate::from_kbps(4_000),
        srtt,
        min_rtt: Some(rtt),
        outstanding: 8_000,
        window: 100_000,
        ..path()
    };
    let mut tuner = Tuner::new(Settings::default());
    tuner.set_rate(Rate::from_kbps(400));
    let mut told = Vec::new();
    for n in 1..=60 {
        tuner.arrived(at(40 * n), 2_000, 2_000);
        tuner.acked(through);
        tuner.judge(at(40 * n), &path, 2_000);
        told.extend(tuner.poll_advice());
    }
    told
}

#[test]
fn a_window_that_is_not_used_is_no_room() {
    let room = beyond_what_comes_through(2_000, 0);
    assert_eq!((room[0].reason, room[0].rate), (Reason::Room, Rate::from_kbps(500)));
    assert_eq!(beyond_what_comes_through(1_800, 0), [], "a tenth waits somewhere, whatever the window would allow");
}

#[test]
fn a_queue_that_fills_in_the_path_is_told_of_though_nothing_waits_here() {
    let told = beyond_what_comes_through(1_800, 60);
    assert_eq!((told[0].reason, told[0].queued), (Reason::Filling, 2_000));
    assert_eq!(told[0].path, Some(Rate::from_kbps(360)), "what came through, not what the window allows");
    assert_eq!(told[0].rate.as_bps(), 337_500);
}

#[test]
fn the_ceiling_is_what_came_through_when_the_queue_filled() {
    let mut tuner = tuner(Settings::default());
    let path = PathState { outstanding: 9_000, ..dumbbell() };
    // 320 kbit/s are handed over and 240 delivered; the rest is queued.
    for n in 1..=80 {
        tuner.arrived(at(25 * n), 1_000 + 250 * n, 1_000);
        tuner.acked(750);
        tuner.judge(at(25 * n), &path, 1_000 + 250 * n);
        if let Some(advice) = tuner.poll_advice() {
            assert_eq!((advice.reason, advice.path), (Reason::Filling, Some(Rate::from_kbps(240))));
            assert!(advice.rate < Rate::from_kbps(240), "{advice:?}");
            return;
        }
    }
    panic!("nobody was told");
}

/// Advice by frame for a path that falls from 1200 kbit/s to a third until the encoder follows, and then delivers at up
/// to `delivered`; the encoder produces four fifths of its rate.
fn told_after_a_fall(delivered: Option<Rate>) -> Vec<(u64, Reason, Rate)> {
    let least = Some(Duration::from_millis(40));
    let idle = PathState { rate: kbps(4_000), srtt: least, min_rtt: least, outstanding: 2_000, ..path() };
    let full = PathState { srtt: Some(Duration::from_millis(140)), outstanding: 12_000, ..idle };
    let mut tuner = Tuner::new(Settings::default());
    let (mut rate, mut told) = (kbps(1_200), Vec::new());
    tuner.set_rate(rate);
    for n in 1..=120 {
        let is_over = told.iter().any(|&(_, _, rate)| rate <= kbps(400));
        let falls = n > 40 && !is_over;
        let made = rate.bytes_in(Duration::from_millis(40)) / 5 * 4;
        tuner.arrived(at(40 * n), made, made);
        tuner.acked(if falls { 2_000 } else { made });
        let idle = PathState { delivered: delivered.filter(|_| is_over), ..idle };
        tuner.judge(at(40 * n), if falls { &full } else { &idle }, made);
        if let Some(advice) = tuner.poll_advice().filter(|_| n > 40) {
            rate = advice.rate;
            tuner.set_rate(rate);
            told.push((n, advice.reason, rate));
        }
    }
    told
}

#[test]
fn an_encoder_that_makes_less_than_its_rate_still_finds_that_there_is_more() {
    let told = told_after_a_fall(None);
    assert!(told.iter().any(|&(_, reason, rate)| reason == Reason::Filling && rate <= kbps(400)), "{told:?}");
    // The advised rate must be a quarter above the one that filled the queue before this shows.
    assert!(told.last().is_some_and(|&(_, _, rate)| rate > kbps(900)), "{told:?}");
}

/// Found by `timeous-demo adapt`: x264 took up to half a second for each step, the first ones were small, and recoveries
/// took more than two seconds, although packets were delivered at twice the old rate all the time.
#[test]
fn a_path_that_delivers_clearly_faster_than_when_the_queue_filled_is_gone_up_to_at_once() {
    let there = |delivered| {
        let told = told_after_a_fall(delivered);
        told.iter().find(|&&(n, reason, rate)| n > 60 && reason == Reason::Room && rate > kbps(900)).map(|told| told.0)
    };
    let [untold, little, clearly] = [None, Some(kbps(450)), Some(kbps(1_000))].map(there);
    assert_eq!(untold, little, "what varies tells nothing");
    assert!(clearly.zip(untold).is_some_and(|(clearly, untold)| clearly + 5 < untold), "{clearly:?}, {untold:?}");
}

fn kbps(rate: u64) -> Rate {
    Rate::from_kbps(rate)
}
