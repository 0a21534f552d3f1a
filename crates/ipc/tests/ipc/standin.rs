//! Minimal daemon for the client tests: it grants every request, and echoes what it is told.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use timeous_core::{PathState, Rate};
use timeous_ipc::messages::{
    Answer, Call, Document, FROM_DAEMON_MAX, Failure, FromDaemon, Reason, ToDaemon, VERSION, Welcome, decode, encode,
};
use timeous_ipc::socket::{listen_at, receive, send};
use timeous_ipc::{Channel, Completion, Geometry, Handle, Refusal, Submission, Violation};

/// More bytes than any flow has in flight: such a notification is refused.
pub(crate) const TOO_MUCH: u64 = 1 << 40;

pub(crate) struct Standin {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Violation>>>,
}

/// Deviations from correct behaviour.
#[derive(Clone, Debug, Default)]
pub(crate) struct Misbehaviour {
    /// Sizes of its clients' memory.
    pub(crate) geometry: Geometry,
    /// Reason of a refusal, sent instead of a welcome.
    pub(crate) unwelcoming: Option<Reason>,
    /// Reason sent when it stops, if any.
    pub(crate) farewell: Option<Reason>,
    /// Welcomes and opens flows, and then does nothing more.
    pub(crate) falls_asleep: bool,
}

impl Standin {
    pub(crate) fn start(path: &Path) -> Self {
        Self::with(path, Misbehaviour::default())
    }

    pub(crate) fn with(path: &Path, manners: Misbehaviour) -> Self {
        // Removes the socket of an earlier daemon.
        let _ = std::fs::remove_file(path);
        let listener = listen_at(path, 16).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve(&listener, &manners, &asked));
        Self { stop, thread: Some(thread) }
    }

    /// Stops it, and returns the violations of its clients.
    pub(crate) fn stop(mut self) -> Vec<Violation> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct AcceptedClient {
    socket: OwnedFd,
    channel: Option<Channel>,
    /// Generation of each slot; odd while its flow is open.
    slots: Vec<u32>,
    waiting: Vec<Completion>,
}

fn serve(listener: &OwnedFd, manners: &Misbehaviour, stop: &AtomicBool) -> Vec<Violation> {
    let mut guests: Vec<AcceptedClient> = Vec::new();
    let mut violations = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let asleep = guests.iter().any(|guest| guest.sleeps(manners));
        let mut tireless = true;
        guests.retain_mut(|guest| match if asleep { Ok(true) } else { guest.turn(manners) } {
            Ok(true) => {
                tireless &= asleep || guest.rest().unwrap_or(false);
                true
            }
            Ok(false) => false,
            Err(violation) => {
                violations.push(violation);
                false
            }
        });
        doze(listener, &guests, if tireless { 20_000_000 } else { 0 }, asleep);
        match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => guests.push(AcceptedClient { socket, channel: None, slots: Vec::new(), waiting: Vec::new() }),
            Err(Errno::AGAIN) => {}
            Err(error) => panic!("{error}"),
        }
    }
    if let Some(reason) = &manners.farewell {
        guests.iter().for_each(|guest| guest.say(&FromDaemon::Goodbye(reason.clone())));
    }
    violations
}

fn doze(listener: &OwnedFd, guests: &[AcceptedClient], nanos: i64, asleep: bool) {
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    if !asleep {
        for guest in guests {
            fds.push(PollFd::new(&guest.socket, PollFlags::IN));
            if let Some(channel) = &guest.channel {
                fds.push(PollFd::from_borrowed_fd(channel.bell(), PollFlags::IN));
            }
        }
    }
    let limit = rustix::event::Timespec { tv_sec: 0, tv_nsec: nanos };
    poll(&mut fds, Some(&limit)).unwrap();
    for channel in guests.iter().filter_map(|guest| guest.channel.as_ref()) {
        // A daemon would watch the bell edge-triggered; the clients of these tests do not change its flags.
        let _ = rustix::io::read(channel.bell(), &mut [0; 8]);
    }
}

impl AcceptedClient {
    fn say(&self, message: &FromDaemon) {
        // An error is ignored: the socket's end shows that the client is gone.
        let _ = send(&self.socket, &encode(message), &[]);
    }

    /// Handles all pending work; returns `false` if the client is gone.
    fn turn(&mut self, manners: &Misbehaviour) -> Result<bool, Violation> {
        let mut room = [0; timeous_ipc::messages::TO_DAEMON_MAX];
        self.read_queue()?;
        while let Ok(Some(packet)) = receive(&self.socket, &mut room) {
            if packet.len == 0 {
                return Ok(false);
            }
            if packet.cut {
                return Err(Violation::TooLong(room.len()));
            }
            match decode(&room[..packet.len])? {
                ToDaemon::Hello { .. } => self.welcome(manners),
                ToDaemon::Call { id, call } => {
                    self.read_queue()?;
                    self.answer(id, call);
                    if self.sleeps(manners) {
                        break;
                    }
                }
            }
        }
        Ok(true)
    }

    /// It falls asleep after the answer to the first flow: the next call may be here already.
    fn sleeps(&self, manners: &Misbehaviour) -> bool {
        manners.falls_asleep && self.slots.contains(&1)
    }

    fn welcome(&mut self, manners: &Misbehaviour) {
        if let Some(reason) = &manners.unwelcoming {
            return self.say(&FromDaemon::Goodbye(reason.clone()));
        }
        let (channel, [memory, bell]) = Channel::new(manners.geometry).unwrap();
        let welcome = Welcome { version: VERSION, client: 1, daemon: std::process::id(), geometry: channel.geometry() };
        let sent = send(&self.socket, &encode(&FromDaemon::Welcome(welcome)), &[memory.as_fd(), bell.as_fd()]);
        assert!(sent.unwrap());
        self.slots = vec![0; channel.geometry().flows as usize];
        self.channel = Some(channel);
    }

    fn answer(&mut self, id: u32, call: Call) {
        let (result, descriptors) = match call {
            Call::Open(open) => (self.open(open.mtu), Vec::new()),
            Call::Close(flow) => (self.known(flow).map(|()| self.close(flow)), Vec::new()),
            Call::Query(flow) => (self.known(flow).map(|()| Answer::Path(state(7).into())), Vec::new()),
            Call::Thresh { flow, .. } => (self.known(flow).map(|()| Answer::Done), Vec::new()),
            Call::SetController { .. } => (Err(Failure::Invalid("there is no such controller".into())), Vec::new()),
            Call::Describe(Document::Snapshot) => (Ok(Answer::Document(b"{}".to_vec())), Vec::new()),
            Call::Describe(Document::Paths) => long_document(),
            Call::Connect { .. } => {
                let flags = SocketFlags::CLOEXEC;
                let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
                (Ok(Answer::Stream), vec![pair.0, pair.1])
            }
            _ => (Ok(Answer::Done), Vec::new()),
        };
        let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        let _ = send(&self.socket, &encode(&FromDaemon::Answer { id, result }), &descriptors);
    }

    fn open(&mut self, mtu: u32) -> Result<Answer, Failure> {
        let limit = self.slots.len() as u64;
        let slot = self.slots.iter().position(|generation| generation.is_multiple_of(2));
        let over = Failure::OverLimit { resource: timeous_ipc::messages::Resource::Flows, limit };
        let slot = slot.ok_or(over)?;
        self.slots[slot] += 1;
        Ok(Answer::Opened { flow: Handle { slot: slot as u32, generation: self.slots[slot] }, mtu })
    }

    fn close(&mut self, flow: Handle) -> Answer {
        self.slots[flow.slot as usize] += 1;
        self.channel.as_mut().unwrap().unpublish(flow);
        Answer::Done
    }

    fn known(&self, flow: Handle) -> Result<(), Failure> {
        let open = self.slots.get(flow.slot as usize) == Some(&flow.generation) && flow.generation % 2 == 1;
        if open { Ok(()) } else { Err(Failure::UnknownFlow(flow)) }
    }

    fn read_queue(&mut self) -> Result<(), Violation> {
        while let Some(submission) = self.channel.as_mut().map_or(Ok(None), Channel::poll_submission)? {
            self.take(submission);
        }
        let Some(channel) = &mut self.channel else { return Ok(()) };
        let mut told = false;
        while let Some(completion) = self.waiting.first() {
            if channel.complete(*completion)? {
                told = true;
                self.waiting.remove(0);
            } else if channel.starve()? {
                break;
            }
        }
        if told && channel.must_wake() {
            self.say(&FromDaemon::Wake);
        }
        Ok(())
    }

    fn take(&mut self, submission: Submission) {
        let (flow, completion) = match submission {
            Submission::Request { flow, count } => (flow, Completion::Granted { flow, count }),
            Submission::Update { flow, update } => {
                let state = state(update.acked);
                self.channel.as_mut().unwrap().publish(flow, &state);
                (flow, Completion::Changed { flow, state })
            }
            Submission::Notify { flow, bytes: TOO_MUCH } => {
                (flow, Completion::Refused { flow, why: Refusal::NotGranted, value: TOO_MUCH })
            }
            Submission::Notify { .. }
            | Submission::NotifyUnasked { .. }
            | Submission::RequestBy { .. }
            | Submission::Ping => return,
        };
        let why = Refusal::UnknownFlow;
        let unknown = Completion::Refused { flow, why, value: 0 };
        self.waiting.push(if self.known(flow).is_ok() { completion } else { unknown });
    }

    fn rest(&mut self) -> Result<bool, Violation> {
        let Some(channel) = &mut self.channel else { return Ok(true) };
        let rest = channel.rest()?;
        if rest.wake_client {
            self.say(&FromDaemon::Wake);
        }
        Ok(rest.may_sleep)
    }
}

/// Returns a path state identified by its rate.
pub(crate) fn state(rate: u64) -> PathState {
    PathState { rate: Rate::from_bps(rate), window: rate, loss_ppm: 1_000_000, ..PathState::default() }
}

/// Length of a document that exceeds any packet.
pub(crate) const LONG: usize = 3 * FROM_DAEMON_MAX;

fn long_document() -> (Result<Answer, Failure>, Vec<OwnedFd>) {
    let fd = rustix::fs::memfd_create("document", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let bytes = vec![b'x'; LONG];
    let mut written = 0;
    while written < LONG {
        written += rustix::io::write(&fd, &bytes[written..]).unwrap();
    }
    (Ok(Answer::LongDocument { len: LONG as u64 }), vec![fd])
}
