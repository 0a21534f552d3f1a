//! Calls of clients, the infrequent requests, and their answers.

use std::os::fd::OwnedFd;

use timeous_cm::{CmError, Destination, FlowId, FlowSpec, Kind, Manager, Scheduling};
use timeous_core::Instant;
use timeous_engine::{Congestion, Engine, Sealing};
use timeous_ipc::Handle;
use timeous_ipc::messages::{Answer, Call, DOCUMENT_MAX, Document, Failure, OpenFlow, Protection, Resource};

use crate::client::Client;
use crate::exchange::Exchange;
use crate::limits::{Usage, Users};
use crate::observability::Observability;
use crate::poller::Poller;
use crate::sealing::CredentialParts;
use crate::streams::{Owner, Streams};
use crate::view::Reader;
use crate::wire;
use crate::zones::Zones;

/// State shared by all clients.
#[derive(Debug)]
pub(crate) struct SharedState {
    /// Dropped before the engine, so that streams end before the engine does.
    pub(crate) streams: Streams,
    pub(crate) zones: Zones,
    pub(crate) congestion: Congestion,
    pub(crate) users: Users,
    pub(crate) poller: Poller,
    pub(crate) sight: Observability,
    pub(crate) engine: Engine,
}

type CallResult = Result<(Answer, Vec<OwnedFd>), Failure>;

impl SharedState {
    /// Executes a call.
    pub(crate) fn answer(&mut self, now: Instant, client: &mut Client, call: Call) -> CallResult {
        let owner = client.owner;
        match call {
            Call::Connect { remote, spec, protection } => {
                let sealing = self.take_credential(client, protection)?;
                self.sight.recall(&self.congestion, Destination::from(remote.ip()));
                let SharedState { streams, users, poller, engine, .. } = self;
                let ends = streams.connect((engine, users, poller), owner, remote, (&spec, sealing))?;
                Ok((Answer::Stream, ends.descriptors()))
            }
            Call::Listen { local, spec, room, protection } => {
                let sealing = self.take_credential(client, protection)?;
                let SharedState { streams, users, poller, engine, .. } = self;
                let (listener, local) =
                    streams.listen((engine, users, poller), owner, (local, room), (&spec, sealing))?;
                plain(Answer::Listening { listener, local })
            }
            Call::StopListening(listener) => {
                let SharedState { streams, users, poller, .. } = self;
                streams.stop_listening((users, poller), owner, listener)?;
                plain(Answer::Done)
            }
            Call::MakeZone { buffer_size, buffers } => {
                let SharedState { zones, users, .. } = self;
                let (key, memory) = zones.make(users, owner, buffer_size, buffers)?;
                Ok((Answer::Zone { key: key.0 }, vec![memory]))
            }
            Call::Credential { is_first, part } => {
                let before = client.credential.bytes();
                let added = client.credential.add(is_first, part);
                let held = self.users.hold_credential(owner.uid, before, client.credential.bytes());
                if held.is_err() {
                    client.credential = CredentialParts::default();
                }
                added.and(held)?;
                plain(Answer::Done)
            }
            Call::Describe(what) => self.describe(owner, what),
            Call::ForgetPaths { addr } => plain(Answer::Count(self.sight.forget(&self.reader(owner), addr)?)),
            Call::Open(open) => self.open(now, client, &open),
            Call::Close(flow) => self.close(now, client, flow),
            other => {
                let exchange = client.exchange.as_ref().ok_or_else(unannounced)?;
                let mut cm = self.congestion.lock();
                about_a_flow(now, &mut cm, exchange, &other)
            }
        }
    }

    /// Takes the credential that a client has handed over; returns the protection of its next stream, and the bytes that count for it.
    fn take_credential(&mut self, client: &mut Client, protection: Protection) -> Result<(Sealing, u64), Failure> {
        let bytes = client.credential.bytes();
        self.users.give_back(client.owner.uid, Usage { ring_bytes: bytes, ..Usage::default() });
        Ok((client.credential.take(protection)?, bytes))
    }

    /// Removes everything that a departed client had.
    pub(crate) fn forget(&mut self, now: Instant, client: &Client) {
        let owner = client.owner;
        let SharedState { streams, zones, users, poller, .. } = self;
        streams.forget((users, poller), owner);
        zones.forget(users, owner);
        poller.forget(&client.wire);
        let mut usage = Usage { clients: 1, ring_bytes: client.credential.bytes(), ..Usage::default() };
        if let Some(exchange) = &client.exchange {
            // The client may have passed on its copy of the bell's descriptor.
            poller.forget(exchange.channel().bell());
            usage.flows = exchange.flows.len() as u32;
        }
        users.give_back(owner.uid, usage);
        self.congestion.leave(now, client.cm);
        self.sight.board().remove(client.cm.as_u64());
    }

    /// Returns what a client may see.
    fn reader(&self, Owner { uid, .. }: Owner) -> Reader {
        Reader { uid, sees_host: self.users.domain(uid).is_none() }
    }

    fn open(&mut self, now: Instant, client: &mut Client, open: &OpenFlow) -> CallResult {
        let exchange = client.exchange.as_mut().ok_or_else(unannounced)?;
        let limit = exchange.channel().geometry().flows;
        if exchange.flows.len() >= limit as usize {
            return Err(Failure::OverLimit { resource: Resource::Flows, limit: limit.into() });
        }
        let uid = client.owner.uid;
        self.users.take_flow(uid)?;
        let destination = Destination {
            source: open.source.map(|source| source.to_canonical()),
            user: self.users.domain(uid),
            ..Destination::from(open.addr).with_dscp(open.dscp)
        };
        self.sight.recall(&self.congestion, destination);
        let mut spec = FlowSpec::to(destination, open.mtu.into());
        (spec.weight, spec.local, spec.remote) = (open.weight, open.local, open.remote);
        let mut cm = self.congestion.lock();
        match cm.open_for(now, client.cm, spec) {
            Ok(flow) => plain(Answer::Opened { flow: exchange.opened(&cm, flow), mtu: open.mtu }),
            Err(error) => {
                drop(cm);
                self.users.give_back(uid, Usage { flows: 1, ..Usage::default() });
                Err(Failure::Invalid(error.to_string()))
            }
        }
    }

    fn close(&mut self, now: Instant, client: &mut Client, handle: Handle) -> CallResult {
        let exchange = client.exchange.as_mut().ok_or_else(unannounced)?;
        let flow = named(exchange, handle)?;
        exchange.closed(handle);
        self.users.give_back(client.owner.uid, Usage { flows: 1, ..Usage::default() });
        self.congestion.lock().close(now, flow).map_err(|error| failure(handle, error))?;
        plain(Answer::Done)
    }

    fn describe(&self, owner: Owner, what: Document) -> CallResult {
        let reader = self.reader(owner);
        let json = match what {
            Document::Snapshot => self.sight.snapshot(&reader)?,
            Document::Paths => self.sight.paths(&reader)?,
        };
        if json.len() <= DOCUMENT_MAX {
            return plain(Answer::Document(json));
        }
        let file = wire::document(&json).map_err(|error| Failure::Environment(error.to_string()))?;
        Ok((Answer::LongDocument { len: json.len() as u64 }, vec![file]))
    }
}

/// Executes a call that concerns only the Congestion Manager.
fn about_a_flow(now: Instant, cm: &mut Manager, exchange: &Exchange, call: &Call) -> CallResult {
    let about = |handle: Handle| named(exchange, handle);
    let (handle, done) = match call {
        Call::Query(handle) => {
            let state = cm.query(about(*handle)?).map_err(|error| failure(*handle, error))?;
            return plain(Answer::Path(state.into()));
        }
        Call::Thresh { flow, down, up } => (flow, cm.thresh(about(*flow)?, *down, *up)),
        Call::Split(flow) => (flow, cm.split(now, about(*flow)?).map(drop)),
        Call::Merge { flow, with } => (flow, cm.merge(now, about(*flow)?, about(*with)?)),
        Call::SetWeight { flow, weight } => (flow, cm.set_weight(about(*flow)?, *weight)),
        Call::SetScheduler { flow, name } => (flow, cm.set_scheduler(about(*flow)?, scheduling(name)?)),
        Call::SetController { flow, name } => {
            let kind = name.parse::<Kind>().map_err(|error| Failure::Invalid(error.to_string()))?;
            (flow, cm.set_controller(about(*flow)?, kind))
        }
        Call::Open(_)
        | Call::Close(_)
        | Call::Describe(_)
        | Call::ForgetPaths { .. }
        | Call::Connect { .. }
        | Call::Listen { .. }
        | Call::StopListening(_)
        | Call::MakeZone { .. }
        | Call::Credential { .. } => unreachable!("these are answered by the house"),
    };
    done.map_err(|error| failure(*handle, error))?;
    plain(Answer::Done)
}

fn scheduling(name: &str) -> Result<Scheduling, Failure> {
    match name {
        "round-robin" => Ok(Scheduling::RoundRobin),
        "weighted" => Ok(Scheduling::Weighted),
        "deadline" => Ok(Scheduling::Deadline),
        other => {
            let text = format!("there is no scheduler {other:?}: take round-robin, weighted or deadline");
            Err(Failure::Invalid(text))
        }
    }
}

fn named(exchange: &Exchange, handle: Handle) -> Result<FlowId, Failure> {
    exchange.flows.flow(handle).ok_or(Failure::UnknownFlow(handle))
}

fn plain(answer: Answer) -> CallResult {
    Ok((answer, Vec::new()))
}

/// Unreachable in practice: a call before the hello is detected earlier, as a violation.
fn unannounced() -> Failure {
    Failure::Invalid("say hello first".to_owned())
}

fn failure(handle: Handle, error: CmError) -> Failure {
    match error {
        CmError::UnknownFlow(_) => Failure::UnknownFlow(handle),
        CmError::Untrusted { .. } => Failure::NotPermitted,
        other => Failure::Invalid(other.to_string()),
    }
}
