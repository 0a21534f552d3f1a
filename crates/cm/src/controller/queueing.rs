//! Path measurements of a delay-based controller: base RTT, queueing delays, delivery rate and loss rate.

use timeous_core::{Duration, Instant};

use super::Acked;
use super::extreme::{Greatest, Least};

/// Window of the maximum queueing delay, which shows the queue's capacity. Chosen by us. A higher value remembers a
/// longer queue that is gone, and takes losses in a full queue for random ones.
const MAX_DELAY_WINDOW: Duration = Duration::from_secs(5);
/// Window of the maximum jitter, in which packets overtook each other (docs/decisions/reordering.md).
const JITTER_WINDOW: Duration = Duration::from_secs(10);
/// Minimum time without RTT samples after which the base RTT is the minimum of `PAUSE_RTT_WINDOW`. Chosen by us, for
/// docs/decisions/pauses-and-cross-traffic.md. A higher value takes a queue of cross traffic for the base RTT.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Window of the minimum RTT that outlasts a pause (docs/decisions/pauses-and-cross-traffic.md): cross traffic may have
/// filled the queue meanwhile, and there is no evidence of another path.
const PAUSE_RTT_WINDOW: Duration = Duration::from_secs(60);
/// Minimum duration of a round, which otherwise is a round trip. Chosen by us: acknowledgements are aggregated. A
/// higher value sees changes of the rate later; a lower one overestimates it.
const MIN_ROUND: Duration = Duration::from_millis(40);
/// Packets over which the loss rate is computed. Chosen by us: over 100 packets, 5 % of bursty loss would reach 10 % in
/// one block of seven by chance. A higher value responds to persistent loss later.
const LOSS_RATE_PACKETS: u64 = 300;

/// Path measurements, in bytes and seconds.
#[derive(Clone, Debug)]
pub(super) struct Queueing {
    mtu: u64,
    /// Window of the base RTT.
    base_window: Duration,
    base: Least<Duration>,
    least: Least<Duration>,
    measured_at: Option<Instant>,
    standing: Least<Duration>,
    highest: Greatest<Duration>,
    peak: Greatest<Duration>,
    /// Jitter: by how much packets arrived later than ones sent after them.
    overtaken: Greatest<Duration>,
    latest: Duration,
    srtt: Duration,
    round: Option<Round>,
    rate: Option<f64>,
    counted: Counted,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    /// Time of its latest acknowledgement.
    latest: Instant,
    acked: u64,
}

/// Bytes counted since the loss rate was last computed.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    acked: u64,
    lost: u64,
}

/// Current path estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// Base RTT: the round trip without a queue.
    pub(super) base: Duration,
    /// Standing RTT: the minimum of the last half round trip, without delays of bursts and late acknowledgements.
    pub(super) standing: Duration,
    /// Smoothed RTT.
    pub(super) srtt: Duration,
    /// Standing queueing delay.
    pub(super) queued: Duration,
    /// Queueing delay of the newest packet.
    pub(super) waited: Duration,
    /// Maximum queueing delay of the last four round trips.
    pub(super) most: Duration,
    /// Maximum queueing delay of the last seconds.
    pub(super) peak: Duration,
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
            latest: Duration::ZERO,
            srtt: Duration::ZERO,
            round: None,
            rate: None,
            counted: Counted::default(),
        }
    }

    /// Takes an acknowledgement; returns the path estimate once any RTT was measured.
    pub(super) fn acked(&mut self, now: Instant, acked: &Acked) -> Option<Look> {
        self.counted.acked += acked.bytes;
        if let Some(srtt) = acked.srtt {
            self.srtt = srtt;
        }
        if let Some(rtt) = acked.rtt {
            self.latest = rtt;
            let least = self.least.measured(now, PAUSE_RTT_WINDOW, rtt);
            let has_paused = self.measured_at.replace(now).is_some_and(|at| now.saturating_since(at) > MIN_PAUSE);
            self.base.measured(now, self.base_window, if has_paused { least } else { rtt });
            self.standing.measured(now, self.srtt / 2, rtt);
            self.highest.measured(now, self.srtt * 4, rtt);
            self.peak.measured(now, MAX_DELAY_WINDOW, rtt);
        }
        // Old jitter expires.
        self.overtaken(now, Duration::ZERO);
        self.count_round(now, acked.bytes);
        self.look()
    }

    /// Returns the longest RTT without a queue: base RTT and jitter, which is believed up to half of the base RTT.
    fn longest_without_queue(&self, base: Duration) -> Duration {
        base + self.overtaken.get().unwrap_or(Duration::ZERO).min(base / 2)
    }

    fn count_round(&mut self, now: Instant, bytes: u64) {
        let Some(round) = &mut self.round else {
            // Bytes of the first acknowledgement were sent before the measurement began.
            self.round = Some(Round { began: now, latest: now, acked: 0 });
            return;
        };
        round.acked += bytes;
        round.latest = now;
        let lasted = now.saturating_since(round.began);
        if lasted >= self.srtt.max(MIN_ROUND) {
            let rate = round.acked as f64 / lasted.as_secs_f64();
            self.rate = Some(rate);
            self.round = Some(Round { began: now, latest: now, acked: 0 });
        }
    }

    /// Ends the round at a pause, during which there is no delivery rate to measure.
    pub(super) fn paused(&mut self) {
        let Some(Round { began, latest, acked }) = self.round.take() else { return };
        let lasted = latest.saturating_since(began);
        if lasted >= MIN_ROUND {
            self.rate = Some(acked as f64 / lasted.as_secs_f64());
        }
    }

    /// Base RTT.
    pub(super) fn base(&self) -> Option<Duration> {
        self.base.get()
    }

    /// Notes that a packet arrived `by` later than one sent after it.
    pub(super) fn overtaken(&mut self, now: Instant, by: Duration) {
        self.overtaken.measured(now, JITTER_WINDOW, by);
    }

    /// Counts lost bytes.
    pub(super) fn lost(&mut self, bytes: u64) {
        self.counted.lost += bytes;
    }

    /// Loss rate of the last `LOSS_RATE_PACKETS` packets or more, returned once for each such block.
    pub(super) fn take_loss_share(&mut self) -> Option<f64> {
        let Counted { acked, lost } = self.counted;
        if acked + lost < LOSS_RATE_PACKETS * self.mtu {
            return None;
        }
        self.counted = Counted::default();
        Some(lost as f64 / (acked + lost) as f64)
    }

    /// Delivery rate of the last round, in bytes per second.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Drops queueing measurements after a timeout or pause, since they say little about the current queue.
    pub(super) fn after_silence(&mut self) {
        (self.standing, self.highest, self.peak) = (Least::default(), Greatest::default(), Greatest::default());
        (self.round, self.counted) = (None, Counted::default());
    }

    pub(super) fn look(&self) -> Option<Look> {
        let (base, standing) = (self.base.get()?, self.standing.get()?);
        let longest = self.longest_without_queue(base);
        let beyond = |rtt: Option<Duration>| rtt.unwrap_or(standing).saturating_sub(longest);
        Some(Look {
            base,
            standing,
            srtt: self.srtt,
            queued: standing.saturating_sub(longest),
            waited: self.latest.saturating_sub(longest),
            most: beyond(self.highest.get()),
            peak: beyond(self.peak.get()),
        })
    }
}
