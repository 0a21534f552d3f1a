//! Counts of sending, without a clock: control transfers, system calls and copies per packet.
//!
//! Ring, transport and Congestion Manager are the real ones; the peer is in memory, and the device
//! only counts.

use std::net::SocketAddr;

use timeous::core::{AduMeta, AduSeq, AduSource as _, Duration, Instant, NoAdus};
use timeous_dccp::{Config, ConnectionId, Event, ServiceCode};
use timeous_engine::udp::Socket;
use timeous_ring::{Producer, RingSource};
use timeous_testbed::rig::{End, One};

use super::method::SendMethod;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    /// Packets with payload that left.
    pub(crate) packets: u64,
    /// Control transfers of the application to have them sent.
    pub(crate) transfers: u64,
    /// System calls that sent them: one per batch.
    pub(crate) calls: u64,
    /// Bytes of payload copied in user space.
    pub(crate) copied: u64,
    /// Bytes of headers written.
    pub(crate) headers: u64,
}

const PORT: u16 = 5_004;
const SERVICE: ServiceCode = ServiceCode::from_bytes(*b"cnt ");
/// Uncounted packets at the start: handshake, and the negotiation after it.
const WARM_UP: u64 = 256;
/// Packets sent before each answer of the peer.
const ROUND_TRIP: u32 = 192;
const SLOTS: u32 = 512;

/// Sends `packets` packets of this size, and counts.
pub(crate) fn count(way: SendMethod, payload: usize, packets: u64) -> Counts {
    let every = match way {
        // Each packet is one system call, which is also the only control transfer.
        SendMethod::Send => return Counts { packets, transfers: packets, calls: packets, ..Counts::default() },
        SendMethod::Bundles { of } => {
            let calls = packets.div_ceil(u64::from(of));
            return Counts { packets, transfers: calls, calls, ..Counts::default() };
        }
        SendMethod::Ring { every } | SendMethod::RingWithCopy { every } => every,
        SendMethod::Thread => unreachable!("how much is queued when a thread looks is not to be counted"),
    };
    let copies = matches!(way, SendMethod::RingWithCopy { .. });
    let mut rig = CountingHarness::open(payload);
    rig.run(every, copies, payload, WARM_UP);
    rig.counts = Counts::default();
    rig.run(every, copies, payload, packets);
    rig.counts
}

struct CountingHarness {
    now: Instant,
    sender: End,
    peer: End,
    ring: One<RingSource>,
    producer: Producer,
    id: ConnectionId,
    next: u64,
    to_peer: Vec<Vec<u8>>,
    counts: Counts,
}

impl CountingHarness {
    fn open(payload: usize) -> Self {
        let mps = (payload + Config::HEADER_ROOM).max(Config::MIN_MPS);
        let config = Config { mps, ..Config::default() };
        let (producer, consumer) = timeous_ring::create(&timeous_ring::Config::new(SLOTS)).expect("a small ring");
        let (mut sender, mut peer) = (End::new(config.clone(), 1), End::new(config, 2));
        peer.endpoint.listen(PORT, &[SERVICE]);
        let now = Instant::from_nanos(1);
        let id = sender.endpoint.connect(now, peer_address(), PORT, SERVICE).expect("the first connection of all");
        let ring = One(RingSource::new(consumer).leaving_payloads_apart());
        let counts = Counts::default();
        let mut rig = Self { now, sender, peer, ring, producer, id, next: 0, to_peer: Vec::new(), counts };
        for _ in 0..4 {
            rig.drain();
            rig.answer();
        }
        rig
    }

    /// Enqueues and notifies, as the application does.
    fn run(&mut self, every: u32, copies: bool, payload: usize, packets: u64) {
        let before = self.counts.packets;
        while self.counts.packets - before < packets {
            for _ in 0..ROUND_TRIP / every {
                (0..every).for_each(|_| self.enqueue(copies, payload));
                self.counts.transfers += 1;
                self.sender.endpoint.wake(self.id);
                self.drain();
            }
            self.now += Duration::from_millis(30);
            self.answer();
        }
    }

    fn enqueue(&mut self, copies: bool, payload: usize) {
        let meta = AduMeta { seq: AduSeq(self.next), ..AduMeta::default() };
        self.next += 1;
        let queued = if copies {
            self.counts.copied += payload as u64;
            self.producer.enqueue(&meta, &vec![0; payload])
        } else {
            self.producer.buffer().and_then(|buffer| self.producer.enqueue_buffer(&meta, buffer, payload))
        };
        queued.expect("the ring has room: it holds two round trips");
    }

    /// Sends all that may leave: a system call for each batch.
    fn drain(&mut self) {
        let mut packet = Vec::new();
        let mut batch = 0;
        while let Some(outgoing) = self.sender.poll(self.now, &mut self.ring, &mut packet) {
            if batch % Socket::BATCH == 0 {
                self.counts.calls += 1;
            }
            batch += 1;
            let mut headers = packet.len();
            if let Some(adu) = outgoing.transmit.adu {
                if !adu.apart {
                    self.counts.copied += adu.len as u64;
                    headers -= adu.len;
                }
                self.counts.packets += 1;
                self.ring.0.sent(adu.token);
            }
            self.counts.headers += headers as u64;
            self.to_peer.push(packet.clone());
        }
    }

    /// Gives the headers to the peer, and its acknowledgements to the sender.
    fn answer(&mut self) {
        let Self { now, sender, peer, ring, producer, to_peer, .. } = self;
        peer.pass_time(*now);
        std::mem::take(to_peer).iter().for_each(|packet| peer.hear(*now, peer_address(), packet));
        let (mut answers, mut packet) = (Vec::new(), Vec::new());
        while peer.poll(*now, &mut One(NoAdus), &mut packet).is_some() {
            answers.push(packet.clone());
        }
        while peer.endpoint.poll_event().is_some() {}
        sender.pass_time(*now);
        answers.iter().for_each(|packet| sender.hear(*now, peer_address(), packet));
        while let Some((_, event)) = sender.endpoint.poll_event() {
            match event {
                Event::Acked { token, .. } => ring.0.acked(token),
                Event::Lost { token } => ring.0.lost(token),
                _ => {}
            }
        }
        while producer.poll_completion().is_some() {}
    }
}

fn peer_address() -> SocketAddr {
    ([10, 9, 9, 2], 9).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_one_call_and_nothing_is_copied_out_of_the_ring() {
        let counts = count(SendMethod::Ring { every: 16 }, 1_400, 1_920);
        assert_eq!((counts.packets, counts.transfers, counts.copied), (1_920, 120, 0));
        // The peer's acknowledgements are acknowledged now and then: one packet more, in the same
        // call.
        assert!((120..130).contains(&counts.calls), "{counts:?}");
        let copied = count(SendMethod::RingWithCopy { every: 1 }, 1_000, 960);
        assert_eq!((copied.packets, copied.copied), (960, 960_000));
        assert_eq!(count(SendMethod::Send, 10, 5).calls, 5);
    }
}
