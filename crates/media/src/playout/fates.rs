//! Frame fates: one report for each frame. Frames past their playout instant are waited for, to tell late ones from
//! incomplete ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use timeous_core::Instant;

use super::buffer::{Parts, Piece};
use super::report::{FrameFate, FrameReport};
use crate::frame::FrameKind;

/// Most frames waited for. Chosen by us: it bounds memory; a higher value keeps more frames of a lossy source.
const MAX_WAITING: usize = 64;
/// Most packets of a frame waited for. Chosen by us: it bounds memory; larger frames are not waited for.
const MAX_PACKETS: usize = 1024;
/// Reported frames that are remembered, to ignore their late packets. Chosen by us: a higher value takes more memory.
const MAX_REPORTED: usize = 256;

/// Incomplete frame past its playout instant, waited for until `until`.
#[derive(Debug)]
pub(super) struct Straggler {
    pub(super) kind: Option<FrameKind>,
    pub(super) parts: Parts,
    pub(super) playout_at: Instant,
    pub(super) until: Instant,
}

/// Packet of a frame that was settled before. If it is the frame's first packet, the rest is waited for until `until`.
#[derive(Debug)]
pub(super) struct LatePacket {
    pub(super) seq: u64,
    pub(super) ticks: i64,
    pub(super) piece: Piece,
    pub(super) arrival: Instant,
    pub(super) playout_at: Instant,
    pub(super) until: Instant,
}

/// Reports of frames: those to be polled, the frames waited for, and those reported already.
#[derive(Debug, Default)]
pub(super) struct Fates {
    waiting: BTreeMap<i64, Straggler>,
    reported: BTreeSet<i64>,
    reports: VecDeque<FrameReport>,
}

impl Fates {
    /// Returns the next report.
    pub(super) fn poll(&mut self) -> Option<FrameReport> {
        self.reports.pop_front()
    }

    /// Reports a frame whose fate is known. Later packets of it are ignored.
    pub(super) fn report(
        &mut self,
        ticks: i64,
        kind: Option<FrameKind>,
        fate: FrameFate,
        playout_at: Instant,
        parts: &Parts,
    ) {
        self.reported.insert(ticks);
        if self.reported.len() > MAX_REPORTED {
            self.reported.pop_first();
        }
        self.reports.push_back(FrameReport {
            rtp_timestamp: ticks as u32,
            ticks,
            kind,
            fate,
            completed_at: (fate != FrameFate::Incomplete).then_some(parts.last_arrival),
            playout_at,
            packets: parts.len(),
            bytes: parts.bytes,
        });
    }

    /// Adds a frame that missed its playout instant.
    pub(super) fn wait_for(&mut self, ticks: i64, straggler: Straggler) {
        if straggler.parts.len() > MAX_PACKETS {
            self.close(ticks, &straggler, FrameFate::Incomplete);
            return;
        }
        if let Some(older) = self.waiting.insert(ticks, straggler) {
            self.close(ticks, &older, FrameFate::Incomplete);
        }
        while self.waiting.len() > MAX_WAITING {
            let Some((ticks, straggler)) = self.waiting.pop_first() else { return };
            self.close(ticks, &straggler, FrameFate::Incomplete);
        }
    }

    /// Adds a packet that came after its frame was settled.
    pub(super) fn insert(&mut self, late: LatePacket) {
        let LatePacket { seq, ticks, piece, arrival, playout_at, until } = late;
        if self.reported.contains(&ticks) {
            return;
        }
        if !self.waiting.contains_key(&ticks) {
            let kind = piece.idr.then_some(FrameKind::Idr);
            self.wait_for(ticks, Straggler { kind, parts: Parts::default(), playout_at, until });
        }
        let Some(straggler) = self.waiting.get_mut(&ticks) else { return };
        if straggler.parts.len() < MAX_PACKETS {
            straggler.parts.insert(seq, Piece { payload: None, ..piece }, arrival);
        }
        if straggler.parts.is_whole(false, straggler.parts.ends_marked())
            && let Some(straggler) = self.waiting.remove(&ticks)
        {
            self.close(ticks, &straggler, FrameFate::Late);
        }
    }

    /// Whether the frame is waited for or was reported.
    pub(super) fn know(&self, ticks: i64) -> bool {
        self.waiting.contains_key(&ticks) || self.reported.contains(&ticks)
    }

    /// Reports the frames whose waiting time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        let over: Vec<i64> = self.waiting.iter().filter(|(_, s)| s.until <= now).map(|(&ticks, _)| ticks).collect();
        for ticks in over {
            if let Some(straggler) = self.waiting.remove(&ticks) {
                self.close(ticks, &straggler, FrameFate::Incomplete);
            }
        }
    }

    /// Reports all frames that are waited for.
    pub(super) fn drain(&mut self) {
        self.expire(Instant::FAR_FUTURE);
    }

    /// Begins with another source, whose timestamps may be those of frames reported before. No frame is waited for.
    pub(super) fn restart(&mut self) {
        self.waiting.clear();
        self.reported.clear();
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.waiting.values().map(|straggler| straggler.until).min()
    }

    fn close(&mut self, ticks: i64, straggler: &Straggler, fate: FrameFate) {
        self.report(ticks, straggler.kind, fate, straggler.playout_at, &straggler.parts);
    }
}
