//! Output order: resets and SYNs, then data, chosen at this instant, then acknowledgements.

use timeous_cm::Manager;
use timeous_core::{AduSource, Ecn, Instant, Transmit};

use super::{Connection, EcnMode, State};
use crate::receiver::{syn_window, window_scale_for};
use crate::segment::{Flags, Header, Options, Timestamps, begin, finish};
use crate::seq::Seq;

/// Transmission without data.
const BARE: Transmit = Transmit { ecn: Ecn::NotEct, adu: None };

impl Connection {
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some(reset) = self.owed.reset.take() {
            let header = Header { ack: reset.ack, flags: Flags::RST, ..self.header(reset.seq) };
            self.write_bare(&header, &Options::default(), packet);
            return Some(BARE);
        }
        if std::mem::take(&mut self.owed.syn) {
            self.send_syn(now, packet);
            return Some(BARE);
        }
        if self.state < State::Established {
            // In SYN-RECEIVED, too, an unacceptable segment is answered (RFC 9293 §3.10.7.4).
            return self.owes_ack(now).then(|| {
                self.send_ack(now, packet);
                BARE
            });
        }
        if self.state.is_alive()
            && let Some(transmit) = self.send_data(now, cm, source, packet)
        {
            return Some(transmit);
        }
        if std::mem::take(&mut self.owed.window_probe) {
            // An empty segment with an old sequence number: the peer must answer with its window (RFC 9293 §3.10.7.4).
            // Unlike a one-byte probe, it does not pull data for a window that may be closed.
            self.statistics.window_probes += 1;
            self.send_empty(now, self.wire(self.sender.una()) - 1, packet);
            return Some(BARE);
        }
        if self.owes_ack(now) {
            self.send_ack(now, packet);
            return Some(BARE);
        }
        None
    }

    pub(super) fn send_ack(&mut self, now: Instant, packet: &mut Vec<u8>) {
        self.send_empty(now, self.wire(self.sender.nxt()), packet);
    }

    fn send_empty(&mut self, now: Instant, seq: Seq, packet: &mut Vec<u8>) {
        let (header, options) = self.stamped(now, seq, Flags::NONE);
        self.write_bare(&header, &options, packet);
    }

    /// Sends the SYN, with an acknowledgement of the peer's if that was received (RFC 9293 §3.5).
    fn send_syn(&mut self, now: Instant, packet: &mut Vec<u8>) {
        let is_answer = self.receiver.is_some();
        let asks_ecn = self.config.ecn == EcnMode::Request && !is_answer;
        let marks = Flags::when(asks_ecn, Flags::ECE | Flags::CWR) | Flags::when(self.agreed.ecn, Flags::ECE);
        let header = Header { flags: Flags::SYN | marks, ..self.header(self.iss) };
        let config = &self.config;
        let scales = if is_answer { self.agreed.peer_shift.is_some() } else { config.window_scaling };
        let stamps = if is_answer { self.agreed.timestamps } else { config.timestamps };
        let options = Options {
            mss: Some(config.mss),
            window_scale: scales.then(|| window_scale_for(config.receive_buffer)),
            sack_permitted: if is_answer { self.agreed.sack } else { config.sack },
            timestamps: stamps.then(|| Timestamps { value: self.timestamp(now), echo: 0 }),
            ..Options::default()
        };
        let (mut header, mut options) = (header, options);
        match &self.receiver {
            Some(receiver) => receiver.stamp(&mut header, &mut options),
            None => header.window = syn_window(config.receive_buffer),
        }
        self.syn_sent_at = now;
        self.write_bare(&header, &options, packet);
    }

    fn header(&self, seq: Seq) -> Header {
        Header::new(self.target.local.port(), self.target.remote.port(), seq)
    }

    /// Returns a header and the options of every segment, stamped by the receive side.
    pub(super) fn stamped(&self, now: Instant, seq: Seq, flags: Flags) -> (Header, Options) {
        let mut header = Header { flags, ..self.header(seq) };
        let timestamps = self.agreed.timestamps.then(|| Timestamps { value: self.timestamp(now), echo: 0 });
        let mut options = Options { timestamps, ..Options::default() };
        if let Some(receiver) = &self.receiver {
            receiver.stamp(&mut header, &mut options);
        }
        (header, options)
    }

    /// Writes a segment without data.
    fn write_bare(&mut self, header: &Header, options: &Options, packet: &mut Vec<u8>) {
        let start = self.write_header(header, options, packet);
        self.depart(header, start, packet);
    }

    pub(super) fn write_header(&self, header: &Header, options: &Options, packet: &mut Vec<u8>) -> usize {
        begin(header, options, packet).expect("the options of a segment keep to a header's limits")
    }

    /// Completes every outgoing segment: checksum, counters, receive side.
    pub(super) fn depart(&mut self, header: &Header, start: usize, packet: &mut [u8]) {
        finish(packet, start, self.target.addresses()).expect("the segment was begun");
        self.statistics.segments_sent += 1;
        if let Some(receiver) = self.receiver.as_mut().filter(|_| header.ack.is_some()) {
            receiver.on_sent(header);
        }
    }
}
