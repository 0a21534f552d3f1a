//! What a congestion controller is: it turns acknowledgements and losses into a window and a pace.

pub mod aimd;
pub mod bbr;
#[cfg(test)]
mod closed_loop;
pub mod copa;
pub mod cubic;
mod extreme;
mod hystart;
pub mod initial;
pub mod newreno;
mod pace;
mod queueing;
pub mod scream;
pub(crate) mod steered;
pub mod tfrc;
mod trains;

use timeous_core::{Duration, Instant, Rate};

/// An acknowledgement, as a controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Bytes that are still under way.
    pub outstanding: u64,
    /// The round-trip time that came with them, if one was measured.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time, this sample in it.
    pub srtt: Option<Duration>,
    /// Whether the window held the macroflow back while they were under way. If not, the window proves nothing and
    /// must not grow (RFC 7661 §3).
    pub window_limited: bool,
}

/// A packet that leaves, as a controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its bytes.
    pub bytes: u64,
    /// Bytes that are under way, its own counted in.
    pub outstanding: u64,
    /// Before it there was nothing to send, though window and pace would have let something go.
    pub app_limited: bool,
}

/// A congestion event, as a controller sees it: at most once a round trip, or more rarely.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// What was under way when the news came: `FlightSize` (RFC 5681 §2).
    pub outstanding: u64,
    /// Whether packets were marked and not lost (RFC 3168).
    pub marked: bool,
}

/// A timeout, as a controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct TimedOut {
    /// What was under way: nothing if a packet of the handshake was lost.
    pub outstanding: u64,
    /// Whether it is the same loss that a timeout has told already: "the value of ssthresh is held constant"
    /// (RFC 5681 §3.1).
    pub again: bool,
}

/// A congestion controller of one macroflow. It counts bytes.
pub trait Controller: Send + std::fmt::Debug {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// How many bytes may be outstanding.
    fn window(&self) -> u64;

    /// A packet leaves. One that goes by windows alone need not know.
    fn on_sent(&mut self, _now: Instant, _sent: Sent) {}

    /// Bytes arrived, and their flow is not repairing a loss, unless it wants to know nevertheless.
    fn on_acked(&mut self, now: Instant, acked: Acked);

    /// Whether it is to hear of no acknowledgement while its flow repairs a loss, as TCP's window does not grow then (RFC
    /// 6675 §5). One that goes by what waits in the path has to.
    fn heeds_recovery(&self) -> bool {
        true
    }

    /// Whether others fill the path's queue, as far as it can tell: for a controller that has another way with those.
    fn is_among_others(&self) -> bool {
        false
    }

    /// Whether losses have made its window smaller than one to begin with, and it grows by use alone: it does not come back by
    /// silence.
    fn grows_by_use_alone(&self) -> bool {
        false
    }

    /// A packet came `by` later than one that was sent after it. A queue in order cannot do that: it is delay variation
    /// of another kind.
    fn on_overtaken(&mut self, _now: Instant, _by: Duration) {}

    /// Bytes were lost: all of them, where [`on_congestion`](Self::on_congestion) tells of one loss a round trip.
    fn on_lost(&mut self, _now: Instant, _bytes: u64) {}

    /// A loss or a mark, at most once a round trip.
    fn on_congestion(&mut self, now: Instant, congestion: Congestion);

    /// A timeout: nothing is known of what was under way.
    fn on_timeout(&mut self, now: Instant, timed_out: TimedOut);

    /// Nothing was lost for which the latest timeout was answered, and no other congestion was since: the window is what it was,
    /// but not more than `most` (RFC 4015 §3.2, step 9). One that does not remember need not.
    fn on_spurious_timeout(&mut self, _most: u64) {}

    /// A packet is asked for after a time with nothing to send and nothing under way, in which so many retransmission
    /// timeouts went by, maybe none (RFC 5681 §4.1, RFC 2861).
    fn on_idle(&mut self, now: Instant, timeouts: u32);

    /// The slow start threshold in bytes, once there is one.
    fn threshold(&self) -> Option<u64> {
        None
    }

    /// Starts with a window, and goes by slow start up to a threshold, as another controller knew them. One that has no
    /// window of its own need not.
    fn adopt(&mut self, _window: u64, _threshold: Option<u64>) {}

    /// The receiver has trouble keeping up: the window is to grow no faster than after slow start (RFC 4341 §5.2). One that
    /// reckons a rate need not.
    fn end_slow_start(&mut self) {}

    /// Whether the window is used, and so proves something, while so much is under way, a further packet counted in.
    fn is_used(&self, under_way: u64) -> bool {
        under_way > self.window()
    }

    /// Whether of its window counts what was used of late (RFC 7661): while that is half of it, it grows as if it were full, and is
    /// what congestion lowers; else, what was used is.
    fn goes_by_use(&self) -> bool {
        false
    }

    /// The rate that can be reckoned with for the next round trips, given the smoothed round-trip time.
    fn rate(&self, srtt: Duration) -> Rate {
        Rate::from_bytes_in(self.window(), srtt)
    }

    /// The rate, if it was told and nothing measured changes it: it is the pace, too, from the first packet on.
    fn told(&self) -> Option<Rate> {
        None
    }

    /// The pace at which the window should leave, given the smoothed round-trip time; [`Rate::MAX`] holds nothing back.
    fn pace(&self, srtt: Duration) -> Rate;
}
