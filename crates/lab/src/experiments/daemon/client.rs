//! Client process: flows of the daemon's Congestion Manager, and a UDP socket for their packets.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use timeous::clock;
use timeous::cm::{Ack, Feedback};
use timeous::core::{Duration, Instant};
use timeous_ipc::{Client, ClientError, Event, Flow, OpenFlow, Options, Refusal};
use timeous_testbed::machine::{machine, timespec};
use timeous_testbed::process::Clock;

use super::host::resident;
use super::messages::{self, ClientArgs, FinalReport, ProgressReport, Work};
use crate::experiment::RunError;

/// Interval between checks for unacknowledged packets.
const SWEEP: Duration = Duration::from_millis(50);
/// Longest wait for the daemon's answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Outstanding requests of a greedy flow.
const AHEAD: u32 = 2;

/// Runs a client process: connects, opens its flows, sends until its standard input ends. It waits
/// for a line on standard input before each step, and reports the result after it.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn client(args: &ClientArgs) -> Result<(), RunError> {
    let work: Work = serde_json::from_str(&args.work).map_err(machine)?;
    if let Some(uid) = work.uid {
        // The process is single-threaded.
        let uid = rustix::process::Uid::from_raw(uid);
        rustix::thread::set_thread_uid(uid).map_err(|errno| RunError::system("become another user")(errno.into()))?;
    }
    let mut sender = Sender::connect(&work)?;
    write_line(&ProgressReport { memory: resident("self")? })?;
    hear()?;
    sender.open()?;
    write_line(&ProgressReport { memory: resident("self")? })?;
    hear()?;
    let before = Clock::PROCESS.read();
    sender.run()?;
    sender.done.cpu_nanos = (Clock::PROCESS.read() - before).as_nanos();
    sender.done.memory = resident("self")?;
    write_line(&sender.done)
}

fn hear() -> Result<(), RunError> {
    io::stdin().read_line(&mut String::new()).map(drop).map_err(RunError::system("wait for the others"))
}

fn write_line(what: &impl serde::Serialize) -> Result<(), RunError> {
    let line = serde_json::to_string(what).map_err(machine)?;
    writeln!(io::stdout(), "{line}").map_err(RunError::system("say how far it is"))
}

fn failed(error: &ClientError) -> RunError {
    RunError::Machine(format!("the daemon, asked by its client: {error}"))
}

struct ClientFlow {
    /// Flow of the Congestion Manager; none if the client sends without it.
    flow: Option<Flow>,
    to: SocketAddr,
    feedback: Feedback,
}

struct Sender<'a> {
    work: &'a Work,
    client: Option<Client>,
    socket: UdpSocket,
    flows: Vec<ClientFlow>,
    places: BTreeMap<Flow, usize>,
    /// Next packet time of each flow, in order of time, as all flows have the same rate.
    ticks: VecDeque<(Instant, usize)>,
    sweep: Instant,
    done: FinalReport,
}

impl<'a> Sender<'a> {
    fn connect(work: &'a Work) -> Result<Self, RunError> {
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(RunError::system("open a UDP socket"))?;
        socket.set_nonblocking(true).map_err(RunError::system("open a UDP socket"))?;
        let connect = |path: &PathBuf| {
            let options = Options { path: path.clone(), name: "cm-host".to_owned(), timeout: PATIENCE };
            Client::connect(options).map_err(|error| RunError::Machine(format!("no daemon: {error}")))
        };
        let client = work.daemon.as_ref().map(connect).transpose()?;
        let (flows, places, ticks) = Default::default();
        Ok(Self { work, client, socket, flows, places, ticks, sweep: Instant::ZERO, done: FinalReport::default() })
    }

    fn open(&mut self) -> Result<(), RunError> {
        for &to in &self.work.to {
            let open = |client: &mut Client| client.open(OpenFlow::to(to.ip(), self.work.len as u32));
            let flow = self.client.as_mut().map(open).transpose().map_err(|error| failed(&error))?;
            if let Some(flow) = flow {
                self.places.insert(flow, self.flows.len());
            }
            self.flows.push(ClientFlow { flow, to, feedback: Feedback::with_ack_delay(Duration::ZERO) });
        }
        Ok(())
    }

    /// Sends until standard input ends.
    fn run(&mut self) -> Result<(), RunError> {
        let begin = clock::now();
        self.sweep = begin + SWEEP;
        match self.work.every_micros {
            // First packets are spread evenly over the packet interval.
            Some(every) => {
                let n = self.flows.len() as u64;
                self.ticks = (0..n).map(|i| (begin + Duration::from_micros(every * i / n), i as usize)).collect();
            }
            None => {
                for place in 0..self.flows.len() {
                    self.ask(place, AHEAD)?;
                }
            }
        }
        loop {
            self.hear_daemon()?;
            self.hear_far()?;
            self.make()?;
            self.look_for_losses()?;
            if self.wait()? {
                return Ok(());
            }
        }
    }

    fn hear_daemon(&mut self) -> Result<(), RunError> {
        while let Some(event) = self.client.as_mut().and_then(Client::poll_event) {
            match event {
                Event::Granted(flow) => {
                    self.done.grants += 1;
                    let place = self.places[&flow];
                    self.send(place)?;
                    let bytes = self.work.len;
                    self.submit(|client| client.notify(flow, bytes))?;
                    if self.work.every_micros.is_none() {
                        self.ask(place, 1)?;
                    }
                    if let Some(lie) = self.work.lie.of_sent(bytes) {
                        self.submit(|client| client.update(flow, lie))?;
                    }
                }
                Event::Refused { flow, why: Refusal::NotGranted, value } => {
                    // The packet has left all the same.
                    self.done.late += 1;
                    self.submit(|client| client.notify_unasked(flow, value))?;
                }
                Event::Refused { .. } => self.done.refused += 1,
                Event::Disconnected(why) => {
                    return Err(RunError::Machine(format!("the daemon left its client: {why}")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn hear_far(&mut self) -> Result<(), RunError> {
        let mut room = [0; 2_048];
        while let Ok((len, _)) = self.socket.recv_from(&mut room) {
            let Some((number, rest)) = messages::split(&room[..len]) else { continue };
            let place = number.wrapping_sub(self.work.first) as usize;
            let (Some(own), Ok(ack)) = (self.flows.get_mut(place), Ack::decode(rest)) else { continue };
            // An acknowledgement of a packet never sent belongs to another flow and is ignored.
            if let Ok(Some(update)) = own.feedback.acked(clock::now(), &ack) {
                self.tell(place, update)?;
            }
        }
        Ok(())
    }

    fn make(&mut self) -> Result<(), RunError> {
        let Some(every) = self.work.every_micros.map(Duration::from_micros) else { return Ok(()) };
        while let Some(&(at, place)) = self.ticks.front()
            && at <= clock::now()
        {
            self.ticks.rotate_left(1);
            *self.ticks.back_mut().expect("one was there") = (at + every, place);
            if self.client.is_some() { self.ask(place, 1)? } else { self.send(place)? }
        }
        Ok(())
    }

    fn look_for_losses(&mut self) -> Result<(), RunError> {
        let now = clock::now();
        if now < self.sweep {
            return Ok(());
        }
        self.sweep = now + SWEEP;
        for place in 0..self.flows.len() {
            let feedback = &mut self.flows[place].feedback;
            if feedback.poll_timeout().is_some_and(|at| at <= now)
                && let Some(update) = feedback.handle_timeout(now)
            {
                self.tell(place, update)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, place: usize) -> Result<(), RunError> {
        let own = &mut self.flows[place];
        let number = own.feedback.sent(clock::now(), self.work.len);
        let bytes = messages::packet(self.work.first + place as u32, number, self.work.len as usize);
        self.done.sent += 1;
        match self.socket.send_to(&bytes, own.to) {
            Ok(_) => Ok(()),
            // From the flow's view the packet was lost on the path.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => {
                Ok(())
            }
            Err(error) => Err(RunError::system("send a packet")(error)),
        }
    }

    fn ask(&mut self, place: usize, count: u32) -> Result<(), RunError> {
        let Some(flow) = self.flows[place].flow else { return Ok(()) };
        self.submit(|client| client.request_many(flow, count))
    }

    fn tell(&mut self, place: usize, truth: timeous_cm::Update) -> Result<(), RunError> {
        let Some(flow) = self.flows[place].flow else { return Ok(()) };
        self.work.lie.of(truth).into_iter().try_for_each(|update| self.submit(|client| client.update(flow, update)))
    }

    /// Submits a call to the daemon, and waits while the queue is full.
    fn submit(&mut self, mut what: impl FnMut(&mut Client) -> Result<(), ClientError>) -> Result<(), RunError> {
        let Some(client) = self.client.as_mut() else { return Ok(()) };
        let end = clock::now() + PATIENCE;
        loop {
            match what(client) {
                Err(ClientError::Full) if clock::now() < end => {
                    client.wait(Some(clock::now() + Duration::from_millis(1)));
                }
                done => return done.map_err(|error| failed(&error)),
            }
        }
    }

    /// Waits for the next event; returns `true` if standard input has ended.
    fn wait(&mut self) -> Result<bool, RunError> {
        let next = self.ticks.front().map_or(self.sweep, |&(at, _)| at.min(self.sweep));
        let limit = timespec(next.saturating_since(clock::now()));
        let stdin = io::stdin();
        let mut fds = vec![PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        let daemon = self.client.as_ref().map(AsFd::as_fd);
        fds.extend(daemon.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!fds[0].revents().is_empty()),
            Err(errno) => Err(RunError::system("wait for something to do")(errno.into())),
        }
    }
}
