//! Bundling of already sent data into new segments of a thin stream, and the room for it.

use timeous_cm::{FlowId, Manager};
use timeous_core::{AduSource, Instant, PathState};

use super::{Connection, told};
use crate::segment::set_seq;

impl Connection {
    /// Prepends previously sent data to the new data of the segment that begins at `start`, which is the last `len` bytes of `packet`.
    /// Returns the number of bytes added.
    pub(super) fn bundle(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        path: &PathState,
        (start, len): (usize, usize),
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> u64 {
        let Some(flow) = self.flow.filter(|_| self.config.bundling && len > 0) else { return 0 };
        let (segment, window) = self.room_for_bundle(now, cm, flow, len as u64, source);
        let mut span = self.sender.worth_bundling(now, path, segment, source);
        if span.end - span.start > window {
            told(cm.held_back(now, flow));
            span = self.sender.worth_bundling(now, path, window, source);
        }
        if span.is_empty() {
            return 0;
        }
        set_seq(packet, start, self.wire(span.start)).expect("the segment was begun");
        let data = packet.len() - len;
        self.sender.bundle(&span, packet);
        packet[data..].rotate_left(len);
        span.end - span.start
    }

    /// Returns the remaining bytes in the segment, and in the congestion window beside this segment and as much fresh data as is in flight:
    /// if this segment is lost, it occupies the window for longer, and fresh data must not wait for it.
    fn room_for_bundle(
        &self,
        now: Instant,
        cm: &Manager,
        flow: FlowId,
        len: u64,
        source: &dyn AduSource,
    ) -> (u64, u64) {
        let granted = if cm.has_grant(flow) { self.agreed.payload } else { 0 };
        let fresh = self.sender.fresh_under_way().max(self.sender.next_size(source)).max(len);
        let window = (cm.room(now, flow) + granted).saturating_sub(len + fresh);
        (self.window.segment(self.agreed.payload).saturating_sub(len), window)
    }
}
