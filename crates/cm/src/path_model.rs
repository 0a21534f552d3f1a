//! Model of a path: predicts when packets arrive, and learns from when they did.
//!
//! The bottleneck is a queue that serves this host's packets at `capacity`. A packet arrives one `passage` after it left, or
//! behind the last one, whichever is later. Each observed arrival corrects all three:
//!
//! - Packets of which each would have come before the one before it, had it been alone, came as fast as the bottleneck
//!   serves: their distance gives its rate. Packets that came faster than the known rate raise it.
//! - A packet that waited although none of this host was before it waited for packets of others.
//! - Bytes sent after the observed packet arrive after it, at the bottleneck's rate.

mod base;
#[cfg(test)]
mod tests;

use timeous_core::{ArrivalModel, Duration, Instant, Rate};

use base::{Base, Longer};

/// Memory of the bottleneck's rate, in packets. Chosen by us: a higher value averages more jitter, and follows a change
/// of the rate later.
const RATE_MEMORY: f64 = 16.0;
/// Weight of a new observation of the others' queue, as TCP's of a round trip (RFC 6298 §2.3).
const OTHERS_GAIN: f64 = 0.125;
/// Weight of a new error in their mean, as TCP's of a deviation (RFC 6298 §2.3).
const ERROR_GAIN: f64 = 0.25;
/// Share of the packets that come before, and after, the quantiles of the error. Chosen by us: a lower value
/// gives up fewer packets, and leaves a longer margin behind a standing queue, of which this share is late (at most 3 % should be).
const OUTSIDE: f64 = 0.025;
/// Largest step of a quantile, as a share of it. Chosen by us: with a higher value it follows faster, and varies more.
const QUANTILE_GAIN: f64 = 0.25;
/// Packets after which a rate that differs replaces the known one, and the factor by which it must differ. Chosen by us:
/// with more, or a higher factor, a step of the rate is followed later; with less, jitter is taken for a step.
const STEP_PACKETS: f64 = 3.0;
const STEP_FACTOR: f64 = 1.25;
/// Factor by which packets count as slower than the known rate at most, until it is replaced: a path that stood still between them is
/// not narrow (docs/decisions/path-model.md).
const MAX_SLOWDOWN: f64 = 16.0;
/// Minimum jitter that keeps the order. Chosen by us: less costs no picture, and queues of others vary by as much.
const MIN_JITTER: Duration = Duration::from_millis(10);
/// Memory of the share that arrives, in packets. Chosen by us: a lower value follows single losses.
const SHARE_MEMORY: f64 = 64.0;
/// Weight of a new packet's size in the mean. Chosen by us: a few frames of a video.
const SIZE_GAIN: f64 = 1.0 / 16.0;

/// Moves a quantile so that it is exceeded by a share of [`OUTSIDE`] (Robbins & Monro 1951), by steps relative to its size.
fn follow(quantile: &mut f64, error: f64) {
    if error > *quantile {
        let step = QUANTILE_GAIN * (1.0 - OUTSIDE) * error;
        *quantile = (*quantile + step).min(error);
    } else {
        *quantile -= QUANTILE_GAIN * OUTSIDE * *quantile;
    }
}

/// Decaying sums of bytes and seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Served {
    bytes: f64,
    secs: f64,
}

impl Served {
    fn add(&mut self, bytes: f64, secs: f64, memory: f64) {
        let kept = (1.0 - bytes / memory).clamp(0.0, 1.0);
        *self = Self { bytes: self.bytes * kept + bytes, secs: self.secs * kept + secs };
    }

    fn rate(&self) -> f64 {
        self.bytes / self.secs
    }

    fn differs(&self, other: &Self) -> bool {
        let ratio = self.rate() / other.rate();
        !(STEP_FACTOR.recip()..=STEP_FACTOR).contains(&ratio)
    }
}

/// Place of a sent packet in the model, for the transport to return when the packet has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// Macroflow whose model it is of.
    pub(crate) macroflow: u64,
    /// Bytes that the path was given up to the end of this packet.
    position: u64,
    bytes: u64,
    at: Instant,
    /// Predicted arrival.
    pub expected: Instant,
    /// Whether it waits behind packets of this host, as predicted.
    behind: bool,
    /// Whether the bottleneck's rate was known.
    is_known: bool,
}

impl Departure {
    pub(crate) fn of_macroflow(self, macroflow: u64) -> Self {
        Self { macroflow, ..self }
    }
}

/// Observed arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The packet.
    pub departure: Departure,
    /// When its acknowledgement came, less the delay that the peer reports.
    pub answered: Instant,
    /// The peer may have delayed the acknowledgement by up to this time, without saying so.
    pub uncertain: Duration,
}

impl Observed {
    /// Returns the packet's RTT without the delay of its acknowledgement: within what that leaves open, the predicted one, over
    /// a path with a minimum RTT of `least`.
    #[must_use]
    pub fn path_rtt(&self, least: Duration) -> Duration {
        let Self { departure, answered, uncertain } = *self;
        let rtt = answered.saturating_since(departure.at);
        let expected = departure.expected.saturating_since(departure.at) + least / 2;
        expected.clamp(rtt.saturating_sub(uncertain).max(least).min(rtt), rtt)
    }
}

/// Model of one path.
#[derive(Clone, Debug)]
pub(crate) struct PathModel {
    /// Whether anything has asked for a prediction. Before that, packets cost nothing.
    is_asked: bool,
    /// Last packet; before anything has asked, only its time and size.
    departure: Departure,
    /// Bytes given to the path.
    position: u64,
    /// Arrival of the last packet, as predicted.
    clears: Instant,
    /// Beginning of the last series of packets that wait behind each other: when the first left, and the bytes before it.
    series: (Instant, u64),
    /// Departure of the last packet, and its size.
    last: Option<(Instant, u64)>,
    /// Newest packet that is known to have arrived, and when.
    newest: Option<(u64, Instant)>,
    /// Time of the last arrival that is known exactly, and bytes that have arrived since.
    measured: Option<Instant>,
    arrived: f64,
    base: Base,
    longer: Longer,
    /// When the path was last found to be another.
    found: Instant,
    /// Bytes and time of the busy bottleneck, over the last packets and since its rate last changed.
    served: Option<Served>,
    lately: Served,
    /// Decaying sums of bytes that were sent, and of those among them that arrived; those that arrived since the last
    /// observation; the mean size of a packet without headers, and the headers of the last one.
    given: f64,
    came: f64,
    fresh: f64,
    size: f64,
    headers: u16,
    /// Share of the bytes sent that arrives; one before it is known.
    share: f64,
    /// Rate of the bottleneck, and its time for a byte in nanoseconds: zero before it is known.
    capacity: Option<Rate>,
    nanos_per_byte: f64,
    /// Queueing delay behind others, in nanoseconds.
    others: f64,
    /// Wait of the last packet that was behind none of this host, and a quantile of how much longer such a packet waited than the
    /// one before it, which is jitter (as RFC 3550 §6.4.1 has it), in nanoseconds.
    waited: f64,
    varies: f64,
    /// Mean of the predictions' errors, and quantiles in both directions, in nanoseconds.
    error: f64,
    early: f64,
    late: f64,
}

impl Default for PathModel {
    fn default() -> Self {
        Self {
            is_asked: false,
            departure: Departure::default(),
            position: 0,
            clears: Instant::ZERO,
            series: (Instant::ZERO, 0),
            last: None,
            newest: None,
            measured: None,
            arrived: 0.0,
            base: Base::default(),
            longer: Longer::default(),
            found: Instant::ZERO,
            served: None,
            lately: Served::default(),
            given: 0.0,
            came: 0.0,
            fresh: 0.0,
            size: 0.0,
            headers: 0,
            share: 1.0,
            capacity: None,
            nanos_per_byte: 0.0,
            others: 0.0,
            waited: 0.0,
            varies: 0.0,
            error: 0.0,
            early: 0.0,
            late: 0.0,
        }
    }
}

impl PathModel {
    /// Time of a packet's `bytes`, headers included, on the link.
    fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes as f64 * self.nanos_per_byte) as u64)
    }

    /// Time after which the bottleneck has served `bytes` of which some may be lost.
    fn time_behind(&self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes as f64 * self.nanos_per_byte * self.share) as u64)
    }

    /// Queueing delay behind others.
    fn others(&self) -> Duration {
        Duration::from_nanos(self.others as u64)
    }

    /// Propagation delay of one way: half of the minimum round trip.
    fn half(&self, least: Option<Duration>) -> Duration {
        self.base.get().into_iter().chain(least).min().unwrap_or_default() / 2
    }

    /// Predictions by this model; `least`: the minimum RTT, of which half is taken for each way.
    pub(crate) fn predictions(&self, least: Option<Duration>) -> Option<ArrivalModel> {
        self.newest?;
        Some(ArrivalModel {
            passage: self.half(least) + self.others(),
            clears: self.clears,
            busy_since: self.series.0,
            capacity: self.capacity,
            is_exact: self.measured.is_some(),
            headers: self.headers,
            error: Duration::from_nanos(self.error as u64),
            early: Duration::from_nanos(self.early as u64),
            late: Duration::from_nanos(self.late as u64),
        })
    }

    /// Notes a packet.
    pub(crate) fn sent(&mut self, now: Instant, (bytes, headers): (u64, u16), least: Option<Duration>) {
        self.departure = match self.is_asked {
            true => self.depart(now, (bytes, headers), least),
            false => Departure { bytes, at: now, ..Departure::default() },
        };
    }

    /// Returns the last packet's place, with its predicted arrival; `headers` and `least` as of that packet.
    pub(crate) fn departure(&mut self, headers: u16, least: Option<Duration>) -> Departure {
        if !std::mem::replace(&mut self.is_asked, true) {
            let Departure { at, bytes, .. } = self.departure;
            self.departure = self.depart(at, (bytes, headers), least);
        }
        self.departure
    }

    /// Adds a packet to the model, and predicts its arrival.
    fn depart(&mut self, now: Instant, (bytes, headers): (u64, u16), least: Option<Duration>) -> Departure {
        let gain = if self.size > 0.0 { SIZE_GAIN } else { 1.0 };
        self.size += (bytes as f64 - self.size) * gain;
        self.headers = headers;
        let bytes = bytes + u64::from(headers);
        let passes = now + self.half(least) + self.others();
        let behind = passes <= self.clears;
        if !behind {
            self.series = (now, self.position);
        }
        self.position += bytes;
        let begins = passes.max(self.clears);
        self.clears = begins + self.time_behind(bytes);
        self.last = Some((now, bytes));
        let expected = begins + self.time_for(bytes);
        let is_known = self.capacity.is_some();
        Departure { macroflow: 0, position: self.position, bytes, at: now, expected, behind, is_known }
    }

    /// Counts bytes that are known to have arrived, of whichever flow.
    pub(crate) fn acked(&mut self, bytes: u64) {
        if !self.is_asked {
            return;
        }
        let packets = if self.size > 0.0 { bytes as f64 / self.size } else { 0.0 };
        let bytes = bytes as f64 + packets * f64::from(self.headers);
        self.arrived += bytes;
        self.fresh += bytes;
    }

    /// Notes that a packet arrived `by` later than one sent after it.
    pub(crate) fn overtaken(&mut self, by: Duration) {
        self.base.overtaken(by);
    }

    /// Learns from an arrival, and returns its time.
    pub(crate) fn arrived(&mut self, observed: Observed, least: Option<Duration>) -> Instant {
        let Observed { departure, answered, uncertain } = observed;
        let rtt = answered.saturating_since(departure.at);
        // Where packets overtake each other, a rate that is taken too low must not make the path shorter than it is.
        let on_link = self.capacity.map(|_| self.nanos_per_byte);
        let nanos_per_byte = if self.base.jitter().is_zero() { on_link } else { Some(0.0) };
        self.base.sample(answered, rtt, departure.bytes, nanos_per_byte);
        let half = self.half(least);
        let latest = answered.saturating_sub(half).max(departure.at);
        // Within what the acknowledgement leaves open, the prediction is right.
        let at = departure.expected.clamp(latest.saturating_sub(uncertain).max(departure.at), latest);
        if departure.at >= self.found {
            self.judge(at, &departure);
        }
        if self.newest.is_some_and(|(position, _)| departure.position <= position) {
            return at;
        }
        self.learn_share(&departure);
        if uncertain.is_zero() {
            self.learn_rate(&departure, at, half);
            (self.measured, self.arrived) = (Some(at), 0.0);
        }
        if !departure.behind {
            let before = self.newest.map_or(Instant::ZERO, |(_, at)| at);
            let alone = (departure.at + half).max(before) + self.time_for(departure.bytes);
            let waited = at.saturating_since(alone).as_nanos() as f64;
            follow(&mut self.varies, (waited - self.waited).max(0.0));
            self.waited = waited;
            self.others += (waited - self.others) * OTHERS_GAIN;
        }
        self.newest = Some((departure.position, at));
        self.correct(departure, at, half);
        at
    }

    /// Returns the minimum round trip of a longer path, if an arrival shows that the path has become one: to be asked before the model learns
    /// from it.
    pub(crate) fn find_longer(&mut self, observed: &Observed) -> Option<Duration> {
        let Observed { departure, answered, uncertain } = *observed;
        let is_newest = self.newest.is_none_or(|(position, _)| departure.position > position);
        let base = self.base.get().filter(|_| is_newest && uncertain.is_zero())?;
        let error = Duration::from_nanos(self.error as u64);
        self.longer.sample(answered, answered.saturating_since(departure.at), error, base)
    }

    /// Begins anew on a path with another minimum round trip.
    pub(crate) fn begin_anew(&mut self, now: Instant, least: Duration) {
        self.base.replace(now, least);
        (self.longer, self.found) = (Longer::default(), now);
        (self.served, self.lately, self.capacity, self.nanos_per_byte) = (None, Served::default(), None, 0.0);
        (self.measured, self.others, self.waited, self.varies) = (None, 0.0, 0.0, 0.0);
        (self.error, self.early, self.late) = (0.0, 0.0, 0.0);
        (self.clears, self.series) = (now, (now, self.position));
    }

    /// Compares an arrival with its prediction.
    fn judge(&mut self, at: Instant, &Departure { expected, is_known, .. }: &Departure) {
        let off = at.saturating_since(expected).max(expected.saturating_since(at)).as_nanos() as f64;
        self.error += (off - self.error) * ERROR_GAIN;
        // Quantiles forget slowly: errors from before the bottleneck's rate was known would stay in them for a hundred packets.
        if !is_known {
            return;
        }
        follow(&mut self.late, at.saturating_since(expected).as_nanos() as f64);
        follow(&mut self.early, expected.saturating_since(at).as_nanos() as f64);
    }

    fn learn_share(&mut self, departure: &Departure) {
        let before = self.newest.map_or(departure.position - departure.bytes, |(position, _)| position);
        let bytes = (departure.position - before) as f64;
        let kept = (1.0 - bytes / (departure.bytes as f64 * SHARE_MEMORY)).clamp(0.0, 1.0);
        self.given = self.given * kept + bytes;
        self.came = (self.came * kept + std::mem::take(&mut self.fresh)).min(self.given);
        self.share = self.came / self.given;
    }

    fn learn_rate(&mut self, departure: &Departure, at: Instant, half: Duration) {
        let Some(before) = self.measured else { return };
        let secs = at.saturating_since(before).as_secs_f64();
        let bytes = self.arrived;
        let varies = Duration::from_nanos(self.varies as u64);
        let jitter = if varies > MIN_JITTER { varies.max(self.base.jitter()) } else { self.base.jitter() };
        // Alone it would have come before the one before it, so that it waited behind that one.
        let is_busy = departure.at + half + jitter <= before;
        let is_faster = self.served.is_some_and(|served| bytes > served.rate() * secs * STEP_FACTOR);
        if !(is_busy || is_faster) {
            return;
        }
        if secs <= 0.0 {
            // With the one before, as from a link that stood still: served in the same time.
            if let Some(served) = &mut self.served {
                served.bytes += bytes;
                self.lately.bytes += bytes;
            }
            return;
        }
        let packet = departure.bytes as f64;
        let sample = Served { bytes, secs };
        if sample.differs(&self.lately) {
            self.lately = sample;
        } else {
            self.lately.add(bytes, secs, packet * RATE_MEMORY);
        }
        let served = match self.served {
            None => {
                // The delay by others' packets included its own time on the link, which was unknown.
                self.others = 0.0;
                sample
            }
            Some(mut served) => {
                served.add(bytes, secs.min(MAX_SLOWDOWN * bytes / served.rate()), packet * RATE_MEMORY);
                // A small packet and those before it, of one acknowledgement, are no series.
                let usual = packet.max(self.size + f64::from(self.headers));
                let is_step = self.lately.bytes >= usual * STEP_PACKETS && self.lately.differs(&served);
                if is_step { self.lately } else { served }
            }
        };
        self.served = Some(served);
        self.capacity = Some(Rate::from_bps((served.rate() * 8.0) as u64));
        self.nanos_per_byte = 1e9 / served.rate();
        self.base.limit(self.nanos_per_byte);
    }

    /// Corrects the arrival of the last packet, by the arrival of one before it.
    fn correct(&mut self, departure: Departure, at: Instant, half: Duration) {
        let behind = at + self.time_behind(self.position - departure.position);
        let (began, before) = self.series;
        let of_series = began + half + self.others() + self.time_behind(self.position - before);
        let of_last = self.last.map_or(at, |(left, bytes)| left + half + self.time_for(bytes));
        let is_in_series = departure.position > before;
        self.clears = if is_in_series { behind } else { behind.max(of_series) };
        if self.position > departure.position {
            self.clears = self.clears.max(of_last);
        }
    }
}
