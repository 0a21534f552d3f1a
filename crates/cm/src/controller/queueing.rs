//! What a controller by delay sees of its path: round trips without a queue, with what always waits and with the most
//! that waited; what is delivered; what is lost.

use timeous_core::{Duration, Instant};

use super::Acked;
use super::extreme::{Greatest, Least};
use super::trains::Trains;

/// So long the most that waited counts as what the queue holds.
const PEAK_WINDOW: Duration = Duration::from_secs(5);
/// The best rate counts for so long.
const RATE_WINDOW: Duration = Duration::from_secs(10);
/// And for so long as what the link may carry when others leave it: a flow that is given little sees little of it. But not
/// for more than so many times what was seen of late: links become slower.
const LINK_WINDOW: Duration = Duration::from_secs(60);
const MOST_TAKEN: f64 = 4.0;
/// After a pause of so long the least round trip counts for so long, whatever the window: others may have filled the queue meanwhile,
/// and what has not been looked at is as good as it was.
const PAUSE: Duration = Duration::from_secs(1);
const LEAST_WINDOW: Duration = Duration::from_secs(60);
/// A round lasts a round trip, but not less than this: acknowledgements come in lumps.
const MIN_ROUND: Duration = Duration::from_millis(40);
/// A packet waited behind another if it waited so much longer than a packet needs at the link: timers are not finer.
const BEHIND: Duration = Duration::from_millis(1);
/// Delay variation counts for so long.
const JITTER_WINDOW: Duration = Duration::from_secs(10);
/// The share of lost packets is reckoned of so many at least.
const COUNTED_PACKETS: u64 = 300;

/// What is seen of a path. It counts in bytes and seconds.
#[derive(Clone, Debug)]
pub(super) struct Queueing {
    mtu: u64,
    /// For so long the least round trip counts.
    base_window: Duration,
    base: Least<Duration>,
    least: Least<Duration>,
    measured_at: Option<Instant>,
    standing: Least<Duration>,
    highest: Greatest<Duration>,
    peak: Greatest<Duration>,
    /// Delay variation without a queue.
    overtaken: Greatest<Duration>,
    fastest: Greatest<f64>,
    ever: Greatest<f64>,
    latest: Duration,
    srtt: Duration,
    round: Option<Round>,
    rate: Option<f64>,
    counted: Counted,
    trains: Trains,
    flights: Trains,
    acked_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    /// The latest acknowledgement in it.
    latest: Instant,
    acked: u64,
}

/// Bytes since the share of the lost was last reckoned.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    acked: u64,
    lost: u64,
}

/// The path as it is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// The round trip without a queue.
    pub(super) base: Duration,
    /// The least round trip of the last half: without what only bursts and late acknowledgements add.
    pub(super) standing: Duration,
    /// The smoothed round trip.
    pub(super) srtt: Duration,
    /// What always waited of late.
    pub(super) queued: Duration,
    /// What the newest packet waited.
    pub(super) waited: Duration,
    /// The most that one waited in the last four round trips.
    pub(super) most: Duration,
    /// The most that one waited in the last seconds.
    pub(super) peak: Duration,
    /// How long the path needs for a packet at the best rate of late; nothing, as long as none is known.
    pub(super) packet_time: Duration,
    /// The same if others have taken most of the link since it was seen.
    pub(super) least_packet_time: Duration,
}

impl Queueing {
    pub(super) fn new(mtu: u64, base_window: Duration) -> Self {
        Self {
            mtu,
            base_window,
            base: Least::default(),
            least: Least::default(),
            measured_at: None,
            standing: Least::default(),
            highest: Greatest::default(),
            peak: Greatest::default(),
            overtaken: Greatest::default(),
            fastest: Greatest::default(),
            ever: Greatest::default(),
            latest: Duration::ZERO,
            srtt: Duration::ZERO,
            round: None,
            rate: None,
            counted: Counted::default(),
            trains: Trains::default(),
            flights: Trains::of_flights(),
            acked_at: Instant::ZERO,
        }
    }

    /// Takes in an acknowledgement; the path as it is, if any round trip was ever measured.
    pub(super) fn acked(&mut self, now: Instant, acked: &Acked) -> Option<Look> {
        self.counted.acked += acked.bytes;
        if let Some(srtt) = acked.srtt {
            self.srtt = srtt;
        }
        if let Some(rtt) = acked.rtt {
            self.latest = rtt;
            let least = self.least.measured(now, LEAST_WINDOW, rtt);
            let has_paused = self.measured_at.replace(now).is_some_and(|at| now.saturating_since(at) > PAUSE);
            self.base.measured(now, self.base_window, if has_paused { least } else { rtt });
            self.standing.measured(now, self.srtt / 2, rtt);
            self.highest.measured(now, self.srtt * 4, rtt);
            self.peak.measured(now, PEAK_WINDOW, rtt);
        }
        self.overtaken(now, Duration::ZERO);
        self.count_round(now, acked.bytes);
        let waited = acked.rtt.and_then(|rtt| self.has_waited(now, acked.bytes, rtt));
        self.trains.acked(now, acked.bytes, self.mtu, waited);
        self.flights.acked(now, acked.bytes, self.mtu, waited);
        self.acked_at = now;
        self.look()
    }

    /// Whether a packet with this round trip waited behind another, and was there before the link was through with what was acknowledged
    /// last: the queue may have run empty meanwhile, and another packet wait for others than the last.
    fn has_waited(&self, now: Instant, bytes: u64, rtt: Duration) -> Option<bool> {
        let fastest = self.fastest.get().into_iter().chain(self.trains.latest()).fold(0.0, f64::max);
        let takes =
            |bytes: u64| if fastest > 0.0 { Duration::from_secs_f64(bytes as f64 / fastest) } else { Duration::ZERO };
        let waited = rtt.saturating_sub(self.without_queue(self.base.get()?));
        let was_there = now.saturating_since(self.acked_at) <= waited + takes(bytes) + BEHIND;
        Some(waited > takes(self.mtu) + BEHIND && was_there)
    }

    /// The longest round trip that no queue makes longer: delay variation is no more than half of `base`, whatever a peer says.
    fn without_queue(&self, base: Duration) -> Duration {
        base + self.overtaken.get().unwrap_or(Duration::ZERO).min(base / 2)
    }

    /// The rate of the link in bytes a second, if trains of packets told it within this time.
    pub(super) fn link_rate(&self, now: Instant, within: Duration) -> Option<f64> {
        self.trains.rate(now, within)
    }

    /// The best rate of the link of late, over which [`Self::is_unsteady`] compares.
    pub(super) fn best_link_rate(&self, now: Instant) -> Option<f64> {
        self.trains.best(now)
    }

    /// Whether the rate of the link goes up and down, as far as trains told it.
    pub(super) fn is_unsteady(&self) -> bool {
        self.trains.is_unsteady()
    }

    /// The rate of the link by trains as short as a first flight.
    pub(super) fn flight_rate(&self, now: Instant, within: Duration) -> Option<f64> {
        self.flights.rate(now, within)
    }

    fn count_round(&mut self, now: Instant, bytes: u64) {
        let Some(round) = &mut self.round else {
            // What came with the first acknowledgement was sent before the measurement began.
            self.round = Some(Round { began: now, latest: now, acked: 0 });
            return;
        };
        round.acked += bytes;
        round.latest = now;
        let lasted = now.saturating_since(round.began);
        if lasted >= self.srtt.max(MIN_ROUND) {
            let rate = round.acked as f64 / lasted.as_secs_f64();
            self.delivers(now, rate);
            self.round = Some(Round { began: now, latest: now, acked: 0 });
        }
    }

    fn delivers(&mut self, now: Instant, rate: f64) {
        self.rate = Some(rate);
        self.fastest.measured(now, RATE_WINDOW, rate);
        self.ever.measured(now, LINK_WINDOW, rate);
    }

    /// Nothing is under way any more: until something is, nothing tells how fast the path delivers.
    pub(super) fn paused(&mut self, now: Instant) {
        let Some(Round { began, latest, acked }) = self.round.take() else { return };
        let lasted = latest.saturating_since(began);
        if lasted >= MIN_ROUND {
            self.delivers(now, acked as f64 / lasted.as_secs_f64());
        }
    }

    /// The round trip without a queue.
    pub(super) fn base(&self) -> Option<Duration> {
        self.base.get()
    }

    /// A packet came `by` later than one that was sent after it.
    pub(super) fn overtaken(&mut self, now: Instant, by: Duration) {
        self.overtaken.measured(now, JITTER_WINDOW, by);
    }

    /// Bytes were lost.
    pub(super) fn lost(&mut self, bytes: u64) {
        self.counted.lost += bytes;
    }

    /// The share that was lost of the last three hundred packets or more, once for each of these.
    pub(super) fn take_loss_share(&mut self) -> Option<f64> {
        let Counted { acked, lost } = self.counted;
        if acked + lost < COUNTED_PACKETS * self.mtu {
            return None;
        }
        self.counted = Counted::default();
        Some(lost as f64 / (acked + lost) as f64)
    }

    /// What was delivered in a second of the last round.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// After silence: what was measured before it says little of what waits now.
    pub(super) fn after_silence(&mut self) {
        (self.standing, self.highest, self.peak) = (Least::default(), Greatest::default(), Greatest::default());
        (self.round, self.counted) = (None, Counted::default());
        self.trains.pause();
        self.flights.pause();
    }

    /// The path is another one: nothing that was measured counts for it.
    pub(super) fn rerouted(&mut self) {
        let Self { mtu, base_window, srtt, .. } = *self;
        *self = Self { srtt, ..Self::new(mtu, base_window) };
    }

    pub(super) fn look(&self) -> Option<Look> {
        let (base, standing) = (self.base.get()?, self.standing.get()?);
        let longest = self.without_queue(base);
        let beyond = |rtt: Option<Duration>| rtt.unwrap_or(standing).saturating_sub(longest);
        let fastest = self.fastest.get().filter(|&rate| rate > 0.0);
        let time_at = |rate: f64| Duration::from_secs_f64(self.mtu as f64 / rate);
        let most = fastest.map(|rate| self.ever.get().map_or(rate, |ever| ever.clamp(rate, MOST_TAKEN * rate)));
        Some(Look {
            base,
            standing,
            srtt: self.srtt,
            queued: standing.saturating_sub(longest),
            waited: self.latest.saturating_sub(longest),
            most: beyond(self.highest.get()),
            peak: beyond(self.peak.get()),
            packet_time: fastest.map_or(Duration::ZERO, time_at),
            least_packet_time: most.map_or(Duration::ZERO, time_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_000;

    /// Found by `timeous-lab bloat`: a train began before a pause and ended after it, and its link seemed to carry a twentieth.
    #[test]
    fn what_came_to_an_empty_queue_is_no_part_of_the_train_before() {
        let mut path = Queueing::new(MTU, Duration::from_secs(10));
        let mut now = Instant::ZERO;
        for _ in 0..3 {
            now += Duration::from_millis(700);
            for n in 0..5 {
                // A packet each 10 ms. The first of each burst met a few others' packets.
                now += Duration::from_millis(10);
                let rtt = Some(Duration::from_millis(if path.base().is_none() { 100 } else { 115 + 10 * n }));
                path.acked(now, &Acked { bytes: MTU, outstanding: 0, rtt, srtt: rtt, window_limited: true });
            }
        }
        assert_eq!(path.link_rate(now, Duration::from_millis(100)), Some(100_000.0));
        assert!(!path.is_unsteady());
    }
}
