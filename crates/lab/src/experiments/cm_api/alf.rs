//! A sender by requests and callbacks (Andersen et al. §2.1.2 ii): a request, a grant, a packet, a notice, an
//! acknowledgement, an update.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use timeous::clock;
use timeous::cm::{Ack, ClientError, CongestionManager, Error, Event, Feedback, FlowId, Refusal, Update};
use timeous::core::Duration;

/// Grants that are asked for and have not come. One call for each, as the paper's: nothing is done for several at once.
const REQUESTS: u64 = 64;
/// After this long without grants they are asked for again: those that came and were not used in time are gone.
const PATIENCE: Duration = Duration::from_millis(100);
/// So often, and then something is broken.
const AGAIN: u32 = 20;

/// What is to be sent.
pub(super) struct Alf<'a> {
    pub(super) cm: &'a CongestionManager,
    pub(super) socket: &'a UdpSocket,
    pub(super) remote: SocketAddr,
    /// Otherwise each packet is addressed.
    pub(super) connected: bool,
    pub(super) size: usize,
    pub(super) packets: u64,
}

/// What an application keeps.
struct Sender<'a> {
    plan: &'a Alf<'a>,
    flow: FlowId,
    feedback: Feedback,
    payload: Vec<u8>,
    /// Grants that were asked for and have not come.
    asked: u64,
    newest: Option<u64>,
    silences: u32,
}

impl Alf<'_> {
    /// Sends all of it, until the last packet is acknowledged.
    pub(super) fn send(&self) -> Result<(), Error> {
        if self.connected {
            self.socket.connect(self.remote)?;
        }
        self.socket.set_nonblocking(true)?;
        let flow = self.cm.open_to(self.remote, self.size as u64)?;
        let (feedback, payload) = (Feedback::default(), vec![0; self.size]);
        let mut sender = Sender { plan: self, flow, feedback, payload, asked: 0, newest: None, silences: 0 };
        let sent = sender.run();
        self.cm.close(flow)?;
        sent
    }
}

impl Sender<'_> {
    fn run(&mut self) -> Result<(), Error> {
        self.ask()?;
        while self.newest != Some(self.plan.packets - 1) {
            if !self.plan.cm.wait_with(self.plan.socket, Some(clock::now() + PATIENCE)) {
                self.bear_silence()?;
            }
            while let Some(event) = self.plan.cm.poll_event() {
                self.handle(event)?;
            }
            self.hear()?;
        }
        Ok(())
    }

    /// Nothing has come for long.
    fn bear_silence(&mut self) -> Result<(), Error> {
        self.silences += 1;
        if self.silences > AGAIN {
            return Err(Error::Io(io::ErrorKind::TimedOut.into()));
        }
        if let Some(update) = self.feedback.handle_timeout(clock::now()) {
            patiently(|| self.plan.cm.update(self.flow, update))?;
        }
        self.asked = 0;
        self.ask()
    }

    /// Asks for what is left, within bounds.
    fn ask(&mut self) -> Result<(), Error> {
        let left = self.plan.packets - self.feedback.next_number();
        while self.asked < left.min(REQUESTS) {
            patiently(|| self.plan.cm.request(self.flow))?;
            self.asked += 1;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Granted(_) if self.feedback.next_number() == self.plan.packets => self.plan.cm.notify(self.flow, 0),
            Event::Granted(_) => {
                self.asked = self.asked.saturating_sub(1);
                self.leave()?;
                self.ask()
            }
            // It was late with a packet that has left.
            Event::Refused { why: Refusal::NotGranted, value, .. } => self.plan.cm.notify_unasked(self.flow, value),
            Event::Refused { why: Refusal::Implausible | Refusal::MoreThanSent, value, .. } => {
                patiently(|| self.plan.cm.update(self.flow, Update { acked: value, ..Update::default() }))
            }
            Event::Refused { why: Refusal::OverLimit, value, .. } => {
                self.asked = self.asked.saturating_sub(value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A packet leaves.
    fn leave(&mut self) -> Result<(), Error> {
        let number = self.feedback.next_number();
        self.payload[..8].copy_from_slice(&number.to_be_bytes());
        let now = clock::now();
        if self.plan.connected {
            self.plan.socket.send(&self.payload)?;
        } else {
            self.plan.socket.send_to(&self.payload, self.plan.remote)?;
        }
        let bytes = self.payload.len() as u64;
        self.feedback.sent(now, bytes);
        // A grant that lapsed is none any more, but the packet has left.
        patiently(|| self.plan.cm.notify(self.flow, bytes)).or_else(|_| self.plan.cm.notify_unasked(self.flow, bytes))
    }

    /// Takes in what the receiver says.
    fn hear(&mut self) -> Result<(), Error> {
        let mut buffer = [0; 1_024];
        loop {
            let len = match self.plan.socket.recv(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                received => received?,
            };
            let ack = Ack::decode(&buffer[..len])?;
            self.newest = self.newest.max(Some(ack.newest));
            if let Some(update) = self.feedback.acked(clock::now(), &ack)? {
                patiently(|| self.plan.cm.update(self.flow, update))?;
            }
        }
    }
}

/// Makes a call until the queue to the daemon has room for it.
fn patiently(mut call: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    loop {
        match call() {
            Err(Error::Daemon(ClientError::Full)) => std::thread::yield_now(),
            done => return done,
        }
    }
}
