//! The process-wide library state: one manager, and operations on its flows.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use parking_lot::{Mutex, RwLock};
use timeous::cm::{
    CmError, CongestionManager, Destination, Error, FlowId, FlowSpec, Loss, ManagerLocation, Refusal, Update,
};
use timeous::core::{Duration, Instant, PathState};

use crate::buffer::Buffers;
use crate::failure::Failure;
use crate::flows::{Flows, Recipe};
use crate::run::Loop;
use crate::sigio::Sigio;
use crate::sys::callback::CmPath;
use crate::sys::{fork, route, signal};

/// Largest packet where the kernel knows no route yet. Passes wherever IPv6 does, even through a tunnel.
const DEFAULT_MTU: u64 = 1_200;
/// Largest packet on routes for more, such as loopback, unless the application asks for it: an Ethernet frame of 9000 bytes, less IPv4 and UDP.
const MOST_BY_DEFAULT: u64 = 8_972;

/// Process-wide state. Locks are held for table lookups only, never while the manager or a callback runs.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) manager: CongestionManager,
    pub(crate) flows: RwLock<Flows>,
    pub(crate) buffers: Buffers,
    pub(crate) run: Loop,
    pub(crate) sigio: Mutex<Option<Sigio>>,
}

static LIBRARY: OnceLock<Library> = OnceLock::new();
static OPENING: Mutex<()> = Mutex::new(());

/// Returns the library; the first call opens it with the daemon if one runs, else in process.
pub(crate) fn get() -> Result<&'static Library, Failure> {
    fork::check()?;
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let _one_at_a_time = OPENING.lock();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    open(ManagerLocation::Auto)
}

/// Opens the library with the manager at `place`.
pub(crate) fn init(place: ManagerLocation) -> Result<(), Failure> {
    fork::check()?;
    let _one_at_a_time = OPENING.lock();
    if LIBRARY.get().is_some() {
        return Err(Failure::new(libc::EBUSY, "libcm is open already: call cm_init() before anything else"));
    }
    open(place).map(drop)
}

fn open(place: ManagerLocation) -> Result<&'static Library, Failure> {
    // The library's threads must get no signals, which belong to the application.
    let manager = signal::blocked(|| CongestionManager::open(place))?;
    // The daemon signals only a client that has polled once. Without a flow no event can be missed.
    while manager.poll_event().is_some() {}
    let library = Library {
        manager,
        flows: RwLock::default(),
        buffers: Buffers::default(),
        run: Loop::new()?,
        sigio: Mutex::new(None),
    };
    fork::watch()?;
    Ok(LIBRARY.get_or_init(|| library))
}

/// Contents of `struct cm_options`; zero selects the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowOptions {
    pub(crate) mtu: u32,
    pub(crate) weight: u32,
    pub(crate) dscp: u8,
}

/// Feedback from a receiver, in C's terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) loss: Option<Loss>,
    pub(crate) rtt: Option<Duration>,
    pub(crate) sent_at: Option<Instant>,
}

impl Library {
    pub(crate) fn open_flow(
        &self,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        options: FlowOptions,
    ) -> Result<i64, Failure> {
        if options.dscp > 63 {
            return Err(Failure::new(libc::EINVAL, format!("DSCP {}: it has six bits", options.dscp)));
        }
        if local.is_some_and(|local| local.is_ipv4() != remote.is_ipv4()) {
            return Err(Failure::new(libc::EINVAL, format!("from {local:?} to {remote}: give both of one family")));
        }
        // One host is one destination, whether its address is IPv4 or IPv4-mapped.
        let destination = Destination::from(remote.ip().to_canonical()).with_dscp(options.dscp);
        let mtu = match options.mtu {
            0 => route::payload(local, remote).map_or(DEFAULT_MTU, |mtu| mtu.min(MOST_BY_DEFAULT)),
            given => given.into(),
        };
        let weight = if options.weight == 0 { 1 } else { options.weight };
        let spec = FlowSpec { weight, local, remote: Some(remote), ..FlowSpec::to(destination, mtu) };
        let id = self.manager.open_flow(spec)?;
        Ok(self.flows.write().add(id, Recipe { spec, thresholds: None }))
    }

    pub(crate) fn close(&self, flow: i64) -> Result<(), Failure> {
        // The flow is removed first, so that a concurrent dispatch no longer calls back.
        let id = self.flows.write().remove(flow)?;
        self.buffers.forget(flow);
        let Some(id) = id else { return Ok(()) };
        Ok(self.manager.close(id)?)
    }

    pub(crate) fn id(&self, flow: i64) -> Result<FlowId, Failure> {
        self.flows.read().id(flow)
    }

    /// Returns a flow's largest packet: what it was opened with, or less if the kernel has learnt since that less passes.
    pub(crate) fn mtu(&self, flow: i64) -> Result<u64, Failure> {
        let now = timeous::clock::now();
        let (FlowSpec { mtu, local, remote, .. }, known) = self.flows.read().path_mtu(flow, now)?;
        if let Some(known) = known {
            return Ok(known);
        }
        let learnt = remote.and_then(|remote| route::payload(local, remote));
        let mtu = learnt.map_or(mtu, |learnt| learnt.min(mtu));
        self.flows.write().learn_mtu(flow, now, mtu);
        Ok(mtu)
    }

    pub(crate) fn request(&self, flow: i64) -> Result<(), Failure> {
        Ok(self.manager.request(self.id(flow)?)?)
    }

    pub(crate) fn request_by(&self, flow: i64, deadline: Instant) -> Result<(), Failure> {
        Ok(self.manager.request_by(self.id(flow)?, deadline)?)
    }

    pub(crate) fn notify(&self, flow: i64, bytes: u64) -> Result<(), Failure> {
        let id = self.flows.write().answer(flow)?;
        Ok(self.account(id, bytes)?)
    }

    /// Answers a grant; if it has expired, the packet is reported as sent without one.
    pub(crate) fn account(&self, id: FlowId, bytes: u64) -> Result<(), Error> {
        self.manager.answer_grant(id, bytes)
    }

    fn lapsed(&self, id: FlowId, bytes: u64, answer: Result<(), Error>) -> Result<(), Error> {
        match answer {
            Err(Error::Refused(CmError::NotGranted(_)) | Error::RefusedByDaemon(Refusal::NotGranted)) => {
                self.late(id, bytes)
            }
            answer => answer,
        }
    }

    /// Reports a packet sent on an expired grant.
    pub(crate) fn late(&self, id: FlowId, bytes: u64) -> Result<(), Error> {
        if bytes == 0 { Ok(()) } else { self.manager.notify_unasked(id, bytes) }
    }

    pub(crate) fn notify_unasked(&self, flow: i64, bytes: u64) -> Result<(), Failure> {
        Ok(self.manager.notify_unasked(self.id(flow)?, bytes)?)
    }

    pub(crate) fn update(&self, flow: i64, feedback: Feedback) -> Result<(), Failure> {
        let (id, update) = self.as_update(flow, feedback)?;
        Ok(self.manager.update(id, update)?)
    }

    pub(crate) fn query(&self, flow: i64) -> Result<CmPath, Failure> {
        Ok(path(&self.manager.query(self.id(flow)?)?))
    }

    pub(crate) fn thresh(&self, flow: i64, down: f64, up: f64) -> Result<(), Failure> {
        self.manager.thresh(self.id(flow)?, down, up)?;
        if let Some(recipe) = self.flows.write().recipe_mut(flow) {
            recipe.thresholds = Some((down, up));
        }
        Ok(())
    }

    pub(crate) fn bulk_request(&self, requests: &[(i64, u32)]) -> Vec<Result<(), Failure>> {
        let asked = requests.iter().map(|&(flow, count)| Ok((self.id(flow)?, count))).collect();
        together(asked, |good| self.manager.bulk_request(good))
    }

    pub(crate) fn bulk_notify(&self, sent: &[(i64, u64)]) -> Vec<Result<(), Failure>> {
        let asked = {
            let mut flows = self.flows.write();
            sent.iter().map(|&(flow, bytes)| Ok((flows.answer(flow)?, bytes))).collect()
        };
        together(asked, |good| {
            let answers = self.manager.bulk_notify(good).into_iter();
            answers.zip(good).map(|(answer, &(id, bytes))| self.lapsed(id, bytes, answer)).collect()
        })
    }

    pub(crate) fn bulk_update(&self, told: Vec<Result<(i64, Feedback), Failure>>) -> Vec<Result<(), Failure>> {
        let as_update = |told: Result<(i64, Feedback), Failure>| told.and_then(|(flow, f)| self.as_update(flow, f));
        together(told.into_iter().map(as_update).collect(), |good| self.manager.bulk_update(good))
    }

    pub(crate) fn bulk_query(&self, flows: &[i64]) -> Vec<Result<CmPath, Failure>> {
        let asked = flows.iter().map(|&flow| self.id(flow)).collect();
        let answers = together(asked, |good| self.manager.bulk_query(good));
        answers.into_iter().map(|answer| answer.map(|state| path(&state))).collect()
    }

    fn as_update(&self, flow: i64, feedback: Feedback) -> Result<(FlowId, Update), Failure> {
        let id = self.id(flow)?;
        let Feedback { sent, received, .. } = feedback;
        let lost = sent.checked_sub(received).ok_or_else(|| {
            Failure::new(libc::EBADMSG, format!("{received} bytes received of {sent} that were sent"))
        })?;
        let sent_at = |rtt: Option<Duration>| timeous::clock::now().saturating_sub(rtt.unwrap_or(Duration::ZERO));
        let loss = match (feedback.loss, feedback.sent_at) {
            (None, _) => None,
            (Some(loss), Some(at)) => Some((loss, at)),
            // Without a send time, losses reported within a round trip count as one event.
            (Some(loss), None) => Some((loss, sent_at(feedback.rtt.or(self.manager.query(id)?.srtt)))),
        };
        Ok((id, Update { acked: received, lost, loss, rtt: feedback.rtt, ..Update::default() }))
    }

    pub(crate) fn control(&self) -> std::os::fd::BorrowedFd<'_> {
        self.manager.as_fd()
    }
}

/// Makes a bulk call for the valid entries; results are in the order of `asked`.
fn together<A: Copy, T>(
    asked: Vec<Result<A, Failure>>,
    all: impl FnOnce(&[A]) -> Vec<Result<T, Error>>,
) -> Vec<Result<T, Failure>> {
    let good: Vec<A> = asked.iter().filter_map(|ask| ask.as_ref().ok().copied()).collect();
    let mut answers = all(&good).into_iter();
    let mut answer = || answers.next().expect("the manager answers each entry of a bulk form").map_err(Failure::from);
    asked.into_iter().map(|ask| ask.and_then(|_| answer())).collect()
}

/// Converts a path state for C.
pub(crate) fn path(state: &PathState) -> CmPath {
    let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    CmPath {
        rate_bps: state.rate.as_bps(),
        srtt_ns: state.srtt.map_or(-1, nanos),
        rttvar_ns: state.srtt.map_or(-1, |_| nanos(state.rttvar)),
        min_rtt_ns: state.min_rtt.map_or(-1, nanos),
        window: state.window,
        outstanding: state.outstanding,
        loss_ppm: state.loss_ppm,
        reserved: 0,
    }
}
