//! Benchmark rig: a DCCP sender at the speed of the machine, with the engine's sending path and no congestion limit.
//!
//! Ring, late choice, transport, Congestion Manager, batch and socket are the engine's own; its thread is missing, and
//! the window is unlimited. Packets go to an address that need not exist. The transport's peer is a second endpoint in
//! this process that gets the headers in memory.

mod end;

use std::net::SocketAddr;

use timeous_core::{AduSource as _, DropReason, Instant, LateChoice, NoAdus};
use timeous_dccp::{ConnectionId, Event, Route, ServiceCode};
use timeous_engine::batch::{Batch, Payloads};
use timeous_engine::udp::Socket;
use timeous_engine::{DccpConfig, EngineError};
use timeous_ring::{Payload, Producer, RingSource};
use timeous_seal::Secrets;

pub use end::{End, One};

const SERVICE: ServiceCode = ServiceCode::from_bytes(*b"rigg");
const PORT: u16 = 5_004;

impl Payloads for One<RingSource> {
    fn payload(&self, _: ConnectionId, token: u64) -> Option<Payload<'_>> {
        self.0.payload(token)
    }

    fn append(&mut self, _: ConnectionId, token: u64, packet: &mut Vec<u8>) -> bool {
        self.0.append(token, packet);
        true
    }

    fn sent(&mut self, _: ConnectionId, token: u64) {
        self.0.sent(token);
    }

    fn expired(&mut self, _: ConnectionId, token: u64) {
        self.0.dropped(token, DropReason::Expired);
    }
}

/// In-memory packets from one end to the other.
#[derive(Debug, Default)]
struct Line {
    packets: Vec<Vec<u8>>,
    /// Spare buffers.
    spare: Vec<Vec<u8>>,
}

impl Line {
    /// Queues `packet` and leaves an empty buffer in its place.
    fn put(&mut self, packet: &mut Vec<u8>) {
        self.packets.push(std::mem::replace(packet, self.spare.pop().unwrap_or_default()));
    }

    /// Removes all packets and gives each to `take`.
    fn empty(&mut self, mut take: impl FnMut(&[u8])) {
        for packet in self.packets.drain(..) {
            take(&packet);
            self.spare.push(packet);
        }
    }
}

/// The sender, its peer, and the socket.
#[derive(Debug)]
pub struct Rig {
    sender: End,
    peer: End,
    ring: One<RingSource>,
    batch: Batch,
    socket: Socket,
    /// Destination of the packets.
    remote: SocketAddr,
    /// How the sender's endpoint sees its peer.
    route: Route,
    /// Encryption of the packets; the peer in this process gets them plain.
    seal: Option<timeous_seal::Endpoint>,
    id: ConnectionId,
    to_peer: Line,
    to_sender: Line,
    packet: Vec<u8>,
}

impl Rig {
    /// Opens a connection at `now`, on a socket at `local`; its packets go to `remote`, encrypted with `secrets` if there are any. `choice`
    /// runs at each pull.
    ///
    /// # Errors
    /// The ring's configuration, or the system's.
    pub fn open(
        now: Instant,
        (local, remote): (SocketAddr, SocketAddr),
        ring: &timeous_ring::Config,
        choice: Option<Box<dyn LateChoice>>,
        dccp: DccpConfig,
        secrets: Option<&Secrets>,
    ) -> Result<(Self, Producer), EngineError> {
        let (producer, consumer) = timeous_ring::create(ring)?;
        let mut source = RingSource::new(consumer).leaving_payloads_apart();
        source.set_choice(choice);
        let mut sender = End::new(dccp.clone(), 1);
        let mut peer = End::new(dccp, 2);
        peer.endpoint.listen(PORT, &[SERVICE]);
        let (seal, route) = match secrets {
            None => (None, remote.into()),
            Some(secrets) => {
                let mut seal = timeous_seal::Endpoint::new(timeous_seal::EndpointConfig::default(), &[1; 32]);
                let association = seal.inject(now, remote, secrets, 1, 2);
                (Some(seal), Route::sealed(remote, association.value()))
            }
        };
        let id = sender.endpoint.connect(now, route, PORT, SERVICE)?;
        let mut rig = Self {
            sender,
            peer,
            ring: One(source),
            batch: Batch::default(),
            socket: Socket::bind(local)?,
            remote,
            route,
            seal,
            id,
            to_peer: Line::default(),
            to_sender: Line::default(),
            packet: Vec::new(),
        };
        // Request, Response, Ack; feature negotiation takes no longer.
        for _ in 0..4 {
            rig.send(now);
            rig.answer(now);
            rig.hear(now);
        }
        Ok((rig, producer))
    }

    /// Sends the packets queued in the ring: pulls, chooses, writes headers and gives packets to the kernel; returns
    /// their number. Part of the measured path.
    pub fn send(&mut self, now: Instant) -> usize {
        let mut count = 0;
        // Stands for the application's notification.
        self.sender.endpoint.wake(self.id);
        // Same driving order as `Port::transmit`.
        loop {
            let before = self.batch.len();
            let taken = self.batch.send(now, &mut self.socket, &mut self.ring, self.seal.as_mut());
            self.batch.gone(before).for_each(|header| self.to_peer.put(header));
            if !taken {
                break;
            }
            while self.batch.has_room() {
                self.ring.0.has_room_for(self.batch.room());
                let polled = self.sender.poll(now, &mut self.ring, self.batch.buffer());
                let Some(outgoing) = polled else { break };
                self.batch.add(&outgoing);
            }
            if self.batch.is_empty() {
                break;
            }
            count += self.batch.len();
        }
        count
    }

    /// Returns whether the kernel had no room for all packets: wait until the socket is writable, and send again.
    pub fn is_blocked(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Returns the number of packets that wait for room in the kernel.
    pub fn waiting(&self) -> usize {
        self.batch.len()
    }

    /// Lets the peer process packets and write acknowledgements. Not part of the measured path.
    pub fn answer(&mut self, now: Instant) {
        let Self { peer, to_peer, to_sender, packet, remote, .. } = self;
        peer.pass_time(now);
        to_peer.empty(|header| peer.hear(now, *remote, header));
        while peer.poll(now, &mut One(NoAdus), packet).is_some() {
            to_sender.put(packet);
        }
        while peer.endpoint.poll_event().is_some() {}
    }

    /// Processes the peer's acknowledgements, and returns the number of acknowledged packets. Part of the measured
    /// path.
    pub fn hear(&mut self, now: Instant) -> usize {
        let Self { sender, to_sender, route, ring, .. } = self;
        sender.pass_time(now);
        to_sender.empty(|packet| sender.hear(now, *route, packet));
        let mut acked = 0;
        while let Some((_, event)) = sender.endpoint.poll_event() {
            match event {
                Event::Acked { token, .. } => {
                    ring.0.acked(token);
                    acked += 1;
                }
                Event::Lost { token } => ring.0.lost(token),
                Event::Closed { reason } => unreachable!("nobody closes the connection, which ended: {reason:?}"),
                _ => {}
            }
        }
        acked
    }

    /// Requests a notification of the next enqueue, as the engine does before it sleeps. Returns `true` if a packet was
    /// queued meanwhile. Part of the measured path.
    pub fn stop_polling(&mut self) -> bool {
        self.ring.0.stop_polling()
    }

    /// Returns the sending socket.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::{AduMeta, AduSeq, Duration, Ecn, Fate};

    use super::*;

    #[test]
    fn everything_leaves_at_once_and_is_acknowledged() {
        let mut sink = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let ends = ("127.0.0.1:0".parse().unwrap(), sink.local_addr().unwrap());
        let ring = timeous_ring::Config::new(512);
        let mut now = Instant::from_nanos(1);
        let (mut rig, mut producer) = Rig::open(now, ends, &ring, None, DccpConfig::default(), None).unwrap();
        let mut control = 0;
        while sink.receive(Instant::ZERO, |_, _, _, _| control += 1).unwrap() {}
        for round in 0..20 {
            for n in 0..300 {
                let meta = AduMeta { seq: AduSeq(round * 300 + n), ..AduMeta::default() };
                producer.enqueue(&meta, &[round as u8; 100]).unwrap();
            }
            now += Duration::from_micros(100);
            assert!(rig.send(now) >= 300, "nothing holds it back");
            let mut data = 0;
            while sink
                .receive(Instant::ZERO, |_, _, meta, packet| {
                    let payload = packet.ends_with(&[round as u8; 100]);
                    data += u32::from(payload);
                    assert!(!payload || meta.ecn == Ecn::Ect0);
                })
                .unwrap()
            {}
            assert_eq!(data, 300);
            now += Duration::from_millis(30);
            rig.answer(now);
            rig.hear(now);
        }
        now += Duration::from_secs(1);
        rig.answer(now);
        rig.hear(now);
        let fates: Vec<_> = std::iter::from_fn(|| producer.poll_completion()).collect();
        assert!(fates.len() >= 512 && fates.iter().all(|done| done.fate == Fate::Acked));
    }
}
