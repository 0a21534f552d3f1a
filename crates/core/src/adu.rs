//! Application data unit (ADU): payload and metadata about its usefulness.

use crate::time::Instant;

/// Sequence number of an ADU, set by the application (the paper's `user_seq`): fates are reported by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AduSeq(pub u64);

/// Identifier of a frame, the unit that is useful only as a whole, such as a video frame of one or several ADUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FrameId(pub u32);

impl FrameId {
    /// No frame: the ADU is useful by itself, and others cannot refer to it.
    pub const NONE: Self = Self(0);
}

/// Priority of an ADU in its queue; those of higher priority are dropped later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

impl Priority {
    /// Dropped first.
    pub const LOWEST: Self = Self(0);
    /// Default priority.
    pub const NORMAL: Self = Self(128);
    /// Dropped last.
    pub const HIGHEST: Self = Self(255);
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// Sub-stream of a flow (McQuistin): a layer, or audio beside video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SubStream(pub u8);

impl SubStream {
    /// Audio and subtitles beside video in one stream, by the convention of `timeous send`. The policy `plan` drops video
    /// first, unless told otherwise by `weights`.
    pub const AUDIO: Self = Self(254);
    /// Tables and data beside video. The policy `plan` drops none of one packet that can be in time, and larger ones
    /// after a few pictures.
    pub const TABLES: Self = Self(255);
}

/// Frames that an ADU depends on: at most [`References::MAX`].
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
    /// Maximum number of direct references of an ADU. Chains are unlimited: a reference has references of its own.
    pub const MAX: usize = 4;
    /// No references: the ADU is useful by itself.
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

    /// Referenced frames.
    pub fn iter(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.frames[..usize::from(self.len)].iter().copied()
    }

    /// Number of references.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are no references.
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

/// Metadata of an ADU. It is kept in the packet ring, never sent on the wire. A literal ends with
/// `..AduMeta::default()`: fields may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AduMeta {
    /// Sequence number set by the application.
    pub seq: AduSeq,
    /// Deadline after which it must not leave the host; `None` if it never expires.
    pub deadline: Option<Instant>,
    /// Priority in its queue.
    pub priority: Priority,
    /// Sub-stream.
    pub substream: SubStream,
    /// Frame that it belongs to, or [`FrameId::NONE`].
    pub frame: FrameId,
    /// Frames that it depends on.
    pub references: References,
    /// Enqueue time; deadlines and ages count from here.
    pub enqueued: Instant,
}

impl AduMeta {
    /// Whether its deadline has passed, so that it must not be sent.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now > deadline)
    }
}

/// Application data unit: payload of one datagram, and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adu<'a> {
    /// Payload.
    pub bytes: &'a [u8],
    /// Metadata.
    pub meta: AduMeta,
}

/// Reason why a queued ADU was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum DropReason {
    /// The application marked it dead (`user_dead`), or dropped it after pulling it back.
    Withdrawn = 1,
    /// Its deadline had passed.
    Expired = 2,
    /// It could not have arrived before its deadline.
    TooLate = 3,
    /// A frame that it depends on was lost or dropped.
    ReferenceLost = 4,
    /// A policy dropped it in favour of more valuable ADUs.
    Policy = 5,
    /// It is larger than the path's packet size.
    TooLarge = 6,
    /// The connection ended first.
    Closed = 7,
}

/// Fate of an ADU; each enqueued ADU gets exactly one. These three are all: sent and arrived, sent and lost, not sent.
/// Only the reasons of the last may become more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The receiver has acknowledged it.
    Acked,
    /// It was sent and, as far as the transport can tell, lost.
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
