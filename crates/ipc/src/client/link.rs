//! One established connection to the daemon.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use timeous_core::{Duration, Instant, PathState};

use super::event::{Event, Flow};
use super::watch::wait_for;
use crate::clock::now;
use crate::error::{Broken, ConnectError, Lost};
use crate::handle::Handle;
use crate::messages::{
    Answer, Call, FROM_DAEMON_MAX, Failure, FromDaemon, ToDaemon, VERSION, Welcome, decode, encode_erased,
};
use crate::peer::Peer;
use crate::slot::{Completion, Submission};
use crate::socket::{receive_with_descriptors, send};

/// An open flow.
#[derive(Clone, Copy, Debug)]
struct FlowEntry {
    generation: u32,
    mtu: u32,
}

/// Time after which a client that got a grant is considered slow to use it.
const SOON: Duration = Duration::from_millis(1);

/// A message received over the socket.
pub(crate) type Message = (FromDaemon, Vec<OwnedFd>);

#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    bell: OwnedFd,
    peer: Peer,
    /// Open flows by their slots.
    flows: Vec<Option<FlowEntry>>,
    open: u32,
    connection: u32,
    next_call: u32,
    /// Grants that came together, returned one by one.
    grants: Option<(Handle, u32)>,
    granted_at: Instant,
    beat: LivenessCheck,
    /// A submission found the queue full, and the room event was not returned yet.
    starving: bool,
    /// A wake-up message of the daemon was received during a call.
    woken: bool,
    /// Submissions for which the daemon was not signalled yet.
    owes_ring: bool,
    /// Receive buffer.
    room: Box<[u8]>,
}

/// Liveness check: whether the daemon still reads its queue.
#[derive(Debug)]
struct LivenessCheck {
    every: Duration,
    next: Instant,
    /// Number of messages that must have been read by then.
    until: Option<u64>,
}

fn broken(broken: Broken) -> Lost {
    Lost::Broken(broken.to_string())
}

/// Receives the next message of a socket, with its descriptors.
pub(crate) fn receive_message(socket: impl AsFd, room: &mut [u8]) -> Result<Option<Message>, Lost> {
    let packet = match receive_with_descriptors(&socket, room) {
        // Reported once, before the daemon's last messages.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => receive_with_descriptors(&socket, room),
        other => other,
    };
    let Some(packet) = packet.map_err(|_| Lost::Gone)? else { return Ok(None) };
    if packet.len == 0 {
        return Err(Lost::Gone);
    }
    let message: FromDaemon = decode(&room[..packet.len]).map_err(|error| Lost::Broken(error.to_string()))?;
    if packet.descriptors.len() != message.descriptors() {
        return Err(Lost::Broken(format!("{} descriptors came with a message", packet.descriptors.len())));
    }
    Ok(Some((message, packet.descriptors)))
}

impl Link {
    /// Creates the connection from the daemon's welcome.
    pub(crate) fn new(
        socket: OwnedFd,
        (welcome, descriptors): (Welcome, Vec<OwnedFd>),
        connection: u32,
        every: Duration,
    ) -> Result<Self, ConnectError> {
        let foreign = |what: &str| ConnectError::Foreign(what.to_owned());
        if welcome.version != VERSION {
            return Err(foreign("it speaks another version"));
        }
        let geometry = welcome.geometry;
        let [memory, bell] = <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| foreign("its welcome has no memory"))?;
        let mut peer =
            Peer::open(memory, &geometry)?.ok_or_else(|| foreign("its memory is not sealed, or not whole"))?;
        // The first event is signalled even if the caller polls the descriptor before asking for events.
        peer.rest().map_err(|broken| foreign(&broken.to_string()))?;
        Ok(Self {
            socket,
            bell,
            peer,
            flows: vec![None; geometry.flows as usize],
            open: 0,
            connection,
            next_call: 0,
            grants: None,
            granted_at: Instant::ZERO,
            beat: LivenessCheck { every, next: now() + every, until: None },
            starving: false,
            woken: false,
            owes_ring: false,
            room: vec![0; FROM_DAEMON_MAX].into_boxed_slice(),
        })
    }

    /// Returns the daemon's handle of an open flow, or the reason why there is none.
    pub(crate) fn handle(&self, flow: Flow) -> Option<Result<Handle, Failure>> {
        let handle = flow.handle(self.connection)?;
        Some(self.known(handle).map(|_| handle).ok_or(Failure::UnknownFlow(handle)))
    }

    fn known(&self, handle: Handle) -> Option<FlowEntry> {
        let known = *self.flows.get(handle.slot as usize)?;
        known.filter(|known| known.generation == handle.generation)
    }

    pub(crate) fn opened(&mut self, handle: Handle, mtu: u32) -> Result<Flow, Lost> {
        let place = self.flows.get_mut(handle.slot as usize);
        let place = place.ok_or_else(|| Lost::Broken(format!("flow {handle} is beyond the flows granted")))?;
        *place = Some(FlowEntry { generation: handle.generation, mtu });
        self.open += 1;
        if self.open == 1 {
            self.beat = LivenessCheck { next: now() + self.beat.every, until: None, ..self.beat };
        }
        Ok(Flow::new(self.connection, handle))
    }

    pub(crate) fn closed(&mut self, handle: Handle) {
        if self.known(handle).is_some() {
            self.flows[handle.slot as usize] = None;
            self.open -= 1;
        }
    }

    pub(crate) fn mtu(&self, handle: Handle) -> Option<u32> {
        self.known(handle).map(|known| known.mtu)
    }

    /// Returns the path state that the daemon has published for a flow.
    pub(crate) fn published(&self, handle: Handle) -> Option<PathState> {
        self.peer.published(handle)
    }

    /// Queues a submission; `false` if the queue is full, and then the daemon signals when it has read it. Has to be
    /// followed by a ring.
    pub(crate) fn submit(&mut self, submission: &Submission) -> Result<bool, Lost> {
        loop {
            if self.peer.submit(submission).map_err(broken)? {
                return Ok(true);
            }
            if self.peer.starve().map_err(broken)? {
                self.starving = true;
                return Ok(false);
            }
        }
    }

    /// Signals the daemon if it sleeps; later, while recent grants are left: the caller comes back for them, and will
    /// have submitted more by then.
    pub(crate) fn ring_soon(&mut self) {
        self.owes_ring = true;
        if self.grants.is_none() || now().saturating_since(self.granted_at) > SOON {
            self.ring();
        }
    }

    /// Signals the daemon if it sleeps, whatever events are left.
    pub(crate) fn ring_at_once(&mut self) {
        self.owes_ring = true;
        self.ring();
    }

    /// Signals the daemon if it sleeps and there are submissions for which it was not signalled.
    fn ring(&mut self) {
        if std::mem::take(&mut self.owes_ring) && self.peer.must_ring() {
            self.ring_bell();
        }
    }

    fn ring_bell(&self) {
        // The only possible failure is a full counter, which is readable, too.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Returns the next event that is in the queue already.
    pub(crate) fn queued(&mut self) -> Result<Option<Event>, Lost> {
        let event = self.next_completion()?;
        if event.is_none() {
            self.ring();
        }
        Ok(event)
    }

    /// Returns the next event, if there is one. If not, and if it `dozes`, the daemon signals the next one.
    fn next(&mut self, dozes: bool) -> Result<Option<Event>, Lost> {
        loop {
            if let Some(event) = self.queued()? {
                return Ok(Some(event));
            }
            match receive_message(&self.socket, &mut self.room)? {
                None => {}
                Some((FromDaemon::Answer { .. }, _)) => return Err(Lost::Broken("an answer to no call".to_owned())),
                Some(message) => {
                    if let Some(event) = self.unasked(message)? {
                        return Ok(Some(event));
                    }
                    continue;
                }
            }
            self.woken = false;
            if !dozes || self.doze()? {
                return self.has_room_again();
            }
        }
    }

    fn has_room_again(&mut self) -> Result<Option<Event>, Lost> {
        if self.starving && !self.peer.starve().map_err(broken)? {
            self.starving = false;
            return Ok(Some(Event::Room));
        }
        Ok(None)
    }

    /// Returns whether a wake-up message was received since the last call: there is no other signal for those events.
    pub(crate) fn was_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// Returns the next event or, if there is none, the time of the next liveness check.
    pub(crate) fn next_or_beat(&mut self, dozes: bool) -> Result<Result<Event, Option<Instant>>, Lost> {
        match self.next(dozes)? {
            Some(event) => Ok(Ok(event)),
            None => self.beat(now()).map(Err),
        }
    }

    /// Prepares to sleep; `false` if there is an event to read.
    pub(crate) fn doze(&mut self) -> Result<bool, Lost> {
        if self.grants.is_some() {
            return Ok(false);
        }
        self.ring();
        let rest = self.peer.rest().map_err(broken)?;
        if rest.ring_daemon {
            self.ring_bell();
        }
        Ok(rest.may_sleep)
    }

    /// Marks this side as awake: the daemon need not wake it.
    pub(crate) fn rise(&self) {
        self.peer.awake();
    }

    /// Returns the next event of the queue. Events of closed flows are skipped.
    fn next_completion(&mut self) -> Result<Option<Event>, Lost> {
        loop {
            if let Some((handle, count)) = self.grants.take() {
                self.grants = (count > 1).then_some((handle, count - 1));
                if self.known(handle).is_some() {
                    return Ok(Some(Event::Granted(Flow::new(self.connection, handle))));
                }
                self.grants = None;
            }
            let name = |handle| Flow::new(self.connection, handle);
            match self.peer.poll_completion().map_err(broken)? {
                None => return Ok(None),
                Some(Completion::Granted { count: 0, .. }) => {}
                Some(Completion::Granted { flow, count }) => {
                    self.grants = Some((flow, count));
                    self.granted_at = now();
                }
                Some(Completion::Changed { flow, state }) if self.known(flow).is_some() => {
                    return Ok(Some(Event::Changed(name(flow), state)));
                }
                Some(Completion::Changed { .. }) => {}
                Some(Completion::Refused { flow, why, value }) => {
                    return Ok(Some(Event::Refused { flow: name(flow), why, value }));
                }
            }
        }
    }

    /// Processes an unsolicited message of the daemon.
    fn unasked(&mut self, (message, descriptors): Message) -> Result<Option<Event>, Lost> {
        match message {
            FromDaemon::Wake => {
                self.woken = true;
                Ok(None)
            }
            FromDaemon::Goodbye(reason) => Err(Lost::Said(reason)),
            FromDaemon::Incoming { listener } => match <[OwnedFd; 2]>::try_from(descriptors) {
                Ok([ring, socket]) => Ok(Some(Event::Incoming { listener, ring, socket })),
                Err(_) => Err(Lost::Broken("a stream without its ring and its socket".to_owned())),
            },
            FromDaemon::Welcome(_) | FromDaemon::Answer { .. } => {
                Err(Lost::Broken("a message out of its order".to_owned()))
            }
        }
    }

    /// Calls the daemon and waits for its answer, but not beyond `deadline`. Events received meanwhile go to `events`.
    pub(crate) fn call(
        &mut self,
        call: Call,
        deadline: Instant,
        events: &mut VecDeque<Event>,
    ) -> Result<Result<(Answer, Vec<OwnedFd>), Failure>, Lost> {
        let id = self.next_call;
        self.next_call = self.next_call.wrapping_add(1);
        // It may hold a part of a credential.
        let packet = encode_erased(&ToDaemon::Call { id, call });
        loop {
            match send(&self.socket, &packet, &[]) {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) => return Err(self.last_words()),
            }
            if !wait_for(&self.socket, PollFlags::OUT, Some(deadline)) {
                return Err(Lost::NoAnswer);
            }
        }
        loop {
            match receive_message(&self.socket, &mut self.room)? {
                None if wait_for(&self.socket, PollFlags::IN, Some(deadline)) => {}
                None => return Err(Lost::NoAnswer),
                Some((FromDaemon::Answer { id: of, result }, descriptors)) if of == id => {
                    return Ok(result.map(|answer| (answer, descriptors)));
                }
                Some(message) => events.extend(self.unasked(message)?),
            }
        }
    }

    /// Reads the daemon's last messages after it has closed, for its reason.
    fn last_words(&mut self) -> Lost {
        loop {
            match receive_message(&self.socket, &mut self.room) {
                Err(lost) => return lost,
                Ok(Some((FromDaemon::Goodbye(reason), _))) => return Lost::Said(reason),
                Ok(Some(_)) => {}
                Ok(None) => return Lost::Gone,
            }
        }
    }

    /// Checks whether the daemon reads submissions, and submits a ping for it. Returns the time of the next check.
    fn beat(&mut self, now: Instant) -> Result<Option<Instant>, Lost> {
        if self.open == 0 {
            return Ok(None);
        }
        if now >= self.beat.next {
            let (written, read) = self.peer.progress().map_err(broken)?;
            if self.beat.until.is_some_and(|until| read < until) {
                return Err(Lost::NoAnswer);
            }
            // If there is no room for a ping, there are other messages to read.
            let until = if self.submit(&Submission::Ping)? { written + 1 } else { read + 1 };
            self.ring_at_once();
            self.beat = LivenessCheck { next: now + self.beat.every, until: Some(until), ..self.beat };
        }
        Ok(Some(self.beat.next))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
