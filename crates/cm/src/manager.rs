//! The manager: flows are opened, ask to send, are granted it, tell what they sent and what became of it.

use std::collections::{BTreeMap, VecDeque};

use timeous_core::{Duration, Instant, PathState};

use crate::controller::{Controller, aimd::Aimd};
use crate::flow::{FlowId, Loss, Update};
use crate::macroflow::{Answered, Destination, Macroflow, Sign};

/// What is wrong with a call. All are the caller's; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CmError {
    /// The flow is not open.
    #[error("flow {0:?} is not open: open it first, and do not use it after close")]
    UnknownFlow(FlowId),
    /// Bytes were sent without a grant.
    #[error("flow {0:?} holds no grant: request one and wait for it")]
    NotGranted(FlowId),
    /// More was acknowledged or lost than the flow has outstanding.
    #[error("feedback for {claimed} bytes, but {flow:?} has only {outstanding} outstanding")]
    MoreThanSent {
        /// The flow.
        flow: FlowId,
        /// What the update claimed.
        claimed: u64,
        /// What it could have claimed.
        outstanding: u64,
    },
}

/// A number, since every packet asks for its macroflow.
type MacroflowId = u64;

#[derive(Debug)]
struct Flow {
    destination: Destination,
    macroflow: MacroflowId,
    mtu: u64,
    outstanding: u64,
    /// A timeout was told, and nothing has been acknowledged since.
    timed_out: bool,
}

/// The Congestion Manager of a host.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::{Manager, Update};
/// use timeous_core::{Duration, Instant};
///
/// let mut cm = Manager::default();
/// let mut now = Instant::ZERO;
/// let flow = cm.open(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), 1_200);
/// cm.request(now, flow).unwrap();
/// assert_eq!(cm.poll_granted(), Some(flow));
/// cm.notify(now, flow, 1_000).unwrap(); // the late choice was a packet of 1000 bytes
/// now += Duration::from_millis(40);
/// let update = Update { acked: 1_000, rtt: Some(Duration::from_millis(40)), ..Update::default() };
/// cm.update(now, flow, update).unwrap();
/// assert_eq!(cm.query(flow).unwrap().srtt, Some(Duration::from_millis(40)));
/// ```
#[derive(Debug)]
pub struct Manager {
    flows: BTreeMap<FlowId, Flow>,
    macroflows: BTreeMap<MacroflowId, Macroflow>,
    by_destination: BTreeMap<Destination, MacroflowId>,
    granted: VecDeque<FlowId>,
    next_id: u64,
    new_controller: fn(u64) -> Box<dyn Controller>,
}

impl Default for Manager {
    fn default() -> Self {
        Self::new(|mtu| Box::new(Aimd::new(mtu)))
    }
}

impl Manager {
    /// A manager whose macroflows get their controllers from `new_controller`, which is given the packet size.
    pub fn new(new_controller: fn(u64) -> Box<dyn Controller>) -> Self {
        Self {
            flows: BTreeMap::new(),
            macroflows: BTreeMap::new(),
            by_destination: BTreeMap::new(),
            granted: VecDeque::new(),
            next_id: 0,
            new_controller,
        }
    }

    /// Opens a flow whose packets have at most `mtu` bytes (`cm_open`).
    pub fn open(&mut self, destination: Destination, mtu: u64) -> FlowId {
        let id = FlowId::new(self.next_id);
        self.next_id += 1;
        let new_controller = self.new_controller;
        // Named after the first of its flows.
        let name = *self.by_destination.entry(destination).or_insert(self.next_id - 1);
        let macroflow = self.macroflows.entry(name).or_insert_with(|| Macroflow::new(new_controller(mtu), mtu));
        macroflow.flows += 1;
        self.flows.insert(id, Flow { destination, macroflow: name, mtu, outstanding: 0, timed_out: false });
        id
    }

    /// Closes a flow (`cm_close`). What it held goes to the others.
    pub fn close(&mut self, now: Instant, id: FlowId) -> Result<(), CmError> {
        let flow = self.flows.remove(&id).ok_or(CmError::UnknownFlow(id))?;
        self.granted.retain(|&f| f != id);
        if let Some(macroflow) = self.macroflows.get_mut(&flow.macroflow) {
            macroflow.forget(id, flow.outstanding);
            if macroflow.flows == 0 {
                self.macroflows.remove(&flow.macroflow);
                self.by_destination.remove(&flow.destination);
            } else {
                macroflow.give_grants(now, &mut self.granted);
            }
        }
        Ok(())
    }

    /// The largest packet of a flow (`cm_mtu`).
    pub fn mtu(&self, id: FlowId) -> Result<u64, CmError> {
        self.flows.get(&id).map(|flow| flow.mtu).ok_or(CmError::UnknownFlow(id))
    }

    /// Asks for the right to send one packet (`cm_request`). Each call is one request.
    pub fn request(&mut self, now: Instant, id: FlowId) -> Result<(), CmError> {
        let (_, macroflow, granted) = self.parts(id)?;
        macroflow.request(now, id);
        macroflow.give_grants(now, granted);
        Ok(())
    }

    /// Whether a flow has asked and was not yet granted what it asked for.
    pub fn is_waiting(&self, id: FlowId) -> bool {
        self.macroflow(id).is_some_and(|macroflow| macroflow.waiting(id) > 0)
    }

    /// Whether a flow holds a grant: it may send a packet now, and must tell by [`notify`](Self::notify).
    pub fn has_grant(&self, id: FlowId) -> bool {
        self.macroflow(id).is_some_and(|macroflow| macroflow.has_grant(id))
    }

    /// Asks for the right to send one packet, unless the flow holds one or waits for it already. If it may send now, what
    /// is known of its path: [`request`](Self::request), [`has_grant`](Self::has_grant) and [`query`](Self::query) in one,
    /// for the one call that every packet makes. A grant that is told here is not told by
    /// [`poll_granted`](Self::poll_granted) as well.
    pub fn ask(&mut self, now: Instant, id: FlowId) -> Result<Option<PathState>, CmError> {
        let (_, macroflow, granted) = self.parts(id)?;
        Ok(macroflow.ask(now, id, granted).then(|| macroflow.state()))
    }

    /// The next flow that was granted a packet since it was last asked (`cmapp_send`), for a driver that has to wake it.
    pub fn poll_granted(&mut self) -> Option<FlowId> {
        self.granted.pop_front()
    }

    /// A grant was used for `bytes`; 0 gives it back (`cm_notify`).
    pub fn notify(&mut self, now: Instant, id: FlowId, bytes: u64) -> Result<(), CmError> {
        let (flow, macroflow, granted) = self.parts(id)?;
        if !macroflow.spend(now, id, bytes) {
            return Err(CmError::NotGranted(id));
        }
        flow.outstanding += bytes;
        macroflow.give_grants(now, granted);
        Ok(())
    }

    /// A packet of `bytes` left without a grant, which few may: the first retransmission of a loss recovery (RFC 6675
    /// §5, step 4.3) and the probe for a loss at the tail (RFC 8985 §7.3) go even where the window is full. It counts
    /// as outstanding like any other.
    pub fn notify_unasked(&mut self, now: Instant, id: FlowId, bytes: u64) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        flow.outstanding += bytes;
        macroflow.sent_unasked(now, bytes);
        Ok(())
    }

    /// Takes in what a client learnt of its packets (`cm_update`). One datagram of feedback is one update: what was
    /// under way before it is what a loss that it tells is judged by (`FlightSize`, RFC 5681 §3.1).
    pub fn update(&mut self, now: Instant, id: FlowId, update: Update) -> Result<(), CmError> {
        let (flow, macroflow, granted) = self.parts(id)?;
        let claimed = update.acked.saturating_add(update.lost);
        if claimed > flow.outstanding {
            return Err(CmError::MoreThanSent { flow: id, claimed, outstanding: flow.outstanding });
        }
        flow.outstanding -= claimed;
        let before = macroflow.outstanding();
        if update.acked > 0 || update.rtt.is_some() {
            macroflow.acked(now, update.acked, update.rtt, update.recovering);
        }
        if update.lost > 0 {
            macroflow.lost(now, update.lost);
        }
        if update.acked > 0 {
            flow.timed_out = false;
        }
        if let Some((loss, sent_at)) = update.loss {
            macroflow.congested(now, before + update.beyond_gap, Sign { loss, sent_at, again: flow.timed_out });
            flow.timed_out |= loss == Loss::Persistent;
        }
        macroflow.give_grants(now, granted);
        Ok(())
    }

    /// What is known of a flow's path (`cm_query`).
    pub fn query(&self, id: FlowId) -> Result<PathState, CmError> {
        self.macroflow(id).map(Macroflow::state).ok_or(CmError::UnknownFlow(id))
    }

    /// The retransmission timeout of a flow's path (RFC 6298), before any backoff.
    pub fn timeout(&self, id: FlowId) -> Result<Duration, CmError> {
        self.macroflow(id).map(|macroflow| macroflow.rtt.timeout()).ok_or(CmError::UnknownFlow(id))
    }

    /// The congestion that a flow's macroflow has answered so far.
    pub fn answered(&self, id: FlowId) -> Result<Answered, CmError> {
        self.macroflow(id).map(|macroflow| macroflow.answers).ok_or(CmError::UnknownFlow(id))
    }

    /// The name of the controller of a flow's macroflow.
    pub fn controller_name(&self, id: FlowId) -> Result<&'static str, CmError> {
        self.macroflow(id).map(|macroflow| macroflow.controller.name()).ok_or(CmError::UnknownFlow(id))
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.macroflows.values().filter_map(Macroflow::poll_timeout).min()
    }

    /// Gives the grants that the pace held back, and takes back what nobody used.
    pub fn handle_timeout(&mut self, now: Instant) {
        for macroflow in self.macroflows.values_mut() {
            macroflow.expire_grants(now);
            macroflow.give_grants(now, &mut self.granted);
        }
    }

    fn macroflow(&self, id: FlowId) -> Option<&Macroflow> {
        self.macroflows.get(&self.flows.get(&id)?.macroflow)
    }

    fn parts(&mut self, id: FlowId) -> Result<(&mut Flow, &mut Macroflow, &mut VecDeque<FlowId>), CmError> {
        let flow = self.flows.get_mut(&id).ok_or(CmError::UnknownFlow(id))?;
        let macroflow = self.macroflows.get_mut(&flow.macroflow).ok_or(CmError::UnknownFlow(id))?;
        Ok((flow, macroflow, &mut self.granted))
    }
}

#[cfg(test)]
mod tests;
