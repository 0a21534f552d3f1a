//! Bundling of equal-sized packets for one destination into one message to the kernel, which the device splits again
//! (GSO).

use std::net::{IpAddr, SocketAddr};

use timeous_core::Ecn;

use super::packet::Packet;

/// Maximum number of segments per bundle on every kernel with GSO (`UDP_MAX_SEGMENTS` of `linux/udp.h`).
const MOST_SEGMENTS: usize = 64;
/// Maximum payload of an IPv4 datagram, in bytes (65 535 less 20 and 8: RFC 791, RFC 768), which bounds a bundle before
/// it is split.
const MOST_BYTES: usize = 65_507;

/// A message to the kernel: one packet, or a bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) to: SocketAddr,
    pub(super) from: Option<IpAddr>,
    pub(super) ecn: Ecn,
    first: usize,
    last: usize,
    pub(super) count: usize,
    /// Length of each packet but the last, which may be shorter.
    segment: usize,
    bytes: usize,
    /// Whether another packet may be added.
    open: bool,
}

impl Message {
    fn of(at: usize, packet: &Packet<'_>) -> Self {
        let (bytes, &Packet { to, from, ecn, .. }) = (packet.len(), packet);
        Self { to, from, ecn, first: at, last: at, count: 1, segment: bytes, bytes, open: bytes > 0 }
    }

    fn takes(&self, packet: &Packet<'_>) -> bool {
        let len = packet.len();
        self.open
            && (self.ecn, self.from) == (packet.ecn, packet.from)
            && (1..=self.segment).contains(&len)
            && self.count < MOST_SEGMENTS
            && self.bytes + len <= MOST_BYTES
    }

    /// Returns the segment size, if it is a bundle.
    pub(super) fn cut(&self) -> Option<u16> {
        // A segment is shorter than the maximum bundle.
        (self.count > 1).then_some(self.segment as u16)
    }
}

/// The packets of a batch, grouped into messages.
#[derive(Debug, Default)]
pub(super) struct Plan {
    messages: Vec<Message>,
    /// Next packet in the same message.
    next: Vec<usize>,
}

impl Plan {
    /// Groups `packets`. Those for one destination keep their order.
    pub(super) fn lay(&mut self, packets: &[Packet<'_>], bundle: bool) {
        self.messages.clear();
        self.next.clear();
        for (at, packet) in packets.iter().enumerate() {
            self.next.push(at);
            let newest = self.messages.iter_mut().rev().find(|message| message.to == packet.to);
            match newest.filter(|message| bundle && message.takes(packet)) {
                Some(message) => {
                    self.next[message.last] = at;
                    message.last = at;
                    message.count += 1;
                    message.bytes += packet.len();
                    message.open = packet.len() == message.segment;
                }
                None => self.messages.push(Message::of(at, packet)),
            }
        }
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the packets of a message, in order.
    pub(super) fn packets(&self, message: Message) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(message.first), |&at| Some(self.next[at])).take(message.count)
    }

    /// Splits the message at `place`, so that its packets go one by one.
    pub(super) fn split(&mut self, place: usize, packets: &[Packet<'_>]) {
        let whole = self.messages[place];
        let singles: Vec<_> = self.packets(whole).map(|at| Message::of(at, &packets[at])).collect();
        self.messages.splice(place..=place, singles);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 9000] = [0; 9000];

    /// Returns a packet of `len` bytes for a host.
    fn packet(host: u8, ecn: Ecn, len: usize) -> Packet<'static> {
        Packet { to: ([192, 0, 2, host], 7).into(), from: None, ecn, header: &BYTES[..len], payload: None }
    }

    fn laid(packets: &[Packet<'_>]) -> Vec<Vec<usize>> {
        let mut plan = Plan::default();
        plan.lay(packets, true);
        plan.messages().iter().map(|&message| plan.packets(message).collect()).collect()
    }

    #[test]
    fn equal_ones_go_together_and_the_last_may_be_shorter() {
        let sizes = [100, 100, 60, 60, 60, 100];
        let packets: Vec<_> = sizes.iter().map(|&len| packet(1, Ecn::Ect0, len)).collect();
        assert_eq!(laid(&packets), [vec![0, 1, 2], vec![3, 4], vec![5]]);
    }

    #[test]
    fn destinations_and_marks_go_apart_and_each_destination_keeps_its_order() {
        let of = |host, ecn| packet(host, ecn, 100);
        let packets = [
            of(1, Ecn::Ect0),
            of(2, Ecn::Ect0),
            of(1, Ecn::Ect0),
            of(1, Ecn::NotEct),
            of(1, Ecn::Ect0),
            of(2, Ecn::Ect0),
        ];
        assert_eq!(laid(&packets), [vec![0, 2], vec![1, 5], vec![3], vec![4]]);
    }

    #[test]
    fn a_bundle_is_no_larger_than_a_datagram_and_has_64_packets_at_most() {
        let many = [packet(1, Ecn::Ect0, 10); 100];
        assert!(laid(&many).iter().map(Vec::len).eq([64, 36]));
        let large = [packet(1, Ecn::Ect0, 9000); 8];
        assert!(laid(&large).iter().map(Vec::len).eq([7, 1]));
    }

    #[test]
    fn an_empty_datagram_goes_alone() {
        let packets = [packet(1, Ecn::Ect0, 10), packet(1, Ecn::Ect0, 0), packet(1, Ecn::Ect0, 0)];
        assert_eq!(laid(&packets).len(), 3);
    }

    #[test]
    fn a_bundle_that_is_split_keeps_its_place_and_order() {
        let packets = [packet(1, Ecn::Ect0, 10), packet(2, Ecn::Ect0, 10), packet(1, Ecn::Ect0, 10)];
        let mut plan = Plan::default();
        plan.lay(&packets, true);
        plan.split(0, &packets);
        let order: Vec<usize> = plan.messages().iter().flat_map(|&message| plan.packets(message)).collect();
        assert_eq!(order, [0, 2, 1]);
        assert!(plan.messages().iter().all(|message| message.cut().is_none()));
    }
}
