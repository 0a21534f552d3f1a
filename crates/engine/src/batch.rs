//! A batch of packets that were pulled at one instant and go to the kernel in one call.

use std::net::{IpAddr, SocketAddr};

use arrayvec::ArrayVec;
use timeous_core::{Copied, Ecn, Instant};
use timeous_dccp::{ConnectionId, Local, Outgoing};
use timeous_ring::Payload;
use timeous_seal::{AssociationId, SEALED_HEADER_LEN};

use crate::udp::{Packet, Socket};

/// Access to payloads that stay in the ring's memory until they are sent.
pub trait Payloads {
    /// Payload of a packet that was not yet reported as `sent`; `None` if its connection, and with it the payload, is gone.
    fn payload(&self, connection: ConnectionId, token: u64) -> Option<Payload<'_>>;

    /// Appends the same payload to `packet`; `false` if it is gone.
    fn append(&mut self, connection: ConnectionId, token: u64, packet: &mut Vec<u8>) -> bool;

    /// Called when the packet was given to the device, or never will be.
    fn sent(&mut self, connection: ConnectionId, token: u64);

    /// Called when the packet's deadline passed before the device took it: it was never transmitted.
    fn expired(&mut self, connection: ConnectionId, token: u64);
}

/// Packets pulled and waiting for the kernel. Bounded by the kernel's estimated room, since the choice among datagrams ends when they are
/// pulled.
#[derive(Debug)]
pub struct Batch {
    /// Entries beyond `len` are spare, kept for their buffers.
    entries: Vec<Entry>,
    len: usize,
    /// Maximum number of waiting packets.
    most: usize,
    /// Packets without data that this host refused as too large: connections and lengths.
    too_large: Vec<(ConnectionId, usize)>,
}

#[derive(Debug)]
struct Entry {
    header: Vec<u8>,
    to: SocketAddr,
    from: Option<IpAddr>,
    ecn: Ecn,
    association: Option<AssociationId>,
    /// The sealed datagram, made when it is offered to the kernel for the first time; empty before.
    sealed: Vec<u8>,
    connection: Option<ConnectionId>,
    adu: Option<Sending>,
    done: bool,
    /// The packet is done without having been transmitted.
    expired: bool,
}

/// State of an ADU until the kernel has taken it.
#[derive(Clone, Copy, Debug)]
struct Sending {
    token: u64,
    deadline: Option<Instant>,
    apart: bool,
    /// First transmission: no copy was transmitted before.
    first: bool,
}

impl Default for Batch {
    fn default() -> Self {
        Self { entries: Vec::new(), len: 0, most: Socket::BATCH, too_large: Vec::new() }
    }
}

impl Batch {
    /// Returns whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether another packet may be pulled.
    pub fn has_room(&self) -> bool {
        self.len < self.most
    }

    /// Returns the number of packets that may be pulled.
    pub fn room(&self) -> u32 {
        self.most.saturating_sub(self.len) as u32
    }

    /// Returns an empty buffer for the next packet, or for the header that precedes its payload.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.len == self.entries.len() {
            let to = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
            let (header, ecn) = (Vec::with_capacity(HEADER_ROOM), Ecn::NotEct);
            self.entries.push(Entry {
                header,
                to,
                from: None,
                ecn,
                association: None,
                sealed: Vec::new(),
                connection: None,
                adu: None,
                done: false,
                expired: false,
            });
        }
        let header = &mut self.entries[self.len].header;
        header.clear();
        header
    }

    /// Appends the packet in the buffer to the batch.
    pub fn add(&mut self, outgoing: &Outgoing) {
        let entry = &mut self.entries[self.len];
        entry.to = outgoing.to;
        (entry.from, entry.association) = match outgoing.from {
            Local::Udp => (None, None),
            Local::Sealed(association) => (None, Some(AssociationId::new(association))),
            Local::Native(address) => (Some(address), None),
        };
        entry.ecn = outgoing.transmit.ecn;
        entry.sealed.clear();
        entry.connection = outgoing.connection;
        entry.adu = outgoing.transmit.adu.as_ref().map(|adu| Sending {
            token: adu.token,
            deadline: adu.meta.deadline,
            apart: adu.apart,
            first: adu.copy == Copied::First,
        });
        (entry.done, entry.expired) = (false, false);
        self.len += 1;
    }

    /// Returns the next packet without data, a probe of the path MTU, that this host refused as too large.
    pub fn poll_too_large(&mut self) -> Option<(ConnectionId, usize)> {
        self.too_large.pop()
    }

    /// Returns the number of waiting packets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the headers of the packets that left in the last `send`; `before` is the batch's length before that call.
    pub fn gone(&mut self, before: usize) -> impl Iterator<Item = &mut Vec<u8>> {
        self.entries[self.len..before].iter_mut().map(|entry| &mut entry.header)
    }

    /// Gives the packets to the kernel. Returns `false` if the kernel has no room for all; the rest waits for the next call.
    /// Packets of an association are sealed here, after the last look at their deadline.
    pub fn send(
        &mut self,
        now: Instant,
        socket: &mut Socket,
        payloads: &mut impl Payloads,
        seal: Option<&mut timeous_seal::Endpoint>,
    ) -> bool {
        if self.is_empty() {
            return true;
        }
        for entry in &mut self.entries[..self.len] {
            entry.expired = entry.is_expired(now);
        }
        if let Some(seal) = seal {
            self.entries[..self.len].iter_mut().for_each(|entry| entry.seal(seal, payloads));
        }
        let taken = self.offer(socket, payloads);
        self.confirm(payloads);
        let left = self.keep_the_rest();
        // A kernel that ran out of room is offered fewer packets, and more again while it takes all.
        self.most = if taken { self.most * 2 } else { self.len - left }.clamp(1, Socket::BATCH);
        self.len = left;
        taken
    }

    fn offer(&mut self, socket: &mut Socket, payloads: &impl Payloads) -> bool {
        let mut packets = ArrayVec::<_, { Socket::BATCH }>::new();
        let mut places = ArrayVec::<_, { Socket::BATCH }>::new();
        let mut done = [false; Socket::BATCH];
        let mut too_large = Vec::new();
        for (place, entry) in self.entries[..self.len].iter().enumerate() {
            match entry.packet(payloads) {
                Some(packet) => {
                    packets.push(packet);
                    places.push(place);
                }
                None => done[place] = true,
            }
        }
        let taken = socket.send(&packets, |at, result| {
            done[places[at]] = true;
            if let Err(error) = result {
                // The connection sees this as a loss on the path, which it detects by itself.
                tracing::debug!(%error, to = %packets[at].to, "sending");
                if error.raw_os_error() == Some(libc::EMSGSIZE) {
                    too_large.push(places[at]);
                }
            }
        });
        drop(packets);
        for entry in too_large.into_iter().map(|place| &self.entries[place]).filter(|entry| entry.adu.is_none()) {
            self.too_large.extend(entry.connection.map(|connection| (connection, entry.header.len())));
        }
        for (entry, done) in self.entries[..self.len].iter_mut().zip(done) {
            entry.done = done;
        }
        taken
    }

    fn confirm(&self, payloads: &mut impl Payloads) {
        for entry in self.entries[..self.len].iter().filter(|entry| entry.done) {
            if let (Some(connection), Some(adu)) = (entry.connection, entry.adu) {
                // A datagram that was transmitted before may have arrived: the transport will find out.
                match entry.expired && adu.first {
                    true => payloads.expired(connection, adu.token),
                    false => payloads.sent(connection, adu.token),
                }
            }
        }
    }

    /// Moves unsent packets to the front, in order, and returns their number.
    fn keep_the_rest(&mut self) -> usize {
        let mut left = 0;
        for at in 0..self.len {
            if !self.entries[at].done {
                self.entries.swap(left, at);
                left += 1;
            }
        }
        left
    }
}

/// Capacity for a DCCP header with all of its options, in bytes: at most 1020 (RFC 4340 §5.1).
const HEADER_ROOM: usize = 1024;

impl Entry {
    /// Returns whether the deadline passed while the packet waited for the kernel: the transport sees it as lost on the path.
    fn is_expired(&self, now: Instant) -> bool {
        self.adu.and_then(|adu| adu.deadline).is_some_and(|deadline| now > deadline)
    }

    /// Seals the packet, once: header and payload are gathered into one buffer and encrypted there. It stays empty if the association
    /// or the payload is gone.
    fn seal(&mut self, seal: &mut timeous_seal::Endpoint, payloads: &mut impl Payloads) {
        let Some(association) = self.association else { return };
        if self.expired || !self.sealed.is_empty() {
            return;
        }
        self.sealed.resize(SEALED_HEADER_LEN, 0);
        self.sealed.extend_from_slice(&self.header);
        let is_whole = match (self.connection, self.adu) {
            (Some(connection), Some(Sending { token, apart: true, .. })) => {
                payloads.append(connection, token, &mut self.sealed)
            }
            _ => true,
        };
        if !is_whole || !seal.seal(association, &mut self.sealed) {
            self.sealed.clear();
        }
    }

    /// Returns the packet for the kernel; `None` if there is nothing left to send.
    fn packet<'a>(&'a self, payloads: &'a impl Payloads) -> Option<Packet<'a>> {
        let Self { to, from, ecn, ref header, ref sealed, .. } = *self;
        if self.association.is_some() {
            let is_to_send = !self.expired && !sealed.is_empty();
            return is_to_send.then_some(Packet { to, from, ecn, header: sealed, payload: None });
        }
        let payload = match (self.connection, self.adu) {
            _ if self.expired => return None,
            (Some(connection), Some(Sending { token, apart: true, .. })) => Some(payloads.payload(connection, token)?),
            _ => None,
        };
        Some(Packet { to, from, ecn, header, payload })
    }
}
