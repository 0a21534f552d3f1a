//! Handle of an application to the Congestion Manager.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use timeous_cm::{CmError, FlowSpec, Kind, Scheduling, Update};
use timeous_core::{Instant, PathState};
use timeous_ipc::{Client, Refusal, daemon_socket};

use super::control::Control;
use super::error::Error;
use super::event::Event;
use super::flow::FlowId;
use super::local::Local;
use super::place::ManagerLocation;
use super::poll;
use super::remote::Remote;
use super::uplink::by_uplink;
use crate::process::{daemon, find_daemon};

/// The Congestion Manager: grants flows the right to send, and reports the state of their paths.
///
/// Clones are the same client: they share flows, events and one descriptor. A [`sibling`](Self::sibling) is another
/// client of the same manager, with its own events. When the last clone is dropped its flows are closed.
///
/// ```
/// use std::net::SocketAddr;
/// use timeous::cm::{CongestionManager, Event, Update, ManagerLocation};
/// use timeous::core::Duration;
///
/// let cm = CongestionManager::open(ManagerLocation::InProcess)?;
/// let flow = cm.open_to(SocketAddr::from(([127, 0, 0, 1], 7000)), 1_200)?;
/// cm.request(flow)?;
/// cm.wait(None);
/// assert!(matches!(cm.poll_event(), Some(Event::Granted(granted)) if granted == flow));
/// // … a packet of 900 bytes leaves; had the application changed its mind: `notify(flow, 0)` …
/// cm.notify(flow, 900)?;
/// // … and when its receiver says that it came:
/// cm.update(flow, Update { acked: 900, ..Update::default() })?;
/// assert_eq!(cm.query(flow)?.outstanding, 0);
/// # Ok::<(), timeous::cm::Error>(())
/// ```
#[derive(Clone)]
pub struct CongestionManager {
    control: Arc<dyn Control>,
    /// Where it runs; for a daemon, its socket.
    place: ManagerLocation,
}

impl CongestionManager {
    /// Connects to the Congestion Manager at `place`.
    ///
    /// # Errors
    /// Environment errors: no daemon there, or it refused; no thread, no descriptor.
    pub fn open(place: ManagerLocation) -> Result<Self, Error> {
        match place {
            ManagerLocation::InProcess => Self::in_process(),
            ManagerLocation::Daemon(Some(path)) => Self::of_daemon(daemon(&path)?, path),
            ManagerLocation::Daemon(None) => Self::open(ManagerLocation::Daemon(Some(daemon_socket()))),
            ManagerLocation::Auto => {
                let path = daemon_socket();
                match find_daemon(&path)? {
                    Some(client) => Self::of_daemon(client, path),
                    None => Self::in_process(),
                }
            }
        }
    }

    fn in_process() -> Result<Self, Error> {
        Ok(Self { control: Arc::new(Local::open()?), place: ManagerLocation::InProcess })
    }

    fn of_daemon(client: Client, path: PathBuf) -> Result<Self, Error> {
        Ok(Self { control: Arc::new(Remote::new(client)?), place: ManagerLocation::Daemon(Some(path)) })
    }

    /// Creates another client of the same manager: its flows share paths with these, but it has its own events and
    /// descriptor.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn sibling(&self) -> Result<Self, Error> {
        Self::open(self.place.clone())
    }

    /// Location of the manager: never [`ManagerLocation::Auto`], which was resolved.
    #[must_use]
    pub fn place(&self) -> &ManagerLocation {
        &self.place
    }

    /// Opens a flow (`cm_open`). A local address in `spec` that is not the one that the route to the remote address has is taken for
    /// another uplink, whose flows share nothing with others ([`Destination::source`](timeous_cm::Destination)).
    ///
    /// # Errors
    /// The manager's or the daemon's, if the maximum number of flows is reached.
    pub fn open_flow(&self, spec: FlowSpec) -> Result<FlowId, Error> {
        self.control.open_flow(by_uplink(spec))
    }

    /// Opens a flow to `remote` whose packets have at most `mtu` bytes, with defaults for the rest.
    ///
    /// # Errors
    /// As [`open_flow`](Self::open_flow).
    pub fn open_to(&self, remote: SocketAddr, mtu: u64) -> Result<FlowId, Error> {
        self.open_flow(FlowSpec { remote: Some(remote), ..FlowSpec::to(remote.ip().into(), mtu) })
    }

    /// Closes a flow (`cm_close`); its share goes to other flows.
    ///
    /// # Errors
    /// The caller's: it is not open.
    pub fn close(&self, flow: FlowId) -> Result<(), Error> {
        self.control.close(flow)
    }

    /// Maximum packet size of a flow (`cm_mtu`).
    ///
    /// # Errors
    /// The caller's: it is not open.
    pub fn mtu(&self, flow: FlowId) -> Result<u64, Error> {
        self.control.mtu(flow)
    }

    /// Requests the right to send one packet (`cm_request`): [`Event::Granted`] grants it. Each call is one request.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn request(&self, flow: FlowId) -> Result<(), Error> {
        self.control.request(flow, 1)
    }

    /// Requests `count` packets in one call.
    ///
    /// # Errors
    /// The caller's: the flow is not open, or too many of its requests are pending.
    pub fn request_many(&self, flow: FlowId, count: u32) -> Result<(), Error> {
        self.control.request(flow, count)
    }

    /// Requests packets for several flows at once (`cm_bulk_request`). Each has its own result, in order: a failed one
    /// does not affect the others.
    ///
    /// # Errors
    /// Each as [`request`](Self::request).
    pub fn bulk_request(&self, requests: &[(FlowId, u32)]) -> Vec<Result<(), Error>> {
        self.control.bulk_request(requests)
    }

    /// Requests one packet that should leave before `deadline`: a macroflow [scheduled](Self::set_scheduler) by
    /// deadline serves the earliest first.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn request_by(&self, flow: FlowId, deadline: Instant) -> Result<(), Error> {
        self.control.request_by(flow, deadline)
    }

    /// Reports a packet of `bytes` sent on a grant; 0 returns the grant (`cm_notify`).
    ///
    /// # Errors
    /// The caller's: no grant is held, or it has expired.
    pub fn notify(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        self.control.notify(flow, bytes)
    }

    /// Answers a grant: as [`notify`](Self::notify), but if the grant has expired meanwhile, a packet that has left
    /// counts as sent without one. A daemon tells of the expiry later, by [`Event::Refused`].
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn answer_grant(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        match self.notify(flow, bytes) {
            Err(Error::Refused(CmError::NotGranted(_)) | Error::RefusedByDaemon(Refusal::NotGranted)) => match bytes {
                0 => Ok(()),
                bytes => self.notify_unasked(flow, bytes),
            },
            answer => answer,
        }
    }

    /// Same as [`notify`](Self::notify) for several flows at once, as [`bulk_request`](Self::bulk_request).
    ///
    /// # Errors
    /// Each as [`notify`](Self::notify).
    pub fn bulk_notify(&self, sent: &[(FlowId, u64)]) -> Vec<Result<(), Error>> {
        self.control.bulk_notify(sent)
    }

    /// Reports a packet of `bytes` sent without a grant: for applications with a fixed schedule that follow
    /// [`Event::Changed`] (Andersen et al. §2.1.2 iii). It counts like any other packet, so others wait for it.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn notify_unasked(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        self.control.notify_unasked(flow, bytes)
    }

    /// Reports a receiver's feedback about packets sent (`cm_update`); [`Feedback`](super::Feedback) makes updates from
    /// acknowledgements. One update per datagram of feedback.
    ///
    /// # Errors
    /// The caller's: the flow is not open, or the feedback is implausible.
    pub fn update(&self, flow: FlowId, update: Update) -> Result<(), Error> {
        self.control.update(flow, update)
    }

    /// Same as [`update`](Self::update) for several flows at once, as [`bulk_request`](Self::bulk_request).
    ///
    /// # Errors
    /// Each as [`update`](Self::update).
    pub fn bulk_update(&self, updates: &[(FlowId, Update)]) -> Vec<Result<(), Error>> {
        self.control.bulk_update(updates)
    }

    /// State of a flow's path, with the flow's own share of its rate (`cm_query`).
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn query(&self, flow: FlowId) -> Result<PathState, Error> {
        self.control.query(flow)
    }

    /// Same as [`query`](Self::query) for several flows at once.
    ///
    /// # Errors
    /// Each as [`query`](Self::query).
    pub fn bulk_query(&self, flows: &[FlowId]) -> Vec<Result<PathState, Error>> {
        self.control.bulk_query(flows)
    }

    /// Sets rate thresholds: an [`Event::Changed`] is sent when the flow's rate falls below `down` times the last one
    /// reported, or rises above `up` times that (`cm_thresh`), such as `thresh(flow, 0.8, 1.25)`. Without thresholds
    /// there are no such events.
    ///
    /// # Errors
    /// The caller's: the flow is not open, or `down` is not from 0 to 1 or `up` less than 1.
    pub fn thresh(&self, flow: FlowId, down: f64, up: f64) -> Result<(), Error> {
        self.control.thresh(flow, down, up)
    }

    /// Moves the flow into a macroflow of its own: it no longer shares state with other flows to its destination.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn split(&self, flow: FlowId) -> Result<(), Error> {
        self.control.split(flow)
    }

    /// Moves the flow into the macroflow of `with`, whatever its destination: for hosts behind one bottleneck.
    ///
    /// # Errors
    /// The caller's: one of them is not open, or they belong to different users.
    pub fn merge(&self, flow: FlowId, with: FlowId) -> Result<(), Error> {
        self.control.merge(flow, with)
    }

    /// Sets the flow's weight in a macroflow [scheduled](Self::set_scheduler) by weight; default 1.
    ///
    /// # Errors
    /// The caller's: the flow is not open, or the weight is zero.
    pub fn set_weight(&self, flow: FlowId, weight: u32) -> Result<(), Error> {
        self.control.set_weight(flow, weight)
    }

    /// Sets how grants are scheduled among the flows of this flow's macroflow.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn set_scheduler(&self, flow: FlowId, scheduling: Scheduling) -> Result<(), Error> {
        self.control.set_scheduler(flow, scheduling)
    }

    /// Sets the congestion controller of this flow's macroflow.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn set_controller(&self, flow: FlowId, kind: Kind) -> Result<(), Error> {
        self.control.set_controller(flow, kind)
    }

    /// Returns the next event, oldest first. When the descriptor is readable, poll until `None`.
    #[must_use]
    pub fn poll_event(&self) -> Option<Event> {
        self.control.poll_event()
    }

    /// Sleeps until there may be an event, at most until `deadline`; `true` if there may be one.
    ///
    /// It does not watch sockets: with one socket use [`wait_with`](Self::wait_with), with many a `poll` that includes
    /// this manager's descriptor. That costs more: the descriptor is then signalled for every event, here only while a
    /// thread sleeps.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.control.sleep(&mut |own| poll::readable(own, None, deadline))
    }

    /// Sleeps until there may be an event or `other`, such as a socket, is readable, at most until `deadline`; `false`
    /// if neither happened.
    pub fn wait_with(&self, other: &impl AsFd, deadline: Option<Instant>) -> bool {
        self.control.sleep(&mut |own| poll::readable(own, Some(other.as_fd()), deadline))
    }

    /// Descriptor, signalled while a thread waits, and always after [`show`](Self::show).
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.control.descriptor()
    }

    /// Notes that the descriptor was handed out: it is signalled for every event from now on.
    pub(super) fn show(&self) {
        self.control.show();
    }
}

/// Readable while there may be an event: one descriptor for `select`, `poll` and `epoll`.
impl AsFd for CongestionManager {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.show();
        self.control.descriptor()
    }
}

impl fmt::Debug for CongestionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CongestionManager").field("place", &self.place).finish_non_exhaustive()
    }
}
