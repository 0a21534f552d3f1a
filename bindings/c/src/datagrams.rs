//! Datagrams over TCP for C (McQuistin §3): table of the process's streams, by descriptor.

pub(crate) mod counts;
mod failures;
mod numbers;
pub(crate) mod open;

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use parking_lot::Mutex;
use timeous::core::{Duration, Instant, PathState, SubStream};
use timeous::{Arrival, Hints, Received, Receiver, Sender, Stats, Timeline, clock};

use crate::failure::Failure;
use crate::sys::fork;
use counts::UtlCounts;
use numbers::Numbers;

/// Default clock rate of playout times: that of video.
const CLOCK_RATE: u32 = 90_000;
/// Default sub-stream of datagrams without a playout time (McQuistin §3.2).
const UNTIMED: u8 = 3;

static STREAMS: Mutex<BTreeMap<c_int, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// Returns the stream with this descriptor.
pub(crate) fn get(fd: c_int) -> Result<Arc<Stream>, Failure> {
    fork::check()?;
    STREAMS.lock().get(&fd).cloned().ok_or_else(|| Failure::no_stream(fd))
}

/// Closes a stream. A thread that waits for its next datagram is told of the end.
pub(crate) fn close(fd: c_int) -> Result<(), Failure> {
    fork::check()?;
    let stream = STREAMS.lock().remove(&fd).ok_or_else(|| Failure::no_stream(fd))?;
    if let Some(sender) = &stream.sending.lock().sender {
        sender.begin_finish();
    }
    Ok(())
}

/// Metadata of a datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    pub(crate) substream: Option<u8>,
    pub(crate) playout: Option<u32>,
    /// Its number, and the number of the datagram that it depends on.
    pub(crate) depends: Option<(u16, u16)>,
}

/// An open stream. No lock is held during a wait, except for the next datagram, which one thread waits for at a time.
#[derive(Debug)]
pub(crate) struct Stream {
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
    /// Timeout of a receive call in milliseconds; negative: none.
    timeout: AtomicI32,
}

#[derive(Debug)]
struct Sending {
    /// `None` once the stream is finished.
    sender: Option<Sender>,
    timeline: Timeline,
    latency: Duration,
    numbers: Numbers,
    /// Latest statistics.
    stats: Stats,
}

#[derive(Debug)]
struct Receiving {
    receiver: Receiver,
    /// A received datagram that did not fit into the caller's buffer.
    waiting: Option<Received>,
}

impl Stream {
    fn new(sender: Sender, receiver: Receiver, latency: Duration) -> Self {
        let timeline = Timeline::new(CLOCK_RATE).buffered(latency);
        let (stats, numbers) = (sender.stats(), Numbers::default());
        let sending = Sending { sender: Some(sender), timeline, latency, numbers, stats };
        let receiving = Receiving { receiver, waiting: None };
        Self { sending: Mutex::new(sending), receiving: Mutex::new(receiving), timeout: AtomicI32::new(-1) }
    }

    pub(crate) fn set_timeout(&self, milliseconds: c_int) {
        self.timeout.store(milliseconds, Relaxed);
    }

    /// Sets the clock rate of playout times, which begin anew.
    pub(crate) fn set_clock_rate(&self, hz: u32) -> Result<(), Failure> {
        if hz == 0 {
            return Err(Failure::new(libc::EINVAL, "a clock of 0 Hz stands still"));
        }
        let mut sending = self.sending.lock();
        sending.timeline = Timeline::new(hz).buffered(sending.latency);
        Ok(())
    }

    /// Returns the longest datagram that the path takes in one segment now.
    pub(crate) fn longest(&self) -> Result<usize, Failure> {
        let mut sending = self.sending.lock();
        sending.hear();
        Ok(sending.sender()?.max_payload())
    }

    pub(crate) fn send(&self, datagram: &[u8], kind: Kind) -> Result<(), Failure> {
        self.sending.lock().send(datagram, kind)
    }

    /// Waits until every datagram has its fate and the stream has ended.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        let sender = self.sending.lock().sender.take().ok_or_else(Failure::finished)?;
        let stats = sender.finish()?;
        self.sending.lock().stats = stats;
        Ok(())
    }

    /// Receives the next datagram, of at most `room` bytes; `None`: the stream has ended.
    pub(crate) fn receive(&self, room: usize) -> Result<Option<Received>, Failure> {
        let timeout = u64::try_from(self.timeout.load(Relaxed)).ok();
        let deadline = timeout.map(|millis| clock::now() + Duration::from_millis(millis));
        self.receiving.lock().take(room, deadline)
    }

    pub(crate) fn counts(&self) -> UtlCounts {
        let mut sending = self.sending.lock();
        sending.hear();
        let Stats { pkt_acked_total, pkt_snd_loss_total, pkt_snd_drop_total, .. } = sending.stats;
        UtlCounts {
            acked: pkt_acked_total,
            lost: pkt_snd_loss_total,
            dropped: pkt_snd_drop_total,
            pending: sending.sender.as_ref().map_or(0, Sender::pending),
            replaced: sending.stats.pkt_snd_replaced_total + sending.stats.pkt_snd_padded_total,
        }
    }
}

impl Sending {
    fn sender(&mut self) -> Result<&mut Sender, Failure> {
        self.sender.as_mut().ok_or_else(Failure::finished)
    }

    /// Processes the fates known so far.
    fn hear(&mut self) {
        let Some(sender) = &mut self.sender else { return };
        while sender.poll_delivery().is_some() {}
        self.stats = sender.stats();
    }

    fn send(&mut self, datagram: &[u8], kind: Kind) -> Result<(), Failure> {
        self.hear();
        let hints = self.hints(kind)?;
        let sender = self.sender()?;
        // A datagram is one record: more would be cut, which receivers of utl do not expect.
        let longest = sender.max_payload();
        if datagram.len() > longest {
            let words = format!("{} bytes: a datagram has at most {longest}", datagram.len());
            return Err(Failure::new(libc::EMSGSIZE, words));
        }
        sender.send(datagram, hints)?;
        Ok(())
    }

    fn hints(&mut self, kind: Kind) -> Result<Hints, Failure> {
        let substream = match kind.substream {
            Some(own) => own,
            // Timed datagrams go on the sub-stream for deadlines.
            None if kind.playout.is_some() => 0,
            None => UNTIMED,
        };
        let deadline = match kind.playout {
            Some(playout) => {
                let srtt = Some(Duration::from_secs_f64(self.stats.ms_rtt / 1e3));
                self.timeline.deadline(clock::now(), &PathState { srtt, ..PathState::default() }, playout)
            }
            None => Instant::FAR_FUTURE,
        };
        let mut hints = Hints { deadline: Some(deadline), substream: SubStream(substream), ..Hints::default() };
        if let Some((seq, dep)) = kind.depends {
            (hints.frame, hints.references) = self.numbers.place(seq, dep);
        }
        Ok(hints)
    }
}

impl Receiving {
    fn take(&mut self, room: usize, deadline: Option<Instant>) -> Result<Option<Received>, Failure> {
        let next = match self.waiting.take() {
            Some(waiting) => Some(waiting),
            None => self.next(deadline)?,
        };
        match next {
            Some(received) if received.bytes.len() > room => {
                let words = format!("the next datagram has {} bytes, the buffer {room}", received.bytes.len());
                self.waiting = Some(received);
                Err(Failure::new(libc::EMSGSIZE, words))
            }
            next => Ok(next),
        }
    }

    /// Receives the next datagram; skips empty ones, which C could not tell from the end.
    fn next(&mut self, deadline: Option<Instant>) -> Result<Option<Received>, Failure> {
        loop {
            let arrival = match self.receiver.poll_receive()? {
                Some(arrival) => arrival,
                None => {
                    // From here on the descriptor is readable only if there is something new.
                    self.receiver.waker().clear();
                    self.receiver.receive(deadline)?
                }
            };
            match arrival {
                Arrival::Data(received) if received.bytes.is_empty() => {}
                Arrival::Data(received) => return Ok(Some(received)),
                Arrival::End => return Ok(None),
                Arrival::Nothing => {
                    return Err(Failure::new(
                        libc::EAGAIN,
                        "no datagram has come within the time of utl_set_timeout()",
                    ));
                }
            }
        }
    }
}
