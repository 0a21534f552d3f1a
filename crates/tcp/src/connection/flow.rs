//! Flow of a connection at the Congestion Manager: the path's state, grants, and reports.

use timeous_cm::{ClientId, CmError, FlowId, FlowSpec, Manager, Update};
use timeous_core::{Duration, Instant, PathState};

/// Initial window, in segments (RFC 6928).
const INITIAL_WINDOW: u64 = 10;
/// Room in a window that is nearly full, in segments. Chosen by `timeous-lab tl-dependencies`: a higher value sends more
/// frames that cannot be shown; with a lower one the window stays too small for keyframes.
const NEARLY_FULL: u64 = 3;

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

    /// Returns the path's state, where segments hold `payload` bytes.
    ///
    /// A window that losses have reduced below the initial one grows only while it is full. Where a few segments more would
    /// fill it, data that is of no use otherwise keeps it large enough for the next keyframe
    /// (docs/decisions/tcp-window-after-losses.md).
    pub(super) fn path(&self, cm: &Manager, payload: u64) -> Option<PathState> {
        let path = self.with(|id| cm.query(id))?;
        let is_small = path.loss_ppm > 0 && path.window < INITIAL_WINDOW * payload;
        let is_nearly_full = path.window < path.outstanding + NEARLY_FULL * payload;
        Some(PathState { contended: path.contended || (is_small && is_nearly_full), ..path })
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

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use timeous_cm::{Loss, NewReno};

    use super::*;

    /// Found by `timeous-lab tl-dependencies`: while frames that cannot be shown were given up, the window stayed too small for
    /// the next keyframe.
    #[test]
    fn a_window_reduced_by_losses_is_contended_where_it_is_nearly_full() {
        const PAYLOAD: u64 = 1_000;
        let (now, rtt) = (Instant::ZERO, Duration::from_millis(100));
        let mut cm = Manager::new(|mtu| Box::new(NewReno::new(mtu)));
        let flow = Flow(Some(cm.open(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), PAYLOAD)));
        let is_contended = |cm: &Manager| flow.path(cm, PAYLOAD).unwrap().contended;
        flow.sent(now, &mut cm, 8 * PAYLOAD);
        assert!(!is_contended(&cm), "nothing was lost");
        let loss = Some((Loss::Transient, now));
        let update = Update { acked: 7 * PAYLOAD, lost: PAYLOAD, loss, rtt: Some(rtt), ..Update::default() };
        flow.with(|id| cm.update(now + rtt, id, update));
        assert!(!is_contended(&cm), "there is room for more than a frame");
        flow.sent(now + rtt, &mut cm, 2 * PAYLOAD);
        assert!(is_contended(&cm));
    }
}
