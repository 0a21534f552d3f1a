//! Client of the Congestion Manager in this process.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use timeous_cm::{ClientEvent, CmError, FlowId as Name, FlowSpec, Kind, Scheduling, Update};
use timeous_core::{Instant, PathState};
use timeous_engine::{CmClient, Engine};

use super::control::Control;
use super::error::Error;
use super::event::Event;
use super::flow::FlowId;
use super::poll::WakeReason;
use crate::process::shared_engine;

/// Client of the manager in this process's engine.
pub(super) struct Local {
    client: CmClient,
    /// Runs the manager's timers. Dropped last: the client must go before.
    _engine: Arc<Engine>,
}

impl Local {
    pub(super) fn open() -> Result<Self, Error> {
        let engine = shared_engine()?;
        if engine.workers() > 1 {
            return Err(Error::SeveralWorkers(engine.workers()));
        }
        // Feedback in this process affects no other user.
        let client = engine.congestion().client(None)?;
        Ok(Self { client, _engine: engine })
    }
}

fn inner(flow: FlowId) -> Name {
    Name::from_u64(flow.raw())
}

fn outer(flow: Name) -> FlowId {
    FlowId::from_raw(flow.as_u64())
}

fn inners<T: Copy>(entries: &[(FlowId, T)]) -> Vec<(Name, T)> {
    entries.iter().map(|&(flow, entry)| (inner(flow), entry)).collect()
}

fn all<T>(answers: Vec<Result<T, CmError>>) -> Vec<Result<T, Error>> {
    answers.into_iter().map(|answer| answer.map_err(Error::from)).collect()
}

impl Control for Local {
    fn open_flow(&self, spec: FlowSpec) -> Result<FlowId, Error> {
        Ok(outer(self.client.open(spec)?))
    }

    fn close(&self, flow: FlowId) -> Result<(), Error> {
        Ok(self.client.close(inner(flow))?)
    }

    fn mtu(&self, flow: FlowId) -> Result<u64, Error> {
        Ok(self.client.mtu(inner(flow))?)
    }

    fn request(&self, flow: FlowId, count: u32) -> Result<(), Error> {
        Ok(self.client.request_many(inner(flow), count)?)
    }

    fn request_by(&self, flow: FlowId, deadline: Instant) -> Result<(), Error> {
        Ok(self.client.request_by(inner(flow), deadline)?)
    }

    fn bulk_request(&self, requests: &[(FlowId, u32)]) -> Vec<Result<(), Error>> {
        all(self.client.bulk_request(&inners(requests)))
    }

    fn notify(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        Ok(self.client.notify(inner(flow), bytes)?)
    }

    fn notify_unasked(&self, flow: FlowId, bytes: u64) -> Result<(), Error> {
        Ok(self.client.notify_unasked(inner(flow), bytes)?)
    }

    fn bulk_notify(&self, sent: &[(FlowId, u64)]) -> Vec<Result<(), Error>> {
        all(self.client.bulk_notify(&inners(sent)))
    }

    fn update(&self, flow: FlowId, update: Update) -> Result<(), Error> {
        Ok(self.client.update(inner(flow), update)?)
    }

    fn bulk_update(&self, updates: &[(FlowId, Update)]) -> Vec<Result<(), Error>> {
        all(self.client.bulk_update(&inners(updates)))
    }

    fn query(&self, flow: FlowId) -> Result<PathState, Error> {
        Ok(self.client.query(inner(flow))?)
    }

    fn bulk_query(&self, flows: &[FlowId]) -> Vec<Result<PathState, Error>> {
        let flows: Vec<Name> = flows.iter().map(|&flow| inner(flow)).collect();
        all(self.client.bulk_query(&flows))
    }

    fn thresh(&self, flow: FlowId, down: f64, up: f64) -> Result<(), Error> {
        Ok(self.client.thresh(inner(flow), down, up)?)
    }

    fn split(&self, flow: FlowId) -> Result<(), Error> {
        Ok(self.client.split(inner(flow))?)
    }

    fn merge(&self, flow: FlowId, with: FlowId) -> Result<(), Error> {
        Ok(self.client.merge(inner(flow), inner(with))?)
    }

    fn set_weight(&self, flow: FlowId, weight: u32) -> Result<(), Error> {
        Ok(self.client.set_weight(inner(flow), weight)?)
    }

    fn set_scheduler(&self, flow: FlowId, scheduling: Scheduling) -> Result<(), Error> {
        Ok(self.client.set_scheduler(inner(flow), scheduling)?)
    }

    fn set_controller(&self, flow: FlowId, kind: Kind) -> Result<(), Error> {
        Ok(self.client.set_controller(inner(flow), kind)?)
    }

    fn poll_event(&self) -> Option<Event> {
        Some(match self.client.poll_event()? {
            ClientEvent::Granted(flow) => Event::Granted(outer(flow)),
            ClientEvent::Changed(flow, state) => Event::Changed(outer(flow), state),
        })
    }

    fn sleep(&self, how: &mut dyn FnMut(BorrowedFd<'_>) -> WakeReason) -> bool {
        self.client.sleep(how).is_none_or(|woken| woken != WakeReason::No)
    }

    fn show(&self) {
        self.client.show();
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.client.descriptor()
    }
}
