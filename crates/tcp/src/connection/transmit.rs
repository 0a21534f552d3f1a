//! Output order: resets and SYNs, then data, chosen at this instant, then acknowledgements.

use timeous_core::{Ecn, Instant, Transmit};

use super::{Connection, Control, Poll, State};
use crate::receiver::syn_window;
use crate::segment::{Flags, Header, Options, Timestamps, begin, finish};
use crate::seq::Seq;

impl Connection {
    pub(super) fn transmit(&mut self, poll: &mut Poll<'_>) -> Option<Transmit> {
        if let Some(header) = self.pending.take_reset() {
            return Some(self.send_bare(&header, &Options::default(), poll));
        }
        if self.pending.take(Control::Syn) {
            return Some(self.send_syn(poll));
        }
        if self.state >= State::Established
            && self.state.is_alive()
            && let Some(transmit) = self.send_data(poll)
        {
            return Some(transmit);
        }
        if self.pending.take(Control::WindowProbe) {
            // An empty segment with an old sequence number: the peer must answer with its window (RFC 9293 §3.10.7.4).
            // Unlike a one-byte probe, it does not pull data for a window that may be closed.
            self.statistics.window_probes += 1;
            return Some(self.send_empty(poll, self.numbers.seq(self.sender.una()) - 1));
        }
        // In SYN-RECEIVED, too, an unacceptable segment is answered (RFC 9293 §3.10.7.4).
        self.owes_ack(poll.now).then(|| self.send_ack(poll))
    }

    pub(super) fn send_ack(&mut self, poll: &mut Poll<'_>) -> Transmit {
        self.send_empty(poll, self.numbers.seq(self.sender.nxt()))
    }

    fn send_empty(&mut self, poll: &mut Poll<'_>, seq: Seq) -> Transmit {
        let (header, options) = self.stamped(poll.now, seq, Flags::NONE);
        self.send_bare(&header, &options, poll)
    }

    /// Sends the SYN, with an acknowledgement of the peer's if that was received (RFC 9293 §3.5).
    fn send_syn(&mut self, poll: &mut Poll<'_>) -> Transmit {
        let timestamp = self.numbers.timestamp(poll.now);
        let (flags, mut options) = self.handshake.send_syn(poll.now, &self.config, timestamp);
        let mut header = self.target.header(self.numbers.syn(), flags);
        match &self.receiver {
            Some(receiver) => receiver.stamp(&mut header, &mut options),
            None => header.window = syn_window(self.config.receive_buffer),
        }
        self.send_bare(&header, &options, poll)
    }

    /// Returns a header and the options of every segment, stamped by the receive side.
    pub(super) fn stamped(&self, now: Instant, seq: Seq, flags: Flags) -> (Header, Options) {
        let mut header = self.target.header(seq, flags);
        let timestamps = Timestamps { value: self.numbers.timestamp(now), echo: 0 };
        let timestamps = self.handshake.agreed().in_use(Some(timestamps));
        let mut options = Options { timestamps, ..Options::default() };
        if let Some(receiver) = &self.receiver {
            receiver.stamp(&mut header, &mut options);
        }
        (header, options)
    }

    /// Sends a segment without data.
    pub(super) fn send_bare(&mut self, header: &Header, options: &Options, poll: &mut Poll<'_>) -> Transmit {
        let start = self.write_header(header, options, poll.packet);
        self.depart(header, start, poll.packet);
        Transmit { ecn: Ecn::NotEct, adu: None }
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
