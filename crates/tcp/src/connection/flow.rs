//! Flow of a connection at the Congestion Manager: the path's state, grants, and reports.

use timeous_cm::{ClientId, CmError, FlowId, FlowSpec, Manager, Update};
use timeous_core::{Duration, Instant, PathState};

/// The flow, from the end of the handshake to the close. Without a flow, a report has no effect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow(Option<FlowId>);

impl Flow {
    pub(super) fn open(now: Instant, cm: &mut Manager, spec: FlowSpec, update: Update) -> Self {
        let flow = Self(cm.open_for(now, ClientId::HOST, spec).ok());
        flow.with(|id| cm.update(now, id, update));
        flow
    }

    pub(super) fn close(&mut self, now: Instant, cm: &mut Manager) {
        self.with(|id| cm.close(now, id));
        self.0 = None;
    }

    pub(super) fn id(&self) -> Option<FlowId> {
        self.0
    }

    /// Calls the Congestion Manager for this flow, if there is one; that fails only if the driver has swapped managers.
    pub(super) fn with<T>(&self, call: impl FnOnce(FlowId) -> Result<T, CmError>) -> Option<T> {
        let result = call(self.0?);
        debug_assert!(result.is_ok(), "{:?}", result.err());
        result.ok()
    }

    pub(super) fn path(&self, cm: &Manager) -> Option<PathState> {
        self.with(|id| cm.query(id))
    }

    /// Returns the path's retransmission timeout.
    pub(super) fn timeout(&self, cm: &Manager) -> Option<Duration> {
        self.with(|id| cm.timeout(id))
    }

    /// Requests a grant for a segment of about `bytes` bytes. Returns how many bytes may be sent now: any number with a
    /// grant, else the window's room if it suffices for `bytes` (RFC 5681 §3.1).
    pub(super) fn request(&self, now: Instant, cm: &mut Manager, bytes: u64) -> Option<u64> {
        let id = self.0?;
        if !cm.has_grant(id) && !cm.is_waiting(id) {
            self.with(|id| cm.request(now, id));
        }
        Some(if cm.has_grant(id) { u64::MAX } else { cm.room(now, id) }).filter(|&room| room >= bytes)
    }

    /// Returns an unused grant.
    pub(super) fn give_back(&self, now: Instant, cm: &mut Manager) {
        self.sent(now, cm, 0);
    }

    /// Reports sent data, on a grant if there is one.
    pub(super) fn sent(&self, now: Instant, cm: &mut Manager, bytes: u64) {
        self.with(|id| match cm.has_grant(id) {
            true => cm.notify(now, id, bytes),
            false if bytes > 0 => cm.notify_unasked(now, id, bytes),
            false => Ok(()),
        });
    }

    /// Returns the bytes that fit into the congestion window, where a grant holds a segment of `payload` bytes.
    pub(super) fn room(&self, now: Instant, cm: &Manager, payload: u64) -> u64 {
        self.0.map_or(0, |id| cm.room(now, id) + if cm.has_grant(id) { payload } else { 0 })
    }
}
