//! Interface of a transport: methods, driving order, and a typed error for violations of it.

use crate::adu::{AduMeta, DropReason};
use crate::advice::RateRange;
use crate::path::{Arrived, PathState};
use crate::queue::Queue;
use crate::time::{Duration, Instant};

/// Sans-IO transport connection.
///
/// # The driving order
///
/// 1. Inputs: any number of [`handle_datagram`](Self::handle_datagram), [`handle_timeout`](Self::handle_timeout) and
///    the transport's own commands (connect, close).
/// 2. Packets: [`poll_transmit`](Self::poll_transmit) until it returns `None`, sending each packet at once. This is
///    the instant of late choice: the payload is pulled from the [`AduSource`] *inside* the call, never before. Packets
///    may be handed to the system together, as long as none is pulled that cannot be handed over now.
/// 3. Events: [`poll_event`](Self::poll_event) until it returns `None`.
/// 4. Timer: [`poll_timeout`](Self::poll_timeout), and `handle_timeout` at that instant, unless an input of step 1
///    comes first. New data in the source leads to step 2.
///
/// `now` must not go back from one call to the next. Breaking the order is a [`Misuse`], which changes nothing.
pub trait Transport {
    /// Congestion control: the Congestion Manager, shared among the transports of a host.
    type Congestion;
    /// Event for the driver.
    type Event;

    /// Processes a datagram from the peer. Errors in it are the peer's fault and reach the driver as an event, if they matter.
    fn handle_datagram(
        &mut self,
        now: Instant,
        congestion: &mut Self::Congestion,
        datagram: &[u8],
        meta: impl Into<RecvMeta>,
    ) -> Result<(), Misuse>;

    /// Handles timers: to be called at [`poll_timeout`](Self::poll_timeout), harmless earlier.
    fn handle_timeout(&mut self, now: Instant, congestion: &mut Self::Congestion) -> Result<(), Misuse>;

    /// Appends the next packet to send now to the empty `packet`, or returns `None`. If the ADU's payload is
    /// [apart](PulledAdu::apart), `packet` holds the bytes before it, and the driver sends both as one datagram.
    fn poll_transmit(
        &mut self,
        now: Instant,
        congestion: &mut Self::Congestion,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Transmit>, Misuse>;

    /// Next time when [`handle_timeout`](Self::handle_timeout) is due; `None` if no timer is set.
    fn poll_timeout(&mut self) -> Result<Option<Instant>, Misuse>;

    /// The next event, or `None`.
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// Incorrect use by the driver. The transport is unchanged: correct the driver and call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// `now` was earlier than in a previous call.
    #[error("time went back from {last:?} to {now:?}: take it from one monotonic clock")]
    TimeWentBack {
        /// Latest instant of previous calls.
        last: Instant,
        /// Instant of this call.
        now: Instant,
    },
    /// `poll_timeout` was called while packets may be waiting, so that the answer might be wrong.
    #[error("packets may be waiting: call poll_transmit until it gives None before poll_timeout")]
    NotDrained,
    /// The packet buffer was not empty.
    #[error("the packet buffer holds {len} bytes: clear it before poll_transmit")]
    BufferNotEmpty {
        /// Length of its contents.
        len: usize,
    },
}

/// Checker of the driving order, for a transport that embeds it.
///
/// ```
/// use timeous_core::{DriveOrder, Instant, Misuse};
/// let mut order = DriveOrder::default();
/// order.fed(Instant::ZERO).unwrap();
/// assert_eq!(order.may_sleep(), Err(Misuse::NotDrained));
/// order.polled(Instant::ZERO, false).unwrap();
/// assert_eq!(order.may_sleep(), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DriveOrder {
    last: Instant,
    undrained: bool,
}

impl DriveOrder {
    /// Notes an input at `now` (step 1).
    pub fn fed(&mut self, now: Instant) -> Result<(), Misuse> {
        self.advance(now)?;
        self.undrained = true;
        Ok(())
    }

    /// Checks that time does not move backwards; to be called before anything changes.
    pub fn advance(&mut self, now: Instant) -> Result<(), Misuse> {
        if now < self.last {
            return Err(Misuse::TimeWentBack { last: self.last, now });
        }
        self.last = now;
        Ok(())
    }

    /// Notes that `poll_transmit` returned a packet or, with `more` false, none (step 2).
    pub fn polled(&mut self, now: Instant, more: bool) -> Result<(), Misuse> {
        self.advance(now)?;
        self.undrained = more;
        Ok(())
    }

    /// Whether `poll_timeout` can be answered (step 4).
    pub fn may_sleep(&self) -> Result<(), Misuse> {
        if self.undrained { Err(Misuse::NotDrained) } else { Ok(()) }
    }

    /// Latest instant seen.
    pub fn now(&self) -> Instant {
        self.last
    }
}

/// ECN field of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, ECT(1).
    Ect1 = 0b01,
    /// ECN-capable, ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

/// Properties of a received datagram.
///
/// ```
/// use timeous_core::{Duration, Ecn, RecvMeta};
/// // The kernel received it 3 ms ago, while another thread had the processor.
/// let meta = RecvMeta { waited: Duration::from_millis(3), ..Ecn::Ect0.into() };
/// assert_eq!(meta.ecn, Ecn::Ect0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RecvMeta {
    /// ECN field that it came with.
    pub ecn: Ecn,
    /// Time between its arrival in this host and the call; zero if unknown. It is no delay of the path: round trips are
    /// measured without it, and the peer is told of it as of any other delay of an acknowledgement.
    pub waited: Duration,
}

impl From<Ecn> for RecvMeta {
    fn from(ecn: Ecn) -> Self {
        Self { ecn, waited: Duration::ZERO }
    }
}

/// Result of `poll_transmit`: properties of the packet in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// ECN field to send it with.
    pub ecn: Ecn,
    /// ADU whose payload it carries, if any: to be confirmed to the source by [`AduSource::sent`].
    pub adu: Option<PulledAdu>,
}

/// ADU taken from the queue, identified by `token` from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PulledAdu {
    /// Identifier assigned by the source.
    pub token: u64,
    /// Payload length in bytes.
    pub len: usize,
    /// Metadata from the source.
    pub meta: AduMeta,
    /// Whether the payload was left in place instead of being appended to the packet. The driver, which requested this
    /// from the source, gathers it by the token when it sends. A transport that must read the payload (to keep or
    /// checksum it) requests it by [`gather`](Self::gather).
    pub apart: bool,
    /// First transmission or retransmission.
    pub copy: Copied,
    /// Whether it is a part of an ADU, with a header of its own: sent only to a peer that puts parts together.
    pub is_fragment: bool,
}

/// Transmission count of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Copied {
    /// First transmission.
    #[default]
    First,
    /// Retransmission, which the receiver must be able to tell from a new ADU.
    Again,
}

impl PulledAdu {
    /// Bytes of a packet's room that the mark of a fragment takes.
    pub const FRAGMENT_MARK: usize = 4;

    /// Appends the payload to `packet`, unless `source` has done so already.
    ///
    /// ```
    /// use timeous_core::{AduMeta, Copied, NoAdus, PulledAdu};
    /// let mut packet = b"header, ".to_vec();
    /// let mut pulled = PulledAdu { token: 0, len: 0, meta: AduMeta::default(), apart: true, copy: Copied::First, is_fragment: false };
    /// pulled.gather(&mut NoAdus, &mut packet);
    /// assert!(!pulled.apart);
    /// ```
    pub fn gather(&mut self, source: &mut dyn AduSource, packet: &mut Vec<u8>) {
        if self.apart {
            source.append(self.token, packet);
            self.apart = false;
        }
    }
}

/// Queue from which a transport pulls at the instant of sending: the packet ring, or a script in a test.
pub trait AduSource {
    /// Whether ADUs may be queued. A transport requests to send only then.
    fn has_queued(&mut self, now: Instant) -> bool;

    /// Takes the ADU to be sent now, appending its payload of at most `room` bytes to `packet`, or leaving it
    /// [apart](PulledAdu::apart) if the driver has requested that. Expired, dead and too large ADUs are skipped. `path`
    /// is the current path state.
    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu>;

    /// Drops retransmissions in `ahead` and queued ADUs that lose to each other. A [`pull_chosen`](Self::pull_chosen)
    /// may follow at the same instant.
    fn choose(&mut self, now: Instant, path: &PathState, ahead: &mut dyn Queue) {
        for index in 0..ahead.len() {
            let Some((&meta, _)) = ahead.get(index) else { continue };
            if !self.is_worth_repeating(now, path, &meta) {
                ahead.drop_at(index, DropReason::TooLate);
            }
        }
    }

    /// Like [`pull`](Self::pull), right after [`choose`](Self::choose), without choosing again.
    fn pull_chosen(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.pull(now, path, room, packet)
    }

    /// Takes the next ADU to be sent in the same packet as one just pulled, if it has at most `room` bytes; a longer
    /// one stays queued. Sources need not support this.
    fn pull_beside(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let _ = (now, path, room, packet);
        None
    }

    /// Total queued bytes of a stream without boundaries; `None` for other sources, or if unknown.
    fn waiting_bytes(&self) -> Option<u64> {
        None
    }

    /// Announces that the transport will pull up to `packets` ADUs at this instant, so that data of another processor
    /// may be fetched together. A hint.
    fn will_pull(&mut self, packets: u32) {
        let _ = packets;
    }

    /// Appends the payload of an ADU that was pulled apart and not yet `sent`. Sources that leave nothing apart need
    /// not implement it.
    fn append(&mut self, token: u64, packet: &mut Vec<u8>) {
        let _ = (token, packet);
    }

    /// Whether an ADU that was pulled before is still worth sending: asked before each transmission by a transport that
    /// could send something else instead. Not if it cannot arrive before its deadline.
    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !path.is_too_late(now, meta, 0)
    }

    /// Whether the fate of a pulled ADU is decided already, so that no copy is worth sending: it is a fragment of an ADU
    /// that cannot arrive any more.
    fn is_decided(&self, token: u64) -> bool {
        let _ = token;
        false
    }

    /// Drop reason of an ADU for which [`is_worth_repeating`](Self::is_worth_repeating) returned false.
    fn why_not(&self, meta: &AduMeta) -> DropReason {
        let _ = meta;
        DropReason::TooLate
    }

    /// Whether a late ADU is worse than a missing one.
    fn is_punctual(&self) -> bool {
        false
    }

    /// Range of rates that the stream asks of its transport; `None`: any. Asked before each packet.
    fn rate_range(&mut self) -> Option<RateRange> {
        None
    }

    /// Notes that the packet with this ADU was given to the device (the paper's `dev_i` moves on).
    fn sent(&mut self, token: u64);

    /// Notes an acknowledgement by the peer.
    fn acked(&mut self, token: u64);

    /// Notes an acknowledgement that shows an arrival `at` this instant or later, and exactly when if it tells.
    fn arrived(&mut self, token: u64, at: Instant, exactly: Option<Arrived>) {
        let _ = (at, exactly);
        self.acked(token);
    }

    /// Notes that a sent ADU was not there by its deadline, as far as acknowledgements tell, or cannot be repaired. Its
    /// fate is reported in addition.
    fn missed(&mut self, meta: &AduMeta) {
        let _ = meta;
    }

    /// Notes a loss.
    fn lost(&mut self, token: u64);

    /// Notes that a pulled ADU will not be sent after all.
    fn dropped(&mut self, token: u64, reason: DropReason);

    /// Notes the end of the connection: no more ADUs will be pulled, and queued ones get no other fate.
    fn close(&mut self) {}
}

/// Empty source, for an endpoint that only receives.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAdus;

impl AduSource for NoAdus {
    fn has_queued(&mut self, _: Instant) -> bool {
        false
    }
    fn pull(&mut self, _: Instant, _: &PathState, _: usize, _: &mut Vec<u8>) -> Option<PulledAdu> {
        None
    }
    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, _: u64) {}
    fn lost(&mut self, _: u64) {}
    fn dropped(&mut self, _: u64, _: DropReason) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_goes_back_is_refused_and_changes_nothing() {
        let mut order = DriveOrder::default();
        let (early, late) = (Instant::from_nanos(5), Instant::from_nanos(9));
        order.polled(late, false).unwrap();
        assert_eq!(order.fed(early), Err(Misuse::TimeWentBack { last: late, now: early }));
        assert_eq!(order.may_sleep(), Ok(()), "the refused call left no trace");
    }
}
