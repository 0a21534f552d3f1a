//! Undo of spurious timeouts (RFC 4015).

use timeous_core::Instant;

use crate::controller::initial;

use super::Macroflow;

impl Macroflow {
    /// Saves the state before the response to a timeout, to be undone unless other congestion follows.
    pub(super) fn note_timeout(&mut self, again: bool) {
        if !again {
            self.undoable = Some(self.reduced_at);
        }
    }

    /// Undoes a timeout: `bytes` reported lost are in flight after all, as the first `acked` bytes after it show. As
    /// much may be sent as has left the path, but no larger burst (RFC 4015 §3.2, step 9).
    pub(crate) fn undo_timeout(&mut self, bytes: u64, acked: u64) {
        self.count_again(bytes);
        if let Some(reduced_at) = self.undoable.take() {
            (self.reduced_at, self.timed_out_at) = (reduced_at, None::<Instant>);
            let follows = acked.min(initial::rfc6928(self.mtu));
            self.controller.on_spurious_timeout(self.outstanding.saturating_sub(acked) + follows);
        }
        self.reckon();
    }

    /// Counts bytes that were reported lost as in flight again.
    pub(crate) fn count_again(&mut self, bytes: u64) {
        self.outstanding += bytes;
        self.totals.lost = self.totals.lost.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use timeous_core::{Duration, Instant};

    use crate::{Cubic, FlowId, Loss, Manager, NewReno, Update};

    const MTU: u64 = 1_000;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Opens a flow with ten packets in flight that a timeout reports lost; the first is retransmitted.
    fn timed_out(cm: &mut Manager) -> FlowId {
        let flow = cm.open(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), MTU);
        for _ in 0..10 {
            cm.notify_unasked(at(0), flow, MTU).unwrap();
        }
        let loss = Some((Loss::Persistent, at(0)));
        cm.update(at(1_000), flow, Update { lost: 10 * MTU, loss, ..Update::default() }).unwrap();
        cm.notify_unasked(at(1_000), flow, MTU).unwrap();
        assert_eq!(cm.query(flow).unwrap().window, MTU);
        flow
    }

    #[test]
    fn a_timeout_for_nothing_leaves_the_window_and_the_books_as_they_were() {
        for make in [|mtu| Box::new(NewReno::new(mtu)) as _, |mtu| Box::new(Cubic::new(mtu)) as _] {
            let mut cm = Manager::new(make);
            let flow = timed_out(&mut cm);
            cm.undo_timeout(at(1_100), flow, 9 * MTU, MTU).unwrap();
            assert_eq!((cm.query(flow).unwrap().window, cm.query(flow).unwrap().outstanding), (10 * MTU, 10 * MTU));
            cm.update(at(1_100), flow, Update { acked: MTU, ..Update::default() }).unwrap();
            assert_eq!(cm.query(flow).unwrap().window, 11 * MTU, "slow start goes on, to no threshold");
        }
    }

    #[test]
    fn what_has_not_been_sent_meanwhile_does_not_leave_at_once() {
        let mut cm = Manager::new(|mtu| Box::new(NewReno::new(mtu)));
        let flow = timed_out(&mut cm);
        cm.undo_timeout(at(1_100), flow, 3 * MTU, MTU).unwrap();
        assert_eq!(cm.query(flow).unwrap().window, 4 * MTU, "RFC 4015 §3.2, step 9: no burst");
    }

    #[test]
    fn congestion_after_the_timeout_stays_answered() {
        let mut cm = Manager::new(|mtu| Box::new(NewReno::new(mtu)));
        let flow = timed_out(&mut cm);
        let loss = Some((Loss::Transient, at(1_001)));
        cm.notify_unasked(at(1_001), flow, MTU).unwrap();
        cm.update(at(1_050), flow, Update { lost: MTU, loss, ..Update::default() }).unwrap();
        let window = cm.query(flow).unwrap().window;
        cm.undo_timeout(at(1_100), flow, 9 * MTU, MTU).unwrap();
        assert_eq!((cm.query(flow).unwrap().window, cm.query(flow).unwrap().outstanding), (window, 10 * MTU));
    }
}
