//! The send buffer's state as DBAT has it: the average, its level, and when the source is told (Hasan et al. Fig. 5).

use timeous_core::{Advice, BufferState, Duration, Instant, PathState, Rate, Reason, Thresholds};

use super::average::Average;
use super::carried::Carried;
use super::lately::Lately;
use super::others::Others;
use super::pace::Pace;
use super::rates::{
    Known, eased, held, higher, is_more, is_near, is_short, kept, lower, not_more, not_quite, path_rate, queues,
    relieved,
};
use super::thresholds::{Delay, Level};
use super::used::Used;

/// So many packets may wait whatever rate and delay say: with fewer, a single one would be a queue.
const LEAST_PACKETS: u64 = 2;
/// More is tried after so many times the interval of feedback: what was asked for has to show first.
const PATIENCE: u64 = 4;
/// And after so many, if more was tried before and the queue stayed low.
const STRIDE: u64 = 2;
/// And after so many, if the queue has filled at such a rate before.
const CAUTION: u64 = 4;
/// Where nothing leaves, the queue is looked at so many times in an interval of feedback.
const LOOKS: u64 = 4;
/// Over so long it is looked whether a stream uses the rate that it says.
const RECENT: Duration = Duration::from_millis(200);
/// Before rate and delay are known, it is looked at after so long.
const UNKNOWN: Duration = Duration::from_millis(100);
/// A queue that a higher rate has left is judged by that for so many delays.
const SPARED: u64 = 4;

/// What the paper leaves open, or what one may want otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which delay `Min_Th` is reckoned from.
    pub delay: Delay,
    /// The delay is taken for no less than this. Media come a frame at a time, and large frames are no congestion.
    pub least_delay: Duration,
    /// `Max_Th` is at most so many bytes, and `Min_Th` half of them; `None`: whatever rate and delay say. A send buffer
    /// that holds less than `Max_Th` overflows before anybody is told: 64 packets of 1 kB at 960 kbit/s and 450 ms, say.
    pub most: Option<u64>,
    /// Each arrival counts one part in so many for the average. Zero is taken for one.
    pub parts: u32,
    /// What goes beyond `Max_Th`.
    pub beyond: Beyond,
    /// Whether a queue that a higher rate has left is judged by that rate's `Max_Th` for four delays. For sources of
    /// a few rates: at a step to half of the rate twice as much waits as may, and all of it would be given up at once. Where frames
    /// have deadlines, what waits so long makes late what follows.
    pub spare_what_remains: bool,
    /// Whether the source is told of room, too.
    pub tell_of_room: bool,
    /// Whether the source is told, too, when packets are given up for their deadlines.
    pub tell_of_lateness: bool,
    /// Whether the rate of a stream that says none is what it hands over.
    pub measure: bool,
}

/// What is given up beyond `Max_Th`. Never what is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Only marked packets go (§3.2): whatever comes before the first one of them is given up, and all if there is none.
    /// What waits behind it stays, and goes if the average falls meanwhile.
    OnlyMarked,
    /// Unmarked packets are given up preferentially (Fig. 5): the oldest frames, until no more than `Max_Th` waits. For
    /// streams in which little or nothing is marked: an opportunity to send is never left unused, and no more is given up at
    /// a time than is too much.
    Excess,
}

impl Settings {
    /// As close to the paper's words as they go.
    pub const PAPER: Self = Self {
        delay: Delay::RoundTrip,
        least_delay: Duration::ZERO,
        most: None,
        parts: 8,
        beyond: Beyond::OnlyMarked,
        spare_what_remains: false,
        tell_of_room: false,
        tell_of_lateness: false,
        measure: false,
    };
}

impl Default for Settings {
    /// The paper's, with a delay of at least 100 ms, which is an I-frame's share of a stream, with feedback of room, and
    /// for streams that do not say their rate, too, and of what is late.
    fn default() -> Self {
        Self {
            least_delay: Duration::from_millis(100),
            tell_of_room: true,
            tell_of_lateness: true,
            measure: true,
            ..Self::PAPER
        }
    }
}

/// DBAT without a queue: it is told what arrives, and says how full the queue is and what the source should know.
///
/// [`Dbat`](super::Dbat) drives one over a packet ring. A driver with a send buffer of its own calls
/// [`arrived`](Self::arrived) for each packet, then [`judge`](Self::judge), and takes
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
    /// As the stream says; `None` where it has said nothing, or sends nothing.
    said: Option<Rate>,
    pace: Pace,
    /// The same over a shorter time.
    recent: Pace,
    average: Average,
    carried: Carried,
    used: Used,
    /// What came through in the last round trip.
    lately: Lately,
    others: Others,
    /// The largest packet seen.
    largest: u64,
    /// When the queue was last known not to be empty.
    busy: Option<Instant>,
    /// Whether something has arrived since the last judgement.
    arrived: bool,
    thresholds: Option<Thresholds>,
    /// The rate that they are of.
    judged: Rate,
    /// `Max_Th` of a higher rate that has left its queue behind, and until when that is judged by it.
    before: Option<(u64, Instant)>,
    /// When the source was last told, or when this began.
    told: Option<Instant>,
    /// Why, and what was queued then.
    last: Option<(Reason, u64)>,
    pending: Option<Advice>,
    advised: Option<Rate>,
    /// What the path was thought to carry when the queue filled, until more than that has gone well.
    ceiling: Option<Rate>,
    /// The most that came through since the source was told.
    shown: Rate,
    /// The rate at which the path delivered at its fastest since the source was told.
    fastest: Rate,
    /// The most that ever came through.
    best: Rate,
    /// Whether a queue has ever filled.
    filled: bool,
    /// Whether the path's own queues were a reason since there was room.
    followed: bool,
    /// When to look again.
    next_look: Instant,
    /// Whether packets were given up for their deadlines since the source was told.
    late: bool,
}

impl Tuner {
    /// Of an empty queue, and a stream that has not said its rate: nothing is given up, and nothing said.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            said: None,
            pace: Pace::over(Duration::from_secs(1)),
            recent: Pace::over(RECENT),
            average: Average::new(settings.parts),
            carried: Carried::default(),
            used: Used::default(),
            lately: Lately::default(),
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

    /// As it was made.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The stream has this rate from now on. Zero takes back what was said.
    ///
    /// The paper's application says it when the connection is made, and DBAT knows of each switch; so the thresholds
    /// follow at once, and what waits may be too much for a rate that is far lower.
    pub fn set_rate(&mut self, rate: Rate) {
        self.said = Some(rate).filter(|rate| *rate > Rate::ZERO);
        self.next_look = Instant::ZERO;
    }

    /// The stream's rate, as far as it is known.
    fn rate(&self) -> Option<Rate> {
        self.said.or_else(|| self.pace.rate().filter(|_| self.settings.measure))
    }

    /// A packet of `len` bytes arrived at `at`, and with it `queued` bytes wait.
    ///
    /// An empty time before it counts as the stream's packets arriving at an empty queue (RED, Floyd & Jacobson 1993 §4):
    /// otherwise a stream that paused would be judged by a queue that is gone.
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

    /// A packet of `len` bytes came through. Where this is never told, the path carries what it is said to.
    pub fn acked(&mut self, len: u64) {
        self.carried.acked(len);
    }

    /// A packet of `len` bytes was lost or given up: it does not come through, and waits nowhere.
    pub fn gone(&mut self, len: u64) {
        self.carried.gone(len);
    }

    /// A packet was given up that could not have arrived in time.
    pub fn too_late(&mut self) {
        self.late = self.settings.tell_of_lateness;
    }

    /// How full the queue is, in which `queued` bytes wait. Where packets have arrived since the last time, this is
    /// when the source is told.
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
            self.next_look = now + UNKNOWN;
            return Level::Unknown;
        };
        let delay = delay.max(self.settings.least_delay);
        let least = self.largest.saturating_mul(LEAST_PACKETS);
        let thresholds = within(Thresholds::of(rate, delay, least), self.settings.most);
        self.remember(now, rate, thresholds, delay);
        (self.thresholds, self.judged) = (Some(thresholds), rate);
        let level = Level::of(self.average(), Thresholds { max: self.most(), ..thresholds });
        let interval = path.srtt.unwrap_or(delay).max(delay);
        if arrived {
            // Among others' packets one round trip is short now and then.
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
        self.next_look = (now + interval / LOOKS).max(quiet);
        level
    }

    /// Keeps a higher rate's `Max_Th` until the queue that it has left has gone back, or was to have.
    fn remember(&mut self, now: Instant, rate: Rate, thresholds: Thresholds, delay: Duration) {
        let is_left = |max: u64| max > thresholds.max && self.average() > thresholds.middle();
        let before = self.before.filter(|&(max, until)| now < until && is_left(max));
        let fell = self.settings.spare_what_remains && rate < self.judged;
        let higher = self.thresholds.map(|before| before.max).filter(|&max| fell && is_left(max));
        self.before = before.or(higher.map(|max| (max, now + delay * SPARED)));
    }

    /// So many bytes may wait: `Max_Th`, or that of a higher rate whose queue is spared; no bound before rate and delay are known.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.before.map(|(max, _)| max).or(self.thresholds.map(|thresholds| thresholds.max)).unwrap_or(u64::MAX)
    }

    /// When to [`judge`](Self::judge) again if something is queued and nothing leaves: not before the source may be told
    /// anything.
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next_look)
    }

    /// What the source should know. What it did not take before it was told again is gone: only the newest matters.
    pub fn poll_advice(&mut self) -> Option<Advice> {
        self.pending.take()
    }

    /// The weighted average of the queue, in bytes.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.average.bytes()
    }

    /// By what it was measured the last time, if rate and delay were known.
    #[must_use]
    pub const fn thresholds(&self) -> Option<Thresholds> {
        self.thresholds
    }

    /// How the buffer stands.
    #[must_use]
    pub fn state(&self) -> BufferState {
        let Self { thresholds, advised, .. } = *self;
        BufferState { average: self.average(), thresholds, stream: self.rate(), advised }
    }

    /// At most once a round trip, or once a delay where the thresholds know a longer one.
    fn may_tell(&mut self, now: Instant, reason: Reason, interval: Duration) -> bool {
        let told = *self.told.get_or_insert(now);
        let patience = match (reason, self.last) {
            (Reason::Room, _) if !self.settings.tell_of_room => return false,
            (Reason::Room, _) if self.is_near_ceiling() => CAUTION,
            (Reason::Room, Some((Reason::Room, _))) => STRIDE,
            (Reason::Room, _) if self.is_faster() => STRIDE,
            (Reason::Room, _) => PATIENCE,
            (_, None) => return true,
            _ => 1,
        };
        now.saturating_since(told) > interval * patience
    }

    fn tell(&mut self, now: Instant, (reason, level): (Reason, Level), path: &PathState, queued: u64, delay: Duration) {
        let (Some(stream), Some(thresholds)) = (self.rate(), self.thresholds) else { return };
        let (average, said) = (self.average(), path_rate(path));
        // What comes late has waited in the path's queue, too, where that is long.
        let relief = if is_short(path, delay) { held } else { eased };
        // While little waits, what came through is what was handed over.
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
            Reason::Filling | Reason::Overfull => {
                self.ceiling = Some(self.full(stream, path));
                Some(lower(stream, path, average.saturating_sub(thresholds.min), delay))
            }
        };
        let Some(rate) = rate else { return };
        self.pending = Some(Advice { at: now, reason, queued, average, thresholds, stream, rate, path });
        (self.told, self.last, self.advised) = (Some(now), Some((reason, queued)), Some(rate));
        self.late = false;
        (self.shown, self.fastest) = (Rate::ZERO, Rate::ZERO);
        self.filled |= reason != Reason::Room;
        self.followed &= reason != Reason::Room;
    }

    /// A higher rate, where there is room for one.
    fn more(&self, stream: Rate, path: Option<Rate>) -> Option<Rate> {
        let best = (self.filled && self.carried.is_told()).then_some(self.best);
        let known = Known { ceiling: self.ceiling, shown: self.shown, best };
        let asked = higher(stream, path, &known).filter(|_| self.is_used(stream));
        // What a source makes of its rate is what comes through. As much as the path ever took is had again by asking for
        // more than that; beyond it, the path has to bear all that is asked for.
        let made = best.and_then(|best| {
            let rate = higher(self.used.tried(stream), path, &known)?;
            Some(self.used.to_have(rate).min(not_quite(best)))
        });
        asked.max(made).filter(|rate| is_more(*rate, stream))
    }

    /// What the path carries where the queue fills: the most of what came of late, since a source that has begun to send less
    /// gets less through.
    fn full(&self, stream: Rate, path: Option<Rate>) -> Rate {
        self.lately.most().unwrap_or(Rate::ZERO).max(kept(stream, path))
    }

    /// Whether all that is handed over comes through, and fills no queue of the path.
    fn has_room(&self, now: Instant, path: &PathState, delay: Duration) -> bool {
        (is_short(path, delay) || self.others.are_there(now)) && self.carried.keeps_up()
    }

    /// Whether the stream hands over what it says, or nearly so: what is not used has not been tried.
    fn is_used(&self, rate: Rate) -> bool {
        self.recent.rate().is_none_or(|handed| handed.as_bps() >= rate.as_bps() / 4 * 3)
    }

    /// What filled the queue before, unless more than that comes through by now; where nobody tells, unless more was tried.
    fn ceiling(&self) -> Option<Rate> {
        let stream = self.rate().unwrap_or(Rate::ZERO);
        let ceiling = self.ceiling.filter(|ceiling| match self.carried.is_told() {
            true => not_more(self.shown, *ceiling),
            false => stream <= *ceiling,
        })?;
        Some(if self.is_faster() { self.fastest } else { ceiling })
    }

    /// Whether the path was seen to be clearly faster since the source was told than when the queue filled: as fast it never was then.
    fn is_faster(&self) -> bool {
        self.ceiling.is_some_and(|ceiling| self.fastest.as_bps() > ceiling.as_bps() / 4 * 5)
    }

    /// Whether more would be what filled the queue before.
    fn is_near_ceiling(&self) -> bool {
        self.rate().zip(self.ceiling()).is_some_and(|(stream, ceiling)| is_near(self.used.tried(stream), ceiling))
    }

    /// Whether the stream has less already than what comes through: so the queue that was too long gets shorter.
    fn is_below(&self, stream: Rate) -> bool {
        self.carried.most().is_some_and(|carried| stream < not_quite(carried))
    }

    /// Whether the path's own queues are long, and stay so since the stream has more than comes through, while no send buffer
    /// tells of it: after it was asked for less, for as long as it is more; else if it is clearly more.
    fn fills_path(&self, now: Instant, stream: Rate, path: &PathState, delay: Duration) -> bool {
        let Some(came) = self.carried.most().filter(|came| *came < stream) else { return false };
        let waits = path.outstanding > came.bytes_in(path.min_rtt.unwrap_or_default() + delay / 2);
        // Once: where others fill the path's queue, it stays long whatever is asked for.
        let lasts = !self.followed && self.last.is_some_and(|(reason, _)| reason != Reason::Room);
        self.settings.tell_of_room
            && waits
            && !is_short(path, delay)
            && (match self.others.are_there(now) {
                // Theirs grows and shrinks; of a path that carries much less now they tell nothing.
                true => self.carried.falls_far_behind(),
                false => lasts || self.carried.falls_behind(),
            })
    }

    /// Whether the queue does what was asked for last, though the average still remembers: a source that was asked for
    /// less each time would end far below what the path carries.
    fn goes_back(&self, queued: u64, thresholds: Thresholds) -> bool {
        queued <= thresholds.min || self.became_less(queued)
    }

    /// Whether less is queued than when less was asked for.
    fn became_less(&self, queued: u64) -> bool {
        self.last.is_some_and(|(reason, before)| reason != Reason::Room && queued < before)
    }
}

/// These, as far as the send buffer is not smaller.
fn within(thresholds: Thresholds, most: Option<u64>) -> Thresholds {
    let max = most.map_or(thresholds.max, |most| thresholds.max.min(most));
    if max < thresholds.max { Thresholds { min: max / 2, max } } else { thresholds }
}
