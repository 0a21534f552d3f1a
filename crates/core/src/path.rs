//! What is known of a path, and how long a packet is under way on it: usually, at the least, behind what is there already.

use crate::time::{Duration, Instant, Rate};

/// What an acknowledgement waits for company, at most about.
const ACK_DELAY: Duration = Duration::from_millis(10);

/// What is known of a path: the Congestion Manager's answer to a query (Andersen et al. §2.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PathState {
    /// The rate at which this flow may send.
    pub rate: Rate,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The smallest round-trip time seen.
    pub min_rtt: Option<Duration>,
    /// The last one: a smoothed one tells late that a path has become faster. `None`: it is not known.
    pub latest_rtt: Option<Duration>,
    /// Bytes that may be outstanding.
    pub window: u64,
    /// Bytes that are outstanding.
    pub outstanding: u64,
    /// Share of the packets that were lost of late, in parts per million.
    pub loss_ppm: u32,
    /// The rate at which the path delivered of late, over a round trip at most, if that was measured and each packet is
    /// acknowledged: less than it could where less was sent.
    pub delivered: Option<Rate>,
    /// What is not used of the path does not come back by waiting, as far as congestion control can tell: others fill its queue, and
    /// it goes to them; or losses have made the window smaller than one to begin with, and only use makes it grow.
    pub contended: bool,
}

impl PathState {
    /// How long a packet sent now is thought to be under way; nothing if no round trip was measured. Half of the
    /// smallest round trip, and all of what the path's queues add: they are thought to be on the way there.
    pub fn one_way(&self) -> Duration {
        let Some(srtt) = self.srtt else { return Duration::ZERO };
        srtt.saturating_sub(self.min_rtt.unwrap_or(srtt) / 2)
    }

    /// The same, if what is under way tells more of the path's queues than round trips do, which tell of them late: what is
    /// beyond a smallest round trip's worth waits there, and no more. Of what others have there it tells nothing.
    pub fn shortest_way(&self) -> Duration {
        let (Some(srtt), Some(least), false) = (self.srtt, self.min_rtt, self.contended) else { return self.one_way() };
        let waits = self.rate.time_for(self.outstanding).saturating_sub(least);
        least / 2 + waits.min(srtt.saturating_sub(least))
    }

    /// The same, if the path is as fast as it may well be: by the smoothed round trip less its mean deviation, of which half the
    /// least is the way back; or the time in which the path delivers what is outstanding, if that is less.
    ///
    /// The smoothed round trip "responds slowly to rapid variations" (McQuistin §3.2): after a standstill it stays high for
    /// many round trips, and the deviation with it; where a queue stands, there is little of that. Not to send what is useful is
    /// worse than to send what is late (ibid.). When it delivers again, each round trip is that of a packet that was there while it
    /// stood still; what is left of those, at the rate at which they come, is all that a packet has to wait for. And a single round
    /// trip, the handshake's perhaps, says nothing of the next.
    pub fn least_way(&self) -> Duration {
        if self.is_single() {
            return Duration::ZERO;
        }
        let half = self.min_rtt.or(self.srtt).unwrap_or(Duration::ZERO) / 2;
        let usual = self.one_way().saturating_sub(self.rttvar);
        let ahead = self.delivered.map_or(Duration::MAX, |rate| rate.time_for(self.outstanding) + half);
        usual.min(ahead).max(half.min(self.one_way()))
    }

    /// Whether one round trip was measured: its half is taken for the deviation (RFC 6298 §2.2), and the next one makes it less.
    /// The kernel tells whole microseconds, and of an odd one the lesser half.
    fn is_single(&self) -> bool {
        let least = |srtt: Duration| srtt.saturating_sub(Duration::from_micros(1));
        self.srtt.is_some_and(|srtt| self.min_rtt == Some(srtt) && self.rttvar * 2 >= least(srtt))
    }

    /// After how long a packet that leaves now leaves again, should it be lost: what left behind it is acknowledged a round trip later, and
    /// a quarter more is left for it to have been overtaken (RFC 8985 §6.2).
    pub fn again(&self) -> Duration {
        let srtt = self.srtt.or(self.min_rtt).unwrap_or(Duration::ZERO);
        srtt + (srtt / 4).max(self.rttvar) + ACK_DELAY
    }

    /// Whether what leaves now can leave again, should it be lost, and be there by `deadline`. Not as long as no round trip is known.
    pub fn has_second_chance(&self, now: Instant, deadline: Instant) -> bool {
        self.srtt.is_some() && now + self.again() + self.one_way() <= deadline
    }

    /// How long the packet was under way of which was heard last, the way back taken for half of the least round trip.
    pub fn latest_way(&self) -> Duration {
        let latest = self.latest_rtt.unwrap_or(Duration::ZERO);
        latest.saturating_sub(self.min_rtt.unwrap_or(latest) / 2)
    }

    /// How long a packet may well be under way: by the smoothed round trip and its mean deviation, or by the latest.
    pub fn longest_way(&self) -> Duration {
        (self.one_way() + self.rttvar).max(self.latest_way())
    }

    /// How long a packet of `len` bytes that leaves now is under way where a queue stands: behind all that is under way, at the
    /// rate at which the path delivers. Nothing where no queue stands, or the packet, `enqueued` then, has not waited for a round
    /// trip: the path may be faster in that case than it was asked to be.
    ///
    /// Where a path becomes slower, round trips tell of it when it is too late: each is that of a packet which left one ago.
    pub fn way_behind(&self, now: Instant, enqueued: Instant, len: u64) -> Duration {
        let (Some(srtt), Some(least), Some(rate)) = (self.srtt, self.min_rtt, self.delivered) else {
            return Duration::ZERO;
        };
        if srtt <= least + least / 2 || now.saturating_since(enqueued) < srtt {
            return Duration::ZERO;
        }
        // Half of a round trip is the way back.
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
        // And arrives half a round trip later, where half is thought to be the way back.
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

    /// Found by `timeous-lab tl-timelines`: the handshake met a standstill, and the first group of pictures was given up.
    #[test]
    fn a_single_round_trip_gives_nothing_up() {
        let ms = |millis| Duration::from_millis(millis);
        let known = PathState { srtt: Some(ms(440)), rttvar: ms(220), min_rtt: Some(ms(440)), ..PathState::default() };
        assert_eq!(known.least_way(), ms(0));
        assert_eq!(PathState { rttvar: ms(165), ..known }.least_way(), ms(220), "a second one was the same");
        // Found by `tcp-expired`: of every second stream whose call met a standstill the first intra frame was given up.
        let odd = Some(Duration::from_micros(440_001));
        assert_eq!(PathState { srtt: odd, min_rtt: odd, ..known }.least_way(), ms(0));
    }

    /// Found by `timeous-lab tl-timelines`: what was handed over while the samples of a standstill came in was given up.
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
