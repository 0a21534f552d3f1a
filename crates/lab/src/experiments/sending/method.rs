//! Ways to send that are compared, at the full speed of the machine.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use timeous::core::{AduMeta, AduSeq, Ecn};
use timeous_engine::udp::{self, Packet};
use timeous_engine::{DccpConfig, EngineError, EnqueueError, Producer, Waker, clock};
use timeous_testbed::process::Clock;
use timeous_testbed::rig::Rig;

use super::sink;

/// Way to send packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SendMethod {
    /// UDP: `send()` for each packet.
    Send,
    /// Packet ring and DCCP: one notification per `every` packets, as with the paper's
    /// `dccp_notify`.
    Ring {
        /// Packets per notification.
        every: u32,
    },
    /// `Ring`, with a copy of the application's packet into the ring.
    RingWithCopy {
        /// Packets per notification.
        every: u32,
    },
    /// Packet ring and DCCP in a thread of its own, as in the engine, notified at each packet while
    /// it sleeps.
    Thread,
    /// UDP: several packets per call, split by the device (GSO). Neither ring nor transport.
    Bundles {
        /// Packets per call.
        of: u32,
    },
}

impl SendMethod {
    /// Returns the name for output.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Send => "UDP send()".to_owned(),
            Self::Ring { every } => format!("ring, k = {every}"),
            Self::RingWithCopy { every } => format!("ring, k = {every}, copied into it"),
            Self::Thread => "ring, transport in its thread".to_owned(),
            Self::Bundles { of } => format!("GSO, {of} a call"),
        }
    }
}

/// Slots of the ring, which holds packets until they are acknowledged.
const SLOTS: u32 = 512;

/// Sender for one of the ways.
pub(crate) struct Sender {
    payload: Vec<u8>,
    next: u64,
    kind: Kind,
}

enum Kind {
    Send(UdpSocket),
    Ring { rig: Box<Rig>, producer: Producer, every: u32, copies: bool },
    Thread { rig: Box<Rig>, producer: Producer },
    Bundles { socket: Box<udp::Socket>, of: u32 },
}

impl Sender {
    /// Opens it in the calling thread's network namespace.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn open(way: SendMethod, payload: usize) -> Result<Self, EngineError> {
        let (local, remote) = sink::ends();
        let open = || {
            let dccp = DccpConfig { mps: payload + DccpConfig::HEADER_ROOM, ..DccpConfig::default() };
            let dccp = DccpConfig { mps: dccp.mps.max(DccpConfig::MIN_MPS), ..dccp };
            let config = timeous_ring::Config::new(SLOTS);
            let (rig, producer) = Rig::open(clock::now(), (local, remote), &config, None, dccp, None)?;
            Ok::<_, EngineError>((Box::new(rig), producer))
        };
        let ring = |every, copies| open().map(|(rig, producer)| Kind::Ring { rig, producer, every, copies });
        let kind = match way {
            SendMethod::Send => {
                let socket = UdpSocket::bind(local)?;
                socket.connect(remote)?;
                Kind::Send(socket)
            }
            SendMethod::Ring { every } => ring(every, false)?,
            SendMethod::RingWithCopy { every } => ring(every, true)?,
            SendMethod::Thread => open().map(|(rig, producer)| Kind::Thread { rig, producer })?,
            SendMethod::Bundles { of } => Kind::Bundles { socket: Box::new(udp::Socket::bind(local)?), of },
        };
        Ok(Self { payload: vec![0x5a; payload], next: 0, kind })
    }

    /// Sends at least `packets` packets at full speed.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn send(&mut self, packets: u32) -> io::Result<Sent> {
        let Self { payload, next, kind } = self;
        let mut sent = Sent::default();
        match kind {
            Kind::Send(socket) => sent.watch(|| {
                for _ in 0..packets {
                    number(payload, next);
                    socket.send(payload)?;
                }
                Ok(packets)
            })?,
            Kind::Bundles { socket, of } => sent.watch(|| {
                let (_, to) = sink::ends();
                let mut refused = false;
                for _ in 0..packets / *of {
                    number(payload, next);
                    let packet = Packet { to, from: None, ecn: Ecn::NotEct, header: payload, payload: None };
                    refused |= !socket.send(&vec![packet; *of as usize], |_, result| refused |= result.is_err());
                }
                if refused { Err(io::Error::other("the device refused a packet")) } else { Ok(packets / *of * *of) }
            })?,
            Kind::Thread { rig, producer } => return send_with_thread(rig, producer, payload.len(), packets, next),
            Kind::Ring { rig, producer, every, copies } => {
                for _ in 0..packets.div_ceil(ROUND_TRIP) {
                    sent.watch(|| {
                        let bursts = ROUND_TRIP / *every;
                        (0..bursts).for_each(|_| burst(rig, producer, *every, *copies, payload, next));
                        Ok(bursts * *every)
                    })?;
                    // Not counted: in the paper the peer is another machine.
                    rig.answer(clock::now());
                    sent.watch(|| {
                        rig.hear(clock::now());
                        while producer.poll_completion().is_some() {}
                        Ok(0)
                    })?;
                }
            }
        }
        Ok(sent)
    }
}

/// Fills the ring with `every` packets, and notifies the transport.
fn burst(rig: &mut Rig, producer: &mut Producer, every: u32, copies: bool, payload: &mut [u8], next: &mut u64) {
    for _ in 0..every {
        let meta = AduMeta { seq: AduSeq(*next), ..AduMeta::default() };
        let queued = if copies {
            number(payload, next);
            producer.enqueue(&meta, payload)
        } else {
            producer.buffer().and_then(|mut buffer| {
                number(&mut buffer.bytes_mut()[..payload.len()], next);
                producer.enqueue_buffer(&meta, buffer, payload.len())
            })
        };
        queued.expect("the ring has room: it holds two round trips");
    }
    rig.send(clock::now());
    assert!(!rig.is_blocked(), "a device that does nothing has room");
}

/// Packets sent before the peer's answers are processed.
pub(super) const ROUND_TRIP: u32 = 192;

/// Writes a packet's number, the only content that is written: the rest of a payload is irrelevant.
pub(super) fn number(payload: &mut [u8], next: &mut u64) {
    if let Some(first) = payload.first_chunk_mut() {
        *first = next.to_be_bytes();
    }
    *next += 1;
}

/// Packets sent, and their processor time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) packets: u32,
    pub(crate) nanos: u64,
}

impl Sent {
    pub(super) fn watch(&mut self, work: impl FnOnce() -> io::Result<u32>) -> io::Result<()> {
        let before = processor_time();
        self.packets += work()?;
        self.nanos += processor_time() - before;
        Ok(())
    }
}

/// Returns the processor time of this thread, in nanoseconds.
fn processor_time() -> u64 {
    Clock::THREAD.read().as_nanos()
}

/// Wakers between the two threads.
struct Wakers {
    /// Wakes a sleeping transport after a packet was queued.
    queued: Waker,
    /// Wakes a waiting application when the ring has room again.
    room: Waker,
    waiting: AtomicBool,
    done: AtomicBool,
}

/// Sends `packets` packets; the processor time of both threads counts.
fn send_with_thread(
    rig: &mut Rig,
    producer: &mut Producer,
    payload: usize,
    packets: u32,
    next: &mut u64,
) -> io::Result<Sent> {
    let wakers = Wakers {
        queued: Waker::new()?,
        room: Waker::new()?,
        waiting: AtomicBool::new(false),
        done: AtomicBool::new(false),
    };
    let transport = thread::scope(|scope| {
        let transport = scope.spawn(|| transport(rig, &wakers));
        let before = processor_time();
        application(producer, &wakers, payload, packets, next);
        let own = processor_time() - before;
        wakers.done.store(true, Ordering::Release);
        wakers.queued.wake();
        own + transport.join().expect("the transport's thread does not panic")
    });
    while producer.poll_completion().is_some() {}
    Ok(Sent { packets, nanos: transport })
}

fn application(producer: &mut Producer, wakers: &Wakers, payload: usize, packets: u32, next: &mut u64) {
    for _ in 0..packets {
        let meta = AduMeta { seq: AduSeq(*next), ..AduMeta::default() };
        while let Err(full) = producer.enqueue_with(&meta, payload, |bytes| number(bytes, next)) {
            assert!(matches!(full, EnqueueError::Full | EnqueueError::ZoneFull), "{full}");
            wait_for_room(producer, wakers);
        }
        if producer.needs_notify() {
            wakers.queued.wake();
        }
    }
}

fn wait_for_room(producer: &mut Producer, wakers: &Wakers) {
    wakers.waiting.store(true, Ordering::SeqCst);
    // Room that appeared before the flag was set causes no wake-up.
    if producer.free_slots() == 0 {
        wakers.room.wait(Some(timeous::core::Duration::from_millis(10)));
    }
    wakers.waiting.store(false, Ordering::SeqCst);
    while producer.poll_completion().is_some() {}
}

/// Runs the transport; returns its processor time without the peer's.
fn transport(rig: &mut Rig, wakers: &Wakers) -> u64 {
    let begin = processor_time();
    let (mut unanswered, mut others) = (0, 0);
    loop {
        let sent = rig.send(clock::now());
        unanswered += sent;
        if unanswered >= ROUND_TRIP as usize {
            unanswered = 0;
            let before = processor_time();
            rig.answer(clock::now());
            others += processor_time() - before;
            rig.hear(clock::now());
        }
        if sent > 0 && wakers.waiting.load(Ordering::SeqCst) {
            wakers.room.wake();
        }
        if sent == 0 && !rig.stop_polling() {
            if wakers.done.load(Ordering::Acquire) {
                return processor_time() - begin - others;
            }
            wakers.queued.wait(None);
        }
    }
}
