//! Flows with a send queue, whose datagrams leave as they are granted (Andersen et al. §3.3).

use std::os::fd::OwnedFd;

use timeous::cm::FlowId;

use crate::buffer::Buffer;
use crate::failure::Failure;
use crate::library::Library;

impl Library {
    /// Gives a flow a connected socket and a send queue.
    pub(crate) fn buffer(&self, flow: i64, socket: OwnedFd) -> Result<(), Failure> {
        self.buffers.add(flow, socket, self.mtu(flow)?)
    }

    /// Queues a datagram.
    pub(crate) fn send(&self, flow: i64, datagram: &[u8]) -> Result<(), Failure> {
        let id = self.id(flow)?;
        let wants = self.buffers.with(flow, |buffer| buffer.push(datagram).map(|()| buffer.wants()))??;
        self.ask(flow, id, wants);
        Ok(())
    }

    /// Handles a grant for a flow with a send queue; `false` if it has none, so that its callback must be called.
    pub(crate) fn leaves(&self, flow: i64, id: FlowId) -> bool {
        let Ok(sent) = self.buffers.with(flow, |buffer| buffer.leave(timeous::clock::now())) else { return false };
        // If the flow was closed meanwhile, its packets no longer count.
        let _ = self.account(id, sent.unwrap_or(0));
        self.ask_for_more(flow, id);
        true
    }

    /// Requests grants for the queue, once the flow is open again.
    pub(crate) fn ask_again(&self, flow: i64, id: FlowId) {
        // A flow without a queue requests nothing.
        let _ = self.buffers.with(flow, Buffer::forget_asked);
        self.ask_for_more(flow, id);
    }

    /// Requests grants for all queues: there is room for requests again.
    pub(crate) fn ask_for_all(&self) {
        for flow in self.buffers.flows() {
            // A lost flow requests them when it is open again.
            if let Ok(id) = self.id(flow) {
                self.ask_for_more(flow, id);
            }
        }
    }

    fn ask_for_more(&self, flow: i64, id: FlowId) {
        if let Ok(wants) = self.buffers.with(flow, Buffer::wants) {
            self.ask(flow, id, wants);
        }
    }

    fn ask(&self, flow: i64, id: FlowId, wants: u32) {
        if wants > 0 && self.manager.request_many(id, wants).is_err() {
            // Too many are pending, or the daemon is gone: the next datagram, grant or reconnection requests them.
            let _ = self.buffers.with(flow, |buffer| buffer.asked_in_vain(wants));
        }
    }
}
