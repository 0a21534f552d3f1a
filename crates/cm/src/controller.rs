//! Interface of congestion controllers: acknowledgements and losses in, congestion window and pacing rate out.

pub mod aimd;
pub mod bbr;
#[cfg(test)]
mod closed_loop;
pub mod copa;
pub mod cubic;
mod extreme;
mod hystart;
pub mod initial;
pub mod live;
pub mod newreno;
mod pace;
mod queueing;
pub mod scream;
pub(crate) mod steered;
pub mod tfrc;

use timeous_core::{ArrivalModel, Duration, Instant, Rate};

/// Acknowledgement, as passed to a controller.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Bytes still in flight.
    pub outstanding: u64,
    /// RTT sample of this acknowledgement, if one was measured.
    pub rtt: Option<Duration>,
    /// Smoothed RTT, this sample included.
    pub srtt: Option<Duration>,
    /// Whether the congestion window limited the macroflow while these bytes were in flight. If not, the window is not
    /// validated and must not grow (RFC 7661 §3).
    pub window_limited: bool,
}

/// Sent packet, as passed to a controller.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Bytes of the packet.
    pub bytes: u64,
    /// Bytes in flight, this packet included.
    pub outstanding: u64,
    /// The sender was application-limited before this packet: window and pace would have allowed one earlier.
    pub app_limited: bool,
}

/// Congestion event, as passed to a controller: at most one per round trip.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Bytes in flight when the loss or mark was detected: `FlightSize` (RFC 5681 §2).
    pub outstanding: u64,
    /// Whether packets were ECN-marked rather than lost (RFC 3168).
    pub marked: bool,
}

/// Retransmission timeout, as passed to a controller.
#[derive(Clone, Copy, Debug)]
pub struct TimedOut {
    /// Bytes in flight when the timer expired; 0 if a handshake packet was lost.
    pub outstanding: u64,
    /// Whether an earlier timeout already reported this loss: "the value of ssthresh is held constant" (RFC 5681 §3.1).
    pub again: bool,
}

/// Congestion controller of one macroflow, counting bytes.
pub trait Controller: Send + std::fmt::Debug {
    /// Name, for display.
    fn name(&self) -> &'static str;

    /// Congestion window, in bytes.
    fn window(&self) -> u64;

    /// Handles a sent packet. Purely window-based controllers may ignore it.
    fn on_sent(&mut self, _now: Instant, _sent: Sent) {}

    /// Handles an acknowledgement; withheld during loss recovery if [`heeds_recovery`](Self::heeds_recovery).
    fn on_acked(&mut self, now: Instant, acked: Acked);

    /// Whether acknowledgements are withheld during loss recovery, as TCP's window does not grow then (RFC 6675 §5).
    /// Delay-based controllers need every acknowledgement.
    fn heeds_recovery(&self) -> bool {
        true
    }

    /// Whether cross traffic fills the path's queue, as far as the controller can tell.
    fn is_among_others(&self) -> bool {
        false
    }

    /// Whether losses have reduced the window below the initial one and it grows only by use, not during idle periods.
    fn grows_by_use_alone(&self) -> bool {
        false
    }

    /// Notes delay variation that is no queue: a packet arrived `by` later than one sent after it, which a FIFO queue
    /// cannot do.
    fn on_overtaken(&mut self, _now: Instant, _by: Duration) {}

    /// Takes the path model's latest predictions, if the transport reports arrivals.
    fn on_model(&mut self, _now: Instant, _model: &ArrivalModel) {}

    /// Forgets what it knows of the path, because packets take another one, as the model of the path found.
    fn on_another_path(&mut self) {}

    /// Whether it goes by the model of the path: only then [`on_model`](Self::on_model) is called.
    fn heeds_model(&self) -> bool {
        false
    }

    /// Counts lost bytes: every loss, while [`on_congestion`](Self::on_congestion) is called at most once per round trip.
    fn on_lost(&mut self, _now: Instant, _bytes: u64) {}

    /// Responds to a loss or a mark, at most once per round trip.
    fn on_congestion(&mut self, now: Instant, congestion: Congestion);

    /// Responds to a retransmission timeout: the fate of the bytes in flight is unknown.
    fn on_timeout(&mut self, now: Instant, timed_out: TimedOut);

    /// Undoes the response to a spurious timeout: restores the window, but to at most `most` bytes (RFC 4015 §3.2, step
    /// 9). Called only if no other congestion followed. Controllers without saved state may ignore it.
    fn on_spurious_timeout(&mut self, _most: u64) {}

    /// Handles the end of an idle period with nothing in flight, which lasted `timeouts` retransmission timeouts, maybe
    /// none (RFC 5681 §4.1, RFC 2861).
    fn on_idle(&mut self, now: Instant, timeouts: u32);

    /// Slow-start threshold in bytes, once there is one.
    fn threshold(&self) -> Option<u64> {
        None
    }

    /// Takes over window and slow-start threshold from another controller. Controllers without a window of their own may ignore it.
    fn adopt(&mut self, _window: u64, _threshold: Option<u64>) {}

    /// Ends slow start, because the receiver cannot keep up (RFC 4341 §5.2). Rate-based controllers may ignore it.
    fn end_slow_start(&mut self) {}

    /// Whether the window counts as used, and so may grow, with `under_way` bytes in flight and one further packet.
    fn is_used(&self, under_way: u64) -> bool {
        under_way > self.window()
    }

    /// Whether congestion window validation (RFC 7661) applies: the window may grow while at least half of it was used
    /// recently; otherwise a congestion response starts from the used amount.
    fn goes_by_use(&self) -> bool {
        false
    }

    /// Expected rate of the next round trips, for the given smoothed RTT.
    fn rate(&self, srtt: Duration) -> Rate {
        Rate::from_bytes_in(self.window(), srtt)
    }

    /// Fixed rate set from outside, if any: it is the pacing rate, too, from the first packet on.
    fn told(&self) -> Option<Rate> {
        None
    }

    /// Pacing rate for the given smoothed RTT; [`Rate::MAX`] disables pacing.
    fn pace(&self, srtt: Duration) -> Rate;
}
