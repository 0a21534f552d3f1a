//! Timeline of a recording: RTP timestamps of the streams of one source as times in step, by the clocks that the source tells.

use timeous_core::Instant;

use super::read::HZ;
use crate::passthrough::StreamClock;

/// Largest share of a frame interval by which a stream that runs is corrected: a sixteenth. Pictures are reordered over at most 16
/// frames (H.264 §A.3.1), so that they keep their order; a higher share corrects sooner.
const LEAST_INTERVALS: i128 = 16;
/// Error from which on the stream that is early is put off at once: 40 ms, a picture. Chosen by us: below it, a gap would be heard or
/// seen rather than the error.
const STEP: i64 = HZ as i64 / 25;
/// Largest correction that a clock is believed, in ticks of 90 kHz: 10 s. Chosen by us: more than encoders delay sound or picture;
/// a clock that is farther from the arrival of frames is wrong.
const MOST_CORRECTION: i64 = 10 * HZ as i64;
/// Largest distance of a clock's timestamp from that of the last frame, in seconds. Chosen by us: more than the longest latency and
/// interval of reports; a clock that is farther is of the source before or after a restart.
const MOST_SECONDS: i64 = 60;

/// Times of streams.
///
/// The reference stream, the first one of sound if there is one, runs by its own clock. The others follow it: sound has no gaps that
/// a step of the clock would make heard, and steps of a picture are not seen.
#[derive(Debug)]
pub(super) struct Timeline {
    streams: Vec<StreamTimes>,
    reference: Option<usize>,
    /// Stream whose clock was told last.
    told: Option<usize>,
}

/// Times of a stream.
#[derive(Debug)]
struct StreamTimes {
    clock_rate: u32,
    is_audio: bool,
    /// Clock of the source, if it was told in the last round.
    clock: Option<StreamClock>,
    running: Option<Running>,
    /// Latest time of a frame.
    latest: i64,
}

/// Clock of a stream that has begun. The sum of the steps is converted as a whole: rounding each step would add up.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// Timestamp of the last frame.
    last: u32,
    /// Playout time of the first frame by the host's clock, in ticks of 90 kHz.
    begin: i64,
    /// Ticks of the stream's clock since the first frame, and the highest number of them.
    ticks: i128,
    most_ticks: i128,
    /// Correction of the playout time, in ticks of 90 kHz.
    correction: i64,
}

impl Timeline {
    /// Creates the timeline of streams with these clock rates; the flags tell which ones are of sound.
    pub(super) fn new(streams: impl IntoIterator<Item = (u32, bool)>) -> Self {
        let streams = streams.into_iter().map(|(clock_rate, is_audio)| StreamTimes {
            clock_rate: clock_rate.max(1),
            is_audio,
            clock: None,
            running: None,
            latest: i64::MIN,
        });
        Self { streams: streams.collect(), reference: None, told: None }
    }

    /// Takes the clock of a stream. The sender tells the clocks of all streams in a round, from the first one on; those of different
    /// rounds may be by different wall clocks.
    pub(super) fn set_clock(&mut self, stream: usize, clock: StreamClock) {
        if self.told.is_some_and(|told| stream <= told) {
            self.streams.iter_mut().for_each(|stream| stream.clock = None);
        }
        self.told = Some(stream);
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.clock = Some(clock);
        }
    }

    /// Whether the clocks of these streams are known.
    pub(super) fn are_known(&self, mut streams: impl Iterator<Item = usize>) -> bool {
        streams.all(|stream| self.streams.get(stream).is_some_and(|stream| stream.clock.is_some()))
    }

    /// Begins anew with other timestamps of all streams.
    pub(super) fn begin_anew(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.running = None);
        self.reference = None;
    }

    /// Time of a frame that is played out at `at`, in ticks of 90 kHz.
    pub(super) fn time(&mut self, number: usize, at: Instant, timestamp: u32) -> Option<i64> {
        let stream = self.streams.get_mut(number)?;
        match &mut stream.running {
            Some(running) => {
                running.ticks += i128::from(timestamp.wrapping_sub(running.last).cast_signed());
                running.last = timestamp;
                let ahead = (running.ticks - running.most_ticks).max(0);
                running.most_ticks += ahead;
                let most = ticks(ahead * HZ / i128::from(stream.clock_rate) / LEAST_INTERVALS);
                let error = self.error(number).unwrap_or(0);
                let reference = self.reference.filter(|_| error < -STEP).unwrap_or(number);
                self.running(reference)?.correction += match error {
                    // Times never step back: the early stream has a gap.
                    error if error.abs() > STEP && ahead > 0 => error.abs(),
                    error if error.abs() > STEP => 0,
                    error => error.clamp(-most, most),
                };
            }
            None => {
                let begin = ticks(i128::from(at.as_nanos()) * HZ / 1_000_000_000);
                stream.running = Some(Running { last: timestamp, begin, ticks: 0, most_ticks: 0, correction: 0 });
                // A source that begins anew does not reach back behind its times before.
                let least = self.streams[number].latest.saturating_add(1).saturating_sub(begin);
                self.running(number)?.correction = self.error(number).unwrap_or(0).max(least);
                let is_audio = |number: usize| self.streams[number].is_audio;
                if self.reference.is_none_or(|reference| is_audio(number) && !is_audio(reference)) {
                    self.reference = Some(number);
                }
            }
        }
        let stream = &mut self.streams[number];
        let time = stream.time(timestamp)?;
        stream.latest = stream.latest.max(time);
        Some(time)
    }

    fn running(&mut self, number: usize) -> Option<&mut Running> {
        self.streams[number].running.as_mut()
    }

    /// By how much a stream is early against the reference stream. `None`: it is the reference, or a clock is not known.
    fn error(&self, number: usize) -> Option<i64> {
        let reference = &self.streams[self.reference.filter(|reference| *reference != number)?];
        let stream = &self.streams[number];
        let (from, to) = (reference.believed()?, stream.believed()?);
        let between = to.ntp.wrapping_sub(from.ntp).cast_signed();
        let wanted = reference.time(from.timestamp)? + ticks((i128::from(between) * HZ) >> u32::BITS);
        let error = wanted.checked_sub(stream.time(to.timestamp)?)?;
        (-MOST_CORRECTION..=MOST_CORRECTION).contains(&error).then_some(error)
    }
}

impl StreamTimes {
    /// Time of a timestamp near the last one.
    fn time(&self, timestamp: u32) -> Option<i64> {
        let running = self.running?;
        let all = running.ticks + i128::from(timestamp.wrapping_sub(running.last).cast_signed());
        Some(
            running
                .begin
                .saturating_add(running.correction)
                .saturating_add(ticks(all * HZ / i128::from(self.clock_rate))),
        )
    }

    /// Clock of the source, if it is of the timestamps that come now.
    fn believed(&self) -> Option<StreamClock> {
        let most = MOST_SECONDS * i64::from(self.clock_rate);
        let last = self.running?.last;
        self.clock.filter(|clock| i64::from(clock.timestamp.wrapping_sub(last).cast_signed()).abs() <= most)
    }
}

/// Ticks of 90 kHz as a time.
fn ticks(ticks: i128) -> i64 {
    i64::try_from(ticks).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use timeous_core::Duration;

    use super::*;

    const VIDEO: usize = 0;
    const AUDIO: usize = 1;

    fn timeline() -> Timeline {
        Timeline::new([(90_000, false), (48_000, true)])
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Wall clock of the source, in milliseconds.
    fn ntp(ms: u64) -> u64 {
        (7_000 << 32) + (ms << 32) / 1_000
    }

    /// Clocks of a source: pictures and sound of an instant have these timestamps.
    fn tell(timeline: &mut Timeline, ms: u64, video: u32, audio: u32) {
        timeline.set_clock(VIDEO, StreamClock { ntp: ntp(ms), timestamp: video });
        timeline.set_clock(AUDIO, StreamClock { ntp: ntp(ms), timestamp: audio });
    }

    #[test]
    fn times_of_aac_at_44_1_khz_do_not_drift() {
        let mut timeline = Timeline::new([(44_100, true)]);
        // Timestamps wrap on the way.
        let first = u32::MAX - 500_000;
        for frame in 0..1_000u32 {
            let time = timeline.time(0, at(1_000), first.wrapping_add(1_024 * frame)).unwrap();
            assert_eq!(time, 90_000 + i64::from(frame) * 1_024 * 90_000 / 44_100);
        }
    }

    /// Sound comes half a second after the pictures of its time, as ffmpeg packs it.
    #[test]
    fn streams_are_in_step_from_the_first_frame_if_their_clocks_are_known() {
        for first in [VIDEO, AUDIO] {
            let mut timeline = timeline();
            tell(&mut timeline, 0, 1_000, 5_000);
            let begin = |timeline: &mut Timeline, stream| match stream {
                VIDEO => timeline.time(VIDEO, at(100), 1_000).unwrap(),
                _ => timeline.time(AUDIO, at(600), 5_000).unwrap(),
            };
            assert_eq!(begin(&mut timeline, first), begin(&mut timeline, 1 - first), "{first} came first");
        }
    }

    /// Pictures and sound come late by so many milliseconds, and the clocks after fifty frames.
    fn assert_in_step_after_clocks(late: [u64; 2]) {
        let mut timeline = timeline();
        let mut last = [i64::MIN; 2];
        for n in 0..500u32 {
            let time = |frame: u32| at(u64::from(100 + 40 * frame));
            if n == 50 {
                tell(&mut timeline, 0, 0, 0);
            }
            let picture = timeline.time(VIDEO, time(n) + Duration::from_millis(late[0]), 3_600 * n).unwrap();
            let sound = timeline.time(AUDIO, time(n) + Duration::from_millis(late[1]), 1_920 * n).unwrap();
            assert!(picture > last[0] && sound > last[1], "frame {n}");
            last = [picture, sound];
            let error = (sound - picture) / 90;
            assert_eq!(error, if n < 50 { late[1] as i64 - late[0] as i64 } else { 0 }, "frame {n}");
        }
    }

    #[test]
    fn clocks_that_are_told_late_are_followed_at_once_without_steps_back() {
        assert_in_step_after_clocks([0, 300]);
        assert_in_step_after_clocks([300, 0]);
    }

    /// Pictures come 30 ms late.
    #[test]
    fn a_small_error_is_corrected_without_a_gap() {
        let mut timeline = timeline();
        let mut last = None;
        for n in 0..50u32 {
            let sound = timeline.time(AUDIO, at(u64::from(40 * n)), 1_920 * n).unwrap();
            let picture = timeline.time(VIDEO, at(30 + u64::from(40 * n)), 3_600 * n).unwrap();
            let interval = picture - last.replace(picture).unwrap_or(picture - 3_600);
            assert!((3_375..=3_600).contains(&interval), "{interval}");
            assert!(n < 20 || sound == picture);
            tell(&mut timeline, 0, 0, 0);
        }
    }

    /// Pictures in the order of a pyramid, while their clock is corrected as fast as it may be.
    fn assert_order_is_kept(is_late: bool) {
        let mut timeline = timeline();
        let late = if is_late { 5_000 } else { 130 };
        timeline.time(AUDIO, at(late), 0).unwrap();
        let shown = (0..100u32).flat_map(|group| [15, 7, 3, 11].map(|picture| 16 * group + picture));
        let mut times: Vec<(u32, i64)> = Vec::new();
        for picture in shown {
            let time = timeline.time(VIDEO, at(100), 90_000 + 3_600 * picture).unwrap();
            times.push((picture, time));
            if picture > 50 {
                tell(&mut timeline, 0, 90_000, 0);
            }
        }
        times.sort_unstable();
        assert!(times.windows(2).all(|pair| pair[0].1 < pair[1].1), "{times:?}");
    }

    #[test]
    fn reordered_pictures_keep_their_order_while_they_are_corrected() {
        assert_order_is_kept(true);
        assert_order_is_kept(false);
    }

    #[test]
    fn clocks_that_drift_stay_in_step_for_a_day() {
        let mut timeline = timeline();
        let ppm = |ticks: u64, ppm: u64| (ticks + ticks * ppm / 1_000_000) as u32;
        for second in 0..86_400u64 {
            let [video, audio] = [ppm(90_000 * second, 200), ppm(48_000 * second, 0)];
            if second % 5 == 0 {
                tell(&mut timeline, 1_000 * second, video, audio);
            }
            let sound = timeline.time(AUDIO, at(1_000 * second), audio).unwrap();
            let picture = timeline.time(VIDEO, at(1_000 * second), video).unwrap();
            assert!((sound - picture).abs() < 180, "{} ticks after {second} s", sound - picture);
        }
    }

    /// The wall clock changes from that of the arrivals to that of the source's reports, and the clock of the pictures is lost once.
    #[test]
    fn clocks_of_different_rounds_are_not_compared() {
        let mut timeline = timeline();
        tell(&mut timeline, 0, 0, 0);
        for n in 0..100u32 {
            let now = at(u64::from(40 * n));
            let [picture, sound] = [(VIDEO, 3_600), (AUDIO, 1_920)].map(|(of, step)| timeline.time(of, now, step * n));
            assert_eq!(picture, sound, "frame {n}");
            if n == 50 {
                timeline.set_clock(AUDIO, StreamClock { ntp: ntp(5_000), timestamp: 0 });
            }
        }
    }

    #[test]
    fn a_source_that_begins_anew_goes_on_behind_its_times_before() {
        let mut timeline = timeline();
        tell(&mut timeline, 0, 0, 0);
        let before = [VIDEO, AUDIO].map(|of| timeline.time(of, at(1_000), 0).unwrap());
        timeline.begin_anew();
        // Clocks of the source before are not those of its new timestamps.
        let [picture, sound] = [VIDEO, AUDIO].map(|of| timeline.time(of, at(900), 1 << 30).unwrap());
        assert_eq!([picture, sound], before.map(|time| time + 1));
        timeline.begin_anew();
        tell(&mut timeline, 9_000, 77, 77);
        let after = [(VIDEO, 3_000), (AUDIO, 3_400)].map(|(of, ms)| timeline.time(of, at(ms), 77).unwrap());
        assert_eq!(after, [270_000, 270_000]);
    }
}
