//! One connection between our DCCP and Linux's: its settings, and the result of each side.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use timeous_core::{AduMeta, AduSeq, Duration, Fate, Instant};
use timeous_dccp::Ccid;
use timeous_engine::{
    Carrier, CloseReason, DccpConfig, Engine, EngineError, Sealing, ServiceCode, Statistics, Status, Stream,
    StreamConfig, clock,
};

use crate::machine::{Machine, Nothing, OURS, THEIRS};

/// Timeout of a session; only a failing one takes so long.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time without arrivals after which nothing is in flight. A busy machine has stood still for more than 200 ms.
const QUIET: Duration = Duration::from_millis(800);
const SLOTS: u32 = 256;
/// Size of a datagram in bytes.
const SIZE: usize = 1_000;
pub(crate) const SERVICE: &str = "KDCP";

/// Side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Us,
    Linux,
}

/// Settings of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) number: u16,
    pub(crate) ccid: Ccid,
    pub(crate) caller: Side,
    pub(crate) closer: Side,
    /// Datagrams sent by each side.
    pub(crate) count: u64,
}

/// Result of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Datagrams from Linux: received (each counted once), and corrupt or duplicate.
    pub(crate) got: u64,
    pub(crate) wrong: u64,
    /// The same counts by Linux.
    pub(crate) linux_got: u64,
    pub(crate) linux_wrong: u64,
    /// Fates of our datagrams, as far as they are known.
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    pub(crate) took: Duration,
    /// Our statistics, before the close.
    pub(crate) statistics: Statistics,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ccid, caller, closer, count, .. } = self;
        write!(f, "CCID {ccid}, {caller:?} called, {closer:?} closed, {count} datagrams each way")
    }
}

/// Returns the configuration of a stream at this DCCP port.
pub(crate) fn config(ccid: Ccid, port: u16) -> StreamConfig {
    StreamConfig {
        dccp: DccpConfig { msl: Duration::from_secs(1), ..DccpConfig::default() }.with_ccids(&[ccid]),
        service: ServiceCode::from_bytes(*SERVICE.as_bytes().first_chunk().unwrap()),
        dccp_port: port,
        slots: SLOTS,
        sealing: Sealing::Off,
        ..StreamConfig::new(Carrier::Ip)
    }
}

/// Starts an engine in the namespace of this side.
pub(crate) fn engine(machine: &Machine) -> Engine {
    machine.left.within(Engine::start).unwrap().unwrap()
}

fn datagram(number: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..SIZE as u64).map(|at| (number * 31 + at) as u8).collect();
    bytes[..4].copy_from_slice(&(number as u32).to_be_bytes());
    bytes
}

impl From<EngineError> for Nothing {
    fn from(error: EngineError) -> Self {
        Self(format!("our engine: {error}"))
    }
}

impl Session {
    fn name(&self) -> String {
        format!("s{}", self.number)
    }

    /// Runs a session: handshake, data in both directions, close.
    pub(crate) fn run(&self, machine: &mut Machine) -> Result<Outcome, Nothing> {
        let engine = engine(machine);
        let mut stream = self.meet(machine, &engine)?;
        let began = clock::now();
        let said = machine.wait(&self.name(), "connected")?;
        let wanted = format!("tx={0} rx={0}", self.ccid.number());
        if said != wanted {
            return Err(Nothing(format!("Linux was to agree on {wanted}, and says {said}")));
        }
        let mut talk = Talk { seen: BTreeSet::new(), sent: 0, outcome: Outcome::default(), came: began };
        talk.run(self, machine, &mut stream)?;
        talk.outcome.took = clock::now() - began;
        self.part(machine, &mut stream, &mut talk)?;
        Ok(talk.outcome)
    }

    /// Establishes the connection, by the side that should call.
    fn meet(&self, machine: &mut Machine, engine: &Engine) -> Result<Stream, Nothing> {
        let Self { ccid, count, number, .. } = *self;
        let name = self.name();
        match self.caller {
            Side::Us => {
                let port = 5_000 + number;
                machine.order(&format!("listen {name} {port} {} {SERVICE} {count} {SIZE}", ccid.number()));
                machine.wait(&name, "listening")?;
                let remote = SocketAddr::new(THEIRS.parse().unwrap(), port);
                Ok(engine.connect(remote, config(ccid, port))?)
            }
            Side::Linux => {
                let port = 6_000 + number;
                let local = SocketAddr::new(OURS.parse().unwrap(), port);
                let mut listener = engine.listen(local, config(ccid, port))?;
                machine.order(&format!("connect {name} {OURS} {port} {} {SERVICE} {count} {SIZE}", ccid.number()));
                let caller = listener.accept(Some(clock::now() + PATIENCE));
                caller.ok_or_else(|| Nothing("Linux's call never came".to_owned()))
            }
        }
    }

    /// Closes the connection, by the side that should close, and checks that both report it.
    fn part(&self, machine: &mut Machine, stream: &mut Stream, talk: &mut Talk) -> Result<(), Nothing> {
        let (ours, theirs) = match self.closer {
            Side::Us => {
                stream.sending().finish();
                (CloseReason::Local, "by=peer")
            }
            Side::Linux => {
                machine.order(&format!("close {}", self.name()));
                (CloseReason::Peer, "by=us")
            }
        };
        let end = clock::now() + PATIENCE;
        while stream.status() == Status::Open && clock::now() < end {
            talk.take(stream);
            stream.receiving().wait(Some(clock::now() + Duration::from_millis(10)));
        }
        talk.take(stream);
        if stream.status() != Status::Closed(ours) {
            return Err(Nothing(format!("our end is to be closed as {ours:?}, and is {:?}", stream.status())));
        }
        let said = machine.wait(&self.name(), "end")?;
        let Some(counts) = said.strip_prefix(theirs) else {
            return Err(Nothing(format!("Linux was to see the end {theirs}, and says {said}")));
        };
        let count = |key: &str| {
            let value = counts.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            value.and_then(|value| value.parse::<u64>().ok()).expect("the peer's line has it")
        };
        talk.outcome.linux_got = count("distinct");
        talk.outcome.linux_wrong = count("received") - count("distinct");
        Ok(())
    }
}

/// State of a session's data transfer.
struct Talk {
    seen: BTreeSet<u64>,
    sent: u64,
    outcome: Outcome,
    /// Time of the last arrival.
    came: Instant,
}

impl Talk {
    /// Runs until both sides have sent everything, each of this side's datagrams has its fate, and nothing is in
    /// flight.
    fn run(&mut self, session: &Session, machine: &mut Machine, stream: &mut Stream) -> Result<(), Nothing> {
        let (name, end) = (session.name(), clock::now() + PATIENCE);
        let mut linux_sent = false;
        loop {
            let now = clock::now();
            self.give(session.count, stream);
            self.take(stream);
            self.outcome.statistics = stream.receiving().snapshot().transport;
            linux_sent = linux_sent || machine.heard(&name, "sent").is_some();
            let fates = self.outcome.acked + self.outcome.lost;
            if linux_sent && fates == session.count && now - self.came > QUIET {
                return Ok(());
            }
            if now > end || matches!(stream.status(), Status::Closed(_)) {
                machine.order(&format!("info {name}"));
                let info = machine.wait(&name, "info");
                let Outcome { got, acked, lost, .. } = self.outcome;
                let (sent, status) = (self.sent, stream.status());
                return Err(Nothing(format!(
                    "stuck at {status:?}: {sent} put into the ring, {acked} acked, {lost} lost, {got} came; Linux has \
                     sent all: {linux_sent}, {info:?}; {:?}",
                    stream.receiving().snapshot(),
                )));
            }
            stream.receiving().wait(Some(now + Duration::from_millis(5)));
        }
    }

    fn give(&mut self, count: u64, stream: &mut Stream) {
        while self.sent < count {
            let meta = AduMeta { seq: AduSeq(self.sent), ..AduMeta::default() };
            if stream.sending().enqueue(&meta, &datagram(self.sent)).is_err() {
                return;
            }
            self.sent += 1;
        }
    }

    fn take(&mut self, stream: &mut Stream) {
        while let Some(done) = stream.sending().poll_completion() {
            match done.fate {
                Fate::Acked => self.outcome.acked += 1,
                Fate::Lost => self.outcome.lost += 1,
                Fate::Dropped(reason) => panic!("nothing gives anything up, and {reason:?}"),
            }
        }
        while let Some(received) = stream.receiving().poll_received() {
            self.came = received.at;
            let number = received.bytes.first_chunk().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes));
            let number = u64::from(number);
            if received.bytes == datagram(number) && self.seen.insert(number) {
                self.outcome.got += 1;
            } else {
                self.outcome.wrong += 1;
            }
        }
    }
}
