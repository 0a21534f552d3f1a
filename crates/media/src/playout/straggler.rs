//! Frames that have missed their instant, and may still become whole: late ones are told from lost ones.

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::Instant;

use super::buffer::{Parts, Piece};
use super::report::{FrameFate, FrameReport};
use crate::frame::FrameKind;

/// How many frames are waited for.
const MAX_WAITING: usize = 64;
/// A frame with more packets is not waited for.
const MAX_PACKETS: usize = 1024;
/// How many frames that were reported are remembered.
const MAX_REPORTED: usize = 256;

/// A frame that has missed its instant, and is waited for `until` then.
#[derive(Debug)]
pub(super) struct Straggler {
    pub(super) kind: Option<FrameKind>,
    pub(super) parts: Parts,
    pub(super) playout_at: Instant,
    pub(super) until: Instant,
}

/// A packet that came after its turn. If nothing of its frame has come before, it is waited for `until` then.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) seq: u64,
    pub(super) ticks: i64,
    pub(super) piece: Piece,
    pub(super) arrival: Instant,
    pub(super) playout_at: Instant,
    pub(super) until: Instant,
}

/// What has missed its instant.
#[derive(Debug, Default)]
pub(super) struct Stragglers {
    waiting: BTreeMap<i64, Straggler>,
    reported: BTreeSet<i64>,
}

impl Stragglers {
    /// A frame has missed its instant.
    pub(super) fn wait_for(&mut self, ticks: i64, straggler: Straggler, mut report: impl FnMut(FrameReport)) {
        if straggler.parts.len() > MAX_PACKETS {
            report(self.close(ticks, straggler, FrameFate::Incomplete));
            return;
        }
        if let Some(older) = self.waiting.insert(ticks, straggler) {
            report(self.close(ticks, older, FrameFate::Incomplete));
        }
        while self.waiting.len() > MAX_WAITING {
            let Some((ticks, straggler)) = self.waiting.pop_first() else { return };
            report(self.close(ticks, straggler, FrameFate::Incomplete));
        }
    }

    /// A packet came after its turn.
    pub(super) fn insert(&mut self, late: Late, mut report: impl FnMut(FrameReport)) {
        let Late { seq, ticks, piece, arrival, playout_at, until } = late;
        if self.reported.contains(&ticks) {
            return;
        }
        if !self.waiting.contains_key(&ticks) {
            let kind = piece.idr.then_some(FrameKind::Idr);
            self.wait_for(ticks, Straggler { kind, parts: Parts::default(), playout_at, until }, &mut report);
        }
        let Some(straggler) = self.waiting.get_mut(&ticks) else { return };
        if straggler.parts.len() < MAX_PACKETS {
            straggler.parts.insert(seq, Piece { payload: None, ..piece }, arrival);
        }
        if straggler.parts.is_whole(false, straggler.parts.ends_marked())
            && let Some(straggler) = self.waiting.remove(&ticks)
        {
            report(self.close(ticks, straggler, FrameFate::Late));
        }
    }

    /// A frame was reported: what else comes of it is no news.
    pub(super) fn settled(&mut self, ticks: i64) {
        self.reported.insert(ticks);
        if self.reported.len() > MAX_REPORTED {
            self.reported.pop_first();
        }
    }

    /// Whether the frame has missed its instant or was reported.
    pub(super) fn know(&self, ticks: i64) -> bool {
        self.waiting.contains_key(&ticks) || self.reported.contains(&ticks)
    }

    /// Gives up those whose time is over.
    pub(super) fn expire(&mut self, now: Instant, mut report: impl FnMut(FrameReport)) {
        let over: Vec<i64> = self.waiting.iter().filter(|(_, s)| s.until <= now).map(|(&ticks, _)| ticks).collect();
        for ticks in over {
            if let Some(straggler) = self.waiting.remove(&ticks) {
                report(self.close(ticks, straggler, FrameFate::Incomplete));
            }
        }
    }

    /// Gives up all.
    pub(super) fn drain(&mut self, report: impl FnMut(FrameReport)) {
        self.expire(Instant::FAR_FUTURE, report);
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.waiting.values().map(|straggler| straggler.until).min()
    }

    fn close(&mut self, ticks: i64, straggler: Straggler, fate: FrameFate) -> FrameReport {
        self.settled(ticks);
        let Straggler { kind, parts, playout_at, .. } = straggler;
        FrameReport {
            rtp_timestamp: ticks as u32,
            ticks,
            kind,
            fate,
            completed_at: (fate == FrameFate::Late).then_some(parts.last_arrival),
            playout_at,
            packets: parts.len(),
            bytes: parts.bytes,
        }
    }
}
