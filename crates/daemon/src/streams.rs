//! Streams that the engine runs for clients, and their listening ports.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use timeous_engine::{
    Engine, EngineError, Gone, ListenerFor, Offer, PortLife, Sealing, Served, SharedZone, ZoneKey, clock,
};
use timeous_ipc::messages::{Failure, StreamSpec};

use crate::limits::{Limits, Usage, Users};
use crate::poller::{Interest, Poller, Token};
use crate::treatment::stream_config;

/// Owner of a stream or listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The client.
    pub(crate) client: u64,
    pub(crate) uid: u32,
}

#[derive(Debug)]
struct Streaming {
    served: Served,
    owner: Owner,
    /// Bytes of its ring and its credential.
    ring_bytes: u64,
    /// UDP port of its own, if it has one.
    port: PortLife,
    /// Whether it waits for room in its socket.
    blocked: bool,
}

#[derive(Debug)]
struct PendingStream {
    listener: ListenerFor,
    owner: Owner,
    /// Bytes of its credential.
    credential: u64,
}

/// Descriptors of a new stream for its client.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) ring: OwnedFd,
    pub(crate) socket: OwnedFd,
}

impl Ends {
    pub(crate) fn descriptors(self) -> Vec<OwnedFd> {
        vec![self.ring, self.socket]
    }
}

#[derive(Debug, Default)]
pub(crate) struct Streams {
    running: BTreeMap<u64, Streaming>,
    waiting: BTreeMap<u32, PendingStream>,
    /// Ports being closed, with their users: they count until they are closed.
    closing: Vec<(u32, PortLife)>,
    next_stream: u64,
    next_listener: u32,
}

/// Ports reserved for root.
const PRIVILEGED: std::ops::Range<u16> = 1..1024;

impl Streams {
    /// Connects to a host for a client.
    pub(crate) fn connect(
        &mut self,
        (engine, users, poller): (&Engine, &mut Users, &Poller),
        owner: Owner,
        remote: SocketAddr,
        (spec, (sealing, credential)): (&StreamSpec, (Sealing, u64)),
    ) -> Result<Ends, Failure> {
        allowed(users.limits(), spec)?;
        // An early check, before memory is allocated. The actual cost is known only afterwards.
        users.take_stream(owner.uid, credential)?;
        users.give_back(owner.uid, Usage { streams: 1, ring_bytes: credential, ..Usage::default() });
        let offer = engine.connect_for(remote, stream_config(spec, sealing)).map_err(|error| failure(&error))?;
        self.begin((users, poller), owner, (offer, credential))
    }

    /// Begins a stream, for which the bytes of its credential count, too.
    fn begin(
        &mut self,
        (users, poller): (&mut Users, &Poller),
        owner: Owner,
        (offer, credential): (Offer, u64),
    ) -> Result<Ends, Failure> {
        let Offer { served, ring, socket, port } = offer;
        let refused = |error: io::Error| Failure::Environment(error.to_string());
        let ring_bytes = rustix::fs::fstat(&ring).map_err(|errno| refused(errno.into()))?.st_size as u64 + credential;
        if let Err(failure) = users.take_stream(owner.uid, ring_bytes) {
            served.refuse();
            return Err(failure);
        }
        let id = self.next_stream;
        self.next_stream += 1;
        let watched = poller
            .watch(served.socket(), Token::Stream(id), Interest::Readable)
            .and_then(|()| poller.watch(served.bell(), Token::StreamBell(id), Interest::Readable));
        let streaming = Streaming { served, owner, ring_bytes, port, blocked: false };
        if let Err(error) = watched {
            self.release((users, poller), &streaming);
            return Err(refused(error));
        }
        self.running.insert(id, streaming);
        Ok(Ends { ring, socket })
    }

    /// Listens for a client; returns the listener and its address.
    pub(crate) fn listen(
        &mut self,
        (engine, users, poller): (&Engine, &mut Users, &Poller),
        owner: Owner,
        (local, room): (SocketAddr, Option<u32>),
        (spec, (sealing, credential)): (&StreamSpec, (Sealing, u64)),
    ) -> Result<(u32, SocketAddr), Failure> {
        allowed(users.limits(), spec)?;
        // The daemon may use any port, but the requesting user may not.
        let port = if spec.native { spec.dccp_port } else { local.port() };
        if PRIVILEGED.contains(&port) && owner.uid != 0 {
            return Err(Failure::NotPermitted);
        }
        users.take_stream(owner.uid, credential)?;
        let refused = |error: String| Failure::Environment(error);
        let id = self.next_listener;
        let room = room.map(|room| room as usize);
        let listening = engine.listen_for(local, stream_config(spec, sealing), room).map_err(|error| failure(&error));
        let watched = listening.and_then(|listener| {
            let token = Token::Callers(id.into());
            let watched = poller.watch(listener.waker(), token, Interest::Readable);
            watched.map(|()| listener).map_err(|error| refused(error.to_string()))
        });
        match watched {
            Ok(listener) => {
                let local = listener.local_addr();
                self.next_listener += 1;
                self.waiting.insert(id, PendingStream { listener, owner, credential });
                Ok((id, local))
            }
            Err(failure) => {
                users.give_back(owner.uid, Usage { streams: 1, ring_bytes: credential, ..Usage::default() });
                Err(failure)
            }
        }
    }

    /// Stops listening.
    pub(crate) fn stop_listening(
        &mut self,
        (users, poller): (&mut Users, &Poller),
        owner: Owner,
        listener: u32,
    ) -> Result<(), Failure> {
        let unknown = Failure::UnknownListener(listener);
        if self.waiting.get(&listener).is_none_or(|waiting| waiting.owner != owner) {
            return Err(unknown);
        }
        let waiting = self.waiting.remove(&listener).ok_or(unknown)?;
        poller.forget(waiting.listener.waker());
        users.give_back(owner.uid, Usage { ring_bytes: waiting.credential, ..Usage::default() });
        self.let_close(users, owner.uid, waiting.listener.port());
        Ok(())
    }

    /// Returns the next incoming stream of a listener, with its owner. Streams beyond the user's limits are refused.
    pub(crate) fn caller(&mut self, (users, poller): (&mut Users, &Poller), listener: u32) -> Option<(Owner, Ends)> {
        loop {
            let waiting = self.waiting.get_mut(&listener)?;
            let owner = waiting.owner;
            // Cleared first: later connections signal again.
            waiting.listener.waker().clear();
            let offer = waiting.listener.poll_accept()?;
            match self.begin((users, poller), owner, (offer, 0)) {
                Ok(ends) => return Some((owner, ends)),
                Err(failure) => {
                    if let Some(omitted) = users.may_log(clock::now(), owner.uid) {
                        tracing::warn!(client = owner.client, uid = owner.uid, %failure, omitted, "a caller is refused");
                    }
                }
            }
        }
    }

    /// Serves a stream that is ready; `zone` returns the zone of a key, if the owner may use one. If it has ended, returns its owner and the reason.
    pub(crate) fn pump(
        &mut self,
        (users, poller): (&mut Users, &Poller),
        zone: impl Fn(Owner, ZoneKey) -> Option<SharedZone>,
        id: u64,
    ) -> Option<(Owner, Gone)> {
        let streaming = self.running.get_mut(&id)?;
        let owner = streaming.owner;
        match streaming.served.pump_with(|key| zone(owner, key)) {
            Ok(()) => {
                let blocked = streaming.served.is_blocked();
                if blocked != streaming.blocked {
                    streaming.blocked = blocked;
                    let interest = if blocked { Interest::Both } else { Interest::Readable };
                    if let Err(error) = poller.change(streaming.served.socket(), Token::Stream(id), interest) {
                        tracing::debug!(%error, "a stream cannot be watched");
                    }
                }
                None
            }
            Err(gone) => {
                if let Some(streaming) = self.running.remove(&id) {
                    self.release((users, poller), &streaming);
                }
                Some((owner, gone))
            }
        }
    }

    /// Ends the streams and listeners of a departed client.
    pub(crate) fn forget(&mut self, (users, poller): (&mut Users, &Poller), owner: Owner) {
        let streams = self.running.iter().filter(|(_, streaming)| streaming.owner == owner);
        for id in streams.map(|(&id, _)| id).collect::<Vec<_>>() {
            if let Some(streaming) = self.running.remove(&id) {
                self.release((users, poller), &streaming);
            }
        }
        let listeners = self.waiting.iter().filter(|(_, waiting)| waiting.owner == owner);
        for id in listeners.map(|(&id, _)| id).collect::<Vec<_>>() {
            if let Some(waiting) = self.waiting.remove(&id) {
                poller.forget(waiting.listener.waker());
                users.give_back(owner.uid, Usage { ring_bytes: waiting.credential, ..Usage::default() });
                self.let_close(users, owner.uid, waiting.listener.port());
            }
        }
    }

    /// Releases the usage of ports that are closed by now. Called periodically.
    pub(crate) fn tidy(&mut self, users: &mut Users) {
        self.closing.retain(|(uid, port)| {
            let open = port.is_open();
            if !open {
                users.give_back(*uid, Usage { streams: 1, ..Usage::default() });
            }
            open
        });
    }

    fn release(&mut self, (users, poller): (&mut Users, &Poller), streaming: &Streaming) {
        poller.forget(streaming.served.socket());
        // The engine has a copy of this descriptor.
        poller.forget(streaming.served.bell());
        let Streaming { owner: Owner { uid, .. }, ring_bytes, ref port, .. } = *streaming;
        users.give_back(uid, Usage { ring_bytes, ..Usage::default() });
        self.let_close(users, uid, port.clone());
    }

    /// Releases a stream or listener: it counts for the user until its port is closed.
    fn let_close(&mut self, users: &mut Users, uid: u32, port: PortLife) {
        if port.is_open() {
            self.closing.push((uid, port));
        } else {
            users.give_back(uid, Usage { streams: 1, ..Usage::default() });
        }
    }

    /// Signals a listener again: more streams may wait.
    pub(crate) fn ring(&self, listener: u32) {
        if let Some(waiting) = self.waiting.get(&listener) {
            waiting.listener.waker().wake();
        }
    }
}

fn failure(error: &EngineError) -> Failure {
    match error {
        EngineError::Unencrypted(_) | EngineError::WrongSealing => Failure::Invalid(error.to_string()),
        _ => Failure::Environment(error.to_string()),
    }
}

fn allowed(limits: &Limits, spec: &StreamSpec) -> Result<(), Failure> {
    if spec.slots > limits.slots {
        let most = limits.slots;
        return Err(Failure::Invalid(format!("a ring of {} places: {most} is the most", spec.slots)));
    }
    Ok(())
}
