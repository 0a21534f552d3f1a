//! What a congestion controller is: it turns acknowledgements and losses into a window and a pace.

pub mod aimd;

use timeous_core::{Duration, Instant, Rate};

/// An acknowledgement, as a controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// The round-trip time that came with them, if one was measured.
    pub rtt: Option<Duration>,
    /// Whether the window held the macroflow back while they were under way. If not, the window proves nothing and
    /// must not grow (RFC 7661 §3).
    pub window_limited: bool,
}

/// A congestion controller of one macroflow. It counts bytes.
pub trait Controller: Send + std::fmt::Debug {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// How many bytes may be outstanding.
    fn window(&self) -> u64;

    /// Bytes arrived.
    fn on_acked(&mut self, now: Instant, acked: Acked);

    /// A loss or a mark, at most once a round trip; `outstanding` is what was under way.
    fn on_congestion(&mut self, now: Instant, outstanding: u64);

    /// A timeout: nothing is known of what was under way.
    fn on_timeout(&mut self, now: Instant, outstanding: u64);

    /// Nothing was sent for so many retransmission timeouts, one at least (RFC 5681 §4.1, RFC 2861).
    fn on_idle(&mut self, now: Instant, timeouts: u32);

    /// The rate that can be reckoned with for the next round trips, given the smoothed round-trip time.
    fn rate(&self, srtt: Duration) -> Rate {
        Rate::from_bytes_in(self.window(), srtt)
    }

    /// The pace at which the window should leave, given the smoothed round-trip time.
    fn pace(&self, srtt: Duration) -> Rate;
}
