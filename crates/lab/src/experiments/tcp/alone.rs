//! TCP that shares no code with ours, and has no Congestion Manager: NewReno's window, losses by selective
//! acknowledgements. It sends endlessly; both ends are for paths on which no packet overtakes another.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeous::core::{Duration, Ecn, Instant};
use timeous_net::sim::{Host, Packet, Protocol};

/// Bytes of data in a segment, and of its header with timestamps.
const MSS: usize = 1_448;
const HEADER: usize = 32;
/// Blocks of a selective acknowledgement (RFC 2018).
const BLOCKS: usize = 3;
/// Delay of an acknowledgement, which otherwise is for two segments (RFC 5681 §4.2).
const ACK_DELAY: Duration = Duration::from_millis(40);
/// Least retransmission timeout, as Linux has it, the first one (RFC 6298 §2.1), and the longest (§2.5).
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
const MOST_TIMEOUT: Duration = Duration::from_secs(60);

/// Initial congestion window in segments of more than 1095 bytes (RFC 5681 §3.1).
const INITIAL_WINDOW: f64 = 3.0;

/// One end of a connection.
pub(crate) enum Alone {
    Sender(Sender),
    Receiver(Receiver),
}

impl Alone {
    /// Creates an end that sends endlessly.
    pub(crate) fn sender(local: SocketAddr, remote: SocketAddr) -> Self {
        Self::Sender(Sender {
            route: (local, remote),
            next: 0,
            flight: BTreeMap::new(),
            order: 0,
            delivered: None,
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            recovery: None,
            rtt: None,
            timeout: FIRST_TIMEOUT,
            timer: None,
            probe: None,
            timeouts: 0,
        })
    }

    /// Creates an end that receives.
    pub(crate) fn receiver(local: SocketAddr, remote: SocketAddr) -> Self {
        Self::Receiver(Receiver { route: (local, remote), next: 0, blocks: Vec::new(), pending: 0, due: None })
    }

    /// Returns the bytes that arrived in order.
    pub(crate) fn received(&self) -> u64 {
        match self {
            Self::Sender(_) => 0,
            Self::Receiver(receiver) => receiver.next * MSS as u64,
        }
    }

    /// Returns the number of timeouts.
    pub(crate) fn timeouts(&self) -> u64 {
        match self {
            Self::Sender(sender) => sender.timeouts,
            Self::Receiver(_) => 0,
        }
    }
}

/// Encodes words, followed by zeros.
fn encode(words: impl IntoIterator<Item = u64>, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_be_bytes).collect();
    bytes.resize(bytes.len().max(len), 0);
    bytes
}

fn decode(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).filter_map(|word| Some(u64::from_be_bytes(*word.first_chunk()?))).collect()
}

/// Segment in flight.
#[derive(Clone, Copy)]
struct Segment {
    /// Number of its latest transmission.
    order: u64,
    sent: Instant,
    is_retransmission: bool,
    is_lost: bool,
    is_sacked: bool,
}

pub(crate) struct Sender {
    route: (SocketAddr, SocketAddr),
    /// Next new segment.
    next: u64,
    flight: BTreeMap<u64, Segment>,
    /// Number of transmissions.
    order: u64,
    /// Latest transmission that arrived.
    delivered: Option<u64>,
    /// Congestion window and slow-start threshold, in segments.
    window: f64,
    threshold: f64,
    /// First segment that was not sent when recovery began.
    recovery: Option<u64>,
    /// Smoothed round-trip time and its deviation (RFC 6298).
    rtt: Option<(Duration, Duration)>,
    timeout: Duration,
    timer: Option<Instant>,
    /// Time of the tail loss probe (RFC 8985 §7).
    probe: Option<Instant>,
    timeouts: u64,
}

impl Sender {
    fn in_flight(&self) -> usize {
        self.flight.values().filter(|segment| !segment.is_sacked && !segment.is_lost).count()
    }

    /// Handles an acknowledgement: all before `cumulative`, and these blocks.
    fn acked(&mut self, now: Instant, cumulative: u64, blocks: &[u64]) {
        let is_sacked = |number: u64| blocks.chunks_exact(2).any(|block| (block[0]..block[1]).contains(&number));
        let (mut newest, mut acked) = (None::<Segment>, 0);
        for (&number, segment) in &mut self.flight {
            if segment.is_sacked || (number >= cumulative && !is_sacked(number)) {
                continue;
            }
            segment.is_sacked = true;
            acked += 1;
            if newest.is_none_or(|newest| segment.order > newest.order) {
                newest = Some(*segment);
            }
        }
        let advances = self.flight.first_key_value().is_some_and(|(&first, _)| first < cumulative);
        self.flight = self.flight.split_off(&cumulative);
        if let Some(newest) = newest {
            self.delivered = self.delivered.max(Some(newest.order));
            if !newest.is_retransmission {
                self.sample(now.saturating_since(newest.sent));
            }
        }
        if self.recovery.is_some_and(|end| cumulative >= end) {
            self.recovery = None;
        }
        self.find_losses();
        if self.recovery.is_none() && acked > 0 {
            // Appropriate byte counting (RFC 3465), with at most two segments in slow start.
            let acked = f64::from(acked);
            self.window += if self.window < self.threshold { acked.min(2.0) } else { acked / self.window };
        }
        if advances || acked > 0 {
            self.arm(now);
        }
    }

    /// Marks segments as lost: on this path a later transmission arrives only after them.
    fn find_losses(&mut self) {
        let Some(delivered) = self.delivered else { return };
        let lost = |segment: &&mut Segment| !segment.is_sacked && !segment.is_lost && segment.order < delivered;
        let found = self.flight.values_mut().filter(lost).map(|segment| segment.is_lost = true).count();
        if found > 0 && self.recovery.is_none() {
            self.threshold = (self.flight.len() as f64 / 2.0).max(2.0);
            self.window = self.threshold;
            self.recovery = Some(self.next);
        }
    }

    fn sample(&mut self, rtt: Duration) {
        let (smoothed, deviation) = match self.rtt {
            None => (rtt, rtt / 2),
            Some((smoothed, deviation)) => {
                let apart = rtt.max(smoothed).saturating_sub(rtt.min(smoothed));
                ((smoothed * 7 + rtt) / 8, (deviation * 3 + apart) / 4)
            }
        };
        self.rtt = Some((smoothed, deviation));
        self.timeout = (smoothed + deviation * 4).max(LEAST_TIMEOUT);
    }

    /// Starts the timers anew, if anything is in flight.
    fn arm(&mut self, now: Instant) {
        let is_waiting = !self.flight.is_empty();
        self.timer = is_waiting.then(|| now + self.timeout);
        let probe = self.rtt.map(|(smoothed, _)| now + smoothed * 2 + ACK_DELAY);
        self.probe = probe.filter(|_| is_waiting && self.recovery.is_none());
    }

    fn expire(&mut self, now: Instant) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.timeouts += 1;
        self.threshold = (self.flight.len() as f64 / 2.0).max(2.0);
        self.window = 1.0;
        self.recovery = None;
        self.flight.values_mut().for_each(|segment| segment.is_lost = !segment.is_sacked);
        self.timeout = (self.timeout * 2).min(MOST_TIMEOUT);
        self.timer = Some(now + self.timeout);
        self.probe = None;
    }

    /// Returns the next segment that may leave: a lost one, or a new one, also for a probe.
    fn transmit(&mut self, now: Instant) -> Option<Packet> {
        let is_probe = self.probe.take_if(|at| *at <= now).is_some();
        if !is_probe && self.in_flight() as f64 + 1.0 > self.window {
            return None;
        }
        let lost = self.flight.iter().find(|(_, segment)| segment.is_lost).map(|(&number, _)| number);
        let number = lost.unwrap_or(self.next);
        self.next = self.next.max(number + 1);
        let (order, is_retransmission) = (self.order, lost.is_some());
        self.order += 1;
        self.flight.insert(number, Segment { order, sent: now, is_retransmission, is_lost: false, is_sacked: false });
        if self.timer.is_none() {
            self.arm(now);
        }
        let (local, remote) = self.route;
        Some(Packet::new(Protocol::Tcp, local, remote, Ecn::NotEct, encode([number], HEADER + MSS)))
    }
}

pub(crate) struct Receiver {
    route: (SocketAddr, SocketAddr),
    /// First segment that has not arrived.
    next: u64,
    /// Segments that arrived beyond it, as first and end; the one that grew last is the first.
    blocks: Vec<(u64, u64)>,
    /// Segments that are not acknowledged.
    pending: u32,
    due: Option<Instant>,
}

impl Receiver {
    fn receive(&mut self, now: Instant, number: u64) {
        let is_in_order = number == self.next && self.blocks.is_empty();
        if number >= self.next && !self.blocks.iter().any(|block| (block.0..block.1).contains(&number)) {
            let mut grown = (number, number + 1);
            self.blocks.retain(|&(first, end)| {
                let joins = end == grown.0 || first == grown.1;
                if joins {
                    grown = (first.min(grown.0), end.max(grown.1));
                }
                !joins
            });
            if grown.0 == self.next {
                self.next = grown.1;
            } else {
                self.blocks.insert(0, grown);
            }
        }
        self.pending += 1;
        let is_delayed = is_in_order && self.pending < 2;
        self.due = Some(if is_delayed { now + ACK_DELAY } else { now });
    }

    fn acknowledge(&mut self, now: Instant) -> Option<Packet> {
        self.due.take_if(|due| *due <= now)?;
        self.pending = 0;
        let blocks = self.blocks.iter().take(BLOCKS).flat_map(|&(first, end)| [first, end]);
        let (local, remote) = self.route;
        let bytes = encode([self.next].into_iter().chain(blocks), HEADER);
        Some(Packet::new(Protocol::Tcp, local, remote, Ecn::NotEct, bytes))
    }
}

impl Host for Alone {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        let words = decode(&packet.payload);
        let Some((&first, blocks)) = words.split_first() else { return };
        match self {
            Self::Sender(sender) => sender.acked(now, first, blocks),
            Self::Receiver(receiver) => receiver.receive(now, first),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Self::Sender(sender) = self {
            sender.expire(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        match self {
            Self::Sender(sender) => sender.transmit(now),
            Self::Receiver(receiver) => receiver.acknowledge(now),
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        match self {
            // The first segment leaves at once.
            Self::Sender(sender) if sender.order == 0 => Some(Instant::ZERO),
            Self::Sender(sender) => [sender.timer, sender.probe].into_iter().flatten().min(),
            Self::Receiver(receiver) => receiver.due,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn ends() -> (Sender, Receiver) {
        let route: SocketAddr = ([10, 0, 0, 1], 1).into();
        match (Alone::sender(route, route), Alone::receiver(route, route)) {
            (Alone::Sender(sender), Alone::Receiver(receiver)) => (sender, receiver),
            _ => unreachable!("as they were made"),
        }
    }

    #[test]
    fn a_loss_is_found_by_the_next_segment_and_halves_the_window() {
        let (mut sender, _) = ends();
        sender.window = 10.0;
        while sender.transmit(at(0)).is_some() {}
        assert_eq!(sender.in_flight(), 10);
        sender.acked(at(60), 1, &[2, 4]);
        assert_eq!((sender.window, sender.in_flight(), sender.next), (4.5, 6, 10), "9 were in flight, 1 is lost");
        sender.acked(at(61), 1, &[2, 8]);
        assert!(sender.transmit(at(61)).is_some(), "two are in flight, and the window is of four");
        assert!(sender.flight[&1].is_retransmission && !sender.flight[&1].is_lost);
        sender.acked(at(121), 10, &[]);
        assert!(sender.recovery.is_none() && sender.flight.is_empty() && sender.timer.is_none());
    }

    #[test]
    fn a_timeout_sends_all_again_from_a_window_of_one() {
        let (mut sender, _) = ends();
        while sender.transmit(at(0)).is_some() {}
        sender.expire(at(999));
        assert_eq!((sender.timeouts, sender.window), (0, 3.0));
        sender.expire(at(1_000));
        assert_eq!((sender.timeouts, sender.window, sender.in_flight()), (1, 1.0, 0));
        assert!(sender.transmit(at(1_000)).is_some() && sender.transmit(at(1_000)).is_none());
        assert_eq!(sender.timer, Some(at(3_000)), "backed off");
    }

    #[test]
    fn a_receiver_acknowledges_every_second_segment_and_gaps_at_once() {
        let (_, mut receiver) = ends();
        receiver.receive(at(0), 0);
        assert!(receiver.acknowledge(at(39)).is_none());
        receiver.receive(at(39), 1);
        assert_eq!(decode(&receiver.acknowledge(at(39)).unwrap().payload)[0], 2);
        receiver.receive(at(40), 4);
        assert_eq!(decode(&receiver.acknowledge(at(40)).unwrap().payload)[..3], [2, 4, 5]);
        receiver.receive(at(41), 3);
        receiver.receive(at(42), 2);
        assert_eq!((receiver.next, receiver.blocks.len()), (5, 0));
    }
}
