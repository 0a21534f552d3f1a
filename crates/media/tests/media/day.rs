//! A camera stream over 24 hours of virtual time: clock drift and steps, pauses, restarts, varying path delay.

use timeous_core::{Duration, Instant, Rng};
use timeous_media::{
    ClockChange, Frame, FrameFate, Packetizer, PacketizerConfig, Playout, PlayoutConfig, PlayoutEvent, Stamp,
};

use crate::support::frames;

const LATENCY: Duration = Duration::from_millis(300);
const FRAME: Duration = Duration::from_millis(200);
const HOUR: Duration = Duration::from_secs(3_600);
/// Pause of the source, in one minute of each hour.
const PAUSE: Duration = Duration::from_secs(20);
/// Shortest path delay, and its increase and decrease within ten minutes.
const SHORTEST: Duration = Duration::from_millis(20);
const WANDER: Duration = Duration::from_millis(200);

/// Source with clock errors.
struct Camera {
    /// Clock drift, in parts per million.
    ppm: i64,
    /// Clock step each hour, in seconds.
    step: i64,
    descriptors: bool,
}

/// Results of a day.
#[derive(Debug, Default)]
struct DayResults {
    frames: u64,
    given_out: u64,
    /// Smallest and largest delay from capture to release, less the shortest path delay and the latency.
    least: Option<i64>,
    most: Option<i64>,
    steps: u64,
    longer: u64,
    not_decodable: u64,
}

fn millis(time: Duration) -> i64 {
    time.as_millis() as i64
}

/// Path delay of a packet sent at `at`.
fn way(at: Instant, rng: &mut Rng) -> Duration {
    let minutes = at.as_nanos() as f64 / 60e9;
    let wander = (1.0 - (minutes / 10.0 * std::f64::consts::TAU).cos()) / 2.0;
    SHORTEST + Duration::from_secs_f64(WANDER.as_secs_f64() * wander) + Duration::from_micros(rng.below(5_000))
}

impl Camera {
    fn run(&self, hours: u64) -> DayResults {
        let group: Vec<&Frame> = small_group();
        let config = PacketizerConfig { descriptors: self.descriptors, ..PacketizerConfig::default() };
        let mut packetizer = Packetizer::new(config).unwrap();
        let mut playout = Playout::new(PlayoutConfig::new(LATENCY));
        let mut rng = Rng::from_seed(7);
        let mut day = DayResults::default();
        let mut captures = std::collections::VecDeque::new();
        let begin = Instant::ZERO + Duration::from_secs(10);
        let mut captured = begin;
        let mut index = 0u64;
        while captured < begin + HOUR * hours {
            let past = captured.saturating_since(begin);
            if past.as_nanos() % HOUR.as_nanos() < FRAME.as_nanos() && past > FRAME {
                captured += PAUSE;
            }
            let hour = past.as_nanos() / HOUR.as_nanos();
            let media = i128::from(captured.as_nanos()) * i128::from(1_000_000 + self.ppm) / 1_000_000
                + i128::from(self.step) * i128::from(hour) * 1_000_000_000;
            let ticks = (media * 90_000 / 1_000_000_000) as u64;
            let stamp = Stamp { presentation: ticks, capture: ticks, is_queued: false };
            let mut frame = group[(index % group.len() as u64) as usize].clone();
            frame.index = index as u32;
            let arrival = captured + way(captured, &mut rng);
            captures.push_back(captured);
            for adu in packetizer.packetize_part(&frame, (true, true), &stamp) {
                day.run_until(&mut playout, arrival, &mut captures);
                playout.handle_packet(arrival, &adu.rtp).unwrap();
                day.take(&mut playout, arrival, &mut captures);
            }
            day.frames += 1;
            index += 1;
            captured += FRAME;
        }
        day.run_until(&mut playout, captured + HOUR, &mut captures);
        day
    }
}

/// A keyframe and frames that depend on it, each of one or a few packets.
fn small_group() -> Vec<&'static Frame> {
    let all = frames();
    let key = all[0].index as usize;
    all[key..key + 20].iter().filter(|frame| frame.reference).collect()
}

impl DayResults {
    fn run_until(&mut self, playout: &mut Playout, now: Instant, captures: &mut std::collections::VecDeque<Instant>) {
        while let Some(due) = playout.poll_timeout().filter(|&due| due <= now) {
            playout.handle_timeout(due);
            self.take(playout, due, captures);
        }
    }

    fn take(&mut self, playout: &mut Playout, now: Instant, captures: &mut std::collections::VecDeque<Instant>) {
        while playout.poll_frame().is_some() {
            self.given_out += 1;
            let captured = captures.pop_front().unwrap();
            let beyond = millis(now.saturating_since(captured)) - millis(LATENCY + SHORTEST);
            self.least = Some(self.least.map_or(beyond, |least| least.min(beyond)));
            self.most = Some(self.most.map_or(beyond, |most| most.max(beyond)));
        }
        while let Some(report) = playout.poll_report() {
            self.not_decodable += u64::from(report.fate != FrameFate::Decodable);
        }
        while let Some(event) = playout.poll_event() {
            match event {
                PlayoutEvent::Clock(ClockChange::Stepped(_)) => self.steps += 1,
                PlayoutEvent::Clock(ClockChange::Longer(_)) => self.longer += 1,
                _ => {}
            }
        }
    }
}

/// Checks that a day with this clock loses no frame, and that the delay stays at path delay plus latency.
#[track_caller]
fn a_day(ppm: i64, step: i64, descriptors: bool, hours: u64) {
    let day = Camera { ppm, step, descriptors }.run(hours);
    assert_eq!((day.given_out, day.not_decodable), (day.frames, 0), "{day:?}");
    assert_eq!(day.steps, if step == 0 { 0 } else { hours - 1 }, "each step is told of once: {day:?}");
    let (least, most) = (day.least.unwrap(), day.most.unwrap());
    assert!(least >= -15 && most <= millis(WANDER) + 15, "{day:?}");
}

#[test]
fn a_day_of_drift_pauses_and_a_wandering_path_loses_no_frame() {
    a_day(200, 0, true, 24);
}

#[test]
fn a_day_of_plain_rtp_whose_clock_is_set_each_hour_loses_no_frame() {
    a_day(-200, 7, false, 24);
}

#[test]
fn the_fastest_drift_and_a_clock_that_is_set_back_lose_no_frame() {
    a_day(1_000, -5, false, 6);
}
