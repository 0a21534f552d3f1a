//! The contract of a transport: one vocabulary, one driving order, one typed error for its misuse.

use crate::adu::{AduMeta, DropReason};
use crate::path::PathState;
use crate::queue::Queue;
use crate::time::Instant;

/// A sans-IO transport connection.
///
/// # The driving order
///
/// 1. Feed it: any number of [`handle_datagram`](Self::handle_datagram), [`handle_timeout`](Self::handle_timeout) and
///    commands of the transport's own (connect, close).
/// 2. Drain it: [`poll_transmit`](Self::poll_transmit) until it gives `None`, sending each packet at once. This is
///    the instant of choice: the payload is pulled from the [`AduSource`] *inside* the call, never before. Packets may
///    be handed to the system together, as long as nothing is pulled that cannot be handed over now.
/// 3. Hear it: [`poll_event`](Self::poll_event) until it gives `None`.
/// 4. Ask [`poll_timeout`](Self::poll_timeout), and call `handle_timeout` at that instant, unless something of step 1
///    comes first. New data in the source is a reason to go to step 2.
///
/// `now` never goes back from one call to the next. Breaking the order is a [`Misuse`], which changes nothing.
pub trait Transport {
    /// What says when to send: the Congestion Manager, shared among the transports of a host.
    type Congestion;
    /// What it tells its driver.
    type Event;

    /// Takes in a datagram that came from the peer. What is wrong with it is the peer's fault and reaches the driver
    /// as an event, if it matters.
    fn handle_datagram(
        &mut self,
        now: Instant,
        congestion: &mut Self::Congestion,
        datagram: &[u8],
        ecn: Ecn,
    ) -> Result<(), Misuse>;

    /// Lets time pass: to be called at [`poll_timeout`](Self::poll_timeout), harmless earlier.
    fn handle_timeout(&mut self, now: Instant, congestion: &mut Self::Congestion) -> Result<(), Misuse>;

    /// The next packet to send now, appended to the empty `packet`, or `None`. Where the ADU's payload is
    /// [apart](PulledAdu::apart), `packet` holds what goes before it, and the driver sends the two as one.
    fn poll_transmit(
        &mut self,
        now: Instant,
        congestion: &mut Self::Congestion,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Transmit>, Misuse>;

    /// When [`handle_timeout`](Self::handle_timeout) is due; `None`: not before something else happens.
    fn poll_timeout(&mut self) -> Result<Option<Instant>, Misuse>;

    /// The next event, or `None`.
    fn poll_event(&mut self) -> Option<Self::Event>;
}

/// A driver's mistake. Nothing has changed: mend the driver and call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// `now` was before that of an earlier call.
    #[error("time went back from {last:?} to {now:?}: take it from one monotonic clock")]
    TimeWentBack {
        /// The latest instant seen before.
        last: Instant,
        /// The one that was given.
        now: Instant,
    },
    /// `poll_timeout` was asked while packets may wait: what it would say is not true yet.
    #[error("packets may be waiting: call poll_transmit until it gives None before poll_timeout")]
    NotDrained,
    /// The packet buffer was not empty.
    #[error("the packet buffer holds {len} bytes: clear it before poll_transmit")]
    BufferNotEmpty {
        /// What it held.
        len: usize,
    },
}

/// Watches over the driving order for a transport that embeds it.
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
    /// Something was fed in at `now` (step 1).
    pub fn fed(&mut self, now: Instant) -> Result<(), Misuse> {
        self.advance(now)?;
        self.undrained = true;
        Ok(())
    }

    /// Time may pass only forwards: called before anything changes.
    pub fn advance(&mut self, now: Instant) -> Result<(), Misuse> {
        if now < self.last {
            return Err(Misuse::TimeWentBack { last: self.last, now });
        }
        self.last = now;
        Ok(())
    }

    /// `poll_transmit` gave a packet or, with `more` false, nothing (step 2).
    pub fn polled(&mut self, now: Instant, more: bool) -> Result<(), Misuse> {
        self.advance(now)?;
        self.undrained = more;
        Ok(())
    }

    /// Whether `poll_timeout` can be answered (step 4).
    pub fn may_sleep(&self) -> Result<(), Misuse> {
        if self.undrained { Err(Misuse::NotDrained) } else { Ok(()) }
    }

    /// The latest instant seen.
    pub fn now(&self) -> Instant {
        self.last
    }
}

/// The ECN field of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not take part.
    #[default]
    NotEct = 0b00,
    /// Capable, nonce one.
    Ect1 = 0b01,
    /// Capable, nonce zero.
    Ect0 = 0b10,
    /// Congestion was experienced.
    Ce = 0b11,
}

/// What a call to `poll_transmit` put into the packet buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The ECN mark to send it with.
    pub ecn: Ecn,
    /// The ADU whose payload it carries, if any: to be confirmed to the source by [`AduSource::sent`].
    pub adu: Option<PulledAdu>,
}

/// An ADU that left the queue: its source knows it by `token` from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PulledAdu {
    /// The source's own name for it.
    pub token: u64,
    /// How many bytes of payload it has.
    pub len: usize,
    /// What the source knows of it.
    pub meta: AduMeta,
    /// Whether the payload was left where it lies instead of being appended to the packet. The driver, who asked the
    /// source for that, gathers it by the token when it sends. A transport that has to read what it sends (to keep it,
    /// to sum it up) asks for it by [`gather`](Self::gather).
    pub apart: bool,
    /// What of it leaves.
    pub copy: Copied,
}

/// Which copy of an ADU leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Copied {
    /// The first.
    #[default]
    First,
    /// Another one: the receiver has to know it from a new ADU.
    Again,
}

impl PulledAdu {
    /// Puts its payload at the end of `packet`, unless `source` has done so already.
    ///
    /// ```
    /// use timeous_core::{AduMeta, Copied, NoAdus, PulledAdu};
    /// let mut packet = b"header, ".to_vec();
    /// let mut pulled = PulledAdu { token: 0, len: 0, meta: AduMeta::default(), apart: true, copy: Copied::First };
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

/// The queue from which a transport pulls at the instant of sending: the packet ring, or a script in a test.
pub trait AduSource {
    /// Whether something may be waiting. A transport asks for the right to send only then.
    fn has_queued(&mut self, now: Instant) -> bool;

    /// Takes the ADU that is to leave now, appending its payload of at most `room` bytes to `packet`, or leaving it
    /// [apart](PulledAdu::apart) if the driver has asked the source for that. What is expired, dead or too large is
    /// passed over and never seen. `path` is what the transport knows at this instant.
    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu>;

    /// Gives up what of `ahead`, which has left before and could leave again, is not worth it beside what is queued, and what
    /// is queued for what is ahead. A [`pull_chosen`](Self::pull_chosen) may follow at the same instant.
    fn choose(&mut self, now: Instant, path: &PathState, ahead: &mut dyn Queue) {
        for index in 0..ahead.len() {
            let Some((&meta, _)) = ahead.get(index) else { continue };
            if !self.is_worth_repeating(now, path, &meta) {
                ahead.drop_at(index, DropReason::TooLate);
            }
        }
    }

    /// As [`pull`](Self::pull), right after [`choose`](Self::choose): nothing is chosen a second time.
    fn pull_chosen(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.pull(now, path, room, packet)
    }

    /// Takes the next ADU beside one that was pulled at this very instant and leaves in the same packet, if it has at most
    /// `room` bytes: what is longer stays where it is. A source need not give anything by this.
    fn pull_beside(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let _ = (now, path, room, packet);
        None
    }

    /// How many bytes wait in all, where that is a stream without boundaries; `None` if it is not, or not known.
    fn waiting_bytes(&self) -> Option<u64> {
        None
    }

    /// The transport will pull so many ADUs at this very instant, if there are as many: what comes from another processor
    /// may be fetched together. A hint.
    fn will_pull(&mut self, packets: u32) {
        let _ = packets;
    }

    /// Appends the payload of an ADU that was pulled apart and not yet `sent`. A source that leaves nothing apart has
    /// nothing to do here.
    fn append(&mut self, token: u64, packet: &mut Vec<u8>) {
        let _ = (token, packet);
    }

    /// Whether an ADU that was pulled before is still worth its bytes: asked before it is sent, again or at last, by a
    /// transport that could send something else in its place. Not if it cannot arrive before its deadline.
    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !meta.is_expired(now + path.least_way())
    }

    /// Why an ADU of which [`is_worth_repeating`](Self::is_worth_repeating) says no is given up.
    fn why_not(&self, meta: &AduMeta) -> DropReason {
        let _ = meta;
        DropReason::TooLate
    }

    /// Whether an ADU that comes late is worse than one that does not come.
    fn is_punctual(&self) -> bool {
        false
    }

    /// The packet with this ADU was given to the device (the paper's `dev_i` moves on).
    fn sent(&mut self, token: u64);

    /// The peer has acknowledged it.
    fn acked(&mut self, token: u64);

    /// The same, where it is known that it came `at` this instant or later.
    fn arrived(&mut self, token: u64, at: Instant) {
        let _ = at;
        self.acked(token);
    }

    /// An ADU that left was not there by its deadline, as far as acknowledgements tell, or nothing brings it any more. Of its
    /// fate the source is told besides.
    fn missed(&mut self, meta: &AduMeta) {
        let _ = meta;
    }

    /// It is taken for lost.
    fn lost(&mut self, token: u64);

    /// It was pulled and will not be sent after all.
    fn dropped(&mut self, token: u64, reason: DropReason);

    /// The connection has ended: nothing will be pulled any more, and what waits has no other fate than that.
    fn close(&mut self) {}
}

/// A source with nothing in it, for an endpoint that only receives.
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
