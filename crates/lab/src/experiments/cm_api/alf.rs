//! Sender by requests and callbacks (Andersen et al. §2.1.2 ii); per packet: request, grant,
//! packet, notify, acknowledgement, update.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use timeous::clock;
use timeous::cm::{Ack, ClientError, CongestionManager, Error, Event, Feedback, FlowId, Refusal, Update};
use timeous::core::Duration;

/// Most outstanding requests. One call for each, as in the paper: requests are not batched.
const REQUESTS: u64 = 64;
/// Time without grants after which they are requested again: unused grants have lapsed.
const PATIENCE: Duration = Duration::from_millis(100);
/// Number of silent periods after which the transfer fails.
const AGAIN: u32 = 20;

/// Calls that a sending application made to the API of the Congestion Manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct ApiCalls {
    /// `cm_request`.
    pub(super) requests: u64,
    /// `cm_notify`.
    pub(super) notifies: u64,
    /// `cm_update`, or what a buffered socket has instead: `acked()`.
    pub(super) updates: u64,
}

/// Parameters of a transfer.
pub(super) struct Alf<'a> {
    pub(super) cm: &'a CongestionManager,
    pub(super) socket: &'a UdpSocket,
    pub(super) remote: SocketAddr,
    /// Whether the socket is connected; otherwise each packet is addressed.
    pub(super) connected: bool,
    pub(super) size: usize,
    pub(super) packets: u64,
    /// Whether each second grant is returned, and another requested: a sender that is broken on purpose.
    pub(super) returns_grants: bool,
}

/// State of the sending application.
struct Sender<'a> {
    plan: &'a Alf<'a>,
    flow: FlowId,
    feedback: Feedback,
    payload: Vec<u8>,
    /// Outstanding requests.
    asked: u64,
    newest: Option<u64>,
    silences: u32,
    /// Whether the previous grant was returned.
    returned: bool,
    calls: ApiCalls,
}

impl Alf<'_> {
    /// Sends all packets, and returns its calls when the last one is acknowledged.
    pub(super) fn send(&self) -> Result<ApiCalls, Error> {
        if self.connected {
            self.socket.connect(self.remote)?;
        }
        self.socket.set_nonblocking(true)?;
        let flow = self.cm.open_to(self.remote, self.size as u64)?;
        let (feedback, payload) = (Feedback::default(), vec![0; self.size]);
        let (calls, returned) = (ApiCalls::default(), false);
        let mut sender =
            Sender { plan: self, flow, feedback, payload, asked: 0, newest: None, silences: 0, returned, calls };
        let sent = sender.run();
        self.cm.close(flow)?;
        sent.map(|()| sender.calls)
    }
}

impl Sender<'_> {
    fn run(&mut self) -> Result<(), Error> {
        self.request_grants()?;
        while self.newest != Some(self.plan.packets - 1) {
            if !self.plan.cm.wait_with(self.plan.socket, Some(clock::now() + PATIENCE)) {
                self.handle_silence()?;
            }
            while let Some(event) = self.plan.cm.poll_event() {
                self.handle(event)?;
            }
            self.read_acks()?;
        }
        Ok(())
    }

    /// Handles a period without events: requests grants again, or fails after [`AGAIN`] periods.
    fn handle_silence(&mut self) -> Result<(), Error> {
        self.silences += 1;
        if self.silences > AGAIN {
            return Err(Error::Io(io::ErrorKind::TimedOut.into()));
        }
        if let Some(update) = self.feedback.handle_timeout(clock::now()) {
            self.update(update)?;
        }
        self.asked = 0;
        self.request_grants()
    }

    /// Requests grants for the remaining packets, at most [`REQUESTS`] at once.
    fn request_grants(&mut self) -> Result<(), Error> {
        let left = self.plan.packets - self.feedback.next_number();
        while self.asked < left.min(REQUESTS) {
            self.calls.requests += 1;
            patiently(|| self.plan.cm.request(self.flow))?;
            self.asked += 1;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Granted(_) if self.feedback.next_number() == self.plan.packets => self.notify(0),
            Event::Granted(_) => {
                self.asked = self.asked.saturating_sub(1);
                self.returned = self.plan.returns_grants && !self.returned;
                match self.returned {
                    true => self.notify(0)?,
                    false => self.leave()?,
                }
                self.request_grants()
            }
            // The grant had lapsed before the packet was reported, but the packet has left.
            Event::Refused { why: Refusal::NotGranted, value, .. } => self.plan.cm.notify_unasked(self.flow, value),
            Event::Refused { why: Refusal::Implausible | Refusal::MoreThanSent, value, .. } => {
                self.update(Update { acked: value, ..Update::default() })
            }
            Event::Refused { why: Refusal::OverLimit, value, .. } => {
                self.asked = self.asked.saturating_sub(value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sends a packet.
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
        // The grant may have lapsed, but the packet has left.
        self.notify(bytes).or_else(|_| self.plan.cm.notify_unasked(self.flow, bytes))
    }

    fn notify(&mut self, bytes: u64) -> Result<(), Error> {
        self.calls.notifies += 1;
        patiently(|| self.plan.cm.notify(self.flow, bytes))
    }

    fn update(&mut self, update: Update) -> Result<(), Error> {
        self.calls.updates += 1;
        patiently(|| self.plan.cm.update(self.flow, update))
    }

    /// Reads the receiver's acknowledgements.
    fn read_acks(&mut self) -> Result<(), Error> {
        let mut buffer = [0; 1_024];
        loop {
            let len = match self.plan.socket.recv(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                received => received?,
            };
            let ack = Ack::decode(&buffer[..len])?;
            self.newest = self.newest.max(Some(ack.newest));
            if let Some(update) = self.feedback.acked(clock::now(), &ack)? {
                self.update(update)?;
            }
        }
    }
}

/// Repeats a call until the queue to the daemon has room for it.
fn patiently(mut call: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    loop {
        match call() {
            Err(Error::Daemon(ClientError::Full)) => std::thread::yield_now(),
            done => return done,
        }
    }
}
