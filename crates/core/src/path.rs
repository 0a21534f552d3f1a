//! Path state, and estimates of the one-way delay of a packet: usual, minimum, and behind the bytes in flight.

use crate::adu::AduMeta;
use crate::time::{Duration, Instant, Rate};

/// Approximate maximum delay of an acknowledgement that waits for a second packet. Chosen by us: with a higher value
/// less data has time for a retransmission.
const ACK_DELAY: Duration = Duration::from_millis(10);

/// Bytes that a transport adds to a datagram, about: a DCCP header with an acknowledgement, or a record's fields.
const TRANSPORT_HEADER: u64 = 20;

/// Path state: the Congestion Manager's answer to a query (Andersen et al. §2.1.4). A literal ends with
/// `..PathState::default()`: fields may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PathState {
    /// Sending rate of this flow.
    pub rate: Rate,
    /// Smoothed RTT; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Mean deviation of the RTT.
    pub rttvar: Duration,
    /// Minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Latest RTT sample, if known: the smoothed RTT shows late that a path has become faster.
    pub latest_rtt: Option<Duration>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub outstanding: u64,
    /// Recent packet loss rate, in parts per million.
    pub loss_ppm: u32,
    /// Recent delivery rate over at most a round trip, if measured and each packet is acknowledged; a lower bound of
    /// the path's rate if little was sent.
    pub delivered: Option<Rate>,
    /// Whether unused capacity is lost, as far as congestion control can tell: cross traffic fills the path's queue and
    /// takes it; or losses have reduced the window below the initial one, and it only grows by use.
    pub contended: bool,
    /// Model of arrival times; `None` before the first packet is known to have arrived.
    pub arrivals: Option<ArrivalModel>,
}

/// Model of when packets arrive: where nothing of this host waits, after `passage`; else behind that, at `capacity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ArrivalModel {
    /// One-way delay of a packet before which nothing of this host waits: propagation, and what others have queued.
    pub passage: Duration,
    /// Arrival of the last packet sent.
    pub clears: Instant,
    /// Departure since which each packet has waited behind packets of this host, as predicted.
    pub busy_since: Instant,
    /// Rate at which this host's packets pass the bottleneck, once it was seen.
    pub capacity: Option<Rate>,
    /// Whether arrivals are known without the delays of acknowledgements, so that packets that wait for each other are seen.
    pub is_exact: bool,
    /// Bytes of the headers that the Congestion Manager's sizes do not include.
    pub headers: u16,
    /// Mean error of recent predictions.
    pub error: Duration,
    /// Time by which one packet of forty was earlier than predicted, of late.
    pub early: Duration,
    /// Time by which one packet of forty was later than predicted, of late.
    pub late: Duration,
}

/// Predicted arrival of a packet: its distribution, by the errors of recent predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Prediction.
    pub median: Instant,
    /// One packet of forty comes before this time.
    pub earliest: Instant,
    /// One packet of forty comes after this time.
    pub latest: Instant,
}

/// Arrival of a packet whose acknowledgement tells its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrived {
    /// Arrival that was predicted when it left.
    pub predicted: Instant,
    /// Its arrival, as far as the acknowledgement tells.
    pub actual: Instant,
}

impl Arrival {
    fn around(median: Instant, early: Duration, late: Duration) -> Self {
        Self { median, earliest: median.saturating_sub(early), latest: median + late }
    }
}

impl ArrivalModel {
    /// Arrival of the last of `bytes` that begin to leave at `leaving`.
    pub fn arrival(&self, leaving: Instant, bytes: u64) -> Instant {
        let takes = self.capacity.map_or(Duration::ZERO, |rate| rate.time_for(bytes));
        (leaving + self.passage).max(self.clears) + takes
    }

    /// Time for which a queue of this host's packets has stood at the bottleneck, as of `now`.
    fn busy_for(&self, now: Instant) -> Duration {
        if self.clears > now + self.passage { now.saturating_since(self.busy_since) } else { Duration::ZERO }
    }
}

impl PathState {
    /// Predicted arrival of the last of `bytes`, with all headers, that begin to leave at `leaving`, behind everything in flight. Before
    /// arrivals were observed, by the smoothed RTT.
    pub fn arrival(&self, leaving: Instant, bytes: u64) -> Arrival {
        match &self.arrivals {
            Some(model) => Arrival::around(model.arrival(leaving, bytes), model.early, model.late),
            None => Arrival {
                median: leaving + self.one_way(),
                earliest: leaving + self.least_way(),
                latest: leaving + self.longest_way(),
            },
        }
    }

    /// Whether a datagram of `bytes` that leaves at `now` is not worth sending, because it would be late.
    ///
    /// Not sending something useful is worse than sending something late (McQuistin §3.2): a packet is given up only
    /// if it is certainly late. On a link where this host's own queue has stood for the whole of the packet's life,
    /// giving it up costs nothing, since the link goes on serving that queue; sending it delays the packets
    /// behind it, of which each is as late again. There it has to be in time for certain.
    pub fn is_too_late(&self, now: Instant, meta: &AduMeta, bytes: u64) -> bool {
        self.is_late_by(now, meta, bytes, |arrival| arrival.earliest)
    }

    /// Whether a datagram of `bytes` that leaves at `now` would rather be late than in time: as [`is_too_late`](Self::is_too_late), by the
    /// predicted arrival instead of the earliest. Before arrivals were observed only what is certainly late is.
    pub fn is_rather_late(&self, now: Instant, meta: &AduMeta, bytes: u64) -> bool {
        self.is_late_by(now, meta, bytes, |arrival| self.likely(arrival))
    }

    fn is_late_by(&self, now: Instant, meta: &AduMeta, bytes: u64, time: impl Fn(&Arrival) -> Instant) -> bool {
        let Some(deadline) = meta.deadline else { return false };
        let arrival = self.arrival(now, bytes + self.headers());
        deadline < if self.is_saturated(now, deadline, meta) { arrival.latest } else { time(&arrival) }
    }

    /// Returns the bytes that can leave together at `now` so that a datagram at their end is not [rather late](Self::is_rather_late).
    pub fn bytes_in_time(&self, now: Instant, meta: &AduMeta) -> u64 {
        let capacity = self.arrivals.and_then(|model| model.capacity);
        let (Some(deadline), Some(capacity)) = (meta.deadline, capacity) else { return u64::MAX };
        let arrival = self.arrival(now, 0);
        let first = if self.is_saturated(now, deadline, meta) { arrival.latest } else { self.likely(&arrival) };
        capacity.bytes_in(deadline.saturating_since(first)).saturating_sub(self.headers())
    }

    fn likely(&self, arrival: &Arrival) -> Instant {
        if self.arrivals.is_some() { arrival.median } else { arrival.earliest }
    }

    /// Returns the bytes of all headers of a datagram, about.
    fn headers(&self) -> u64 {
        self.arrivals.map_or(0, |model| u64::from(model.headers)) + TRANSPORT_HEADER
    }

    /// Whether this host's own queue has stood for the whole of the datagram's life.
    fn is_saturated(&self, now: Instant, deadline: Instant, meta: &AduMeta) -> bool {
        let life = deadline.saturating_since(meta.enqueued);
        self.arrivals.is_some_and(|model| model.busy_for(now) >= life)
    }

    /// Estimated one-way delay of a packet sent now; zero before the first RTT sample. Half of the minimum RTT plus all
    /// queueing delay, which is assumed to be on the forward path.
    pub fn one_way(&self) -> Duration {
        let Some(srtt) = self.srtt else { return Duration::ZERO };
        srtt.saturating_sub(self.min_rtt.unwrap_or(srtt) / 2)
    }

    /// One-way delay if the bytes in flight show the path's queue earlier than the RTT does: bytes beyond a minimum
    /// RTT's worth are queued, and no others. Says nothing about cross traffic.
    pub fn shortest_way(&self) -> Duration {
        let (Some(srtt), Some(least), false) = (self.srtt, self.min_rtt, self.contended) else { return self.one_way() };
        let waits = self.rate.time_for(self.outstanding).saturating_sub(least);
        least / 2 + waits.min(srtt.saturating_sub(least))
    }

    /// Optimistic one-way delay: the smoothed RTT less its mean deviation and half of the minimum RTT; or the delivery
    /// time of the bytes in flight, if that is less.
    ///
    /// The smoothed RTT "responds slowly to rapid variations" (McQuistin §3.2): after an outage it and its deviation
    /// stay high for many round trips, although few bytes may be queued. Not sending something useful is worse than
    /// sending something late (ibid.). RTT samples after an outage are those of packets sent before its end; a new
    /// packet only waits for the rest of these, at the delivery rate. A single RTT sample, perhaps the handshake's,
    /// says nothing about the next: zero.
    fn least_way(&self) -> Duration {
        if self.is_single() {
            return Duration::ZERO;
        }
        let half = self.min_rtt.or(self.srtt).unwrap_or(Duration::ZERO) / 2;
        let usual = self.one_way().saturating_sub(self.rttvar);
        let ahead = self.delivered.map_or(Duration::MAX, |rate| rate.time_for(self.outstanding) + half);
        usual.min(ahead).max(half.min(self.one_way()))
    }

    /// One-way delay of the fastest path seen: half of the minimum RTT; zero after a single RTT sample, which may be that of an outage.
    pub fn fastest_way(&self) -> Duration {
        if self.is_single() { Duration::ZERO } else { self.min_rtt.unwrap_or_default() / 2 }
    }

    /// Whether there was only one RTT sample: its half is taken for the deviation (RFC 6298 §2.2), and the next one
    /// reduces that. The kernel reports whole microseconds, rounded down.
    fn is_single(&self) -> bool {
        let least = |srtt: Duration| srtt.saturating_sub(Duration::from_micros(1));
        self.srtt.is_some_and(|srtt| self.min_rtt == Some(srtt) && self.rttvar * 2 >= least(srtt))
    }

    /// Time until a lost packet is retransmitted: packets sent after it are acknowledged a round trip later, and
    /// another quarter is allowed for reordering (RFC 8985 §6.2).
    pub fn again(&self) -> Duration {
        let srtt = self.srtt.or(self.min_rtt).unwrap_or(Duration::ZERO);
        srtt + (srtt / 4).max(self.rttvar) + ACK_DELAY
    }

    /// Whether a packet sent now could be retransmitted after a loss and arrive by `deadline`. `false` before the first RTT sample.
    pub fn has_second_chance(&self, now: Instant, deadline: Instant) -> bool {
        self.srtt.is_some() && now + self.again() + self.one_way() <= deadline
    }

    /// One-way delay of the latest acknowledged packet, assuming half of the minimum RTT for the return path.
    pub fn latest_way(&self) -> Duration {
        let latest = self.latest_rtt.unwrap_or(Duration::ZERO);
        latest.saturating_sub(self.min_rtt.unwrap_or(latest) / 2)
    }

    /// Pessimistic one-way delay: by the smoothed RTT and its mean deviation, or by the latest RTT.
    pub fn longest_way(&self) -> Duration {
        (self.one_way() + self.rttvar).max(self.latest_way())
    }

    /// One-way delay of a packet of `len` bytes behind a standing queue: all bytes in flight at the delivery rate. Zero
    /// without a queue, or if the packet, `enqueued` then, has waited for less than a round trip: the path may then be
    /// faster than it was used.
    ///
    /// When a path slows down, RTT samples show it too late: each is that of a packet sent an RTT ago.
    pub fn way_behind(&self, now: Instant, enqueued: Instant, len: u64) -> Duration {
        let (Some(srtt), Some(least), Some(rate)) = (self.srtt, self.min_rtt, self.delivered) else {
            return Duration::ZERO;
        };
        if srtt <= least + least / 2 || now.saturating_since(enqueued) < srtt {
            return Duration::ZERO;
        }
        // Half of the minimum RTT is the return path.
        rate.time_for(self.outstanding.saturating_add(len)).saturating_sub(least / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_leaves_again_when_it_cannot_have_been_overtaken() {
        let ms = Duration::from_millis;
        let path = |srtt, rttvar| PathState { srtt: Some(ms(srtt)), rttvar: ms(rttvar), ..PathState::default() };
        assert_eq!([path(100, 10).again(), path(100, 40).again()], [ms(135), ms(150)]);
        // It arrives half a round trip later, as half is assumed to be the return path.
        let known = PathState { min_rtt: Some(ms(100)), ..path(100, 10) };
        let by = |millis| known.has_second_chance(Instant::ZERO, Instant::ZERO + ms(millis));
        assert_eq!([by(184), by(185)], [false, true]);
        assert!(!PathState::default().has_second_chance(Instant::ZERO, Instant::FAR_FUTURE));
    }

    #[test]
    fn a_way_is_as_short_as_what_is_under_way_lets_it_be() {
        let ms = Duration::from_millis;
        let path = |outstanding| PathState {
            rate: Rate::from_kbps(800),
            srtt: Some(ms(150)),
            min_rtt: Some(ms(100)),
            outstanding,
            ..PathState::default()
        };
        let ways = [0, 10_000, 12_000, 50_000].map(|outstanding| path(outstanding).shortest_way());
        assert_eq!(ways, [ms(50), ms(50), ms(70), ms(100)], "never longer than round trips say");
        assert_eq!(path(50_000).one_way(), ms(100));
        assert_eq!(PathState { contended: true, ..path(0) }.shortest_way(), ms(100));
        assert_eq!(PathState::default().shortest_way(), Duration::ZERO);
    }

    #[test]
    fn behind_a_queue_that_stands_a_packet_waits_for_all_of_it() {
        let ms = |millis| Duration::from_millis(millis);
        let at = |millis| Instant::ZERO + ms(millis);
        let path = PathState {
            srtt: Some(ms(100)),
            min_rtt: Some(ms(40)),
            outstanding: 14_000,
            delivered: Some(Rate::from_kbps(400)),
            ..PathState::default()
        };
        let behind = |path: &PathState, enqueued| path.way_behind(at(500), at(enqueued), 1_000);
        assert_eq!(behind(&path, 400), ms(300 - 20));
        assert_eq!(behind(&path, 401), ms(0), "perhaps nothing was sent of late");
        assert_eq!(behind(&PathState { srtt: Some(ms(60)), ..path }, 0), ms(0), "no queue");
        assert_eq!(behind(&PathState { delivered: None, ..path }, 0), ms(0));
    }

    /// A link of 800 kbit/s: a packet of 1000 bytes takes 10 ms.
    fn modelled(busy_since: u64, clears: u64) -> PathState {
        let ms = Duration::from_millis;
        let model = ArrivalModel {
            passage: ms(20),
            clears: Instant::ZERO + ms(clears),
            busy_since: Instant::ZERO + ms(busy_since),
            capacity: Some(Rate::from_kbps(800)),
            is_exact: true,
            headers: 80,
            error: ms(3),
            early: ms(4),
            late: ms(8),
        };
        PathState { arrivals: Some(model), srtt: Some(ms(500)), min_rtt: Some(ms(40)), ..PathState::default() }
    }

    #[test]
    fn a_datagram_with_a_chance_is_sent_and_only_a_certainly_late_one_is_given_up() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let meta = |deadline| AduMeta { enqueued: at(1_000), deadline: Some(at(deadline)), ..AduMeta::default() };
        let idle = modelled(900, 950);
        assert_eq!(idle.arrival(at(1_000), 1_000).median, at(1_030));
        assert!(!idle.is_too_late(at(1_000), &meta(1_026), 900), "one of forty is as early");
        assert!(idle.is_too_late(at(1_000), &meta(1_025), 900));
        assert!(!idle.is_too_late(at(1_000), &AduMeta::default(), 900), "no deadline");
        // Behind a burst of this host, as the rest of a keyframe is.
        let burst = modelled(1_000, 1_080);
        assert!(!burst.is_too_late(at(1_005), &meta(1_086), 900) && burst.is_too_late(at(1_005), &meta(1_085), 900));
    }

    /// Found by `timeous-lab tl-timelines`: over a window smaller than the stream each datagram left at the last instant at which one of
    /// forty is in time, and beside others, which made the first of them late.
    #[test]
    fn what_is_rather_late_is_judged_by_the_prediction_and_with_what_leaves_beside_it() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let meta = |deadline| AduMeta { enqueued: at(1_000), deadline: Some(at(deadline)), ..AduMeta::default() };
        let idle = modelled(900, 950);
        assert!(!idle.is_rather_late(at(1_000), &meta(1_030), 900));
        assert!(idle.is_rather_late(at(1_000), &meta(1_029), 900) && !idle.is_too_late(at(1_000), &meta(1_029), 900));
        assert_eq!(idle.bytes_in_time(at(1_000), &meta(1_030)), 900, "10 ms, less 100 bytes of headers");
        assert_eq!(idle.bytes_in_time(at(1_000), &meta(1_050)), 2_900);
        assert_eq!([meta(1_010), meta(900)].map(|meta| idle.bytes_in_time(at(1_000), &meta)), [0, 0]);
        assert_eq!(idle.bytes_in_time(at(1_000), &AduMeta::default()), u64::MAX, "no deadline");
        let saturated = modelled(500, 1_080);
        assert_eq!(saturated.bytes_in_time(at(1_000), &meta(1_098)), 900);
        assert!(saturated.is_rather_late(at(1_000), &meta(1_097), 900));
        let unknown = PathState { srtt: Some(Duration::from_millis(80)), ..PathState::default() };
        assert_eq!(unknown.bytes_in_time(at(1_000), &meta(1_010)), u64::MAX);
    }

    /// Found by `timeous-lab tl-timelines`: on a link slower than the stream each datagram that might just be in time kept the queue as long
    /// as its playout, so that all were a little late.
    #[test]
    fn behind_its_own_standing_queue_a_datagram_is_sent_only_if_it_is_certainly_in_time() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let meta = |deadline| AduMeta { enqueued: at(1_000), deadline: Some(at(deadline)), ..AduMeta::default() };
        let saturated = modelled(500, 1_080);
        assert!(!saturated.is_too_late(at(1_000), &meta(1_098), 900));
        assert!(saturated.is_too_late(at(1_000), &meta(1_097), 900));
    }

    #[test]
    fn what_varies_may_be_fast_again_and_what_stands_is_slow() {
        let ms = |millis| Duration::from_millis(millis);
        let path = |srtt, rttvar| PathState {
            srtt: Some(ms(srtt)),
            rttvar: ms(rttvar),
            min_rtt: Some(ms(40)),
            ..PathState::default()
        };
        assert_eq!(path(40, 1).least_way(), ms(20), "never less than over an empty path");
        assert_eq!(path(340, 10).least_way(), ms(310), "a queue that stands");
        assert_eq!(path(200, 150).least_way(), ms(30), "one that is gone");
        assert_eq!(PathState::default().least_way(), Duration::ZERO);
    }

    /// Found by `timeous-lab tl-timelines`: the handshake met an outage, and the first group of pictures was dropped.
    #[test]
    fn a_single_round_trip_gives_nothing_up() {
        let ms = |millis| Duration::from_millis(millis);
        let known = PathState { srtt: Some(ms(440)), rttvar: ms(220), min_rtt: Some(ms(440)), ..PathState::default() };
        assert_eq!(known.least_way(), ms(0));
        assert_eq!(PathState { rttvar: ms(165), ..known }.least_way(), ms(220), "a second one was the same");
        // Found by `tcp-expired`: of every second stream whose handshake met an outage the first keyframe was dropped.
        let odd = Some(Duration::from_micros(440_001));
        assert_eq!(PathState { srtt: odd, min_rtt: odd, ..known }.least_way(), ms(0));
    }

    /// Found by `timeous-lab tl-timelines`: ADUs handed over while RTT samples of an outage came in were dropped.
    #[test]
    fn where_a_path_delivers_again_a_packet_waits_only_for_what_is_left() {
        let ms = |millis| Duration::from_millis(millis);
        let path = PathState {
            srtt: Some(ms(240)),
            rttvar: ms(50),
            min_rtt: Some(ms(40)),
            outstanding: 5_000,
            delivered: Some(Rate::from_kbps(2_000)),
            ..PathState::default()
        };
        assert_eq!(path.least_way(), ms(20 + 20));
        assert_eq!(PathState { outstanding: 0, ..path }.least_way(), ms(20), "never less than over an empty path");
        assert_eq!(PathState { outstanding: 100_000, ..path }.least_way(), ms(170), "what is usual may be less");
        assert_eq!(PathState { delivered: None, ..path }.least_way(), ms(170));
    }
}
