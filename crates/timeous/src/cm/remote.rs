//! Client of the Congestion Manager in the host's daemon.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use timeous_cm::{Destination, FlowSpec, Kind, Scheduling, Update};
use timeous_core::{Instant, PathState};
use timeous_ipc::messages::OpenFlow;
use timeous_ipc::{Client, ClientError, Event as Told, Flow};

use super::control::Control;
use super::error::Error;
use super::event::Event;
use super::flow::FlowId;
use super::poll::WakeReason;

/// Client of the daemon.
pub(super) struct Remote {
    client: Mutex<Client>,
    /// Duplicate of the client's descriptor, to wait for without the lock.
    descriptor: OwnedFd,
    /// Number of threads that sleep on it.
    sleepers: AtomicU32,
    /// Whether it was handed to the application, and must ring for every event.
    shown: AtomicBool,
}

impl Remote {
    pub(super) fn new(mut client: Client) -> Result<Self, Error> {
        if let Some(Told::Disconnected(_)) = client.poll_event() {
            return Err(Error::Disconnected);
        }
        let descriptor = client.as_fd().try_clone_to_owned()?;
        Ok(Self { client: Mutex::new(client), descriptor, sleepers: AtomicU32::new(0), shown: AtomicBool::new(false) })
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wire(flow: FlowId) -> Flow {
    Flow::from_u64(flow.raw())
}

fn name(flow: Flow) -> FlowId {
    FlowId::from_raw(flow.as_u64())
}

fn wires<T: Copy>(entries: &[(FlowId, T)]) -> Vec<(Flow, T)> {
    entries.iter().map(|&(flow, entry)| (wire(flow), entry)).collect()
}

fn all<T>(answers: Vec<Result<T, ClientError>>) -> Vec<Result<T, Error>> {
    answers.into_iter().map(|answer| answer.map_err(Error::from)).collect()
}

fn scheduler_name(scheduling: Scheduling) -> &'static str {
    match scheduling {
        Scheduling::RoundRobin => "round-robin",
        Scheduling::Weighted => "weighted",
        Scheduling::Deadline => "deadline",
    }
}

impl Control for Remote {
    fn open_flow(&self, spec: FlowSpec) -> Result<FlowId, Error> {
        // The daemon takes the flow's user from the kernel: a client cannot claim another.
        let FlowSpec { destination, mtu, weight, local, remote, .. } = spec;
        let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
        let Destination { addr, dscp, source, .. } = destination;
        let open = OpenFlow { addr, dscp, mtu, weight, source, local, remote };
        Ok(name(self.client().open(open)?))
    }

    fn close(&self, flow: FlowId) -> Result<(), Error> {
        Ok(self.client().close(wire(flow))?)
    }

    fn mtu(&self, flow: FlowId) -> Result<u64, Error> {
        Ok(self.client().mtu(wire(flow))?.into())
    }

    fn request(&self, flow: FlowId, count: u32) -> Result<(), Error> {
        Ok(self.client().request_many(wire(flow), count)?)
    }

    fn request_by(&self, flow: FlowId, deadline: Instant) -> Result<(), Error> {
        Ok(self.client().request_by(wire(flow), deadline)?)
    }

    fn bulk_request(&self, requests: &[(FlowId, u32)]) -> Vec<Result<(), Error>> {
        all(self.client().bulk_request(&wires(requests)))
    }

    fn notify(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        Ok(self.client().notify(wire(flow), bytes)?)
    }

    fn notify_unasked(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        Ok(self.client().notify_unasked(wire(flow), bytes)?)
    }

    fn bulk_notify(&self, sent: &[(FlowId, u64)]) -> Vec<Result<(), Error>> {
        all(self.client().bulk_notify(&wires(sent)))
    }

    fn update(&self, flow: FlowId, update: Update) -> Result<(), Error> {
        Ok(self.client().update(wire(flow), update)?)
    }

    fn bulk_update(&self, updates: &[(FlowId, Update)]) -> Vec<Result<(), Error>> {
        all(self.client().bulk_update(&wires(updates)))
    }

    fn query(&self, flow: FlowId) -> Result<PathState, Error> {
        Ok(self.client().query(wire(flow))?)
    }

    fn bulk_query(&self, flows: &[FlowId]) -> Vec<Result<PathState, Error>> {
        let flows: Vec<Flow> = flows.iter().map(|&flow| wire(flow)).collect();
        all(self.client().bulk_query(&flows))
    }

    fn thresh(&self, flow: FlowId, down: f64, up: f64) -> Result<(), Error> {
        Ok(self.client().thresh(wire(flow), down, up)?)
    }

    fn split(&self, flow: FlowId) -> Result<(), Error> {
        Ok(self.client().split(wire(flow))?)
    }

    fn merge(&self, flow: FlowId, with: FlowId) -> Result<(), Error> {
        Ok(self.client().merge(wire(flow), wire(with))?)
    }

    fn set_weight(&self, flow: FlowId, weight: u32) -> Result<(), Error> {
        Ok(self.client().set_weight(wire(flow), weight)?)
    }

    fn set_scheduler(&self, flow: FlowId, scheduling: Scheduling) -> Result<(), Error> {
        Ok(self.client().set_scheduler(wire(flow), scheduler_name(scheduling))?)
    }

    fn set_controller(&self, flow: FlowId, kind: Kind) -> Result<(), Error> {
        Ok(self.client().set_controller(wire(flow), kind.name())?)
    }

    fn poll_event(&self) -> Option<Event> {
        loop {
            let mut client = self.client();
            // While a thread sleeps on the descriptor, it has to keep ringing.
            let rings = self.shown.load(Ordering::SeqCst) || self.sleepers.load(Ordering::SeqCst) > 0;
            return Some(match if rings { client.poll_event() } else { client.poll_awake() }? {
                Told::Granted(flow) => Event::Granted(name(flow)),
                Told::Changed(flow, state) => Event::Changed(name(flow), state),
                Told::Refused { flow, why, value } => Event::Refused { flow: name(flow), why, value },
                Told::Room => Event::Room,
                Told::Disconnected(_) => Event::Disconnected,
                Told::Reconnected => Event::Reconnected,
                // Only streams have callers, and this client does not listen.
                Told::Incoming { .. } => continue,
            });
        }
    }

    fn sleep(&self, how: &mut dyn FnMut(BorrowedFd<'_>) -> WakeReason) -> bool {
        {
            let mut client = self.client();
            if !client.doze() {
                return true;
            }
            self.sleepers.fetch_add(1, Ordering::SeqCst);
        }
        let woken = how(self.descriptor.as_fd());
        let mut client = self.client();
        if self.sleepers.fetch_sub(1, Ordering::SeqCst) == 1 && !self.shown.load(Ordering::SeqCst) {
            client.rise(woken == WakeReason::ByManager);
        }
        woken != WakeReason::No
    }

    fn show(&self) {
        if !self.shown.load(Ordering::SeqCst) {
            let mut client = self.client();
            self.shown.store(true, Ordering::SeqCst);
            client.ring_from_now_on();
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
