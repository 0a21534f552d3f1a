//! The Congestion Manager, as an application holds it.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use timeous_cm::{FlowSpec, Kind, Scheduling, Update};
use timeous_core::{Instant, PathState};
use timeous_ipc::{Client, daemon_socket};

use super::control::Control;
use super::error::Error;
use super::event::Event;
use super::flow::FlowId;
use super::local::Local;
use super::place::Where;
use super::poll;
use super::remote::Remote;
use crate::process::{daemon, find_daemon};

/// The Congestion Manager: it says when a flow may send, and what is known of its path.
///
/// Clones are the same client: they share flows, events and the one descriptor. A [`sibling`](Self::sibling) is another
/// client of the same manager, with events of its own. When the last clone is dropped its flows are closed, and
/// what they held goes to others.
///
/// ```
/// use std::net::SocketAddr;
/// use timeous::cm::{CongestionManager, Event, Update, Where};
/// use timeous::core::Duration;
///
/// let cm = CongestionManager::open(Where::InProcess)?;
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
    /// In a daemon's words: where it was found.
    place: Where,
}

impl CongestionManager {
    /// Becomes a client of the Congestion Manager at `place`.
    ///
    /// # Errors
    /// The environment's: no daemon there, or it refused; no thread, no descriptor.
    pub fn open(place: Where) -> Result<Self, Error> {
        match place {
            Where::InProcess => Self::in_process(),
            Where::Daemon(Some(path)) => Self::of_daemon(daemon(&path)?, path),
            Where::Daemon(None) => Self::open(Where::Daemon(Some(daemon_socket()))),
            Where::Auto => {
                let path = daemon_socket();
                match find_daemon(&path)? {
                    Some(client) => Self::of_daemon(client, path),
                    None => Self::in_process(),
                }
            }
        }
    }

    fn in_process() -> Result<Self, Error> {
        Ok(Self { control: Arc::new(Local::open()?), place: Where::InProcess })
    }

    fn of_daemon(client: Client, path: PathBuf) -> Result<Self, Error> {
        Ok(Self { control: Arc::new(Remote::new(client)?), place: Where::Daemon(Some(path)) })
    }

    /// Another client of the same manager: its flows share paths with these, but its events and its descriptor are
    /// its own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn sibling(&self) -> Result<Self, Error> {
        Self::open(self.place.clone())
    }

    /// Where it is: never [`Where::Auto`], which has been decided.
    #[must_use]
    pub fn place(&self) -> &Where {
        &self.place
    }

    /// Opens a flow (`cm_open`).
    ///
    /// # Errors
    /// The manager's or the daemon's, if there may be no more flows.
    pub fn open_flow(&self, spec: FlowSpec) -> Result<FlowId, Error> {
        self.control.open_flow(spec)
    }

    /// Opens a flow to `remote` whose packets have at most `mtu` bytes, with defaults for the rest.
    ///
    /// # Errors
    /// As [`open_flow`](Self::open_flow).
    pub fn open_to(&self, remote: SocketAddr, mtu: u64) -> Result<FlowId, Error> {
        self.open_flow(FlowSpec { remote: Some(remote), ..FlowSpec::to(remote.ip().into(), mtu) })
    }

    /// Closes a flow (`cm_close`): what it held goes to others.
    ///
    /// # Errors
    /// The caller's: it is not open.
    pub fn close(&self, flow: FlowId) -> Result<(), Error> {
        self.control.close(flow)
    }

    /// The largest packet of a flow (`cm_mtu`).
    ///
    /// # Errors
    /// The caller's: it is not open.
    pub fn mtu(&self, flow: FlowId) -> Result<u64, Error> {
        self.control.mtu(flow)
    }

    /// Asks for the right to send one packet (`cm_request`): an [`Event::Granted`] tells when. Each call is one request.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn request(&self, flow: FlowId) -> Result<(), Error> {
        self.control.request(flow, 1)
    }

    /// Asks for `count` packets: as many requests in one call.
    ///
    /// # Errors
    /// The caller's: the flow is not open, or too many of its requests wait already.
    pub fn request_many(&self, flow: FlowId, count: u32) -> Result<(), Error> {
        self.control.request(flow, count)
    }

    /// Asks for several packets of several flows at once (`cm_bulk_request`). Each has its own answer, in order: a bad
    /// one changes nothing for the others.
    ///
    /// # Errors
    /// Each as [`request`](Self::request).
    pub fn bulk_request(&self, requests: &[(FlowId, u32)]) -> Vec<Result<(), Error>> {
        self.control.bulk_request(requests)
    }

    /// Asks for the right to send one packet that is worth most until `deadline`: a macroflow that is
    /// [scheduled](Self::set_scheduler) by deadline serves the earliest first.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn request_by(&self, flow: FlowId, deadline: Instant) -> Result<(), Error> {
        self.control.request_by(flow, deadline)
    }

    /// A grant was used for a packet of `bytes`; 0 gives it back (`cm_notify`).
    ///
    /// # Errors
    /// The caller's: no grant is held, maybe no longer.
    pub fn notify(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        self.control.notify(flow, bytes)
    }

    /// [`notify`](Self::notify) for several flows at once, as [`bulk_request`](Self::bulk_request).
    ///
    /// # Errors
    /// Each as [`notify`](Self::notify).
    pub fn bulk_notify(&self, sent: &[(FlowId, u64)]) -> Vec<Result<(), Error>> {
        self.control.bulk_notify(sent)
    }

    /// A packet of `bytes` left at the application's own pace, without a grant: for applications that send on a fixed
    /// schedule and follow [`Event::Changed`] (Andersen et al. §2.1.2 iii). It counts like any other, so that others
    /// wait for it.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn notify_unasked(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        self.control.notify_unasked(flow, bytes)
    }

    /// Tells what a receiver said of the packets that were sent (`cm_update`); [`Feedback`](super::Feedback) makes
    /// updates of acknowledgements. One datagram of feedback is one update.
    ///
    /// # Errors
    /// The caller's: the flow is not open, or that cannot be true.
    pub fn update(&self, flow: FlowId, update: Update) -> Result<(), Error> {
        self.control.update(flow, update)
    }

    /// [`update`](Self::update) for several flows at once, as [`bulk_request`](Self::bulk_request).
    ///
    /// # Errors
    /// Each as [`update`](Self::update).
    pub fn bulk_update(&self, updates: &[(FlowId, Update)]) -> Vec<Result<(), Error>> {
        self.control.bulk_update(updates)
    }

    /// What is known of a flow's path, with the flow's own share of its rate (`cm_query`).
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn query(&self, flow: FlowId) -> Result<PathState, Error> {
        self.control.query(flow)
    }

    /// [`query`](Self::query) for several flows at once.
    ///
    /// # Errors
    /// Each as [`query`](Self::query).
    pub fn bulk_query(&self, flows: &[FlowId]) -> Vec<Result<PathState, Error>> {
        self.control.bulk_query(flows)
    }

    /// Wants to hear when the flow's rate has fallen to less than `down` of what was told last, or risen to more than
    /// `up` times that (`cm_thresh`): `thresh(flow, 0.8, 1.25)`. Without thresholds a flow hears of no changes.
    ///
    /// # Errors
    /// The caller's: the flow is not open, or `down` is not from 0 to 1 or `up` less than 1.
    pub fn thresh(&self, flow: FlowId, down: f64, up: f64) -> Result<(), Error> {
        self.control.thresh(flow, down, up)
    }

    /// Gives the flow a macroflow of its own: it shares nothing with others to its destination any more.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn split(&self, flow: FlowId) -> Result<(), Error> {
        self.control.split(flow)
    }

    /// Lets the flow share the macroflow of `with`, to whatever destination: for hosts behind one bottleneck.
    ///
    /// # Errors
    /// The caller's: one of them is not open, or they belong to different users.
    pub fn merge(&self, flow: FlowId, with: FlowId) -> Result<(), Error> {
        self.control.merge(flow, with)
    }

    /// The flow's share beside others of its macroflow where that is [scheduled](Self::set_scheduler) by weight; 1
    /// unless given.
    ///
    /// # Errors
    /// The caller's: the flow is not open, or the weight is zero.
    pub fn set_weight(&self, flow: FlowId, weight: u32) -> Result<(), Error> {
        self.control.set_weight(flow, weight)
    }

    /// How grants are shared out among the flows of this flow's macroflow.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn set_scheduler(&self, flow: FlowId, scheduling: Scheduling) -> Result<(), Error> {
        self.control.set_scheduler(flow, scheduling)
    }

    /// The congestion controller of this flow's macroflow.
    ///
    /// # Errors
    /// The caller's: the flow is not open.
    pub fn set_controller(&self, flow: FlowId, kind: Kind) -> Result<(), Error> {
        self.control.set_controller(flow, kind)
    }

    /// What has happened, oldest first. To be called until it gives `None` when the descriptor is readable.
    #[must_use]
    pub fn poll_event(&self) -> Option<Event> {
        self.control.poll_event()
    }

    /// Sleeps until there may be an event, but not beyond `deadline`; `true` if there may be one.
    ///
    /// It does not hear of sockets. An application with one has [`wait_with`](Self::wait_with), one with many a `poll` of
    /// its own, in which this manager's descriptor takes its place: for that it has to be rung and silenced all the time,
    /// where who waits here is woken only when he sleeps.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.control.sleep(&mut |own| poll::readable(own, None, deadline))
    }

    /// Sleeps until there may be an event or `other`, such as a socket, is readable, but not beyond `deadline`; `false` if
    /// it came to that.
    pub fn wait_with(&self, other: &impl AsFd, deadline: Option<Instant>) -> bool {
        self.control.sleep(&mut |own| poll::readable(own, Some(other.as_fd()), deadline))
    }

    /// The descriptor, which rings while somebody waits, and from [`show`](Self::show) on.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.control.descriptor()
    }

    /// The descriptor is given away: it rings by itself from now on.
    pub(super) fn show(&self) {
        self.control.show();
    }
}

/// Readable while there may be an event: the one control descriptor for `select`, `poll` and `epoll`.
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
