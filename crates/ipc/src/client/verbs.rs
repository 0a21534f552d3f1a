//! Verbs of a client: those of the Congestion Manager, documents, streams.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use timeous_cm::Update;
use timeous_core::{Instant, PathState};

use super::{Client, Flow, State};
use crate::clock::now;
use crate::error::{ClientError, Lost};
use crate::handle::Handle;
use crate::messages::{Answer, Call, Credential, Document, Failure, OpenFlow, Protection, StreamSpec};
use crate::slot::Submission;

/// Maximum document length that is read, in bytes.
const LONGEST: u64 = 256 << 20;

type SubmitResult = Result<(), ClientError>;

/// Flows and path queries.
impl Client {
    /// Opens a flow (`cm_open`).
    ///
    /// # Errors
    /// The daemon's limits, and see [`ClientError`].
    pub fn open(&mut self, flow: OpenFlow) -> Result<Flow, ClientError> {
        let (answer, _) = self.call(Call::Open(flow))?;
        let Answer::Opened { flow, mtu } = answer else { return Err(self.misfit()) };
        let opened = self.link()?.opened(flow, mtu);
        opened.map_err(|lost| self.over(lost))
    }

    /// Closes a flow (`cm_close`). Its share goes to others.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn close(&mut self, flow: Flow) -> SubmitResult {
        let handle = self.handle(flow)?;
        self.done(Call::Close(handle))?;
        self.link()?.closed(handle);
        Ok(())
    }

    /// Returns the maximum packet size of a flow in bytes (`cm_mtu`).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn mtu(&mut self, flow: Flow) -> Result<u32, ClientError> {
        let handle = self.handle(flow)?;
        self.link()?.mtu(handle).ok_or(ClientError::Failed(Failure::UnknownFlow(handle)))
    }

    /// Returns a flow's path state (`cm_query`): mostly from shared memory, without a call.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn query(&mut self, flow: Flow) -> Result<PathState, ClientError> {
        let handle = self.handle(flow)?;
        if let Some(state) = self.link()?.published(handle) {
            return Ok(state);
        }
        match self.call(Call::Query(handle))?.0 {
            Answer::Path(path) => path.state().ok_or_else(|| self.misfit()),
            _ => Err(self.misfit()),
        }
    }

    /// Calls [`query`](Self::query) for several flows, each with its own result.
    pub fn bulk_query(&mut self, flows: &[Flow]) -> Vec<Result<PathState, ClientError>> {
        flows.iter().map(|&flow| self.query(flow)).collect()
    }

    /// Requests [`Event::Changed`](super::Event::Changed) when the rate falls below `down` times the rate last
    /// reported, or rises above `up` times it (`cm_thresh`).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn thresh(&mut self, flow: Flow, down: f64, up: f64) -> SubmitResult {
        let flow = self.handle(flow)?;
        self.done(Call::Thresh { flow, down, up })
    }

    /// Moves the flow out of its macroflow, into one of its own.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn split(&mut self, flow: Flow) -> SubmitResult {
        let flow = self.handle(flow)?;
        self.done(Call::Split(flow))
    }

    /// Moves the flow into the macroflow of another.
    ///
    /// # Errors
    /// The manager's, and see [`ClientError`].
    pub fn merge(&mut self, flow: Flow, with: Flow) -> SubmitResult {
        let (flow, with) = (self.handle(flow)?, self.handle(with)?);
        self.done(Call::Merge { flow, with })
    }

    /// Sets the flow's weight in its macroflow.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn set_weight(&mut self, flow: Flow, weight: u32) -> SubmitResult {
        let flow = self.handle(flow)?;
        self.done(Call::SetWeight { flow, weight })
    }

    /// Sets the scheduler of the flow's macroflow, by name.
    ///
    /// # Errors
    /// No such scheduler, and see [`ClientError`].
    pub fn set_scheduler(&mut self, flow: Flow, name: &str) -> SubmitResult {
        let flow = self.handle(flow)?;
        self.done(Call::SetScheduler { flow, name: name.to_owned() })
    }

    /// Sets the congestion controller of the flow's macroflow, by name.
    ///
    /// # Errors
    /// No such controller, and see [`ClientError`].
    pub fn set_controller(&mut self, flow: Flow, name: &str) -> SubmitResult {
        let flow = self.handle(flow)?;
        self.done(Call::SetController { flow, name: name.to_owned() })
    }
}

/// Submissions through the queue; refusals are reported by [`Event::Refused`](super::Event::Refused).
impl Client {
    /// Asks for the right to send one packet (`cm_request`).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn request(&mut self, flow: Flow) -> SubmitResult {
        self.request_many(flow, 1)
    }

    /// Asks for the right to send `count` packets, at least one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn request_many(&mut self, flow: Flow, count: u32) -> SubmitResult {
        self.submit(flow, |flow| Submission::Request { flow, count })
    }

    /// Asks for the right to send one packet that is useful until `deadline`, on the host's monotonic clock.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn request_by(&mut self, flow: Flow, deadline: Instant) -> SubmitResult {
        self.submit(flow, |flow| Submission::RequestBy { flow, deadline })
    }

    /// Reports that a grant was used for `bytes`; 0 gives it back (`cm_notify`).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn notify(&mut self, flow: Flow, bytes: u64) -> SubmitResult {
        self.submit(flow, |flow| Submission::Notify { flow, bytes })
    }

    /// Reports a packet of `bytes` that was sent without a grant.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn notify_unasked(&mut self, flow: Flow, bytes: u64) -> SubmitResult {
        self.submit(flow, |flow| Submission::NotifyUnasked { flow, bytes })
    }

    /// Reports feedback about sent packets (`cm_update`). Times are of the host's monotonic clock.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn update(&mut self, flow: Flow, update: Update) -> SubmitResult {
        self.submit(flow, |flow| Submission::Update { flow, update })
    }

    /// Calls [`request_many`](Self::request_many) for several flows, each with its own result; the daemon is woken
    /// once.
    pub fn bulk_request(&mut self, requests: &[(Flow, u32)]) -> Vec<SubmitResult> {
        self.submit_all(requests, |flow, &count| Submission::Request { flow, count })
    }

    /// Calls [`notify`](Self::notify) for several flows, each with its own result; the daemon is woken once.
    pub fn bulk_notify(&mut self, notes: &[(Flow, u64)]) -> Vec<SubmitResult> {
        self.submit_all(notes, |flow, &bytes| Submission::Notify { flow, bytes })
    }

    /// Calls [`update`](Self::update) for several flows, each with its own result; the daemon is woken once.
    pub fn bulk_update(&mut self, updates: &[(Flow, Update)]) -> Vec<SubmitResult> {
        self.submit_all(updates, |flow, &update| Submission::Update { flow, update })
    }

    fn submit_all<T>(&mut self, all: &[(Flow, T)], make: impl Fn(Handle, &T) -> Submission) -> Vec<SubmitResult> {
        let done = all.iter().map(|(flow, what)| self.put(*flow, |flow| make(flow, what))).collect();
        self.ring_soon();
        done
    }

    fn submit(&mut self, flow: Flow, make: impl FnOnce(Handle) -> Submission) -> SubmitResult {
        self.put(flow, make)?;
        self.ring_soon();
        Ok(())
    }

    fn put(&mut self, flow: Flow, make: impl FnOnce(Handle) -> Submission) -> SubmitResult {
        let submission = make(self.handle(flow)?);
        submission.check()?;
        let link = self.link()?;
        match link.submit(&submission) {
            Ok(true) => Ok(()),
            Ok(false) => {
                // The daemon may be asleep, and has to be signalled to make room.
                link.ring_at_once();
                Err(ClientError::Full)
            }
            Err(lost) => Err(self.over(lost)),
        }
    }

    fn ring_soon(&mut self) {
        if let State::Up(link) = &mut self.state {
            link.ring_soon();
        }
    }
}

/// Documents and streams.
impl Client {
    /// Returns the current macroflows, flows and clients, as JSON.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn snapshot(&mut self) -> Result<Vec<u8>, ClientError> {
        self.describe(Document::Snapshot)
    }

    /// Returns the remembered path states, as JSON.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn paths(&mut self) -> Result<Vec<u8>, ClientError> {
        self.describe(Document::Paths)
    }

    /// Removes the remembered path states of one address, or of all, and returns their number.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn forget_paths(&mut self, addr: Option<IpAddr>) -> Result<u64, ClientError> {
        match self.call(Call::ForgetPaths { addr })?.0 {
            Answer::Count(count) => Ok(count),
            _ => Err(self.misfit()),
        }
    }

    /// Opens a stream to this host, run by the daemon without encryption; returns its packet ring and its socket.
    ///
    /// # Errors
    /// The daemon's limits, and see [`ClientError`].
    pub fn connect_stream(&mut self, remote: SocketAddr, spec: StreamSpec) -> Result<[OwnedFd; 2], ClientError> {
        self.connect_stream_with(remote, spec, Protection::Local)
    }

    /// As [`connect_stream`](Self::connect_stream), to any host. [`Protection::Sealed`] takes the credential that was
    /// [given](Self::give_credential) before.
    ///
    /// # Errors
    /// There is no credential, or the other host needs one; the daemon's limits, and see [`ClientError`].
    pub fn connect_stream_with(
        &mut self,
        remote: SocketAddr,
        spec: StreamSpec,
        protection: Protection,
    ) -> Result<[OwnedFd; 2], ClientError> {
        let (answer, descriptors) = self.call(Call::Connect { remote, spec, protection })?;
        match (answer, <[OwnedFd; 2]>::try_from(descriptors)) {
            (Answer::Stream, Ok(both)) => Ok(both),
            _ => Err(self.misfit()),
        }
    }

    /// Makes a packet zone for streams run by the daemon; returns its key and its memory. The zone lives as long as the
    /// connection, or a stream that it is attached to.
    ///
    /// # Errors
    /// The daemon's limits, and see [`ClientError`].
    pub fn make_zone(&mut self, buffer_size: u32, buffers: u32) -> Result<(u128, OwnedFd), ClientError> {
        let (answer, descriptors) = self.call(Call::MakeZone { buffer_size, buffers })?;
        match (answer, <[OwnedFd; 1]>::try_from(descriptors)) {
            (Answer::Zone { key }, Ok([memory])) => Ok((key, memory)),
            _ => Err(self.misfit()),
        }
    }

    /// Hands over the credential for the next stream or listener with [`Protection::Sealed`].
    ///
    /// # Errors
    /// It is too long, and see [`ClientError`].
    pub fn give_credential(&mut self, credential: &Credential) -> SubmitResult {
        for (at, part) in credential.parts()?.into_iter().enumerate() {
            self.done(Call::Credential { is_first: at == 0, part })?;
        }
        Ok(())
    }

    /// Listens for streams of this host at a UDP port; returns the listener and its address. Incoming streams are reported by
    /// [`Event::Incoming`](super::Event::Incoming).
    ///
    /// # Errors
    /// The daemon's limits, and see [`ClientError`].
    pub fn listen(&mut self, local: SocketAddr, spec: StreamSpec) -> Result<(u32, SocketAddr), ClientError> {
        self.listen_with_room(local, spec, None)
    }

    /// As [`listen`](Self::listen), for at most `room` streams: others are refused as busy. `None`: any number.
    ///
    /// # Errors
    /// The daemon's limits, and see [`ClientError`].
    pub fn listen_with_room(
        &mut self,
        local: SocketAddr,
        spec: StreamSpec,
        room: Option<u32>,
    ) -> Result<(u32, SocketAddr), ClientError> {
        self.listen_with(local, spec, room, Protection::Local)
    }

    /// As [`listen_with_room`](Self::listen_with_room), for streams of any host. [`Protection::Sealed`] takes the
    /// credential that was [given](Self::give_credential) before.
    ///
    /// # Errors
    /// There is no credential; the daemon's limits, and see [`ClientError`].
    pub fn listen_with(
        &mut self,
        local: SocketAddr,
        spec: StreamSpec,
        room: Option<u32>,
        protection: Protection,
    ) -> Result<(u32, SocketAddr), ClientError> {
        match self.call(Call::Listen { local, spec, room, protection })?.0 {
            Answer::Listening { listener, local } => Ok((listener, local)),
            _ => Err(self.misfit()),
        }
    }

    /// Stops listening.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn stop_listening(&mut self, listener: u32) -> SubmitResult {
        self.done(Call::StopListening(listener))
    }

    fn describe(&mut self, document: Document) -> Result<Vec<u8>, ClientError> {
        let (answer, descriptors) = self.call(Call::Describe(document))?;
        match (answer, descriptors.into_iter().next()) {
            (Answer::Document(bytes), _) => Ok(bytes),
            (Answer::LongDocument { len }, Some(file)) if len <= LONGEST => {
                let mut bytes = vec![0; len as usize];
                let read = File::from(file).read_exact_at(&mut bytes, 0);
                read.map(|()| bytes).map_err(|_| self.misfit())
            }
            _ => Err(self.misfit()),
        }
    }
}

/// Helpers of the verbs.
impl Client {
    fn link(&mut self) -> Result<&mut super::link::Link, ClientError> {
        match &mut self.state {
            State::Up(link) => Ok(link),
            State::Greeting { .. } | State::Down { .. } => Err(ClientError::Disconnected),
        }
    }

    fn handle(&mut self, flow: Flow) -> Result<Handle, ClientError> {
        let handle = self.link()?.handle(flow).ok_or(ClientError::Gone)?;
        Ok(handle?)
    }

    fn call(&mut self, call: Call) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
        call.check()?;
        let State::Up(link) = &mut self.state else { return Err(ClientError::Disconnected) };
        let answered = link.call(call, now() + self.options.timeout, &mut self.events);
        // Messages received meanwhile were taken from the socket, which is not readable for them any more.
        if link.was_woken() || !self.events.is_empty() {
            self.watch.nudge();
        }
        match answered {
            Ok(answer) => Ok(answer?),
            Err(lost) => Err(self.over(lost)),
        }
    }

    fn done(&mut self, call: Call) -> SubmitResult {
        match self.call(call)?.0 {
            Answer::Done => Ok(()),
            _ => Err(self.misfit()),
        }
    }

    /// Handles the loss of the daemon during a verb.
    fn over(&mut self, lost: Lost) -> ClientError {
        let error = if lost == Lost::NoAnswer { ClientError::NoAnswer } else { ClientError::Disconnected };
        self.on_disconnected(lost);
        error
    }

    /// Handles an answer that does not fit its call.
    fn misfit(&mut self) -> ClientError {
        self.over(Lost::Broken("an answer that does not fit its call".to_owned()))
    }
}
