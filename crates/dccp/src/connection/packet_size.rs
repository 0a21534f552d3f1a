//! Maximum packet size of a connection: probes of the path MTU, and what their answers change.

use timeous_cm::{Loss, Manager};
use timeous_core::{Duration, Instant};

use super::path_mtu::{PathMtu, RAISE_INTERVAL, SizeChange};
use super::timers::Timer;
use super::transmission::Control;
use super::{Config, Connection, Event};
use crate::ccid2::PacketFate;
use crate::packet::Encapsulation;
use crate::seq::Seq;

/// Margin of the wait for a probe's answer, beyond one and a half round trips: a busy host's. Chosen by us: RFC 8899 §5.1.1 asks
/// for more than the round trip where that is known; a higher value finds a black hole later.
const PROBE_MARGIN: Duration = Duration::from_millis(100);
/// Headers of IPv4, of IPv6 and of UDP, in bytes (RFC 791, RFC 8200, RFC 768).
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

impl Connection {
    /// Lowers the maximum packet size to `mps`, as reported by an ICMP message, but not below [`Config::FALLBACK_MPS`]. A
    /// greater value changes nothing (RFC 4340 §14.1). Path MTU discovery does not believe such messages.
    pub fn path_mtu_exceeded(&mut self, mps: usize) {
        if self.config.largest.is_none() {
            self.config.mps = self.config.mps.min(mps.max(Config::FALLBACK_MPS));
        }
    }

    /// Notes that this host refused a packet of `len` bytes as too large: a probe of that size will have no answer.
    pub fn was_too_large(&mut self, now: Instant, len: usize) {
        if let Some(path_mtu) = &mut self.path_mtu {
            path_mtu.refused(len);
            self.send_probes(now);
        }
    }

    /// Begins path MTU discovery, once the handshake is over (RFC 4340 §14.2).
    pub(super) fn begin_path_mtu(&mut self, now: Instant) {
        let Some(largest) = self.config.largest else { return };
        let ip = if self.target.destination.addr.to_canonical().is_ipv4() { IPV4 } else { IPV6 };
        let udp = if self.config.encapsulation == Encapsulation::Udp { UDP } else { 0 };
        let mut path_mtu = PathMtu::new(self.config.mps, largest, ip + udp + self.config.overhead);
        path_mtu.search();
        self.path_mtu = Some(Box::new(path_mtu));
        self.log.statistics.packet_size = self.config.mps as u64;
        self.send_probes(now);
    }

    /// Forgets the path's size: the connection goes on along another path.
    pub(super) fn forget_path_mtu(&mut self) {
        if let Some(path_mtu) = self.path_mtu.take() {
            self.timers.stop(Timer::PathMtu);
            self.resize(SizeChange { size: path_mtu.base(), is_black_hole: false });
        }
    }

    /// Queues the probes that are due, and sets the timer.
    fn send_probes(&mut self, now: Instant) {
        let Some(path_mtu) = &mut self.path_mtu else { return };
        while let Some(size) = path_mtu.poll_probe() {
            self.transmission.queue(Control::Probe(size));
        }
        let wait = if path_mtu.is_done() { RAISE_INTERVAL } else { self.probe_wait() };
        self.timers.set(Timer::PathMtu, now + wait);
    }

    /// Pads a probe: "inserts arbitrary data into the DCCP-Sync application area" (RFC 4340 §14.1). Congestion control
    /// learns neither of it nor of its loss.
    pub(super) fn pad_probe(&mut self, now: Instant, size: usize, packet: &mut Vec<u8>) {
        packet.resize(packet.len().max(size), 0);
        if let Some(path_mtu) = &mut self.path_mtu {
            path_mtu.sent(size, self.sequence.upcoming());
            self.timers.set(Timer::PathMtu, now + self.probe_wait());
        }
    }

    /// Time after which a probe's answer is overdue.
    fn probe_wait(&self) -> Duration {
        let handshake = self.handshake_rtt().filter(|_| !self.round_trip.is_measured());
        handshake.unwrap_or(self.round_trip.rtt()) * 3 / 2 + PROBE_MARGIN
    }

    /// Searches for packets larger than Ethernet's: the stream has ADUs for them.
    pub(super) fn want_larger_packets(&mut self, now: Instant) {
        if let Some(path_mtu) = &mut self.path_mtu
            && path_mtu.want_more()
        {
            self.send_probes(now);
        }
    }

    pub(super) fn on_sync_ack(&mut self, now: Instant, ack: Seq) {
        let Some(path_mtu) = self.path_mtu.as_mut().filter(|path_mtu| path_mtu.is_waiting()) else { return };
        if let Some(change) = path_mtu.answered(ack) {
            self.resize(change);
        }
        if self.path_mtu.as_ref().is_some_and(|path_mtu| !path_mtu.is_waiting()) {
            self.send_probes(now);
        }
    }

    pub(super) fn on_probe_timeout(&mut self, now: Instant, cm: &mut Manager) {
        let first_lost = self.path_mtu.as_ref().and_then(|path_mtu| path_mtu.first_lost());
        let change = self.path_mtu.as_mut().and_then(|path_mtu| path_mtu.timed_out());
        if let Some(change) = change {
            self.resize(change);
            self.congestion.on_black_hole(first_lost, self.sequence.upcoming());
            self.abandon_in_flight(now, cm);
        }
        self.send_probes(now);
    }

    fn resize(&mut self, SizeChange { size, is_black_hole }: SizeChange) {
        self.config.mps = size;
        self.log.statistics.packet_size = size as u64;
        self.log.statistics.black_holes += u64::from(is_black_hole);
        self.log.push(Event::PacketSize { payload: self.config.max_payload(), is_black_hole });
    }

    /// Looks for a black hole when a data packet leaves: several large ones may have had no answer.
    pub(super) fn watch_size(&mut self, now: Instant, cm: &Manager, bytes: u64) {
        let Some(path_mtu) = &mut self.path_mtu else { return };
        let (round_trip, congestion) = (&self.round_trip, &self.congestion);
        // Feedback of CCID 3 and 4 comes once a round trip.
        let is_rate_based = congestion.rate_sender().is_some();
        let interval = if is_rate_based { round_trip.rtt() } else { self.config.ack_delay };
        path_mtu.on_sent(bytes as usize, || {
            let patience = round_trip.patience_for(interval, congestion.rttvar(cm));
            congestion.in_flight().oldest().is_some_and(|at| now - at >= patience)
        });
        if path_mtu.has_probes() {
            self.send_probes(now);
        }
    }

    /// Looks for a black hole in the fates of data packets.
    pub(super) fn watch_path_mtu(&mut self, now: Instant, fates: &[PacketFate], lost_by: Loss) {
        let Some(path_mtu) = &mut self.path_mtu else { return };
        for fate in fates {
            match *fate {
                PacketFate::Acked { seq, bytes, .. } => path_mtu.on_fate(bytes as usize, seq, true, false),
                PacketFate::Lost { seq, bytes, .. } => {
                    path_mtu.on_fate(bytes as usize, seq, false, lost_by == Loss::Persistent);
                }
                PacketFate::Dropped { .. } => {}
            }
        }
        if path_mtu.has_probes() {
            self.send_probes(now);
        }
    }
}
