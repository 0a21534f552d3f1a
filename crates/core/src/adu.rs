//! The application data unit: what an application hands over, and what it says about its usefulness.

use crate::time::Instant;

/// The application's own number of an ADU (the paper's `user_seq`): fates are reported by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AduSeq(pub u64);

/// The unit that is useful only whole, such as a video frame: one ADU or several belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FrameId(pub u32);

impl FrameId {
    /// Of an ADU that is useful by itself. Nothing can refer to it.
    pub const NONE: Self = Self(0);
}

/// Worth of an ADU beside others of its queue; a higher one is given up later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

impl Priority {
    /// Given up first.
    pub const LOWEST: Self = Self(0);
    /// Of an ADU about which the application said nothing.
    pub const NORMAL: Self = Self(128);
    /// Given up last.
    pub const HIGHEST: Self = Self(255);
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// A sub-stream of a flow (McQuistin): layers, or audio beside video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SubStream(pub u8);

/// The frames without which an ADU is useless: at most [`References::MAX`].
///
/// ```
/// use timeous_core::{FrameId, References};
/// let refs = References::from([FrameId(7), FrameId(9)]);
/// assert!(refs.iter().eq([FrameId(7), FrameId(9)]));
/// assert!(References::NONE.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct References {
    frames: [FrameId; Self::MAX],
    len: u8,
}

impl References {
    /// How many frames one ADU may refer to directly. Chains have no limit: a reference has references of its own.
    pub const MAX: usize = 4;
    /// Useful by itself.
    pub const NONE: Self = Self { frames: [FrameId(0); Self::MAX], len: 0 };

    /// Adds a reference; `false` if there is no room for it.
    #[must_use]
    pub fn push(&mut self, frame: FrameId) -> bool {
        let room = usize::from(self.len) < Self::MAX;
        if room {
            self.frames[usize::from(self.len)] = frame;
            self.len += 1;
        }
        room
    }

    /// The frames referred to.
    pub fn iter(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.frames[..usize::from(self.len)].iter().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<const N: usize> From<[FrameId; N]> for References {
    fn from(frames: [FrameId; N]) -> Self {
        const { assert!(N <= Self::MAX) };
        let mut refs = Self::NONE;
        refs.frames[..N].copy_from_slice(&frames);
        refs.len = N as u8;
        refs
    }
}

/// All that is known of an ADU beside its bytes. It travels in the packet ring, never on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AduMeta {
    /// The application's number for it.
    pub seq: AduSeq,
    /// After this instant it must not leave the host; `None`: it never goes stale.
    pub deadline: Option<Instant>,
    /// Its worth beside others.
    pub priority: Priority,
    /// Its sub-stream.
    pub substream: SubStream,
    /// The frame that it is part of, or [`FrameId::NONE`].
    pub frame: FrameId,
    /// The frames without which it is useless.
    pub references: References,
    /// When the application handed it over; deadlines and ages count from here.
    pub enqueued: Instant,
}

impl AduMeta {
    /// Whether it must not leave any more.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now > deadline)
    }
}

/// An application data unit: bytes that travel as one datagram, and what is known of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adu<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// What is known of it.
    pub meta: AduMeta,
}

/// Why a queued ADU did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// The application marked it dead (`user_dead`), or dropped it after pulling it back.
    Withdrawn = 1,
    /// Its deadline had passed.
    Expired = 2,
    /// It could not have arrived before its deadline.
    TooLate = 3,
    /// A frame that it refers to was lost or dropped.
    ReferenceLost = 4,
    /// A policy gave it up for others that are worth more.
    Policy = 5,
    /// It does not fit into a packet of the path.
    TooLarge = 6,
    /// The connection ended first.
    Closed = 7,
}

/// What became of an ADU; each one that is handed over gets exactly one fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The receiver has acknowledged it.
    Acked,
    /// It was sent, and did not arrive as far as the transport can tell.
    Lost,
    /// It was never sent.
    Dropped(DropReason),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    #[test]
    fn references_hold_four_and_refuse_a_fifth() {
        let mut refs = References::NONE;
        for n in 0..4 {
            assert!(refs.push(FrameId(n)));
        }
        assert!(!refs.push(FrameId(4)));
        assert_eq!(refs.len(), 4);
    }

    #[test]
    fn an_adu_may_leave_at_its_deadline_but_not_after() {
        let at = Instant::ZERO + Duration::from_millis(10);
        let meta = AduMeta { deadline: Some(at), ..AduMeta::default() };
        assert!(!meta.is_expired(at));
        assert!(meta.is_expired(at + Duration::from_nanos(1)));
        assert!(!AduMeta::default().is_expired(Instant::FAR_FUTURE));
    }
}
