//! DBAT's controller of a send buffer: average, level, and advice to the source (Hasan et al. Fig. 5).

use timeous_core::{Advice, BufferState, Duration, Instant, PathState, Rate, RateRange, Reason, Thresholds};

use super::average::Average;
use super::carried::Carried;
use super::delivery_rates::RecentDeliveryRates;
use super::others::Others;
use super::pace::Pace;
use super::rates::{
    Known, eased, held, higher, is_more, is_near, is_short, kept, lower, not_more, not_quite, path_rate, queues,
    relieved,
};
use super::thresholds::{Delay, Level};
use super::used::Used;

/// Lower bound of `Min_Th`, in packets (docs/design/encoder-feedback.md). Chosen by us: with less, a single packet
/// would be a queue; a higher value asks for a lower rate later.
const MIN_TH_PACKETS: u64 = 2;
/// Feedback intervals before a higher rate is tried: the effect of the last advice must show first. Chosen by us: a
/// higher value uses spare capacity later.
const ROOM_INTERVALS: u64 = 4;
/// Feedback intervals before a higher rate is tried if one was tried before and the queue stayed low, or the path
/// became faster. Chosen by us: half of the usual wait; a higher value rises more slowly.
const ROOM_INTERVALS_RISING: u64 = 2;
/// Feedback intervals before a higher rate is tried if the queue has filled at such a rate before. Chosen by us: a
/// lower value fills the queue more often.
const ROOM_INTERVALS_NEAR_CEILING: u64 = 4;
/// Checks per feedback interval while nothing is sent (docs/design/encoder-feedback.md). Chosen by us: a higher value
/// finds a stalled path sooner and costs more time.
const CHECKS_PER_INTERVAL: u64 = 4;
/// Part of the stream's rate that the transport may send beyond it, to empty the queue. Chosen by us: a quarter is the pace of a
/// player that buffers; with a lower value a queue stays for longer, a higher one overshoots the path.
const CEILING_PART: u64 = 4;
/// Window over which a stream's use of its rate is measured, in time. Chosen by us: a higher value covers more frames
/// and follows the source later.
const USE_WINDOW: Duration = Duration::from_millis(200);
/// Interval between checks before rate and delay are known. Chosen by us: a higher value gives the first advice later.
const INITIAL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which a queue left by a higher rate is judged by that rate's threshold, in path delays
/// (docs/decisions/feedback-rate-switch.md): with two instead of four more packets are lost.
const SPARED_DELAYS: u64 = 4;

/// Settings for what the paper leaves open, and for deviations from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Delay that `Min_Th` is computed from.
    pub delay: Delay,
    /// Lower bound of the delay. Media arrive frame by frame, and large frames are no congestion.
    pub least_delay: Duration,
    /// Upper bound of `Max_Th` in bytes (`Min_Th` is half of it); `None`: no bound. A send buffer smaller than `Max_Th`
    /// would overflow before the source is told: for example 64 packets of 1 kB at 960 kbit/s and 450 ms.
    pub most: Option<u64>,
    /// Each arrival has a weight of one over this number in the average. Zero counts as one.
    pub parts: u32,
    /// Drop rule above `Max_Th`.
    pub beyond: DropRule,
    /// Whether a queue left by a higher rate is judged by that rate's `Max_Th` for four delays. For sources with few
    /// rates: after a step to half of the rate, twice the allowed bytes are queued and would all be dropped at once.
    /// With deadlines, keeping such a queue makes later frames late.
    pub spare_what_remains: bool,
    /// Whether the source is also told of room for a higher rate.
    pub tell_of_room: bool,
    /// Whether the source is also told when packets are dropped because of their deadlines.
    pub tell_of_lateness: bool,
    /// Whether the rate of a stream is measured if it is not set.
    pub measure: bool,
    /// Whether the transport is asked to keep to the rate that the stream has set (§3.2).
    pub ask_for_rate: bool,
}

/// Drop rule above `Max_Th`. Marked packets are never dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropRule {
    /// Sends only marked packets (§3.2): all packets before the first marked one are dropped, or all if there is none.
    /// Packets behind it stay, and are sent if the average falls meanwhile.
    OnlyMarked,
    /// Drops unmarked packets preferentially (Fig. 5): the oldest frames, until at most `Max_Th` is queued. For streams
    /// with few or no marked packets: every sending opportunity is used, and no more is dropped than necessary.
    Excess,
}

impl Settings {
    /// The paper's rules, as literally as possible.
    pub const PAPER: Self = Self {
        delay: Delay::RoundTrip,
        least_delay: Duration::ZERO,
        most: None,
        parts: 8,
        beyond: DropRule::OnlyMarked,
        spare_what_remains: false,
        tell_of_room: false,
        tell_of_lateness: false,
        measure: false,
        ask_for_rate: true,
    };
}

impl Default for Settings {
    /// The paper's rules, with a delay of at least 100 ms (a keyframe's share of a stream), advice about room and late
    /// packets, and measured rates for streams that set none.
    fn default() -> Self {
        Self {
            least_delay: Duration::from_millis(100),
            tell_of_room: true,
            tell_of_lateness: true,
            measure: true,
            ask_for_rate: false,
            ..Self::PAPER
        }
    }
}

/// DBAT without a queue: takes arrivals, and returns the queue's level and advice for the source.
///
/// [`Dbat`](super::Dbat) drives one over a packet ring. A driver with its own send buffer calls
/// [`arrived`](Self::arrived) for each packet, then [`judge`](Self::judge), and takes the advice from
/// [`poll_advice`](Self::poll_advice).
///
/// ```
/// use timeous_choice::dbat::{Level, Settings, Tuner};
/// use timeous_core::{Duration, Instant, PathState, Rate, Reason};
/// let rtt = Some(Duration::from_millis(150));
/// let path = PathState { rate: Rate::from_kbps(300), srtt: rtt, min_rtt: rtt, ..PathState::default() };
/// let mut tuner = Tuner::new(Settings::PAPER);
/// tuner.set_rate(Rate::from_kbps(320));
/// let mut now = Instant::ZERO;
/// let mut queued = 0;
/// while tuner.judge(now, &path, queued) < Level::Filling {
///     (now, queued) = (now + Duration::from_millis(25), queued + 1_000);
///     tuner.arrived(now, queued, 1_000);
/// }
/// let advice = tuner.poll_advice().unwrap();
/// assert_eq!(advice.reason, Reason::Filling);
/// assert!(advice.average > 9_000 && advice.rate < Rate::from_kbps(300));
/// ```
#[derive(Clone, Debug)]
pub struct Tuner {
    settings: Settings,
    /// Rate set by the stream; `None` if it set none or zero.
    said: Option<Rate>,
    pace: Pace,
    /// The same over a shorter time.
    recent: Pace,
    average: Average,
    carried: Carried,
    used: Used,
    /// Delivered rate within the last round trip.
    lately: RecentDeliveryRates,
    others: Others,
    /// Largest packet seen.
    largest: u64,
    /// Last time when the queue was known not to be empty.
    busy: Option<Instant>,
    /// Whether packets have arrived since the last judgement.
    arrived: bool,
    thresholds: Option<Thresholds>,
    /// Stream rate of these thresholds.
    judged: Rate,
    /// `Max_Th` of a higher rate whose queue is left, and until when it applies.
    before: Option<(u64, Instant)>,
    /// Time of the last advice, or of the start.
    told: Option<Instant>,
    /// Reason of the last advice, and the queue length then.
    last: Option<(Reason, u64)>,
    pending: Option<Advice>,
    advised: Option<Rate>,
    /// Estimated rate of the path when the queue filled; valid until more than that is delivered without a queue.
    ceiling: Option<Rate>,
    /// Maximum delivered rate since the last advice.
    shown: Rate,
    /// Maximum delivery rate of the path since the last advice.
    fastest: Rate,
    /// Maximum delivered rate ever.
    best: Rate,
    /// Whether a queue has ever filled.
    filled: bool,
    /// Whether the path's own queue has caused advice since there was room.
    followed: bool,
    /// Time of the next check.
    next_look: Instant,
    /// Whether packets were dropped because of their deadlines since the last advice.
    late: bool,
}

impl Tuner {
    /// Creates a tuner with an empty queue and an unknown rate, which drops nothing and gives no advice.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            said: None,
            pace: Pace::over(Duration::from_secs(1)),
            recent: Pace::over(USE_WINDOW),
            average: Average::new(settings.parts),
            carried: Carried::default(),
            used: Used::default(),
            lately: RecentDeliveryRates::default(),
            others: Others::default(),
            largest: 0,
            busy: None,
            arrived: false,
            thresholds: None,
            judged: Rate::ZERO,
            before: None,
            told: None,
            last: None,
            pending: None,
            advised: None,
            ceiling: None,
            shown: Rate::ZERO,
            fastest: Rate::ZERO,
            best: Rate::ZERO,
            filled: false,
            followed: false,
            next_look: Instant::ZERO,
            late: false,
        }
    }

    /// Settings given at creation.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the range of rates that the stream asks of its transport, if it has set its rate.
    #[must_use]
    pub fn rate_range(&self) -> Option<RateRange> {
        let said = self.said.filter(|_| self.settings.ask_for_rate)?;
        let ceiling = Rate::from_bps(said.as_bps().saturating_add(said.as_bps() / CEILING_PART));
        Some(RateRange { floor: said, ceiling })
    }

    /// Sets the stream's rate. Zero removes it.
    ///
    /// The paper's application sets it at connection time, and DBAT knows of each switch: the thresholds change at
    /// once, and the queue may be too long for a much lower rate.
    pub fn set_rate(&mut self, rate: Rate) {
        self.said = Some(rate).filter(|rate| *rate > Rate::ZERO);
        self.next_look = Instant::ZERO;
    }

    /// Rate of the stream, as far as known.
    fn rate(&self) -> Option<Rate> {
        self.said.or_else(|| self.pace.rate().filter(|_| self.settings.measure))
    }

    /// Notes a packet of `len` bytes that arrived at `at`, with `queued` bytes including it.
    ///
    /// An empty period before it counts as arrivals at an empty queue (RED, Floyd & Jacobson 1993 §4): otherwise a
    /// stream that paused would be judged by an old queue.
    pub fn arrived(&mut self, at: Instant, queued: u64, len: u64) {
        if let (Some(busy), Some(rate)) = (self.busy, self.rate())
            && queued <= len
        {
            let missed = rate.bytes_in(at.saturating_since(busy)) / len.max(1);
            self.average.idle(missed.saturating_sub(1));
        }
        self.average.arrival(queued);
        self.carried.arrived(len);
        self.pace.arrived(at, len);
        self.recent.arrived(at, len);
        self.used.arrived(at, len, self.rate());
        self.largest = self.largest.max(len);
        self.busy = self.busy.max(Some(at));
        self.arrived = true;
    }

    /// Notes a delivered packet of `len` bytes. Without such reports the path is assumed to carry its stated rate.
    pub fn acked(&mut self, len: u64) {
        self.carried.acked(len);
    }

    /// Notes a lost or dropped packet of `len` bytes: it is neither delivered nor queued.
    pub fn gone(&mut self, len: u64) {
        self.carried.gone(len);
    }

    /// Notes a packet dropped because it could not arrive in time.
    pub fn too_late(&mut self) {
        self.late = self.settings.tell_of_lateness;
    }

    /// Returns the level of a queue of `queued` bytes. If packets have arrived since the last call, this also decides about advice.
    pub fn judge(&mut self, now: Instant, path: &PathState, queued: u64) -> Level {
        let arrived = std::mem::take(&mut self.arrived);
        if arrived {
            self.carried.look(now, path);
            self.shown = self.shown.max(self.carried.rate().unwrap_or(Rate::ZERO));
            self.best = self.best.max(self.shown);
            self.fastest = self.fastest.max(path.delivered.unwrap_or(Rate::ZERO));
            self.lately.add(now, self.carried.most(), path.srtt.unwrap_or_default());
        }
        if queued > 0 {
            self.busy = self.busy.max(Some(now));
        }
        let (Some(rate), Some(delay)) = (self.rate(), self.settings.delay.of(path)) else {
            self.thresholds = None;
            self.next_look = now + INITIAL_INTERVAL;
            return Level::Unknown;
        };
        let delay = delay.max(self.settings.least_delay);
        let least = self.largest.saturating_mul(MIN_TH_PACKETS);
        let thresholds = within(Thresholds::of(rate, delay, least), self.settings.most);
        self.remember(now, rate, thresholds, delay);
        (self.thresholds, self.judged) = (Some(thresholds), rate);
        let level = Level::of(self.average(), Thresholds { max: self.most(), ..thresholds });
        let interval = path.srtt.unwrap_or(delay).max(delay);
        if arrived {
            // With cross traffic single RTTs are short now and then.
            let smoothed = PathState { latest_rtt: None, ..*path };
            let queue = queues(&smoothed).filter(|_| !is_short(&smoothed, delay));
            self.others.look(now, queue, (rate, self.best), self.carried.falls_behind(), interval);
        }
        let reason = match level.reason() {
            None | Some(Reason::Room) if self.late => Some(Reason::Late),
            None | Some(Reason::Room) if self.fills_path(now, rate, path, delay) => Some(Reason::Filling),
            reason => reason,
        };
        if let Some(reason) = reason
            && arrived
            && self.may_tell(now, reason, interval)
            && (reason != Reason::Room || self.has_room(now, path, delay))
        {
            self.tell(now, (reason, level), path, queued, delay);
        }
        let told = self.told.filter(|_| self.last.is_some());
        let quiet = told.map_or(Instant::ZERO, |told| told + interval + Duration::from_nanos(1));
        self.next_look = (now + interval / CHECKS_PER_INTERVAL).max(quiet);
        level
    }

    /// Keeps a higher rate's `Max_Th` until its queue has drained or its time is over.
    fn remember(&mut self, now: Instant, rate: Rate, thresholds: Thresholds, delay: Duration) {
        let is_left = |max: u64| max > thresholds.max && self.average() > thresholds.middle();
        let before = self.before.filter(|&(max, until)| now < until && is_left(max));
        let fell = self.settings.spare_what_remains && rate < self.judged;
        let higher = self.thresholds.map(|before| before.max).filter(|&max| fell && is_left(max));
        self.before = before.or(higher.map(|max| (max, now + delay * SPARED_DELAYS)));
    }

    /// Maximum queue length in bytes: `Max_Th`, or that of a higher rate whose queue is spared; unbounded before rate
    /// and delay are known.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.before.map(|(max, _)| max).or(self.thresholds.map(|thresholds| thresholds.max)).unwrap_or(u64::MAX)
    }

    /// Next time to call [`judge`](Self::judge) if packets are queued and none are sent: not before advice is possible.
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next_look)
    }

    /// Takes the newest advice; older advice that was not taken is discarded.
    pub fn poll_advice(&mut self) -> Option<Advice> {
        self.pending.take()
    }

    /// Weighted average of the queue length, in bytes.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.average.bytes()
    }

    /// Thresholds of the last judgement, if rate and delay were known.
    #[must_use]
    pub const fn thresholds(&self) -> Option<Thresholds> {
        self.thresholds
    }

    /// State of the send buffer.
    #[must_use]
    pub fn state(&self) -> BufferState {
        let Self { thresholds, advised, .. } = *self;
        BufferState { average: self.average(), thresholds, stream: self.rate(), advised }
    }

    /// Whether advice may be given: at most once per round trip, or per delay if that is longer.
    fn may_tell(&mut self, now: Instant, reason: Reason, interval: Duration) -> bool {
        let told = *self.told.get_or_insert(now);
        let patience = match (reason, self.last) {
            (Reason::Room, _) if !self.settings.tell_of_room => return false,
            (Reason::Room, _) if self.is_near_ceiling() => ROOM_INTERVALS_NEAR_CEILING,
            (Reason::Room, Some((Reason::Room, _))) => ROOM_INTERVALS_RISING,
            (Reason::Room, _) if self.is_faster() => ROOM_INTERVALS_RISING,
            (Reason::Room, _) => ROOM_INTERVALS,
            (_, None) => return true,
            _ => 1,
        };
        now.saturating_since(told) > interval * patience
    }

    fn tell(&mut self, now: Instant, (reason, level): (Reason, Level), path: &PathState, queued: u64, delay: Duration) {
        let (Some(stream), Some(thresholds)) = (self.rate(), self.thresholds) else { return };
        let (average, said) = (self.average(), path_rate(path));
        // Late packets have also waited in the path's queue, if that is long.
        let relief = if is_short(path, delay) { held } else { eased };
        // With a short queue the delivered rate is just the offered one.
        let came = self.carried.most().filter(|_| reason != Reason::Room);
        let path = said.into_iter().chain(came).min();
        let rate = match reason {
            Reason::Room => {
                self.ceiling = self.ceiling();
                self.more(stream, path)
            }
            Reason::Late if self.is_below(stream) || self.became_less(queued) => Some(relief(stream, path)),
            Reason::Filling if level < Level::Filling => {
                self.followed = true;
                self.ceiling = Some(self.full(stream, path));
                Some(relieved(stream, path))
            }
            Reason::Late => {
                self.ceiling = Some(self.full(stream, path));
                Some(lower(stream, path, u64::MAX, delay))
            }
            _ if self.goes_back(queued, thresholds) => Some(held(stream, path)),
            _ => {
                self.ceiling = Some(self.full(stream, path));
                Some(lower(stream, path, average.saturating_sub(thresholds.min), delay))
            }
        };
        let Some(rate) = rate else { return };
        let mut advice = Advice::new(now, reason);
        (advice.queued, advice.average, advice.thresholds) = (queued, average, thresholds);
        (advice.stream, advice.rate, advice.path) = (stream, rate, path);
        self.pending = Some(advice);
        (self.told, self.last, self.advised) = (Some(now), Some((reason, queued)), Some(rate));
        self.late = false;
        (self.shown, self.fastest) = (Rate::ZERO, Rate::ZERO);
        self.filled |= reason != Reason::Room;
        self.followed &= reason != Reason::Room;
    }

    /// Higher rate to advise, if there is room for one.
    fn more(&self, stream: Rate, path: Option<Rate>) -> Option<Rate> {
        let best = (self.filled && self.carried.is_told()).then_some(self.best);
        let known = Known { ceiling: self.ceiling, shown: self.shown, best };
        let asked = higher(stream, path, &known).filter(|_| self.is_used(stream));
        // The delivered rate is what the source makes of its rate. Ask for more, so that it delivers the best rate
        // again; beyond that, the path must carry all that is asked for.
        let made = best.and_then(|best| {
            let rate = higher(self.used.tried(stream), path, &known)?;
            Some(self.used.to_have(rate).min(not_quite(best)))
        });
        asked.max(made).filter(|rate| is_more(*rate, stream))
    }

    /// Rate of the path when the queue fills: the maximum recent delivered rate, since a source that is already slowing
    /// down delivers less.
    fn full(&self, stream: Rate, path: Option<Rate>) -> Rate {
        self.lately.most().unwrap_or(Rate::ZERO).max(kept(stream, path))
    }

    /// Whether everything handed over is delivered without filling a queue of the path.
    fn has_room(&self, now: Instant, path: &PathState, delay: Duration) -> bool {
        (is_short(path, delay) || self.others.are_there(now)) && self.carried.keeps_up()
    }

    /// Whether the stream hands over nearly its rate: an unused rate has not been tested.
    fn is_used(&self, rate: Rate) -> bool {
        self.recent.rate().is_none_or(|handed| handed.as_bps() >= rate.as_bps() / 4 * 3)
    }

    /// Rate that filled the queue before, unless more is delivered by now or, without reports, was tried.
    fn ceiling(&self) -> Option<Rate> {
        let stream = self.rate().unwrap_or(Rate::ZERO);
        let ceiling = self.ceiling.filter(|ceiling| match self.carried.is_told() {
            true => not_more(self.shown, *ceiling),
            false => stream <= *ceiling,
        })?;
        Some(if self.is_faster() { self.fastest } else { ceiling })
    }

    /// Whether the path was clearly faster since the last advice than when the queue filled.
    fn is_faster(&self) -> bool {
        self.ceiling.is_some_and(|ceiling| self.fastest.as_bps() > ceiling.as_bps() / 4 * 5)
    }

    /// Whether a higher rate would reach the one that filled the queue before.
    fn is_near_ceiling(&self) -> bool {
        self.rate().zip(self.ceiling()).is_some_and(|(stream, ceiling)| is_near(self.used.tried(stream), ceiling))
    }

    /// Whether the stream's rate is already below the delivered rate, so that the queue is draining.
    fn is_below(&self, stream: Rate) -> bool {
        self.carried.most().is_some_and(|carried| stream < not_quite(carried))
    }

    /// Whether the path's own queue is long because the stream's rate exceeds the delivered one, which no send buffer
    /// shows: after advice to slow down as long as the rate is higher, otherwise if it is clearly higher.
    fn fills_path(&self, now: Instant, stream: Rate, path: &PathState, delay: Duration) -> bool {
        let Some(came) = self.carried.most().filter(|came| *came < stream) else { return false };
        let waits = path.outstanding > came.bytes_in(path.min_rtt.unwrap_or_default() + delay / 2);
        // Only once: cross traffic may keep the path's queue long whatever the advice.
        let lasts = !self.followed && self.last.is_some_and(|(reason, _)| reason != Reason::Room);
        self.settings.tell_of_room
            && waits
            && !is_short(path, delay)
            && (match self.others.are_there(now) {
                // A queue of cross traffic varies, and says nothing about a path that has become much slower.
                true => self.carried.falls_far_behind(),
                false => lasts || self.carried.falls_behind(),
            })
    }

    /// Whether the queue already follows the last advice, though the average lags: repeated advice would end far below
    /// the path's rate.
    fn goes_back(&self, queued: u64, thresholds: Thresholds) -> bool {
        queued <= thresholds.min || self.became_less(queued)
    }

    /// Whether the queue is shorter than at the last advice to slow down.
    fn became_less(&self, queued: u64) -> bool {
        self.last.is_some_and(|(reason, before)| reason != Reason::Room && queued < before)
    }
}

/// Thresholds limited to the size of the send buffer.
fn within(thresholds: Thresholds, most: Option<u64>) -> Thresholds {
    let max = most.map_or(thresholds.max, |most| thresholds.max.min(most));
    if max < thresholds.max { Thresholds { min: max / 2, max } } else { thresholds }
}
