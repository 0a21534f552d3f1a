//! In-process client of a shared Congestion Manager: the calls of the paper, and one descriptor to wait on.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use timeous_cm::{ClientEvent, ClientId, CmError, FlowId, FlowSpec, Kind, Manager, Scheduling, Update, User};
use timeous_core::{Instant, PathState};

use crate::bell::Bell;
use crate::clock;
use crate::congestion::Congestion;
use crate::waker::Waker;

/// A client of a [`Congestion`]. It owns its flows, which are closed when it is dropped.
///
/// Events wait for [`poll_event`](Self::poll_event) and end a [`wait`](Self::wait). Once the descriptor has been requested, it is readable
/// while an event waits, at two system calls per event. All calls are short, and may be made from any thread. An [`Engine`](crate::Engine)
/// with the same [`Congestion`] drives its timers.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::{ClientEvent, FlowSpec};
/// use timeous_engine::Engine;
///
/// let engine = Engine::start().unwrap();
/// let client = engine.congestion().client(None).unwrap();
/// let flow = client.open(FlowSpec::to(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), 1_200)).unwrap();
/// client.request(flow).unwrap();
/// assert!(client.wait(None));
/// assert_eq!(client.poll_event(), Some(ClientEvent::Granted(flow)));
/// client.notify(flow, 1_000).unwrap();
/// ```
#[derive(Debug)]
pub struct CmClient {
    congestion: Congestion,
    id: ClientId,
    user: Option<User>,
    bell: Arc<Bell>,
}

impl Congestion {
    /// Joins as a client within this process. Flows of one `user` share congestion state only among themselves; flows without a user share
    /// it with the engine's own, and their feedback is trusted.
    ///
    /// # Errors
    /// The system's: no descriptor.
    pub fn client(&self, user: Option<User>) -> std::io::Result<CmClient> {
        let bell = Arc::new(Bell::new()?);
        let id = self.join(bell.clone());
        Ok(CmClient { congestion: self.clone(), id, user, bell })
    }
}

impl CmClient {
    /// Opens a flow (`cm_open`). Its user is that of the client, not of the destination.
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn open(&self, mut spec: FlowSpec) -> Result<FlowId, CmError> {
        spec.destination.user = self.user;
        self.congestion.lock().open_for(clock::now(), self.id, spec)
    }

    /// Closes a flow (`cm_close`).
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn close(&self, flow: FlowId) -> Result<(), CmError> {
        self.with(flow, |cm| cm.close(clock::now(), flow))
    }

    /// The largest packet of a flow in bytes (`cm_mtu`).
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn mtu(&self, flow: FlowId) -> Result<u64, CmError> {
        self.with(flow, |cm| cm.mtu(flow))
    }

    /// Asks for the right to send one packet (`cm_request`).
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn request(&self, flow: FlowId) -> Result<(), CmError> {
        self.with(flow, |cm| cm.request(clock::now(), flow))
    }

    /// Asks for the right to send `count` packets.
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn request_many(&self, flow: FlowId, count: u32) -> Result<(), CmError> {
        self.with(flow, |cm| cm.request_many(clock::now(), flow, count))
    }

    /// Asks for the right to send one packet that is due at `deadline`, for [`Scheduling::Deadline`].
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn request_by(&self, flow: FlowId, deadline: Instant) -> Result<(), CmError> {
        self.with(flow, |cm| cm.request_by(clock::now(), flow, deadline))
    }

    /// Requests grants for many flows at once (`cm_bulk_request`). Each has its own result.
    pub fn bulk_request(&self, requests: &[(FlowId, u32)]) -> Vec<Result<(), CmError>> {
        self.bulk(requests, |cm, now, &(flow, count)| cm.request_many(now, flow, count))
    }

    /// Reports that a grant was used for `bytes`; 0 gives it back (`cm_notify`).
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn notify(&self, flow: FlowId, bytes: u64) -> Result<(), CmError> {
        self.with(flow, |cm| cm.notify(clock::now(), flow, bytes))
    }

    /// Reports a packet of `bytes` sent without a grant, as a rate-paced sender does (Andersen et al. §2.1.2).
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn notify_unasked(&self, flow: FlowId, bytes: u64) -> Result<(), CmError> {
        self.with(flow, |cm| cm.notify_unasked(clock::now(), flow, bytes))
    }

    /// Calls [`notify`](Self::notify) for many flows at once. Each has its own result.
    pub fn bulk_notify(&self, notices: &[(FlowId, u64)]) -> Vec<Result<(), CmError>> {
        self.bulk(notices, |cm, now, &(flow, bytes)| cm.notify(now, flow, bytes))
    }

    /// Reports feedback about packets that were sent (`cm_update`).
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn update(&self, flow: FlowId, update: Update) -> Result<(), CmError> {
        self.with(flow, |cm| cm.update(clock::now(), flow, update))
    }

    /// Calls [`update`](Self::update) for many flows at once. Each has its own result.
    pub fn bulk_update(&self, updates: &[(FlowId, Update)]) -> Vec<Result<(), CmError>> {
        self.bulk(updates, |cm, now, &(flow, update)| cm.update(now, flow, update))
    }

    /// Returns the state of a flow's path (`cm_query`).
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn query(&self, flow: FlowId) -> Result<PathState, CmError> {
        self.with(flow, |cm| cm.query(flow))
    }

    /// Calls [`query`](Self::query) for many flows at once. Each has its own result.
    pub fn bulk_query(&self, flows: &[FlowId]) -> Vec<Result<PathState, CmError>> {
        let cm = self.congestion.lock();
        flows.iter().map(|&flow| self.owns(&cm, flow).and_then(|()| cm.query(flow))).collect()
    }

    /// Requests a callback when a flow's rate has fallen to `down` times the rate last reported, or risen to `up` times it (`cm_thresh`).
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn thresh(&self, flow: FlowId, down: f64, up: f64) -> Result<(), CmError> {
        self.with(flow, |cm| cm.thresh(flow, down, up))
    }

    /// Takes a flow out of its macroflow, into one of its own.
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn split(&self, flow: FlowId) -> Result<(), CmError> {
        self.with(flow, |cm| cm.split(clock::now(), flow).map(drop))
    }

    /// Moves a flow into the macroflow of another.
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn merge(&self, flow: FlowId, with: FlowId) -> Result<(), CmError> {
        self.with(flow, |cm| {
            self.owns(cm, with)?;
            cm.merge(clock::now(), flow, with)
        })
    }

    /// Sets the scheduler among the flows of a flow's macroflow.
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn set_scheduler(&self, flow: FlowId, scheduling: Scheduling) -> Result<(), CmError> {
        self.with(flow, |cm| cm.set_scheduler(flow, scheduling))
    }

    /// Sets a flow's weight, for [`Scheduling::Weighted`].
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn set_weight(&self, flow: FlowId, weight: u32) -> Result<(), CmError> {
        self.with(flow, |cm| cm.set_weight(flow, weight))
    }

    /// Sets the congestion controller of a flow's macroflow.
    ///
    /// # Errors
    /// See [`CmError`].
    pub fn set_controller(&self, flow: FlowId, kind: Kind) -> Result<(), CmError> {
        self.with(flow, |cm| cm.set_controller(flow, kind))
    }

    /// Returns the next event, if any. When there is none left, the descriptor is cleared.
    pub fn poll_event(&self) -> Option<ClientEvent> {
        let mut cm = self.congestion.lock();
        let event = cm.poll_client(self.id);
        if event.is_none() {
            // With the lock held: a later event signals again.
            self.bell.hush();
        }
        event
    }

    /// Sleeps until an event can be polled, but not beyond `deadline`; `false` if there is none.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let left = deadline.map(|at| at.saturating_since(clock::now()));
        self.sleep(|_| self.bell.waker().is_rung(left)).unwrap_or(true)
    }

    /// Sleeps by the caller's own means: `how` gets the descriptor, which wakes it when an event can be polled. Returns `None` without
    /// sleeping if an event is pending. The descriptor may be readable without an event.
    pub fn sleep<T>(&self, how: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        {
            let mut cm = self.congestion.lock();
            if self.has_event(&mut cm) {
                return None;
            }
            self.bell.doze();
        }
        let slept = how(self.bell.as_fd());
        self.bell.rise();
        Some(slept)
    }

    /// Returns the descriptor, which is signalled while a thread [sleeps](Self::sleep), and always after [`show`](Self::show).
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Makes the descriptor readable from now on while there may be an event to poll.
    pub fn show(&self) {
        if !self.bell.is_shown() {
            let mut cm = self.congestion.lock();
            self.bell.show(self.has_event(&mut cm));
        }
    }

    /// Returns whether an event can be polled. If not, the next one is signalled, even if an earlier one was signalled and lapsed before it
    /// was polled.
    fn has_event(&self, cm: &mut Manager) -> bool {
        if cm.has_client_event(self.id) {
            return true;
        }
        // The next event is signalled only after a poll that found none.
        let nothing = cm.poll_client(self.id);
        debug_assert_eq!(nothing, None);
        false
    }

    /// Returns a waker that is readable while an event may be pending; calls [`show`](Self::show).
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.show();
        self.bell.waker()
    }

    /// Returns the client's identifier in the manager.
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// Returns the shared Congestion Manager.
    #[must_use]
    pub fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    fn with<T>(&self, flow: FlowId, act: impl FnOnce(&mut Manager) -> Result<T, CmError>) -> Result<T, CmError> {
        let mut cm = self.congestion.lock();
        self.owns(&cm, flow)?;
        act(&mut cm)
    }

    fn bulk<I>(
        &self,
        items: &[(FlowId, I)],
        act: impl Fn(&mut Manager, Instant, &(FlowId, I)) -> Result<(), CmError>,
    ) -> Vec<Result<(), CmError>> {
        let mut cm = self.congestion.lock();
        let now = clock::now();
        items.iter().map(|item| self.owns(&cm, item.0).and_then(|()| act(&mut cm, now, item))).collect()
    }

    /// Checks that the flow belongs to this client: flows of other clients are treated as unknown.
    fn owns(&self, cm: &Manager, flow: FlowId) -> Result<(), CmError> {
        if cm.client_of(flow)? == self.id { Ok(()) } else { Err(CmError::UnknownFlow(flow)) }
    }
}

impl AsFd for CmClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker().as_fd()
    }
}

impl AsRawFd for CmClient {
    fn as_raw_fd(&self) -> RawFd {
        self.waker().as_raw_fd()
    }
}

impl Drop for CmClient {
    fn drop(&mut self) {
        self.congestion.leave(clock::now(), self.id);
    }
}

#[cfg(test)]
mod tests;
